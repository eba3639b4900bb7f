"""Memory: what is free, and what a process no longer needs."""

import contextlib
import ctypes
import os
import resource
import sys
from collections.abc import Iterator
from pathlib import Path

from dualac.errors import UsageError


@contextlib.contextmanager
def release_memory() -> Iterator[None]:
    """Give back to the system what the block freed, where the C library is glibc."""
    try:
        yield
    finally:
        with contextlib.suppress(AttributeError, OSError):
            ctypes.CDLL(None).malloc_trim(0)


def available_memory() -> int:
    """Return the bytes that the machine, the container and the process's limit still allow."""
    return min(_free_on_the_machine(), _free_in_the_container(), _free_within_the_limit())


def _free_in_the_container() -> int:
    # There may be no cgroup of version 2, or one without a limit ("max").
    with contextlib.suppress(OSError, ValueError):
        most = int(Path("/sys/fs/cgroup/memory.max").read_text())
        taken = int(Path("/sys/fs/cgroup/memory.current").read_text())
        return max(0, most - taken)
    return sys.maxsize


def _free_within_the_limit() -> int:
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit == resource.RLIM_INFINITY:
        return sys.maxsize
    statm = Path("/proc/self/statm")
    pages = int(statm.read_text().split()[0]) if statm.exists() else 0
    return max(0, limit - pages * os.sysconf("SC_PAGE_SIZE"))


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
    """Refuse what needs more than 0.8 of the free memory."""
    free = available_memory()
    if needed > 0.8 * free:
        raise UsageError(
            f"{what} needs {needed / 1e9:.2f} GB and {free / 1e9:.2f} GB are free; {instead}"
        )
