"""Imports the library once, then forks a process for each command line that it is sent.

python -m tests.attack.server

A request is a line of JSON: arguments, directory, environment, files for the two outputs, bytes of
memory. The answer is the process's number. The process is an orphan, whose exit is the business of
whoever asked: see driver.py.

A fork stands for a fresh interpreter: no JAX device has been started when it is made. What it
starts itself as `python -m dualac...` (a trainer, an environment of its own) is forked from it,
unless JAX runs there already: then it is a fresh interpreter.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import io
import json
import os
import pkgutil
import resource
import runpy
import signal
import subprocess
import sys
import traceback
from typing import Any, NoReturn

# What commands import late: once here instead of once in each process.
HEAVY = (
    "jax",
    "jax.numpy",
    "jax.extend",
    "matplotlib.backends.backend_agg",
    "matplotlib.figure",
    "rich.console",
    "rich.table",
    "rich.live",
    "tests.attack.toys",
)
LEFT_OUT = ("__main__", "on_ray", "video")

real_popen = subprocess.Popen


def preload() -> None:
    dualac = importlib.import_module("dualac")
    modules = [module.name for module in pkgutil.walk_packages(dualac.__path__, "dualac.")]
    for name in [*HEAVY, *(name for name in modules if name.rpartition(".")[2] not in LEFT_OUT)]:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)


class ForkedPopen:
    """A child that `subprocess.Popen` would have started as `python -m dualac...`, forked."""

    def __init__(self, argv: list[str], **how: Any) -> None:
        self.args, self.returncode = argv, None
        ours: dict[str, Any] = {"stdin": None, "stdout": None, "stderr": None}
        theirs: dict[int, int] = {}
        for number, name in enumerate(ours):
            wanted = how.get(name)
            if wanted == subprocess.PIPE:
                reading, writing = os.pipe()
                keep, give = (writing, reading) if number == 0 else (reading, writing)
                raw = io.FileIO(keep, "w" if number == 0 else "r")
                binary: Any = io.BufferedWriter(raw) if number == 0 else io.BufferedReader(raw)
                ours[name] = io.TextIOWrapper(binary) if how.get("text") else binary
                theirs[number] = give
            elif wanted == subprocess.DEVNULL:
                theirs[number] = os.open(os.devnull, os.O_RDWR)
            elif wanted is not None and wanted != subprocess.STDOUT:
                theirs[number] = os.dup(wanted if isinstance(wanted, int) else wanted.fileno())
        self.stdin, self.stdout, self.stderr = ours.values()
        self.pid = os.fork()
        if not self.pid:
            self._be_child(argv, how, theirs)
        for descriptor in theirs.values():
            os.close(descriptor)

    def _be_child(self, argv: list[str], how: dict[str, Any], theirs: dict[int, int]) -> NoReturn:
        try:
            if how.get("start_new_session"):
                os.setsid()
            for number, descriptor in theirs.items():
                os.dup2(descriptor, number)
            if how.get("stderr") == subprocess.STDOUT:
                os.dup2(1, 2)
            kept = sorted({0, 1, 2, *how.get("pass_fds", ())})
            for before, after in zip(kept, [*kept[1:], 4096], strict=True):
                os.closerange(before + 1, after)
            if how.get("env") is not None:
                os.environ.clear()
                os.environ.update(how["env"])
            forget_handlers()
            sys.argv = argv[2:]
            reopen()
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        leave(lambda: runpy.run_module(argv[2], run_name="__main__", alter_sys=True))

    def poll(self) -> int | None:
        return self._wait(os.WNOHANG)

    def wait(self, timeout: float | None = None) -> int:
        if timeout is None:
            while self._wait(0) is None:
                pass
            return self.returncode  # pyright: ignore[reportReturnType]
        for _ in range(int(timeout * 100) + 1):
            if self.poll() is not None:
                return self.returncode  # pyright: ignore[reportReturnType]
            signal.sigtimedwait([], 0.01)
        raise subprocess.TimeoutExpired(self.args, timeout)

    def _wait(self, options: int) -> int | None:
        if self.returncode is None:
            try:
                pid, status = os.waitpid(self.pid, options)
            except ChildProcessError:
                pid, status = self.pid, 0
            if pid:
                self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode

    def communicate(self, data: Any = None, timeout: float | None = None) -> tuple[Any, Any]:
        if self.stdin:
            if data:
                self.stdin.write(data)
            self.stdin.close()
        out = self.stdout.read() if self.stdout else None
        err = self.stderr.read() if self.stderr else None
        self.wait(timeout)
        return out, err

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def __enter__(self) -> ForkedPopen:
        return self

    def __exit__(self, *_: object) -> None:
        self.wait()


def popen(argv: Any, *args: Any, **how: Any) -> Any:
    ours = isinstance(argv, list) and argv[:2] == [sys.executable, "-m"]
    if ours and str(argv[2]).startswith("dualac") and not computing():
        return ForkedPopen([str(word) for word in argv], **how)
    return real_popen(argv, *args, **how)


def computing() -> bool:
    """Tell whether JAX has started its threads here: such a process cannot be forked."""
    from jax._src import xla_bridge

    return xla_bridge.backends_are_initialized()


def forget_handlers() -> None:
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)


def reopen() -> None:
    """Give Python fresh streams over the descriptors that were exchanged."""
    sys.stdin = os.fdopen(0, "r", closefd=False)
    sys.stdout = os.fdopen(1, "w", closefd=False)
    sys.stderr = os.fdopen(2, "w", buffering=1, closefd=False)


def leave(work: Any) -> NoReturn:
    """Do the work and end as an interpreter that had done it would."""
    code = 0
    try:
        work()
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else 0 if error.code is None else 1
    except BaseException:
        traceback.print_exc()
        code = 1
    with contextlib.suppress(Exception):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code)


def serve(request: dict[str, Any]) -> int:
    """Fork twice, so that the process belongs to whoever asked; answer its number."""
    reading, writing = os.pipe()
    middle = os.fork()
    if middle:
        os.close(writing)
        os.waitpid(middle, 0)
        with os.fdopen(reading) as answer:
            return int(answer.read())
    pid = os.fork()
    if pid:
        os.write(writing, str(pid).encode())
        os._exit(0)
    os.close(reading)
    os.close(writing)
    try:
        begin(request)
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    from dualac.cli import main

    leave(lambda: main(request["argv"]))


def begin(request: dict[str, Any]) -> None:
    os.setsid()
    os.chdir(request["cwd"])
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for number, name in ((1, "out"), (2, "err")):
        os.dup2(os.open(request[name], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), number)
    os.closerange(3, 4096)
    os.environ.update(request["env"])
    forget_handlers()
    reopen()
    if request.get("memory"):
        resource.setrlimit(resource.RLIMIT_AS, (request["memory"], request["memory"]))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    sys.argv = ["dualac", *request["argv"]]
    subprocess.Popen = popen  # type: ignore[assignment,misc]
    if request.get("fault"):
        arm(request["fault"])


def arm(fault: dict[str, Any]) -> None:
    library = ctypes.CDLL(None)
    library.disk_faults_arm.argtypes = [
        ctypes.c_char_p,
        ctypes.c_char_p,
        ctypes.c_long,
        ctypes.c_int,
    ]
    library.disk_faults_arm(
        fault["root"].encode(), fault["log"].encode(), fault["at"], fault["error"]
    )


def main() -> None:
    preload()
    gc.collect()
    gc.freeze()
    print("ready", flush=True)
    for line in sys.stdin:
        print(serve(json.loads(line)), flush=True)


if __name__ == "__main__":
    main()
