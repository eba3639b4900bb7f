"""Arrays of a file that somebody else may have written: refused in a sentence, before memory is
taken.
"""

import json
import os
import resource
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy

from dualac.errors import DataError
from dualac.runs.arrays import KINDS, load_arrays

ARRAYS = {"a": np.arange(6, dtype=np.float32).reshape(2, 3), "b": np.array(7, np.uint32)}


def written(path: Path, header: Any, content: bytes = bytes(28), length: int | None = None) -> Path:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    size = len(text) if length is None else length
    path.write_bytes(size.to_bytes(8, "little") + text + content)
    return path


def entry(kind: Any = "F32", shape: Any = (2, 3), place: Any = (0, 24)) -> dict[str, Any]:
    return {"dtype": kind, "shape": shape, "data_offsets": place}


SCALAR = entry("U32", [], [24, 28])
HEADERS: dict[str, Any] = {
    "a gap": {"a": entry(), "b": entry("U32", [], [25, 29])},
    "an overlap": {"a": entry(), "b": entry("U32", [], [20, 24])},
    "beyond the file": {"a": entry(), "b": entry("U8", [2**31], [24, 24 + 2**31])},
    "a larger shape": {"a": entry(shape=[2**40]), "b": SCALAR},
    "a negative shape": {"a": entry(shape=[-2, -3]), "b": SCALAR},
    "many axes": {"a": entry(shape=[1] * 200 + [2, 3]), "b": SCALAR},
    "a shape of text": {"a": entry(shape="23"), "b": SCALAR},
    "a number as true": {"a": entry(shape=[True, 6]), "b": SCALAR},
    "offsets reversed": {"a": entry(place=[24, 0]), "b": SCALAR},
    "three offsets": {"a": entry(place=[0, 24, 24]), "b": SCALAR},
    "another kind": {"a": entry("F8_E4M3"), "b": SCALAR},
    "a kind of number": {"a": entry(7), "b": SCALAR},
    "an entry that is none": {"a": 7, "b": SCALAR},
    "a list": [],
    "deep": b'{"a":' * 100_000,
    "no JSON": b"\xff" * 40,
    "too short": {"a": entry()},
}


@pytest.mark.parametrize("header", HEADERS)
def test_a_header_that_is_wrong_is_refused(header, tmp_path):
    with pytest.raises(DataError, match="its arrays cannot be read") as refusal:
        load_arrays(written(tmp_path / "x", HEADERS[header]))
    assert refusal.value.code == 65 and len(str(refusal.value)) < 300


@pytest.mark.parametrize("length", [2**63, 2**33, 99_999_999, 0, 1])
def test_a_header_of_a_wrong_length_is_refused(length, tmp_path):
    with pytest.raises(DataError, match="its arrays cannot be read"):
        load_arrays(written(tmp_path / "x", {"a": entry(), "b": SCALAR}, length=length))


def test_what_safetensors_wrote_is_read_to_the_bit(tmp_path):
    arrays = ARRAYS | {name: np.zeros(3, kind) for name, kind in KINDS.items()}
    (tmp_path / "x").write_bytes(safetensors.numpy.save(arrays))
    read = load_arrays(tmp_path / "x")
    assert read.keys() == arrays.keys()
    for name, array in arrays.items():
        assert (read[name].dtype, read[name].shape) == (array.dtype, array.shape)
        assert read[name].tobytes() == array.tobytes()


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 2e30])
def test_numbers_that_cannot_be_learned_are_refused(value, tmp_path):
    (tmp_path / "x").write_bytes(safetensors.numpy.save({"a": np.array([0, value], np.float32)}))
    with pytest.raises(DataError, match="a has numbers that are not finite, or too large"):
        load_arrays(tmp_path / "x", largest=1e30)


def test_an_array_of_gigabytes_takes_no_memory_before_its_shape_is_known(tmp_path):
    size = 1 << 32
    file = written(tmp_path / "x", {"a": entry("U8", [size], [0, size])}, b"")
    os.truncate(file, file.stat().st_size + size)  # sparse
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert load_arrays(file)["a"].shape == (size,)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000  # kilobytes
