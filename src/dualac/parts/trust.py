"""Whether code that a directory names may be run here: consent for one command, or remembered.

A key stands for one piece of code. What the user names on the command line or in Python is
remembered by its key in the user's own state, outside every directory of runs.
"""

import contextlib
import hashlib
import logging
import os
import stat
from collections.abc import Callable
from pathlib import Path

from dualac.errors import DataError

_consents: set[str] = set()  # of this process: neither asked for twice nor written down


def key_of(*parts: str) -> str:
    """Return the key of what these parts name together."""
    return hashlib.sha256("\0".join(parts).encode(errors="backslashreplace")).hexdigest()


def remember(key: str, about: str) -> None:
    """Remember that the user named this code; `about` is for people who look into the folder."""
    _consents.add(key)
    with contextlib.suppress(OSError, RuntimeError):  # no home, or a read-only one
        folder = _folder()
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        file = os.open(folder / key, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        with os.fdopen(file, "w", errors="backslashreplace") as text:
            text.write(about + "\n")


def require(key: str, what: str, *, trust: bool) -> None:
    """Refuse code that the user has not named; with `trust` name it and consent to it.

    `what` is the code in words: its file and digest.
    """
    if key in _consents or _is_remembered(key):
        return
    if not trust:
        raise DataError(
            f"it would run {what}, which was not named on this machine; read that, then add "
            "--trust (in Python trust=True)"
        )
    logging.getLogger(__name__).warning("dualac: trusted: %s", what)
    _consents.add(key)


def _is_remembered(key: str) -> bool:
    """Tell whether a file of the user's own says so, in a folder that nobody else may write to."""
    try:
        folder = _folder()
        return _is_own(folder, stat.S_ISDIR) and _is_own(folder / key, stat.S_ISREG)
    except (OSError, RuntimeError):
        return False


def _is_own(path: Path, is_kind: Callable[[int], bool]) -> bool:
    status = path.lstat()
    private = not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return is_kind(status.st_mode) and private and status.st_uid == os.getuid()


def _folder() -> Path:
    root = Path(os.environ.get("XDG_STATE_HOME", ""))
    if not root.is_absolute():  # it would be where somebody stands, not where the user is at home
        root = Path.home() / ".local" / "state"
    return root / "dualac" / "trusted"
