"""The passes of `native/kernels.c`, compiled by the machine's own compiler when first needed.

Also the team of threads that shares them, and whether programs may call them at all.
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
# Not -ffast-math: a NaN stays a NaN.
FLAGS = ["-O3", "-march=native", "-std=gnu11", "-fno-math-errno", "-shared", "-fPIC", "-pthread"]
FORWARD = "dualac_layers_forward"
BACKWARD = "dualac_layers_backward"
GRADIENTS = "dualac_layers_gradients"
QUANTILE_LOSS = "dualac_quantile_loss"
ADAM = "dualac_adam"
POLYAK = "dualac_polyak_average"
TARGETS = (FORWARD, BACKWARD, GRADIENTS, QUANTILE_LOSS, ADAM, POLYAK)
CHOICE = "DUALAC_KERNELS"  # the variable that may say xla

_reference_only = contextvars.ContextVar("reference_only", default=False)


def uses_native() -> bool:
    """Tell whether programs traced now may call the passes.

    They may on a CPU, with a compiler, unless somebody asks for the reference.
    """
    return not why_not_native()


def why_not_native() -> str:
    """Say why programs traced now may not call the passes; nothing where they may."""
    choice = os.environ.get(CHOICE, "")
    if choice not in ("", "xla"):
        raise UsageError(f"{CHOICE} may be xla or not be set, not {choice!r}")
    if choice or _reference_only.get():
        return f"{CHOICE} is xla"
    if jax.default_backend() != "cpu":
        return "the device is no CPU"
    loaded = _load()
    return loaded if isinstance(loaded, str) else ""


@contextlib.contextmanager
def reference_only() -> Iterator[None]:
    """Trace programs without native passes inside the `with` block."""
    token = _reference_only.set(True)
    try:
        yield
    finally:
        _reference_only.reset(token)


def start_helpers(cores: Sequence[int]) -> bool:
    """Have a helper thread on each of these cores from now on.

    Those that exist already are kept. Return whether it is so: without native passes there are no
    helpers.
    """
    loaded = _load() if uses_native() else ""
    if isinstance(loaded, str):
        return not cores
    missing = list(cores)[loaded.library.dualac_helpers() :]
    array = (ctypes.c_int * len(missing))(*missing)
    if missing and loaded.library.dualac_start_helpers(array, len(missing)):
        raise UsageError(f"no thread could be had on core {missing[0]}: lower --threads")
    return True


def identity() -> str:
    """Name who computes: XLA, or the passes as they were compiled.

    The passes of another compiler may round otherwise.
    """
    loaded = _load() if uses_native() else ""
    return "xla" if isinstance(loaded, str) else f"native {loaded.digest}"


class Loaded(NamedTuple):
    library: ctypes.CDLL
    digest: str


@functools.cache
def _load() -> Loaded | str:
    """Load the passes and register them; where they cannot be had, return the reason."""
    try:
        with _folder() as folder:
            loaded = _compile_and_load(folder)
    except subprocess.CalledProcessError as error:
        lines = error.stderr.decode(errors="replace").strip().splitlines()
        return f"{error.cmd[0]} could not compile the kernels ({lines[0] if lines else error})"
    except OSError as error:  # no compiler; a place from which nothing may be run
        return f"the kernels could not be compiled ({error})"
    for name in TARGETS:
        capsule = jax.ffi.pycapsule(getattr(loaded.library, name))
        jax.ffi.register_ffi_target(name, capsule, platform="cpu")
    return loaded


@contextlib.contextmanager
def _folder() -> Iterator[Path]:
    """Give the folder of compiled programs, or a temporary one where nothing can be kept."""
    if kept := writable_cache():
        yield kept
    else:
        with tempfile.TemporaryDirectory(prefix="dualac-") as temporary:
            yield Path(temporary)


def _compile_and_load(folder: Path) -> Loaded:
    """Load the library for these sources, this compiler and this CPU.

    It is compiled where the folder does not have it whole.
    """
    try:
        compiler = shlex.split(os.environ.get("CC") or "cc")
    except ValueError as error:
        raise UsageError(f"CC is {os.environ['CC']!r}: {error}") from None
    library = folder / f"kernels-{_key(compiler)}.so"
    seal = library.with_suffix(".sha256")
    # To load a damaged library could end the process.
    whole = library.exists() and seal.exists() and seal.read_text() == _digest(library)
    if not whole:
        _compile(compiler, library, seal)
    return Loaded(ctypes.CDLL(str(library)), seal.read_text()[:16])


def _key(compiler: list[str]) -> str:
    """Return a digest of all that the compiled library depends on."""
    sources = [source.read_bytes() for source in SOURCES]
    versions = [*compiler, *FLAGS, cpu_model(), jax.__version__, *platform.libc_ver()]
    parts = [*sources, _cpu_flags(), *(version.encode() for version in versions)]
    return hashlib.sha256(b"|".join(parts)).hexdigest()[:16]


def _compile(compiler: list[str], library: Path, seal: Path) -> None:
    """Compile into a folder of our own, then move the seal and the library into place."""
    with tempfile.TemporaryDirectory(prefix="kernels-", dir=library.parent) as own:
        fresh = Path(own) / library.name
        include = f"-I{jax.ffi.include_dir()}"
        command = [*compiler, *FLAGS, include, str(SOURCES[0]), "-o", str(fresh), "-lm"]
        subprocess.run(command, check=True, capture_output=True)
        fresh.with_suffix(".sha256").write_text(_digest(fresh))
        fresh.with_suffix(".sha256").replace(seal)
        fresh.replace(library)


def _digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def _cpu_flags() -> bytes:
    """Return what the CPU can do, as -march=native sees it: CPUs of one name may differ."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_bytes().splitlines():
            if line.startswith((b"flags", b"Features")):
                return line
    return b""
