"""The cores of this computer: which a process may use, which it is pinned to, which it borrows."""

import contextlib
import ctypes
import fcntl
import importlib.metadata
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from dualac.errors import UsageError

M_ARENA_MAX = -8  # as malloc.h has it

_leases: list[int] = []  # file descriptors: a core is ours until this process ends

_helping: list[int] = []

_others: list[int] = []  # cores that this process could have used and keeps off since it was pinned


def usable_cores() -> list[int]:
    return (
        sorted(os.sched_getaffinity(0))
        if hasattr(os, "sched_getaffinity")
        else list(range(os.cpu_count() or 1))
    )


def pin(threads: int, seen: int = 1) -> list[int]:
    """Confine this process to `threads` cores, of which XLA sees `seen`: on them its bits depend,
    on helpers no bit does. Call before JAX starts.

    A core is leased by a lock on a file, which the system releases however the process ends; where
    every core is taken, cores are shared.
    """
    cores = usable_cores()
    if not 1 <= threads <= len(cores):
        raise UsageError(
            f"--threads must be between 1 and {len(cores)}, the cores this process may use, not "
            f"{threads}"
        )
    taken = []
    for core in cores:
        lease = _lease(core) if len(taken) < threads else None
        if lease is not None:
            taken.append(core)
            _leases.append(lease)
    rest = [core for core in cores if core not in taken]
    start = os.getpid() % max(len(rest), 1)  # spread those that must share
    chosen = taken + (rest[start:] + rest[:start])[: threads - len(taken)]
    _helping[:], _others[:] = chosen[seen:], [core for core in cores if core not in chosen]
    os.sched_setaffinity(0, chosen[:seen])
    os.environ.setdefault("OMP_NUM_THREADS", str(seen))
    # Where each operation was written is kept with the program: 15 MB.
    os.environ.setdefault("JAX_TRACEBACK_IN_LOCATIONS_LIMIT", "0")
    # glibc has a heap for each thread: what XLA's compilers free in theirs nobody else would use.
    with contextlib.suppress(AttributeError):  # no glibc
        ctypes.CDLL(None).mallopt(M_ARENA_MAX, 1)
    return sorted(chosen)


def own_cores() -> list[int]:
    """List all cores that a pinned process has."""
    return sorted({*usable_cores(), *_helping})


def helping_cores() -> list[int]:
    """List those of a pinned process's own cores that XLA does not see: its learner's helpers sit
    there.
    """
    return list(_helping)


@contextlib.contextmanager
def borrowed(most: int, cores: list[int] | None = None) -> Iterator[list[int]]:
    """Borrow up to `most` idle cores and hold their locks inside the `with` block: of these, or
    else of those beside a pinned process's own.
    """
    leases: dict[int, int] = {}
    for core in _others if cores is None else cores:
        lease = _lease(core) if len(leases) < most else None
        if lease is not None:
            leases[core] = lease
    try:
        yield list(leases)
    finally:
        for lease in leases.values():
            os.close(lease)


def _lease(core: int) -> int | None:
    """Take the lock on a core; None where another process has it."""
    folder = Path(tempfile.gettempdir()) / f"dualac-cores-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    lease = os.open(folder / f"core{core}", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lease, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lease)
        return None
    return lease


def accelerator_installed() -> bool:
    """Tell whether JAX would find a GPU or TPU plugin, without importing JAX."""
    if os.environ.get("JAX_PLATFORMS", "") == "cpu":
        return False
    names = {dist.metadata["Name"].lower() for dist in importlib.metadata.distributions()}
    return any(
        name.startswith("jax-cuda") or name in ("libtpu", "jax-rocm-plugin") for name in names
    )
