"""A real browser, headless, driven over a pipe: Chromium's own protocol, without a library and
without a port.
"""

import base64
import contextlib
import itertools
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome")
PATIENCE = 60.0  # seconds for anything; the machine may be busy


def find_browser() -> str | None:
    return next((found for name in NAMES if (found := shutil.which(name))), None)


class Page:
    """One tab. What it says on its console, what it throws and what it asks the network for is
    kept.
    """

    def __init__(self, inbox: int, outbox: int) -> None:
        self._in, self._out, self._rest = inbox, outbox, b""
        self._numbers = itertools.count(1)
        self._session: str | None = None
        self.console: list[str] = []
        self.requests: list[str] = []
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.ask("Target.attachToTarget", targetId=target, flatten=True)[
            "sessionId"
        ]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.ask(f"{domain}.enable")

    def ask(self, method: str, **params: Any) -> Any:
        number = next(self._numbers)
        about = {"sessionId": self._session} if self._session else {}
        os.write(
            self._out,
            json.dumps({"id": number, "method": method, "params": params, **about}).encode()
            + b"\0",
        )
        answer = self._until(lambda message: message.get("id") == number)
        assert "error" not in answer, answer
        return answer["result"]

    def open(self, path: Path) -> None:
        self.ask("Page.navigate", url=path.resolve().as_uri())
        self.wait("document.documentElement?.dataset.ready === 'yes'")

    def run(self, script: str) -> Any:
        """Return what a line of JavaScript gives."""
        answer = self.ask(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def wait(self, script: str) -> None:
        end = time.monotonic() + PATIENCE
        while not self.run(script):
            assert time.monotonic() < end, f"never: {script}; {self.console}"
            time.sleep(0.05)

    def press(self, key: str) -> None:
        for kind in ("keyDown", "keyUp"):
            self.ask("Input.dispatchKeyEvent", type=kind, key=key, code=key)

    def move(self, x: float, y: float) -> None:
        self.ask("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def resize(self, width: int, height: int, *, phone: bool = False) -> None:
        self.ask(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=phone,
        )

    def prefer(self, scheme: str) -> None:
        self.ask(
            "Emulation.setEmulatedMedia",
            features=[{"name": "prefers-color-scheme", "value": scheme}],
        )

    def screenshot(self, out: Path, *, whole: bool = True) -> Path:
        out.write_bytes(
            base64.b64decode(
                self.ask("Page.captureScreenshot", captureBeyondViewport=whole, format="png")[
                    "data"
                ]
            )
        )
        return out

    def _until(self, wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        end = time.monotonic() + PATIENCE
        while True:
            while b"\0" in self._rest:
                text, _, self._rest = self._rest.partition(b"\0")
                message = json.loads(text)
                self._keep(message)
                if wanted(message):
                    return message
            ready, _, _ = select.select([self._in], [], [], max(0.0, end - time.monotonic()))
            assert ready, "the browser does not answer"
            self._rest += os.read(self._in, 1 << 20)

    def _keep(self, message: dict[str, Any]) -> None:
        params = message.get("params", {})
        if message.get("method") == "Runtime.consoleAPICalled" and params["type"] in (
            "error",
            "warning",
            "assert",
        ):
            self.console.append(str(params["args"]))
        elif message.get("method") == "Runtime.exceptionThrown":
            self.console.append(str(params["exceptionDetails"]))
        elif message.get("method") == "Log.entryAdded":
            self.console.append(str(params["entry"]))
        elif message.get("method") == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])


@contextlib.contextmanager
def browser() -> Iterator[Page]:
    """Start a fresh browser, without a profile; it ends with the block."""
    program = find_browser()
    assert program, "no browser here"
    to_read, to_write = os.pipe()
    from_read, from_write = os.pipe()
    with tempfile.TemporaryDirectory() as profile:
        command = [
            program,
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--no-first-run",
            "--hide-scrollbars",
            "--disable-background-networking",
            "--remote-debugging-pipe",
            f"--user-data-dir={profile}",
            "about:blank",
        ]
        # Chromium looks for the pipes at these descriptors.
        script = f'exec 3<&{to_read} 4>&{from_write}; exec "$@"'
        process = subprocess.Popen(
            ["bash", "-c", script, "browser", *command],
            pass_fds=(to_read, from_write),
            stderr=subprocess.DEVNULL,
        )
        os.close(to_read)
        os.close(from_write)
        try:
            yield Page(from_read, to_write)
        finally:
            process.kill()
            process.wait()
            os.close(from_read)
            os.close(to_write)
            shutil.rmtree(profile, ignore_errors=True)
            Path(profile).mkdir(exist_ok=True)
