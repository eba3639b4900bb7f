"""Files that are written whole or not at all, and JSON that is checked when it is read."""

import contextlib
import errno
import json
import math
import os
import re
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any, NamedTuple

from dualac.errors import DataError

PARTIAL = ".partial"
UNFOLLOWED = getattr(os, "O_NOFOLLOW", 0)  # not every system has it
NOT_REGULAR = {
    errno.ELOOP: "a symbolic link, which is not followed",
    errno.ENXIO: "a FIFO, a device or a socket, not a regular file",
    errno.EISDIR: "a directory, not a regular file",
}

LARGEST_OBJECT = 2**26  # bytes of a file that holds one JSON object
DEEPEST = 50  # objects and lists within one another
MOST_DIGITS = 40  # a generator's state has 39
TOO_DEEP = "nested too deep"
# Control characters but for tab and newline, marks of the direction of writing, half a surrogate.
STEERING = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")

Permit = Callable[[], None]


class Damage(NamedTuple):
    """A file that cannot be used, and why."""

    path: Path
    what: str

    def __str__(self) -> str:
        return f"{self.path}: {self.what}"


class DamagedFileError(DataError):
    """A file cannot be used."""

    def __init__(self, path: Path, what: str) -> None:
        super().__init__(f"{path} {what}")
        self.damage = Damage(path, what)


def open_file(path: Path, mode: str = "rb") -> IO[Any]:
    """Open a file of a run, in any mode of `open`; refuse what is not a regular file.

    A link is not followed: it could lead out of the run. Nothing is waited for: a FIFO has no end.
    """
    encoding = None if "b" in mode else "utf-8"
    try:
        return open(path, mode, encoding=encoding, opener=_open_regular)
    except OSError as error:
        if error.errno in NOT_REGULAR:
            raise DamagedFileError(path, f"is {NOT_REGULAR[error.errno]}; remove it") from None
        raise


def read_bytes(path: Path, largest: int) -> bytes:
    """Read a file of a run; refuse one of more bytes than `largest`."""
    with open_file(path) as file:
        if os.fstat(file.fileno()).st_size > largest:
            raise DamagedFileError(path, f"cannot be used: it has more than {largest} bytes")
        return file.read()


def unchecked() -> None:
    """Permit every write."""


@contextlib.contextmanager
def written_whole(path: Path, permit: Permit = unchecked) -> Iterator[Path]:
    """Yield the place to write a file at; move it to `path` once it is whole and on disk.

    Readers see the file as it was or as it is, never a part of it. `permit` is called just before
    the move, and raises where this process may no longer write.
    """
    partial = path.with_name(f"{path.name}.{os.getpid()}{PARTIAL}")
    try:
        yield partial
        with open_file(partial) as file:
            os.fsync(file.fileno())
        permit()
        partial.replace(path)
    except BaseException as error:
        partial.unlink(missing_ok=True)
        if isinstance(error, IsADirectoryError):
            raise DamagedFileError(path, f"is {NOT_REGULAR[errno.EISDIR]}; remove it") from None
        raise


def write_text(path: Path, text: str, permit: Permit = unchecked) -> None:
    """Write a file whole; what UTF-8 cannot hold becomes a question mark."""
    write_bytes(path, text.encode(errors="replace"), permit)


def write_bytes(path: Path, content: bytes, permit: Permit = unchecked) -> None:
    """Write a file whole."""
    with written_whole(path, permit) as partial, open_file(partial, "wb") as file:
        file.write(content)


def write_json(path: Path, data: Any, permit: Permit = unchecked) -> None:
    """Write data as JSON, whole."""
    write_text(path, json.dumps(data, indent=1) + "\n", permit)


def sweep_partials(folder: Path) -> None:
    """Remove what writers left that were killed while they wrote.

    Only the owner of the folder may do so: nobody else is writing then.
    """
    for partial in folder.glob("*" + PARTIAL):
        with contextlib.suppress(IsADirectoryError):
            partial.unlink(missing_ok=True)


def read_object(path: Path) -> dict[str, Any]:
    """Read a JSON object; raise `DamagedFileError` where the file holds none."""
    try:
        data = parse_json(read_bytes(path, LARGEST_OBJECT))
    except OSError as error:
        raise DamagedFileError(path, f"cannot be read: {error.strerror or error}") from None
    except ValueError as error:
        raise DamagedFileError(path, f"cannot be read: {error}") from None
    if not isinstance(data, dict):
        raise DamagedFileError(path, "is not an object")
    return data


def parse_json(content: bytes) -> Any:
    """Parse JSON that somebody else may have written; raise ValueError where it cannot be used.

    It has bounds of depth and of digits. Characters that could steer a terminal, and halves of
    surrogate pairs, which no file can hold, are escaped.
    """
    try:
        data = json.loads(content, parse_int=_whole_number)
    except RecursionError:
        raise ValueError(TOO_DEEP) from None
    return _escaped(data, DEEPEST)


def escaped(text: str) -> str:
    """Escape the characters of a text that could steer a terminal, or that no file can hold."""
    return STEERING.sub(lambda match: ascii(match[0])[1:-1], text)


def without_nan(value: Any) -> Any:
    """Return a value as JSON can hold it: what is not finite is None, arrays are lists."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, dict):
        return {str(key): without_nan(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [without_nan(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _open_regular(name: str, flags: int) -> int:
    handle = os.open(name, flags | UNFOLLOWED | os.O_NONBLOCK | os.O_CLOEXEC, 0o666)
    if stat.S_ISREG(os.fstat(handle).st_mode):
        return handle
    is_folder = stat.S_ISDIR(os.fstat(handle).st_mode)
    os.close(handle)
    raise OSError(errno.EISDIR if is_folder else errno.ENXIO, "is not a regular file")


def _whole_number(digits: str) -> int:
    if len(digits) > MOST_DIGITS:
        raise ValueError(f"a number of {len(digits)} digits")
    return int(digits)


def _escaped(tree: Any, depth: int) -> Any:
    """Escape all texts of a tree that is at most so deep."""
    if isinstance(tree, str):
        return escaped(tree)
    if not isinstance(tree, dict | list):
        return tree
    if not depth:
        raise ValueError(TOO_DEEP)
    if isinstance(tree, dict):
        return {escaped(key): _escaped(value, depth - 1) for key, value in tree.items()}
    return [_escaped(value, depth - 1) for value in tree]
