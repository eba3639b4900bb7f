"""Memory that a process needed once and holds on to, given back to the system. Where the system is not Linux with glibc, nothing is."""

import contextlib
import ctypes
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

DONTNEED = 4  # as mman.h has it
ENTRY = re.compile(r"^(?=[0-9a-f]+-[0-9a-f]+ )", re.MULTILINE)
LIBRARY = re.compile(r"([0-9a-f]+)-([0-9a-f]+) r-[x-]p \S+ \S+ \S+ +/.*\.so\S*$", re.MULTILINE)
FACT = re.compile(r"^(\w+): +(\d+) kB$", re.MULTILINE)
WRITTEN = re.compile(r"^VmFlags:.* ac\b", re.MULTILINE)  # it was writable once: memory is accounted for it


class Span(NamedTuple):
    """Of a library's file, pages that this process has mapped and never changed."""

    start: int
    stop: int


def give_back_heap() -> None:
    """What was freed, and the C library keeps."""
    with contextlib.suppress(AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


def give_back() -> None:
    """That, and the code of libraries: 130 MB of it when programs have been compiled, of which 25 are needed to go on. A page that is needed again is
    found where it was, in the system's copy of the file.
    """
    give_back_heap()
    with contextlib.suppress(AttributeError, OSError):
        madvise = ctypes.CDLL(None).madvise
        madvise.argtypes = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
        for start, stop in unchanged(Path("/proc/self/smaps").read_text()):  # still so: Python unloads no library
            madvise(start, stop - start, DONTNEED)


def unchanged(smaps: str) -> Iterator[Span]:
    """The spans of libraries of which all pages are still the file's. Those that the loader has changed before it forbade writing are not: their
    content is nowhere else, in memory or swapped out.
    """
    for entry in ENTRY.split(smaps):
        head, facts = LIBRARY.match(entry), dict(FACT.findall(entry))
        if head and facts["Rss"] != "0" and facts["Anonymous"] == facts.get("Swap", "0") == "0" and not WRITTEN.search(entry):
            yield Span(int(head[1], 16), int(head[2], 16))
