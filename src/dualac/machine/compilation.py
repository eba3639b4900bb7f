"""Where compiled programs are kept, and for which machine."""

import contextlib
import functools
import hashlib
import importlib.metadata
import logging
import os
import platform
import stat
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


def why_not_private(place: Path) -> str:
    """Say why somebody else could put files into a directory; nothing where only the user may."""
    try:
        status = place.stat()
        if status.st_uid != os.getuid():
            return f"{place} is another user's"
        if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            return f"{place} can be written to by others"
        for parent in place.resolve().parents:
            mode = parent.stat().st_mode
            if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
                return f"{parent} can be written to by everybody"
    except OSError as error:
        return f"{place} cannot be examined ({error.strerror})"
    return ""


def writable_cache() -> Path | None:
    """Return where compiled programs are kept: the directory in JAX_COMPILATION_CACHE_DIR, or the
    user's own where others may write to that.

    None where the variable is empty, or where nothing can be kept: native code is loaded only from
    a directory to which only the user may write.
    """
    usual = compilation_cache()
    chosen = os.environ.get("JAX_COMPILATION_CACHE_DIR", str(usual))
    for place in dict.fromkeys([Path(chosen), usual]) if chosen else []:
        with contextlib.suppress(OSError):  # no home, or a read-only one: compile each time
            place.mkdir(mode=0o700, parents=True, exist_ok=True)
            if reason := why_not_private(place):
                _warn_once(reason)
                continue
            tempfile.TemporaryFile(dir=place).close()
            return place
    return None


@functools.cache
def _warn_once(reason: str) -> None:
    logging.getLogger(__name__).warning(
        "dualac: %s: compiled programs are neither loaded from there nor kept there", reason
    )


def use_compilation_cache() -> None:
    """Have JAX keep compiled programs, and find those that it kept, where only the user writes."""
    import jax

    place = writable_cache()
    jax.config.update("jax_compilation_cache_dir", str(place) if place else None)
    if place:
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
        jax.config.update("jax_persistent_cache_min_entry_size_bytes", 0)
