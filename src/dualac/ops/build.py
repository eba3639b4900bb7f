"""The passes of `kernels.c`, compiled by the machine's own compiler when they are first asked for,
and the team of threads that shares them.
"""

import contextlib
import contextvars
import ctypes
import functools
import hashlib
import os
import platform
import shlex
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import jax

from dualac.errors import UsageError
from dualac.machine.compilation import cpu_model, writable_cache

SOURCES = [Path(__file__).parent / "native" / name for name in ("kernels.c", "product.h", "team.h")]
FLAGS = (
    "-O3",
    "-march=native",
    "-std=gnu11",
    "-fno-math-errno",
    "-shared",
    "-fPIC",
    "-pthread",
)  # not -ffast-math: what is no number stays none
TARGETS = FORWARD, BACKWARD, WEIGH, REGRESS, DESCEND, FOLLOW = tuple(
    f"dualac_{name}" for name in ("forward", "backward", "weigh", "regress", "descend", "follow")
)
CHOICE = "DUALAC_KERNELS"  # the variable that may say xla

_by_xla = contextvars.ContextVar("by_xla", default=False)


def native() -> bool:
    """Whether programs traced now may call the passes: on a CPU, with a compiler, unless somebody
    asks for XLA's.
    """
    return not why_not()


def why_not() -> str:
    """Why programs traced now may not; nothing where they may."""
    choice = os.environ.get(CHOICE, "")
    if choice not in ("", "xla"):
        raise UsageError(f"{CHOICE} may be xla or not be set, not {choice!r}")
    if choice or _by_xla.get():
        return f"{CHOICE} is xla"
    if jax.default_backend() != "cpu":
        return "the device is no CPU"
    found = _loaded()
    return found if isinstance(found, str) else ""


@contextlib.contextmanager
def by_xla() -> Iterator[None]:
    """What is traced meanwhile is XLA's alone."""
    token = _by_xla.set(True)
    try:
        yield
    finally:
        _by_xla.reset(token)


def gather(cores: Sequence[int]) -> bool:
    """Have a helper on each of these cores from now on, beside those who are there already. Whether
    it is so: where all is XLA's there are none.
    """
    found = _loaded() if native() else ""
    if isinstance(found, str):
        return not cores
    missing = list(cores)[found.library.dualac_helpers() :]
    if missing and found.library.dualac_gather(
        (ctypes.c_int * len(missing))(*missing), len(missing)
    ):
        raise UsageError(f"no thread could be had on core {missing[0]}: lower --threads")
    return True


def maker() -> str:
    """Who computes: XLA, or the passes as they were compiled. Another compiler's may round
    otherwise.
    """
    found = _loaded() if native() else ""
    return "xla" if isinstance(found, str) else f"native {found.digest}"


class Loaded(NamedTuple):
    library: ctypes.CDLL
    digest: str


@functools.cache
def _loaded() -> Loaded | str:
    """The passes; or why they cannot be had, in the compiler's or the system's words."""
    place = writable_cache()
    try:
        with (
            contextlib.nullcontext(place)
            if place
            else tempfile.TemporaryDirectory(prefix="dualac-") as folder
        ):
            found = _load(Path(folder))
    except subprocess.CalledProcessError as error:
        words = error.stderr.decode(errors="replace").strip()
        return (
            f"{error.cmd[0]} could not compile the kernels "
            f"({words.splitlines()[0] if words else error})"
        )
    except OSError as error:  # no compiler; a place from which nothing may be run
        return f"the kernels could not be compiled ({error})"
    for name in TARGETS:
        jax.ffi.register_ffi_target(
            name, jax.ffi.pycapsule(getattr(found.library, name)), platform="cpu"
        )
    return found


def _load(folder: Path) -> Loaded:
    """From where XLA's programs are kept, by what it was made of and for what: who has it whole
    needs no compiler.
    """
    try:
        compiler = shlex.split(os.environ.get("CC") or "cc")
    except ValueError as error:
        raise UsageError(f"CC is {os.environ['CC']!r}: {error}") from None
    made_of = [*(source.read_bytes() for source in SOURCES), _abilities()]
    made_of += [
        word.encode()
        for word in (*compiler, *FLAGS, cpu_model(), jax.__version__, *platform.libc_ver())
    ]
    kept = folder / f"kernels-{hashlib.sha256(b'|'.join(made_of)).hexdigest()[:16]}.so"
    seal = kept.with_suffix(".sha256")
    if not (
        kept.exists() and seal.exists() and seal.read_text() == _digest(kept)
    ):  # to load what is damaged could end the process
        with tempfile.TemporaryDirectory(prefix="kernels-", dir=folder) as own:
            fresh = Path(own) / kept.name
            words = [
                *compiler,
                *FLAGS,
                f"-I{jax.ffi.include_dir()}",
                str(SOURCES[0]),
                "-o",
                str(fresh),
                "-lm",
            ]
            subprocess.run(words, check=True, capture_output=True)
            fresh.with_suffix(".sha256").write_text(_digest(fresh))
            fresh.with_suffix(".sha256").replace(seal)
            fresh.replace(kept)
    return Loaded(ctypes.CDLL(str(kept)), seal.read_text()[:16])


def _digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def _abilities() -> bytes:
    """What the CPU can do, as -march=native will see it: not the same wherever its name is."""
    with contextlib.suppress(OSError, StopIteration):
        return next(
            line
            for line in Path("/proc/cpuinfo").read_bytes().splitlines()
            if line.startswith((b"flags", b"Features"))
        )
    return b""
