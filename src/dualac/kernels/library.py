"""The passes of `kernels.c`, compiled by the machine's own compiler when they are first asked for, and the team of threads that shares them."""

import contextlib
import contextvars
import ctypes
import functools
import hashlib
import os
import shlex
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import jax

from dualac.errors import UsageError
from dualac.programs import cpu_model, writable_cache

SOURCE = Path(__file__).with_name("kernels.c")
FLAGS = ("-O3", "-march=native", "-std=gnu11", "-fno-math-errno", "-shared", "-fPIC", "-pthread")  # not -ffast-math: what is no number stays none
FORWARD, BACKWARD, WEIGH, DESCEND, FOLLOW = (f"dualac_{name}" for name in ("forward", "backward", "weigh", "descend", "follow"))
CHOICE = "DUALAC_KERNELS"  # the variable that may say xla

_by_xla = contextvars.ContextVar("by_xla", default=False)


def native() -> bool:
    """Whether programs traced now may call the passes: on a CPU, with a compiler, unless somebody asks for XLA's."""
    choice = os.environ.get(CHOICE, "")
    if choice not in ("", "xla"):
        raise UsageError(f"{CHOICE} may be xla or not be set, not {choice!r}")
    return not _by_xla.get() and not choice and jax.default_backend() == "cpu" and _library() is not None


@contextlib.contextmanager
def by_xla() -> Iterator[None]:
    """What is traced meanwhile is XLA's alone."""
    token = _by_xla.set(True)
    try:
        yield
    finally:
        _by_xla.reset(token)


def gather(cores: Sequence[int]) -> bool:
    """Have a helper on each of these cores from now on, beside those who are there already. Whether it is so: where all is XLA's there are none."""
    library = _library() if native() else None
    if library is None:
        return not cores
    missing = list(cores)[library.dualac_helpers() :]
    if missing and library.dualac_gather((ctypes.c_int * len(missing))(*missing), len(missing)):
        raise UsageError(f"no thread could be had on core {missing[0]}: lower --threads")
    return True


def maker() -> str:
    """Who computes: XLA, or the passes as they were compiled. Another compiler's may round otherwise."""
    library = _library() if native() else None
    return f"native {hashlib.sha256(Path(library._name).read_bytes()).hexdigest()[:16]}" if library else "xla"


def trouble() -> str:
    """Why the passes cannot be had, in the compiler's or the system's words; nothing where they can."""
    _library()
    return _heard[0] if _heard else ""


_heard: list[str] = []


@functools.cache
def _library() -> ctypes.CDLL | None:
    try:
        library = ctypes.CDLL(str(_compiled()))
    except subprocess.CalledProcessError as error:
        _heard.append(error.stderr.decode(errors="replace").strip().splitlines()[0] if error.stderr else str(error))
        return None
    except OSError as error:  # no compiler; a place from which nothing may be run
        _heard.append(str(error))
        return None
    for name in (FORWARD, BACKWARD, WEIGH, DESCEND, FOLLOW):
        jax.ffi.register_ffi_target(name, jax.ffi.pycapsule(getattr(library, name)), platform="cpu")
    return library


def _compiled() -> Path:
    """Kept where XLA's programs are, by what it was made of and for what; who has it needs no compiler."""
    compiler = shlex.split(os.environ.get("CC") or "cc")
    made_of = (SOURCE.read_bytes(), " ".join([*compiler, *FLAGS]).encode(), cpu_model().encode(), _abilities(), jax.__version__.encode())
    place = writable_cache() or Path(tempfile.mkdtemp(prefix="dualac-"))
    kept = place / f"kernels-{hashlib.sha256(b'|'.join(made_of)).hexdigest()[:16]}.so"
    if not kept.exists():
        fresh = place / f"{kept.name}.{os.getpid()}"
        subprocess.run([*compiler, *FLAGS, f"-I{jax.ffi.include_dir()}", str(SOURCE), "-o", str(fresh), "-lm"], check=True, capture_output=True)
        fresh.replace(kept)
    return kept


def _abilities() -> bytes:
    """What the CPU can do, as -march=native will see it: not the same wherever its name is."""
    with contextlib.suppress(OSError, StopIteration):
        return next(line for line in Path("/proc/cpuinfo").read_bytes().splitlines() if line.startswith((b"flags", b"Features")))
    return b""
