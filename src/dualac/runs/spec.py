"""run.json as plain data: what has to be in it, and what of it decides no number."""

import hashlib
import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from dualac.runs.files import DamagedFileError, read_object
from dualac.runs.layout import MACHINE, SPEC
from dualac.runs.versions import with_defaults

# What two starts of one run may differ in: how far it goes, and how often it writes. None of them
# touches a number that was or will be computed.
FREE = ("steps", "log_every", "checkpoint_every")

FIELDS: dict[str, type] = {
    "name": str,
    "task": str,
    "seed": int,
    "steps": int,
    "replay_ratio": int,
    "algorithm": dict,
    "protocol": dict,
}
LARGEST = 2**63
MOST_CORES = 4096  # of a machine


def read_spec(path: Path) -> dict[str, Any]:
    """Read the run.json of a run's directory, checked, as this version would write it."""
    file = path / SPEC
    spec = read_object(file)
    require_fields(file, spec, FIELDS)
    for name, value in spec["protocol"].items():
        if isinstance(value, list | dict):
            raise DamagedFileError(file, f"cannot be used: its protocol.{name} is {_short(value)}")
    return with_defaults(spec)


def read_cores(path: Path) -> int | None:
    """Return how many cores XLA saw when a run began; None where the run has not begun."""
    file = path / MACHINE
    if not os.path.lexists(file):
        return None
    fingerprint = read_object(file).get("fingerprint")
    cores = fingerprint.get("cores") if isinstance(fingerprint, dict) else None
    if type(cores) is not int or not 1 <= cores <= MOST_CORES:
        raise DamagedFileError(file, "cannot be used: it does not say how many cores there were")
    return cores


def spec_digest(spec: dict[str, Any]) -> str:
    """Return the SHA-256 of what decides the numbers of a run, as its run.json spells it."""
    decisive = {name: value for name, value in spec.items() if name not in FREE}
    text = json.dumps(decisive, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def require_fields(file: Path, spec: dict[str, Any], names: Iterable[str]) -> None:
    """Refuse a file in which one of these fields is missing or of another kind."""
    for name in names:
        value = spec.get(name)
        usable = isinstance(value, FIELDS[name]) and not isinstance(value, bool)
        if usable and isinstance(value, int):
            usable = -LARGEST <= value < LARGEST
        if usable and isinstance(value, str):
            usable = r"\x00" not in value
        if not usable:
            raise DamagedFileError(file, f"cannot be used: its {name} is {_short(value)}")


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:59] + "…"
