"""One process a run."""

import contextlib
import fcntl
import json
import os
import platform
from collections.abc import Iterator
from pathlib import Path

from dualac.errors import LockedError


@contextlib.contextmanager
def owned(path: Path) -> Iterator[None]:
    """Own a run's directory. The system drops the lock with the process, however it ends, so a lock is never stale."""
    with (path / "lock").open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            raise LockedError(f"{path} is being trained by another process ({file.read().strip() or 'unknown'}); wait for it or stop it") from None
        file.truncate(0)
        file.write(json.dumps({"pid": os.getpid(), "host": platform.node()}))
        file.flush()
        yield
