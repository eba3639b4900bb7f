"""Runs the command line of dualac as a process that can be killed, stopped and measured."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[2]
HERE = Path(__file__).parent
SUBREAPER = 36  # prctl.h: orphans below this process become its children
PATIENCE = float(os.environ.get("DUALAC_ATTACK_PATIENCE", "120"))  # seconds until it hangs


class Ended(NamedTuple):
    """How a command ended."""

    code: int
    """the exit code; below zero it is a signal's number"""
    out: str
    err: str
    peak: int
    """bytes of memory at most, of the process itself"""
    hung: bool

    @property
    def text(self) -> str:
        return self.out + self.err


class Command:
    """A command under way, in a session of its own."""

    def __init__(self, pid: int, place: Path) -> None:
        self.pid, self._place = pid, place
        self._ended: Ended | None = None

    def workers(self) -> list[int]:
        """List the processes that it started and that still run."""
        pids = []
        for task in Path(f"/proc/{self.pid}/task").glob("*/children"):
            with contextlib.suppress(OSError):
                pids += [int(word) for word in task.read_text().split()]
        return pids

    def poll(self) -> Ended | None:
        if self._ended is None:
            pid, status, usage = os.wait4(self.pid, os.WNOHANG)
            if pid:
                self._ended = self._report(status, usage, hung=False)
        return self._ended

    def wait(self, patience: float = PATIENCE) -> Ended:
        """Wait for its end; one that does not come within the patience is made."""
        until = time.monotonic() + patience
        while self.poll() is None:
            if time.monotonic() > until:
                self.kill()
                _, status, usage = os.wait4(self.pid, 0)
                self._ended = self._report(status, usage, hung=True)
                break
            time.sleep(0.002)
        reap(self)
        assert self._ended is not None
        return self._ended

    def kill(self) -> None:
        """End it and all that it started."""
        family = descendants(self.pid)
        for pid in [self.pid, *family]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def _report(self, status: int, usage: resource.struct_rusage, *, hung: bool) -> Ended:
        out, err = (
            (self._place / name).read_bytes().decode(errors="surrogateescape")
            for name in ("out", "err")
        )
        shutil.rmtree(self._place, ignore_errors=True)
        return Ended(os.waitstatus_to_exitcode(status), out, err, usage.ru_maxrss * 1024, hung)


class Driver:
    """The fork server and what it was started with."""

    def __init__(self, scratch: Path, library: Path | None) -> None:
        ctypes.CDLL(None).prctl(SUBREAPER, 1)
        self.scratch = scratch
        preload = {"LD_PRELOAD": str(library)} if library else {}
        places = [str(ROOT), os.environ.get("PYTHONPATH", str(ROOT / "src"))]
        env = os.environ | preload | {"PYTHONPATH": os.pathsep.join(places)}
        self._server = subprocess.Popen(
            [sys.executable, "-m", "tests.attack.server"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env=env,
        )
        self._answer()

    def start(
        self,
        *argv: object,
        env: dict[str, str] | None = None,
        memory: int = 0,
        fault: dict[str, Any] | None = None,
        cwd: Path | None = None,
    ) -> Command:
        place = Path(tempfile.mkdtemp(prefix="command-", dir=self.scratch))
        request = {
            "argv": [str(word) for word in argv],
            "cwd": str(cwd or self.scratch),
            "env": env or {},
            "out": str(place / "out"),
            "err": str(place / "err"),
            "memory": memory,
            "fault": fault,
        }
        assert self._server.stdin is not None
        self._server.stdin.write(json.dumps(request) + "\n")
        self._server.stdin.flush()
        pid = int(self._answer())
        for name in ("out", "err"):
            (place / name).touch()
        return Command(pid, place)

    def run(self, *argv: object, patience: float = PATIENCE, **how: Any) -> Ended:
        return self.start(*argv, **how).wait(patience)

    def close(self) -> None:
        assert self._server.stdin is not None
        self._server.stdin.close()
        self._server.wait()
        assert self._server.stdout is not None
        self._server.stdout.close()

    def _answer(self) -> str:
        assert self._server.stdout is not None
        line = self._server.stdout.readline().strip()
        if not line:
            raise RuntimeError("the fork server has ended")
        return line


def descendants(pid: int) -> list[int]:
    pids = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            for child in map(int, task.read_text().split()):
                pids += [child, *descendants(child)]
    return pids


def reap(command: Command) -> None:
    """Collect orphans of a killed command that have ended too."""
    del command
    for child in descendants(os.getpid()):
        with contextlib.suppress(OSError):
            if Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                os.waitpid(child, os.WNOHANG)


@functools.cache
def compiled(source: str, name: str, *flags: str) -> Path:
    """Compile C beside the tests' temporary files; once a session."""
    place = Path(tempfile.mkdtemp(prefix="dualac-attack-")) / name
    argv = ["cc", "-O1", "-g", "-Wall", *flags, str(HERE / source), "-o", str(place)]
    subprocess.run(argv, check=True)
    return place


def disk_faults() -> Path:
    return compiled("disk_faults.c", "disk_faults.so", "-shared", "-fPIC", "-ldl")
