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
from dualac.runs.files import (
    DEEPEST,
    Damage,
    DamagedFileError,
    Permit,
    open_file,
    parse_json,
    read_bytes,
    unchecked,
    without_nan,
    write_bytes,
)

LARGEST_STEP = 10**15
TAIL = 65_536  # bytes at the end of a file that surely hold its last whole row
LARGEST_FILE = 2**30  # bytes of rows
LONGEST_ROW = 2**20  # bytes


class RowWriter:
    """A .jsonl file that is open for new rows."""

    def __init__(self, path: Path, permit: Permit = unchecked) -> None:
        """Put a copy in the place of the file, and open it.

        Whoever still has the former file open, a process that was given up and wakes, writes its
        rows where nobody reads them. `permit` is called before each write.
        """
        self.path, self._permit = path, permit
        content = _read_content(path)
        write_bytes(path, content, permit)
        self._file = open_file(path, "ab")
        self._digest = hashlib.sha256(content)

    def append(self, row: dict[str, Any]) -> None:
        line = as_line(row).encode()
        self._permit()
        self._file.write(line)
        self._file.flush()
        self._digest.update(line)

    def position(self) -> int:
        """Return the length of the file, once all of it is safely on disk."""
        os.fsync(self._file.fileno())
        return self._file.tell()

    def digest(self) -> str:
        """Return the SHA-256 of the file."""
        return self._digest.hexdigest()

    def require(self, length: int, digest: str | None = None) -> None:
        """Refuse a file that does not begin with so many bytes, of this SHA-256 if it is known."""
        content = _read_content(self.path)
        if len(content) < length:
            raise DataError(f"{self.path} is shorter than when the checkpoint was written")
        if digest is not None and hashlib.sha256(content[:length]).hexdigest() != digest:
            raise DataError(
                f"{self.path} is not what it was when the checkpoint was written; put the file "
                "back, or move the run away and begin it anew"
            )

    def rewind(self, length: int) -> None:
        """Cut the file back to a length that it once had."""
        self._permit()
        self._file.truncate(length)
        self._file.seek(length)
        self._digest = hashlib.sha256(_read_content(self.path))

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
        lines = _read_content(path).split(b"\n")[:-1]
    except DamagedFileError as error:
        return _refuse(path, error.damage.what, damaged)
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
        with open_file(path) as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - TAIL))
            lines = file.read().split(b"\n")[:-1]
    except (OSError, DamagedFileError):
        return
    for line in reversed(lines):
        row = _parse_one(line)
        if isinstance(row, dict):
            yield row


def last_step(path: Path) -> int:
    """Return the step of the last row that has one, or 0."""
    for row in last_rows(path):
        if is_step(row.get("step")):
            return int(row["step"])
    return 0


def digest(path: Path, until: int | None = None) -> str:
    """Return the SHA-256 of a file, or of its rows until a step; a file that is not there is empty.

    What is no row counts as one until the step.
    """
    content = _read_content(path)
    if until is not None:
        lines = content.splitlines(keepends=True)
        content = b"".join(line for line in lines if not _is_beyond(line, until))
    return hashlib.sha256(content).hexdigest()


def start_digest(path: Path, length: int) -> str:
    """Return the SHA-256 of the first bytes of a file; a file that is not there is empty."""
    return hashlib.sha256(_read_content(path)[:length]).hexdigest()


def is_step(value: Any) -> bool:
    """Tell whether a value can be a step."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and 0 <= value < LARGEST_STEP


def _read_content(path: Path) -> bytes:
    """Read a file of rows; one that is not there is empty."""
    try:
        return read_bytes(path, LARGEST_FILE)
    except FileNotFoundError:
        return b""


def _is_beyond(line: bytes, until: int) -> bool:
    row = _parse_one(line)
    return isinstance(row, dict) and is_step(row.get("step")) and row["step"] > until


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
    """Parse all plain lines at once, which is fast; where that fails, one by one."""
    if all(_is_plain(line) for line in lines):
        with contextlib.suppress(ValueError, RecursionError):
            rows = json.loads(b"[" + b",".join(lines) + b"]")
            if len(rows) == len(lines):
                return rows
    return [_parse_one(line) for line in lines]


def _is_plain(line: bytes) -> bool:
    """Tell whether a line can hold nothing that has to be escaped, nor anything deep or long."""
    if len(line) > LONGEST_ROW or line.count(b"{") + line.count(b"[") > DEEPEST:
        return False
    return line.isascii() and b"\\u" not in line and b"\x7f" not in line


def _parse_one(line: bytes) -> Any:
    """Parse a line; None where it holds nothing that can be used."""
    if len(line) > LONGEST_ROW:
        return None
    try:
        return parse_json(line)
    except ValueError:
        return None
