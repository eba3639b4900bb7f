"""Arrays in a safetensors file: what its header says is checked before anything is allocated.

8 bytes: length of the header; the header, JSON: of each array its kind, shape and place; the arrays
"""

import hashlib
import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any, NamedTuple, TypeGuard

import numpy as np

from dualac.errors import DataError
from dualac.runs.files import open_file, parse_json

Arrays = dict[str, np.ndarray]

KINDS = {
    "BOOL": np.dtype(np.bool_),
    "U8": np.dtype(np.uint8),
    "I32": np.dtype(np.int32),
    "U32": np.dtype(np.uint32),
    "I64": np.dtype(np.int64),
    "U64": np.dtype(np.uint64),
    "F16": np.dtype(np.float16),
    "F32": np.dtype(np.float32),
    "F64": np.dtype(np.float64),
}
LARGEST_HEADER = 2**24  # bytes
MOST_AXES = 8
LARGEST_AXIS = 2**40
LARGEST_VALUE = 1e30  # of a state that can be learned from
PIECE = 2**20  # bytes that are checked at once
LARGEST_COPY = 2**28  # bytes; a larger file is mapped, and read where its arrays are


class Entry(NamedTuple):
    """What a header says of an array."""

    shape: tuple[int, ...]
    kind: np.dtype
    start: int
    stop: int


Header = dict[str, Entry]


def load_arrays(
    path: Path,
    expected: dict[str, Any] | None = None,
    check: Callable[[Header], None] = lambda header: None,
    largest: float = math.inf,
) -> Arrays:
    """Read the arrays of a file; refuse it, in one sentence, where it is damaged.

    `expected` are its bytes and its SHA-256, as `measure` returns them. `check` refuses a header
    that does not fit; no array is allocated before. Numbers must be finite and not above `largest`.
    """
    with open_file(path) as file:
        if expected is not None and measure(file) != expected:
            raise DataError(f"{path.name} is not what was written")
        header, offset = _read_header(file)
        check(header)
        for name, entry in header.items():
            _require_values(file, offset, name, entry, largest)
        size = os.fstat(file.fileno()).st_size
        if size > LARGEST_COPY:
            content: Any = np.memmap(file, np.uint8, mode="r", offset=0)
        else:
            file.seek(0)
            content = np.frombuffer(file.read(), np.uint8)
    return {
        name: content[offset + entry.start : offset + entry.stop]
        .view(entry.kind)
        .reshape(entry.shape)
        for name, entry in header.items()
    }


def measure(file: IO[bytes]) -> dict[str, Any]:
    """Return the bytes and the SHA-256 of a file."""
    size = os.fstat(file.fileno()).st_size
    return {"bytes": size, "sha256": hashlib.file_digest(file, "sha256").hexdigest()}  # pyright: ignore[reportArgumentType]


def _read_header(file: IO[bytes]) -> tuple[Header, int]:
    """Return what the header says of each array, and where the arrays begin."""
    size = os.fstat(file.fileno()).st_size
    file.seek(0)
    length = int.from_bytes(file.read(8), "little")
    if size < 8 or length > min(LARGEST_HEADER, size - 8):
        raise DataError(f"its arrays cannot be read: a header of {length} bytes in {size}")
    try:
        described = parse_json(file.read(length))
    except ValueError as error:
        raise DataError(f"its arrays cannot be read: the header is damaged ({error})") from None
    if not isinstance(described, dict):
        raise DataError("its arrays cannot be read: the header is not an object")
    described.pop("__metadata__", None)
    header = {name: _read_entry(name, entry) for name, entry in described.items()}
    end = 0
    for name, entry in sorted(header.items(), key=lambda item: item[1][2:]):
        if entry.start != end:
            raise DataError(f"its arrays cannot be read: {name} does not follow the one before it")
        end = entry.stop
    if 8 + length + end != size:
        raise DataError(f"its arrays cannot be read: they end at {8 + length + end} of {size}")
    return header, 8 + length


def _read_entry(name: str, entry: Any) -> Entry:
    """Check what a header says of an array."""
    described: dict[str, Any] = entry if isinstance(entry, dict) else {}
    kind = KINDS.get(str(described.get("dtype")))
    shape, place = described.get("shape"), described.get("data_offsets")
    if kind is not None and _are_sizes(shape, MOST_AXES) and _are_sizes(place, 2):
        size = math.prod(shape) * kind.itemsize
        if len(place) == 2 and place[1] - place[0] == size:
            return Entry(tuple(shape), kind, *place)
    raise DataError(f"its arrays cannot be read: the header's entry of {name} is damaged")


def _are_sizes(values: Any, most: int) -> TypeGuard[list[int]]:
    if not isinstance(values, list) or len(values) > most:
        return False
    return all(type(value) is int and 0 <= value <= LARGEST_AXIS for value in values)


def _require_values(file: IO[bytes], offset: int, name: str, entry: Entry, largest: float) -> None:
    """Refuse an array with a number that is not finite or too large; read a piece at a time."""
    if entry.kind.kind != "f":
        return
    file.seek(offset + entry.start)
    for start in range(entry.start, entry.stop, PIECE):
        numbers = np.frombuffer(file.read(min(PIECE, entry.stop - start)), entry.kind)
        if not are_usable(numbers, largest):
            raise DataError(f"{name} has numbers that are not finite, or too large to be learned")


def are_usable(numbers: np.ndarray, largest: float = LARGEST_VALUE) -> bool:
    """Tell whether all numbers are finite and none is larger than can be learned."""
    if numbers.dtype.kind != "f" or not numbers.size:
        return True
    peak = max(float(numbers.max()), -float(numbers.min()))  # NaN where there is one
    return math.isfinite(peak) and peak <= largest
