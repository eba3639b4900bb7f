"""What of this computer decides the bits of a run, and where a run was started."""

import contextlib
import functools
import hashlib
import importlib.metadata
import os
import platform
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from dualac.machine.command import COMMAND
from dualac.machine.compilation import cpu_model
from dualac.machine.cores import usable_cores
from dualac.parts.as_json import difference

ARITHMETIC = ("jax", "jaxlib", "numpy")  # packages that decide the bits of every run
SIMULATORS = ("gymnasium", "mujoco", "dm_control", "metaworld", "myosuite")

Fingerprint = dict[str, Any]


@functools.cache
def versions() -> dict[str, str]:
    """Return the versions of this library and of the packages it calculates or simulates with."""
    return versions_of(("dualac", *ARITHMETIC, *SIMULATORS))


def versions_of(packages: Iterable[str]) -> dict[str, str]:
    """Return the versions of those packages that are installed."""
    installed = {}
    for name in packages:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            installed[name] = importlib.metadata.version(name)
    return installed


def fingerprint(simulators: Iterable[str], kernels: str) -> Fingerprint:
    """Return what decides a run's bits beside its spec.

    `simulators` are the packages that its task is made of, `kernels` is what `ops.identity` says.
    A run resumed under another fingerprint is no longer exact, and says so.
    """
    import jax

    on_cpu = jax.default_backend() == "cpu"
    return {
        "versions": versions_of((*ARITHMETIC, *simulators)),
        "platform": jax.default_backend(),
        "device": cpu_model() if on_cpu else jax.devices()[0].device_kind,
        "cores": len(usable_cores()),
        "xla_flags": os.environ.get("XLA_FLAGS", ""),
        "matmul_precision": str(jax.config.jax_default_matmul_precision),  # pyright: ignore[reportAttributeAccessIssue]
        "kernels": kernels,
    }


def changes(here: Fingerprint, there: Fingerprint) -> list[str]:
    """Return the lines in which a checkpoint's fingerprint differs from that of this process.

    Versions of packages that decide nothing any more are passed over: earlier versions of this
    library wrote down more of them.
    """
    deciding = {name: there["versions"].get(name) for name in here["versions"]}
    return difference(here, there | {"versions": deciding})


def describe(decisive: Fingerprint) -> dict[str, Any]:
    """Return what machine.json holds: the fingerprint, and where the run was started."""
    return {
        "fingerprint": decisive,
        **origin(),
        "lock": _lock_digest(),
        "python": platform.python_version(),
        "system": platform.platform(),
        "cpu": cpu_model(),
        "cores_of_machine": os.cpu_count(),
    }


def origin() -> dict[str, Any]:
    """Return where, by what command and from what code a run is taken up, each time anew."""
    return {
        "host": platform.node(),
        "command": os.environ.get(COMMAND, ""),
        "dualac": versions().get("dualac", ""),
        "commit": _git("rev-parse", "HEAD"),
        "dirty": bool(_git("status", "--porcelain")),
    }


def _lock_digest() -> str:
    """Return the SHA-256 of the versions that this checkout names, if it is one."""
    lock = Path(__file__).resolve().parents[3] / "requirements.lock"
    return hashlib.sha256(lock.read_bytes()).hexdigest() if lock.exists() else ""


@functools.cache
def _git(*args: str) -> str:
    """Ask git about the checkout this package runs from, if it is one.

    Only the first answer counts: what changes later is not what is running.
    """
    checkout = Path(__file__).resolve().parents[3]
    if not (checkout / ".git").exists():
        return ""
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        return subprocess.run(
            ["git", *args], cwd=checkout, capture_output=True, text=True, timeout=10, check=False
        ).stdout.strip()
    return ""
