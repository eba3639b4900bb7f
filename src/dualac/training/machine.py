"""What a run asks of the machine: cores of its own, memory, a compilation cache; and what of the machine decides its bits."""

import contextlib
import ctypes
import fcntl
import functools
import hashlib
import importlib.metadata
import os
import platform
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dualac.errors import COMMAND, UsageError
from dualac.programs import COMPILER, cpu_model, writable_cache

VERSIONS = ("dualac", "jax", "jaxlib", "flax", "optax", "numpy", "gymnasium", "mujoco", "dm_control", "metaworld", "myosuite")
M_ARENA_MAX = -8  # as malloc.h has it
_leases: list[int] = []  # file descriptors: a core is ours until this process ends
_helping: list[int] = []
_others: list[int] = []  # cores that this process could have used and keeps off since it was pinned


def usable_cores() -> list[int]:
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else list(range(os.cpu_count() or 1))


def pin(threads: int, seen: int = 1) -> list[int]:
    """Confine this process to `threads` cores, of which XLA sees `seen`: on them its bits depend, on helpers no bit does. Call before JAX starts.

    A core is leased by a lock on a file, which the system releases however the process ends; where every core is taken, cores are shared.
    """
    cores = usable_cores()
    if not 1 <= threads <= len(cores):
        raise UsageError(f"--threads must be between 1 and {len(cores)}, the cores this process may use, not {threads}")
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
    os.environ.setdefault("JAX_TRACEBACK_IN_LOCATIONS_LIMIT", "0")  # where each operation was written is kept with the program: 15 MB
    with contextlib.suppress(AttributeError):  # no glibc, which has a heap for each thread: what XLA's compilers free in theirs nobody else would use
        ctypes.CDLL(None).mallopt(M_ARENA_MAX, 1)
    return sorted(chosen)


def own_cores() -> list[int]:
    """All that a pinned process has."""
    return sorted({*usable_cores(), *_helping})


def helping_cores() -> list[int]:
    """Of a pinned process's own cores those that XLA does not see: its learner's helpers sit there."""
    return list(_helping)


@contextlib.contextmanager
def borrowed(most: int, cores: list[int] | None = None) -> Iterator[list[int]]:
    """Of these cores, or else of those beside a pinned process's own, some that no run holds, at most so many, held for a while."""
    held: dict[int, int] = {}
    for core in _others if cores is None else cores:
        lease = _lease(core) if len(held) < most else None
        if lease is not None:
            held[core] = lease
    try:
        yield list(held)
    finally:
        for lease in held.values():
            os.close(lease)


def _lease(core: int) -> int | None:
    """The lock on a core, or None where another process has it."""
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
    """Whether JAX would find a GPU or TPU plugin, without importing JAX."""
    if os.environ.get("JAX_PLATFORMS", "") == "cpu":
        return False
    names = {dist.metadata["Name"].lower() for dist in importlib.metadata.distributions()}
    return any(name.startswith("jax-cuda") or name in ("libtpu", "jax-rocm-plugin") for name in names)


def available_memory() -> int:
    """What this process may still take: of the machine, of its container, of its own limit."""
    return min(_free_on_the_machine(), _free_in_the_container(), _free_within_the_limit())


def _free_in_the_container() -> int:
    with contextlib.suppress(OSError, ValueError):  # no cgroup of version 2, or one without a limit ("max")
        most, taken = (int(Path(f"/sys/fs/cgroup/memory.{name}").read_text()) for name in ("max", "current"))
        return max(0, most - taken)
    return sys.maxsize


def _free_within_the_limit() -> int:
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit == resource.RLIM_INFINITY:
        return sys.maxsize
    taken = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE") if Path("/proc/self/statm").exists() else 0
    return max(0, limit - taken)


def _free_on_the_machine() -> int:
    with contextlib.suppress(OSError):
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def require_memory(needed: int, what: str, instead: str = "lower --capacity or the number of seeds, or have --replay-in disk") -> None:
    free = available_memory()
    if needed > 0.8 * free:
        raise UsageError(f"{what} needs {needed / 1e9:.2f} GB and {free / 1e9:.2f} GB are free; {instead}")


def use_compilation_cache() -> None:
    import jax

    if place := writable_cache():
        jax.config.update("jax_compilation_cache_dir", str(place))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
        jax.config.update("jax_persistent_cache_min_entry_size_bytes", 0)


@functools.cache
def versions() -> dict[str, str]:
    found = {}
    for name in VERSIONS:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[name] = importlib.metadata.version(name)
    return found


def fingerprint() -> dict[str, Any]:
    """What decides a run's bits beside its spec. A run resumed under another fingerprint is no longer exact, and says so."""
    import jax

    from dualac.kernels import maker

    numeric = ("jax", "jaxlib", "flax", "optax", "numpy", "gymnasium", "mujoco", "dm_control", "metaworld", "myosuite")
    return {
        "versions": {name: version for name, version in versions().items() if name in numeric},
        "platform": jax.default_backend(),
        "device": cpu_model() if jax.default_backend() == "cpu" else jax.devices()[0].device_kind,
        "cores": len(usable_cores()),
        "xla_flags": os.environ.get("XLA_FLAGS", ""),
        "compiler": COMPILER,
        "matmul_precision": str(jax.config.jax_default_matmul_precision),  # pyright: ignore[reportAttributeAccessIssue]
        "kernels": maker(),
    }


def describe() -> dict[str, Any]:
    """machine.json: the fingerprint, and where and from what code the run was started."""
    return {
        "fingerprint": fingerprint(),
        **origin(),
        "lock": _lock_digest(),
        "python": platform.python_version(),
        "system": platform.platform(),
        "cpu": cpu_model(),
        "cores_of_machine": os.cpu_count(),
    }


def origin() -> dict[str, Any]:
    """Where, by what command and from what code a run is taken up: what may be another each time."""
    return {
        "host": platform.node(),
        "command": os.environ.get(COMMAND, ""),
        "dualac": versions().get("dualac", ""),
        "commit": _git("rev-parse", "HEAD"),
        "dirty": bool(_git("status", "--porcelain")),
    }


def _lock_digest() -> str:
    """Of the versions that this checkout names, if it is one."""
    lock = Path(__file__).resolve().parents[3] / "requirements.lock"
    return hashlib.sha256(lock.read_bytes()).hexdigest() if lock.exists() else ""


@functools.cache
def _git(*words: str) -> str:
    """Of the checkout this package runs from, if it is one, when it was first asked: what changes later is not what is running."""
    here = Path(__file__).resolve().parents[3]
    if not (here / ".git").exists():
        return ""
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        return subprocess.run(["git", *words], cwd=here, capture_output=True, text=True, timeout=10, check=False).stdout.strip()
    return ""
