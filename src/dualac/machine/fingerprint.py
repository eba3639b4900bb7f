"""What of this computer decides the bits of a run, and where a run was started."""

import contextlib
import functools
import hashlib
import importlib.metadata
import os
import platform
import subprocess
from pathlib import Path
from typing import Any

from dualac.machine.children import COMMAND
from dualac.machine.compilation import COMPILER, cpu_model
from dualac.machine.cores import usable_cores

VERSIONS = (
    "dualac",
    "jax",
    "jaxlib",
    "flax",
    "optax",
    "numpy",
    "gymnasium",
    "mujoco",
    "dm_control",
    "metaworld",
    "myosuite",
)


@functools.cache
def versions() -> dict[str, str]:
    found = {}
    for name in VERSIONS:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[name] = importlib.metadata.version(name)
    return found


def fingerprint() -> dict[str, Any]:
    """What decides a run's bits beside its spec. A run resumed under another fingerprint is no
    longer exact, and says so.
    """
    import jax

    from dualac.ops import maker

    numeric = (
        "jax",
        "jaxlib",
        "flax",
        "optax",
        "numpy",
        "gymnasium",
        "mujoco",
        "dm_control",
        "metaworld",
        "myosuite",
    )
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
    """Where, by what command and from what code a run is taken up: what may be another each
    time.
    """
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
    """Of the checkout this package runs from, if it is one, when it was first asked: what changes
    later is not what is running.
    """
    here = Path(__file__).resolve().parents[3]
    if not (here / ".git").exists():
        return ""
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        return subprocess.run(
            ["git", *words], cwd=here, capture_output=True, text=True, timeout=10, check=False
        ).stdout.strip()
    return ""
