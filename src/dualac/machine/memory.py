"""Memory that a process needed once and holds on to, given back to the system. Where the system is
not Linux with glibc, nothing is.
"""

import contextlib
import ctypes
import os
import re
import resource
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from dualac.errors import UsageError

DONTNEED = 4  # as mman.h has it
ENTRY = re.compile(r"^(?=[0-9a-f]+-[0-9a-f]+ )", re.MULTILINE)
LIBRARY = re.compile(r"([0-9a-f]+)-([0-9a-f]+) r-[x-]p \S+ \S+ \S+ +/.*\.so\S*$", re.MULTILINE)
FACT = re.compile(r"^(\w+): +(\d+) kB$", re.MULTILINE)
WRITTEN = re.compile(
    r"^VmFlags:.* ac\b", re.MULTILINE
)  # it was writable once: memory is accounted for it


class Span(NamedTuple):
    """Of a library's file, pages that this process has mapped and never changed."""

    start: int
    stop: int


def give_back_heap() -> None:
    """What was freed, and the C library keeps."""
    with contextlib.suppress(AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


def give_back() -> None:
    """That, and the code of libraries: 130 MB of it when programs have been compiled, of which 25
    are needed to go on. A page that is needed again is found where it was, in the system's copy of
    the file.
    """
    give_back_heap()
    with contextlib.suppress(AttributeError, OSError):
        madvise = ctypes.CDLL(None).madvise
        madvise.argtypes = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
        for start, stop in unchanged(
            Path("/proc/self/smaps").read_text()
        ):  # still so: Python unloads no library
            madvise(start, stop - start, DONTNEED)


def unchanged(smaps: str) -> Iterator[Span]:
    """The spans of libraries of which all pages are still the file's. Those that the loader has
    changed before it forbade writing are not: their content is nowhere else, in memory or swapped
    out.
    """
    for entry in ENTRY.split(smaps):
        head, facts = LIBRARY.match(entry), dict(FACT.findall(entry))
        if (
            head
            and facts["Rss"] != "0"
            and facts["Anonymous"] == facts.get("Swap", "0") == "0"
            and not WRITTEN.search(entry)
        ):
            yield Span(int(head[1], 16), int(head[2], 16))


def available_memory() -> int:
    """What this process may still take: of the machine, of its container, of its own limit."""
    return min(_free_on_the_machine(), _free_in_the_container(), _free_within_the_limit())


def _free_in_the_container() -> int:
    with contextlib.suppress(
        OSError, ValueError
    ):  # no cgroup of version 2, or one without a limit ("max")
        most, taken = (
            int(Path(f"/sys/fs/cgroup/memory.{name}").read_text()) for name in ("max", "current")
        )
        return max(0, most - taken)
    return sys.maxsize


def _free_within_the_limit() -> int:
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit == resource.RLIM_INFINITY:
        return sys.maxsize
    taken = (
        int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
        if Path("/proc/self/statm").exists()
        else 0
    )
    return max(0, limit - taken)


def _free_on_the_machine() -> int:
    with contextlib.suppress(OSError):
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def require_memory(
    needed: int,
    what: str,
    instead: str = "lower --capacity or the number of seeds, or have --replay-in disk",
) -> None:
    free = available_memory()
    if needed > 0.8 * free:
        raise UsageError(
            f"{what} needs {needed / 1e9:.2f} GB and {free / 1e9:.2f} GB are free; {instead}"
        )
