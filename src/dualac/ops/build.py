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
import stat
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import jax

from dualac.errors import UsageError
from dualac.machine.compilation import cpu_model, why_not_private, writable_cache

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
        loaded = load_or_compile(writable_cache())
    except subprocess.CalledProcessError as error:
        lines = error.stderr.decode(errors="replace").strip().splitlines()
        return f"{error.cmd[0]} could not compile the kernels ({lines[0] if lines else error})"
    except OSError as error:  # no compiler; a place from which nothing may be run
        return f"the kernels could not be compiled ({error})"
    for name in TARGETS:
        capsule = jax.ffi.pycapsule(getattr(loaded.library, name))
        jax.ffi.register_ffi_target(name, capsule, platform="cpu")
    return loaded


def load_or_compile(kept: Path | None) -> Loaded:
    """Load the library for these sources, this compiler and this CPU.

    It is compiled where the folder does not have it whole; without a folder, or where one cannot be
    loaded from, in a temporary one.
    """
    try:
        compiler = shlex.split(os.environ.get("CC") or "cc")
    except ValueError as error:
        raise UsageError(f"CC is {os.environ['CC']!r}: {error}") from None
    name = f"kernels-{_key(compiler)}.so"
    if kept:
        if loaded := open_library(kept / name):
            return loaded
        with contextlib.suppress(OSError):
            _compile(compiler, kept / name)
            if loaded := open_library(kept / name):
                return loaded
    with tempfile.TemporaryDirectory(prefix="dualac-") as temporary:
        _compile(compiler, Path(temporary) / name)
        if loaded := open_library(Path(temporary) / name):
            return loaded
    raise OSError(f"{name} cannot be loaded")


def open_library(path: Path) -> Loaded | None:
    """Load a library that is whole, the user's own, and where only the user may write.

    It is opened once: what is loaded is what was checked. A damaged one could end the process, one
    of somebody else runs as the user.
    """
    if why_not_private(path.parent):
        return None
    try:
        digest = _read_own(path.with_suffix(".sha256"))[1]
        file, content = _read_own(path, stay_open=True)
    except OSError:
        return None
    if hashlib.sha256(content).hexdigest().encode() == digest:
        with contextlib.suppress(OSError):
            library = ctypes.CDLL(f"/proc/self/fd/{file}")
            if not all(hasattr(library, name) for name in TARGETS):
                return None  # yet the file stays open: the next library must not have its name
            return Loaded(library, digest[:16].decode())
    os.close(file)
    return None


def _read_own(path: Path, *, stay_open: bool = False) -> tuple[int, bytes]:
    """Read a regular file that the user owns and nobody else may write to."""
    file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    status = os.fstat(file)
    others = status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    if not stat.S_ISREG(status.st_mode) or others or status.st_uid != os.getuid():
        os.close(file)
        raise OSError(f"{path} is not a file of one's own")
    with os.fdopen(file, "rb", closefd=not stay_open) as opened:
        return file, opened.read()


def _key(compiler: list[str]) -> str:
    """Return a digest of all that the compiled library depends on."""
    sources = [source.read_bytes() for source in SOURCES]
    versions = [*compiler, *FLAGS, cpu_model(), jax.__version__, *platform.libc_ver()]
    parts = [*sources, _cpu_flags(), *(version.encode() for version in versions)]
    return hashlib.sha256(b"|".join(parts)).hexdigest()[:16]


def _compile(compiler: list[str], library: Path) -> None:
    """Compile into a folder of our own, then move the seal and the library into place."""
    with tempfile.TemporaryDirectory(prefix="kernels-", dir=library.parent) as own:
        fresh = Path(own) / library.name
        include = f"-I{jax.ffi.include_dir()}"
        command = [*compiler, *FLAGS, include, str(SOURCES[0]), "-o", str(fresh), "-lm"]
        subprocess.run(command, check=True, capture_output=True)
        fresh.chmod(0o600)
        fresh.with_suffix(".sha256").touch(0o600)
        fresh.with_suffix(".sha256").write_text(_digest(fresh))
        fresh.with_suffix(".sha256").replace(library.with_suffix(".sha256"))
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
