"""Many seeds on one machine: a process each, pinned to cores of its own. Started and watched here, by a parent that never touches JAX's devices."""

import json
import os
import queue
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, NamedTuple

from dualac.errors import DualacError
from dualac.training.machine import usable_cores
from dualac.types import Report


class Work(NamedTuple):
    """One process's worth: a run, or a pack of seeds that share one program."""

    paths: list[Path]
    threads: int = 1


class Flags(NamedTuple):
    allow_inexact: bool = False
    tensorboard: bool = False
    isolated: float | None = None
    """seconds that an environment in a process of its own has for an answer"""


class _Child(NamedTuple):
    work: Work
    process: subprocess.Popen[str]


def launch(works: list[Work], report: Report, flags: Flags) -> list[DualacError]:
    """Run all to their end, as many at a time as there are cores for; the errors of those that did not get there.

    SIGINT and SIGTERM are passed on to the children, which checkpoint and stop; those still waiting are not started.
    """
    return _Launcher(report, flags).run(works)


class _Launcher:
    def __init__(self, report: Report, flags: Flags) -> None:
        self._report, self._flags = report, flags
        self._heard: queue.Queue[tuple[_Child, dict[str, Any] | None]] = queue.Queue()
        self._running: list[_Child] = []
        self._asked: list[int] = []
        self._explained: list[_Child] = []  # those that said themselves why they ended

    def run(self, works: list[Work]) -> list[DualacError]:
        before = {number: signal.signal(number, self._pass_on) for number in (signal.SIGINT, signal.SIGTERM)}
        waiting, errors = list(works), []
        try:
            while self._running or (waiting and not self._asked):
                while waiting and not self._asked and self._has_room(waiting[0]):
                    self._start(waiting.pop(0))
                try:
                    child, message = self._heard.get(timeout=0.2)  # short: a signal is handled between two waits
                except queue.Empty:
                    continue
                if message is None:
                    self._running.remove(child)
                    errors += self._last_words(child)
                elif message["kind"] == "error":
                    self._explained.append(child)
                    errors.append(_error(message["text"], message["code"]))
                else:
                    self._report(message)
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
        if waiting:
            paths = " ".join(str(path) for work in waiting for path in work.paths)
            errors.append(_error(f"not started: {paths}; the same command, or dualac resume, starts them", 128 + self._asked[0]))
        return errors

    def _has_room(self, work: Work) -> bool:
        busy = sum(child.work.threads for child in self._running)
        return not self._running or busy + work.threads <= len(usable_cores())

    def _start(self, work: Work) -> None:
        words = [sys.executable, "-m", "dualac.training.worker", "--threads", str(work.threads)]
        words += ["--allow-inexact"] * self._flags.allow_inexact + ["--tensorboard"] * self._flags.tensorboard
        words += [] if self._flags.isolated is None else ["--isolate-env", str(self._flags.isolated)]
        with (work.paths[0] / "worker.log").open("a") as log:
            process = subprocess.Popen(
                [*words, *map(str, work.paths)],
                stdout=subprocess.PIPE,
                stderr=log,
                stdin=subprocess.DEVNULL,
                text=True,
                start_new_session=True,  # a Ctrl-C at the terminal reaches only the parent, which passes it on once
            )
        child = _Child(work, process)
        self._running.append(child)
        threading.Thread(target=self._listen, args=(child,), daemon=True).start()

    def _listen(self, child: _Child) -> None:
        assert child.process.stdout is not None
        with child.process.stdout as lines:
            for line in lines:
                self._heard.put((child, json.loads(line)))
        child.process.wait()
        self._heard.put((child, None))

    def _last_words(self, child: _Child) -> list[DualacError]:
        """For a child that died without a word: killed, or crashed below Python."""
        code = child.process.returncode
        if code == 0 or child in self._explained:
            return []
        cause = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with code {code} (see {child.work.paths[0] / 'worker.log'})"
        paths = " ".join(str(path) for path in child.work.paths)
        return [_error(f"the process of {paths} {cause}; dualac resume {paths} continues from its last checkpoint", 128 - code if code < 0 else code)]

    def _pass_on(self, number: int, frame: object) -> None:
        self._asked.append(number)
        for child in self._running:
            if child.process.poll() is None:
                os.kill(child.process.pid, number)


def _error(text: str, code: int) -> DualacError:
    error = DualacError(text)
    error.code = code
    return error
