"""One process a run, and no word from one that was given up."""

import contextlib
import fcntl
import json
import os
import platform
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from dualac.errors import DataError, LockedError
from dualac.runs.files import read_object, write_text
from dualac.runs.layout import ATTEMPT, LOCK

# Seconds since its last row in which a run on another host counts as running: longer than a log
# interval or an evaluation.
FRESH = 900


@contextlib.contextmanager
def owned(path: Path) -> Iterator[None]:
    """Own a run's directory inside the `with` block; refuse one that another process owns.

    The system drops the lock with the process, however it ends, so a lock is never stale.
    """
    with (path / LOCK).open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            owner = file.read().strip() or "unknown"
            raise LockedError(
                f"{path} is being trained by another process ({owner}); wait for it or stop it"
            ) from None
        file.truncate(0)
        file.write(json.dumps({"pid": os.getpid(), "host": platform.node()}))
        file.flush()
        try:
            yield
        finally:
            with contextlib.suppress(OSError):
                file.truncate(0)


def is_at_work(path: Path) -> bool:
    """Tell whether the process that owns a run is still there.

    On another host it is there if it wrote a row lately. The lock itself is left alone: to try it
    could turn away the run's own process.
    """
    try:
        owner = read_object(path / LOCK)
    except DataError:
        return False
    host, pid = owner.get("host"), owner.get("pid")
    if host == platform.node():
        return isinstance(pid, int) and _exists(pid)
    return isinstance(host, str) and time.time() - _last_written(path) < FRESH


class Attempt(NamedTuple):
    """One start of a run, by its number.

    Where a lock does not reach, on a file system of several machines, the number does: a process
    that was stopped, given up and wakes later finds a larger one and writes nothing over its
    successor's files.
    """

    path: Path
    number: int

    @classmethod
    def begin(cls, path: Path) -> "Attempt":
        """Begin the next attempt; every earlier one is over."""
        attempt = cls(path, _last_attempt(path) + 1)
        write_text(path / ATTEMPT, str(attempt.number))
        return attempt

    def require(self) -> None:
        """Refuse to write once a later attempt has begun."""
        last = _last_attempt(self.path)
        if last != self.number:
            raise LockedError(
                f"{self.path} was taken over: this is attempt {self.number} of it, and attempt "
                f"{last} has begun"
            )


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except PermissionError:  # another user's
        return True
    except (OSError, OverflowError):
        return False
    return True


def _last_written(path: Path) -> float:
    """Return when a run last wrote a row, in seconds since the epoch."""
    newest = 0.0
    for rows in path.glob("*.jsonl"):
        with contextlib.suppress(OSError):
            newest = max(newest, rows.stat().st_mtime)
    return newest


def _last_attempt(path: Path) -> int:
    try:
        return int((path / ATTEMPT).read_text() or 0)
    except (FileNotFoundError, ValueError):
        return 0
