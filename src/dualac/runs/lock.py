"""One process a run, and no word from one that was given up."""

import contextlib
import fcntl
import json
import os
import platform
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from dualac.errors import LockedError


@contextlib.contextmanager
def owned(path: Path) -> Iterator[None]:
    """Own a run's directory. The system drops the lock with the process, however it ends, so a lock
    is never stale.
    """
    with (path / "lock").open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            raise LockedError(
                f"{path} is being trained by another process ({file.read().strip() or 'unknown'}); "
                "wait for it or stop it"
            ) from None
        file.truncate(0)
        file.write(json.dumps({"pid": os.getpid(), "host": platform.node()}))
        file.flush()
        yield


class Attempt(NamedTuple):
    """One start of a run, by its number. Where a lock does not reach, on a file system of several
    machines, the number does: a process that was stopped, given up and wakes later finds a larger
    one and writes nothing over its successor's files.
    """

    path: Path
    number: int

    @classmethod
    def begin(cls, path: Path) -> "Attempt":
        """The next attempt; every earlier one is over."""
        attempt = cls(path, _last(path) + 1)
        partial = path / f".attempt-{os.getpid()}"
        partial.write_text(str(attempt.number))
        partial.replace(path / "attempt")
        return attempt

    def require(self) -> None:
        """Refuse to write once a later attempt has begun."""
        last = _last(self.path)
        if last != self.number:
            raise LockedError(
                f"{self.path} was taken over: this is attempt {self.number} of it, and attempt "
                f"{last} has begun"
            )


def _last(path: Path) -> int:
    try:
        return int((path / "attempt").read_text() or 0)
    except (FileNotFoundError, ValueError):
        return 0
