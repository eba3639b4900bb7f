"""Memory that is free, and memory that is given back."""

from pathlib import Path

import pytest

from dualac.errors import UsageError
from dualac.machine.memory import available_memory, release_memory, require_memory

MEGABYTE = 2**20


def resident() -> int:
    """Return the bytes of memory that this process has."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * int(next(line for line in lines if line.startswith("VmRSS")).split()[1])


def test_what_a_block_freed_is_given_back_to_the_system():
    """Small pieces, which the C library keeps: the last holds the others' pages."""
    with release_memory():
        pieces = [bytes(1000) for _ in range(50_000)]
        last = bytes(1000)
        held = resident()
        del pieces
    assert resident() < held - 30 * MEGABYTE
    assert len(last) == 1000


def test_what_a_block_raises_passes():
    with pytest.raises(ZeroDivisionError), release_memory():
        raise ZeroDivisionError


def test_what_needs_more_than_is_free_is_refused_in_one_line():
    require_memory(MEGABYTE, "a replay")
    with pytest.raises(UsageError, match=r"a replay needs .* GB and .* GB are free; lower"):
        require_memory(2 * available_memory(), "a replay")
