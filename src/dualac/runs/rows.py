"""The rows of a .jsonl file: one JSON object a line.

A row is written at once and read only when it is whole: a last line without an end is what a kill,
or a run that is still writing, leaves.
"""

import contextlib
import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dualac.errors import DataError
from dualac.runs.files import Damage, DamagedFileError, without_nan

LARGEST_STEP = 10**15
TAIL = 65_536  # bytes at the end of a file that surely hold its last whole row


class RowWriter:
    """A .jsonl file that is open for new rows."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = path.open("a")

    def append(self, row: dict[str, Any]) -> None:
        self._file.write(as_line(row))
        self._file.flush()

    def position(self) -> int:
        """Return the length of the file, once all of it is safely on disk."""
        os.fsync(self._file.fileno())
        return self._file.tell()

    def rewind(self, length: int) -> None:
        """Cut the file back to a length that it once had."""
        if self.path.stat().st_size < length:
            raise DataError(f"{self.path} is shorter than when the checkpoint was written")
        self._file.truncate(length)
        self._file.seek(length)

    def close(self) -> None:
        self._file.close()


def as_line(row: dict[str, Any]) -> str:
    """Return a row as a line of the file."""
    return json.dumps(without_nan(row), allow_nan=False) + "\n"


def read_rows(
    path: Path,
    damaged: list[Damage] | None = None,
    *,
    needed: str | None = None,
    most: int | None = None,
) -> list[dict[str, Any]]:
    """Read the whole rows of a file; a file that is not there has none.

    A damaged row, or one without the field `needed`, is an error; with a list `damaged` it is
    passed over and noted there. `most` reads at most so many rows, evenly chosen, with the last.
    """
    try:
        lines = path.read_bytes().split(b"\n")[:-1] if path.exists() else []
    except OSError as error:
        return _refuse(path, error.strerror or "cannot be read", damaged)
    chosen = _choose(lines, most)
    rows = _parse([lines[number] for number in chosen])
    good = [isinstance(row, dict) and _usable(row, needed) for row in rows]
    bad = [number + 1 for number, usable in zip(chosen, good, strict=True) if not usable]
    if bad and damaged is None:
        raise DataError(f"{path}, line {bad[0]} is damaged")
    if bad:
        numbers = ", ".join(map(str, bad[:5])) + (", ..." if len(bad) > 5 else "")
        lines_word = "lines" if len(bad) > 1 else "line"
        _refuse(path, f"{len(bad)} damaged {lines_word} passed over ({numbers})", damaged)
    return [row for row, usable in zip(rows, good, strict=True) if usable]


def last_rows(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the last whole rows of a file, the newest first; damaged rows are passed over."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - TAIL))
            lines = file.read().split(b"\n")[:-1]
    except OSError:
        return
    for line in reversed(lines):
        with contextlib.suppress(ValueError, RecursionError):
            row = json.loads(line)
            if isinstance(row, dict):
                yield row


def last_step(path: Path) -> int:
    """Return the step of the last row that has one, or 0."""
    for row in last_rows(path):
        if is_step(row.get("step")):
            return int(row["step"])
    return 0


def digest(path: Path, until: int | None = None) -> str:
    """Return the SHA-256 of a file, or of its rows until a step."""
    content = path.read_bytes()
    if until is not None:
        lines = content.splitlines(keepends=True)
        content = b"".join(line for line in lines if json.loads(line)["step"] <= until)
    return hashlib.sha256(content).hexdigest()


def is_step(value: Any) -> bool:
    """Tell whether a value can be a step."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and 0 <= value < LARGEST_STEP


def _refuse(path: Path, what: str, damaged: list[Damage] | None) -> list[dict[str, Any]]:
    if damaged is None:
        raise DamagedFileError(path, what)
    damaged.append(Damage(path, what))
    return []


def choose_evenly(count: int, most: int | None) -> list[int]:
    """Choose at most so many of some rows, evenly, with the last."""
    if most is None or count <= most:
        return list(range(count))
    apart = (count - 1) / (most - 1) if most > 1 else 0.0
    chosen = {int(place * apart) for place in range(most)}
    return sorted(chosen | {count - 1} if most > 1 else chosen)


def _choose(lines: list[bytes], most: int | None) -> list[int]:
    """Choose lines evenly, with the last, and with those that cannot be rows."""
    chosen = choose_evenly(len(lines), most)
    if len(chosen) == len(lines):
        return chosen
    broken = {
        number
        for number, line in enumerate(lines)
        if not (line.startswith(b"{") and line.endswith(b"}"))
    }
    return sorted(broken.union(chosen))


def _usable(row: dict[str, Any], needed: str | None) -> bool:
    """Tell whether a row has the field that is needed: a step, or a text."""
    if needed is None:
        return True
    value = row.get(needed)
    return is_step(value) if needed == "step" else isinstance(value, str)


def _parse(lines: list[bytes]) -> list[Any]:
    """Parse all lines at once, which is fast; where that fails, one by one."""
    with contextlib.suppress(ValueError, RecursionError):
        rows = json.loads(b"[" + b",".join(lines) + b"]")
        if len(rows) == len(lines):
            return rows
    rows = []
    for line in lines:
        try:
            rows.append(json.loads(line))
        except (ValueError, RecursionError):
            rows.append(None)
    return rows
