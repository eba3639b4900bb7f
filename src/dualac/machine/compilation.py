"""Where compiled programs are kept, and for which machine."""

import contextlib
import hashlib
import importlib.metadata
import os
import platform
import tempfile
from pathlib import Path


def cpu_model() -> str:
    """Return the name of this machine's CPU."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def compilation_cache() -> Path:
    """Return the user's directory of compiled programs for this jaxlib and this kind of CPU."""
    root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    kind = hashlib.sha256(cpu_model().encode()).hexdigest()[:8]
    return root / "dualac" / f"jaxlib-{importlib.metadata.version('jaxlib')}-{kind}"


def writable_cache() -> Path | None:
    """Return that directory, or the one in JAX_COMPILATION_CACHE_DIR.

    None where that is empty, or where nothing can be written.
    """
    place = os.environ.get("JAX_COMPILATION_CACHE_DIR", str(compilation_cache()))
    with contextlib.suppress(OSError):  # no home, or a read-only one: compile each time
        if place:
            Path(place).mkdir(mode=0o700, parents=True, exist_ok=True)
            tempfile.TemporaryFile(dir=place).close()
            return Path(place)
    return None


def use_compilation_cache() -> None:
    """Have JAX keep compiled programs, and find those that it kept."""
    import jax

    if place := writable_cache():
        jax.config.update("jax_compilation_cache_dir", str(place))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
        jax.config.update("jax_persistent_cache_min_entry_size_bytes", 0)
