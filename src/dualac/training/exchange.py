"""How the devices of a run exchange what they found, compiled by the machine's own compiler when it is first asked for."""

import ctypes
import functools
import hashlib
import os
import shlex
import subprocess
import tempfile
from pathlib import Path

import jax

from dualac.agents.trained import MEAN
from dualac.training.machine import writable_cache

SOURCE = Path(__file__).with_suffix(".c")
FLAGS = ("-O3", "-march=native", "-std=gnu11", "-shared", "-fPIC")  # not -ffast-math: its means are those of XLA, to the bit


@functools.cache
def native() -> bool:
    """Whether programs may call it. Where it cannot be compiled XLA exchanges: the same means, but slower."""
    try:
        library = ctypes.CDLL(str(_compiled()))
    except (OSError, subprocess.CalledProcessError):  # no compiler, or one without its headers; a place from which nothing may be run
        return False
    jax.ffi.register_ffi_target(MEAN, jax.ffi.pycapsule(library.dualac_mean), platform="cpu")
    return True


def _compiled() -> Path:
    place = writable_cache() or Path(tempfile.mkdtemp(prefix="dualac-"))
    digest = hashlib.sha256(SOURCE.read_bytes() + " ".join(FLAGS).encode()).hexdigest()[:16]
    kept = place / f"exchange-{digest}.so"
    if not kept.exists():
        fresh = place / f"{kept.name}.{os.getpid()}"
        compiler = shlex.split(os.environ.get("CC") or "cc")
        subprocess.run([*compiler, *FLAGS, f"-I{jax.ffi.include_dir()}", str(SOURCE), "-o", str(fresh)], check=True, capture_output=True)
        fresh.replace(kept)
    return kept
