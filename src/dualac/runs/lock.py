"""One process a run, and no word from one that was given up."""

import contextlib
import fcntl
import json
import os
import platform
import secrets
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, NamedTuple

from dualac.errors import DataError, LockedError
from dualac.runs.files import escaped, open_file, read_object, sweep_partials, write_text
from dualac.runs.layout import ATTEMPT, LOCK

# Seconds since its last row in which a run on another host counts as running: longer than a log
# interval or an evaluation.
FRESH = 900
LONGEST = 4096  # characters of a lock that are read


@contextlib.contextmanager
def owned(path: Path) -> Iterator[None]:
    """Own a run's directory inside the `with` block; refuse one that another process owns.

    The system drops the lock with the process, however it ends, so a lock is never stale.
    """
    mine = json.dumps({"pid": os.getpid(), "host": platform.node()})
    with open_file(path / LOCK, "a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = escaped(_read_start(file)) or "unknown"
            raise LockedError(
                f"{path} is being trained by another process ({owner}); wait for it or stop it"
            ) from None
        file.truncate(0)
        file.write(mine)
        file.flush()
        try:
            yield
        finally:
            # Where locks do not reach, a later owner may have written its name there.
            with contextlib.suppress(OSError, UnicodeDecodeError):
                if _read_start(file) == mine:
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
    token: str
    """tells it from another attempt of the same number, begun at the same moment"""

    @classmethod
    def begin(cls, path: Path) -> "Attempt":
        """Begin the next attempt; every earlier one is over.

        What an earlier one was writing when it stopped is removed, after the number is written:
        whoever wakes then has nothing that it could move to its place.
        """
        attempt = cls(path, _last_attempt(path)[0] + 1, secrets.token_hex(8))
        write_text(path / ATTEMPT, f"{attempt.number} {attempt.token}\n")
        sweep_partials(path)
        return attempt

    def require(self) -> None:
        """Refuse to write once a later attempt has begun."""
        number, token = _last_attempt(self.path)
        if (number, token) != (self.number, self.token):
            raise LockedError(
                f"{self.path} was taken over: this is attempt {self.number} of it, and attempt "
                f"{number} has begun"
            )

    @contextlib.contextmanager
    def fencing(self) -> Iterator[None]:
        """Raise `LockedError` in place of an error that a later attempt may have caused."""
        try:
            yield
        except Exception:
            self.require()
            raise


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


def _read_start(file: IO[str]) -> str:
    file.seek(0)
    return file.read(LONGEST).strip()


def _last_attempt(path: Path) -> tuple[int, str]:
    """Return the number and the token of the last attempt; older versions wrote no token."""
    try:
        with open_file(path / ATTEMPT) as file:
            number, _, token = file.read(LONGEST).decode("ascii").strip().partition(" ")
        return int(number), token
    except (FileNotFoundError, ValueError):
        return 0, ""
