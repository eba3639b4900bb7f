"""What is given back is what nobody will miss."""

import re
from pathlib import Path

import jax
import jax.numpy as jnp

from dualac.machine.memory import Span, give_back, unchanged

SMAPS = """\
7f0000000000-7f0000200000 r-xp 00001000 fd:00 12345    /lib/of/code.so.1.2
Size:               2048 kB
Rss:                1024 kB
Pss:                 512 kB
Private_Dirty:         0 kB
Anonymous:             0 kB
VmFlags: rd ex mr mw me
7f0000200000-7f0000300000 r--p 00201000 fd:00 12345    /lib/of/code.so.1.2
Rss:                 512 kB
Anonymous:            64 kB
VmFlags: rd mr mw me ac
7f0000280000-7f0000290000 r--p 00201000 fd:00 12345    /lib/swapped/out.so
Rss:                  12 kB
Anonymous:             0 kB
Swap:                 64 kB
VmFlags: rd mr mw me
7f0000290000-7f0000300000 r--p 00201000 fd:00 12345    /lib/of/code.so.1.2
Rss:                  12 kB
Anonymous:             0 kB
Swap:                  0 kB
THPeligible:    0
VmFlags: rd mr mw me ac
7f0000300000-7f0000400000 rw-p 00301000 fd:00 12345    /lib/of/code.so.1.2
Rss:                 512 kB
Anonymous:             0 kB
7f0000400000-7f0000500000 r--p 00000000 fd:00 12346    /lib/that/nobody/used.so
Rss:                   0 kB
Anonymous:             0 kB
7f0000500000-7f0000600000 r--p 00000000 fd:00 12347    /a/file/of numbers.npy
Rss:                1024 kB
Anonymous:             0 kB
7f0000600000-7f0000700000 r--s 00000000 fd:00 12348    /lib/shared.so
Rss:                1024 kB
Anonymous:             0 kB
7f0000700000-7f0000800000 r-xp 00000000 00:00 0
Rss:                1024 kB
Anonymous:             0 kB
7f0000800000-7f0000900000 r--p 00000000 fd:00 12349    /lib/with a blank/data.so
Rss:                   4 kB
Anonymous:             0 kB
"""


def test_only_pages_that_are_still_a_library_s_file_are_given_back():
    """Not what the loader has changed, be it swapped out, what may be written, what is no library
    or was never read.
    """
    assert list(unchanged(SMAPS)) == [
        Span(0x7F0000000000, 0x7F0000200000),
        Span(0x7F0000800000, 0x7F0000900000),
    ]


def test_the_code_of_the_compiler_goes_and_comes_back_when_it_is_needed():
    square = jax.jit(lambda x: x @ x)
    expected = square(jnp.ones((3, 3)))
    before = _of_jax()
    give_back()
    assert _of_jax() < before / 4
    assert (square(jnp.ones((3, 3))) == expected).all()
    assert (
        jax.jit(lambda x: jnp.sin(x) + 1)(jnp.zeros(5)).tolist() == [1.0] * 5
    )  # compiled by code that was given back


def _of_jax() -> int:
    """kB of its library that this process has."""
    spans = re.split(
        r"^(?=[0-9a-f]+-[0-9a-f]+ )", Path("/proc/self/smaps").read_text(), flags=re.MULTILINE
    )
    return sum(
        int(re.search(r"^Rss: +(\d+)", span, re.MULTILINE)[1]) for span in spans if "libjax" in span
    )  # pyright: ignore[reportOptionalSubscript]
