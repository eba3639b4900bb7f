"""Files that are written whole or not at all, and JSON that is checked when it is read."""

import contextlib
import json
import math
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from dualac.errors import DataError

PARTIAL = ".partial"


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


@contextlib.contextmanager
def written_whole(path: Path) -> Iterator[Path]:
    """Yield the place to write a file at; move it to `path` once it is whole and on disk.

    Readers see the file as it was or as it is, never a part of it.
    """
    partial = path.with_name(f"{path.name}.{os.getpid()}{PARTIAL}")
    try:
        yield partial
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
    with partial.open("rb") as file:
        os.fsync(file.fileno())
    partial.replace(path)


def write_text(path: Path, text: str) -> None:
    """Write a file whole; what UTF-8 cannot hold becomes a question mark."""
    with written_whole(path) as partial:
        partial.write_text(text, encoding="utf-8", errors="replace")


def write_json(path: Path, data: Any) -> None:
    """Write data as JSON, whole."""
    write_text(path, json.dumps(data, indent=1) + "\n")


def sweep_partials(folder: Path) -> None:
    """Remove what writers left that were killed while they wrote.

    Only the owner of the folder may do so: nobody else is writing then.
    """
    for partial in folder.glob("*" + PARTIAL):
        partial.unlink(missing_ok=True)


def read_object(path: Path) -> dict[str, Any]:
    """Read a JSON object; raise `DamagedFileError` where the file holds none."""
    try:
        data = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise DamagedFileError(path, f"cannot be read: {error}") from None
    if not isinstance(data, dict):
        raise DamagedFileError(path, "is not an object")
    return _encodable(data)


def without_nan(value: Any) -> Any:
    """Return a value as JSON can hold it: what is not finite is None, arrays are lists."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, dict):
        return {str(key): without_nan(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [without_nan(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _encodable(tree: Any) -> Any:
    """Escape half a surrogate pair, which JSON can spell and no file can hold."""
    if isinstance(tree, dict):
        return {_encodable(key): _encodable(value) for key, value in tree.items()}
    if isinstance(tree, list):
        return [_encodable(value) for value in tree]
    return tree.encode(errors="backslashreplace").decode() if isinstance(tree, str) else tree
