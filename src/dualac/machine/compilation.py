"""How programs are compiled, for which machine, and where they are kept."""

import contextlib
import hashlib
import importlib.metadata
import os
import platform
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

# XLA's newer way to compile fused operations takes 250 MB, for programs that are no faster
# (docs/performance.md, "Memory").
COMPILER = {"xla_cpu_use_fusion_emitters": False}


def compiled(function: Callable, *, donate_argnums: tuple[int, ...] = ()) -> Any:
    """By XLA, when it is first called: never within another that is."""
    import jax

    return jax.jit(function, donate_argnums=donate_argnums, compiler_options=COMPILER)


def cpu_model() -> str:
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def compilation_cache() -> Path:
    """Where compiled programs are kept: the user's own directory, for one jaxlib and one kind of
    CPU, since they are native code.
    """
    root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    kind = hashlib.sha256(cpu_model().encode()).hexdigest()[:8]
    return root / "dualac" / f"jaxlib-{importlib.metadata.version('jaxlib')}-{kind}"


def writable_cache() -> Path | None:
    """That, or what JAX_COMPILATION_CACHE_DIR names; None where that is empty, or nothing can be
    written there.
    """
    place = os.environ.get("JAX_COMPILATION_CACHE_DIR", str(compilation_cache()))
    with contextlib.suppress(OSError):  # no home, a read-only one: compile each time
        if place:
            Path(place).mkdir(mode=0o700, parents=True, exist_ok=True)
            tempfile.TemporaryFile(dir=place).close()
            return Path(place)
    return None


def use_compilation_cache() -> None:
    import jax

    if place := writable_cache():
        jax.config.update("jax_compilation_cache_dir", str(place))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
        jax.config.update("jax_persistent_cache_min_entry_size_bytes", 0)
