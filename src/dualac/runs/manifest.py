"""manifest.json of a checkpoint: what has to be in it before any of it is believed."""

import hashlib
import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from dualac.errors import DataError
from dualac.runs.files import Damage, read_object
from dualac.runs.layout import CHECKPOINTS, EVALUATIONS, TRAINING, checkpoint_steps
from dualac.runs.rows import is_step, start_digest

SCHEMA = 2
MANIFEST, STATE, REPLAY = "manifest.json", "state.safetensors", "replay/"
SEGMENT = re.compile(r"replay/(0|[1-9][0-9]{0,14})-([1-9][0-9]{0,14})\.safetensors")

Manifest = dict[str, Any]

FIELDS: dict[str, type] = {
    "schema": int,
    "identity": str,
    "step": int,
    "files": dict,
    "added": int,
    "sampler": dict,
    "facts": dict,
}
# What a run needs of the facts to go on.
FACTS: dict[str, type | tuple[type, ...]] = {
    "fingerprint": dict,
    "positions": dict,
    "episodes": int,
    "total": (int, float),
    "succeeded": (bool, type(None)),
    "recent": list,
    "bad_steps": list,
    "bad_total": int,
    "seconds": (int, float),
}
# What older versions did not write.
LATER_FACTS: dict[str, type | tuple[type, ...]] = {
    "digests": dict,
    "bad_evaluations": list,
    "owes_evaluation": bool,
}
RECENT: dict[str, type | tuple[type, ...]] = {
    "return": (int, float),
    "length": int,
    "success": (bool, type(None)),
}


def seal(manifest: Manifest) -> str:
    """Return the SHA-256 of a manifest without its seal."""
    return hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()


def check_manifest(manifest: Manifest, step: int) -> None:
    """Refuse a manifest that no run wrote at this step."""
    if manifest.pop("sha256", None) != seal(manifest):
        raise DataError("manifest.json is not what was written")
    if manifest.get("schema") != SCHEMA:
        schema = str(manifest.get("schema"))[:20]
        raise DataError(f"written in format {schema}, this version reads {SCHEMA}")
    _require_types(manifest, FIELDS)
    if manifest["step"] != step:
        raise DataError(f"manifest.json is of step {manifest['step']}")
    for name, about in manifest["files"].items():
        if name != STATE and not SEGMENT.fullmatch(name):
            raise DataError(f"manifest.json names the file {name}")
        if not isinstance(about, dict):
            raise DataError(f"manifest.json says nothing of {name}")
    if STATE not in manifest["files"]:
        raise DataError(f"manifest.json does not name {STATE}")
    _check_segments(manifest)
    try:
        np.random.PCG64().state = manifest["sampler"]
    except (TypeError, ValueError, KeyError, OverflowError):
        raise DataError("manifest.json has no usable state of the sampler") from None


def check_facts(facts: dict[str, Any]) -> None:
    """Refuse the facts of a checkpoint that a run could not go on from."""
    _require_types(facts, FACTS)
    _require_types(facts, {name: LATER_FACTS[name] for name in LATER_FACTS if name in facts})
    for episode in facts["recent"]:
        if not isinstance(episode, dict):
            raise DataError("manifest.json cannot be used: its recent episodes are damaged")
        _require_types(episode, RECENT)
    lengths = [*facts["positions"].values(), facts["episodes"], facts["bad_total"]]
    steps = [*facts["bad_steps"], *facts.get("bad_evaluations", [])]
    if not _are_counts([*lengths, *steps]):
        raise DataError("manifest.json cannot be used: it has a count that is none")


def changed_logs(path: Path) -> list[Damage]:
    """Name the logs of a run that no longer begin with what they were at its last checkpoint.

    Where there is no checkpoint, or none of them that can be read, nothing can be compared.
    """
    steps = checkpoint_steps(path)
    try:
        manifest = read_object(path / CHECKPOINTS / str(steps[-1]) / MANIFEST) if steps else {}
        facts = manifest.get("facts", {})
        digests = [
            (name, facts["positions"][name], digest) for name, digest in facts["digests"].items()
        ]
    except (DataError, KeyError, TypeError, AttributeError):
        return []
    rows = [file for file in digests if file[0] in (EVALUATIONS, TRAINING)]
    return [
        Damage(path / name, f"is not what it was at the checkpoint of step {steps[-1]}")
        for name, length, digest in rows
        if is_step(length) and start_digest(path / name, int(length)) != digest
    ]


def segments(manifest: Manifest) -> list[str]:
    """List the replay's files, oldest first."""
    return sorted((name for name in manifest["files"] if name != STATE), key=span)


def span(name: str) -> tuple[int, int]:
    """Return the first transition of a file of the replay, and the one after its last."""
    match = SEGMENT.fullmatch(name)
    assert match is not None
    return int(match[1]), int(match[2])


def _check_segments(manifest: Manifest) -> None:
    """Refuse a manifest whose files are not all the transitions of the replay, each once."""
    added, oldest = manifest["added"], manifest.get("oldest", 0)
    spans = [span(name) for name in segments(manifest)]
    end = spans[0][0] if spans else 0
    if "oldest" in manifest and (not _are_counts([oldest]) or end > oldest):
        raise DataError(f"the replay's files begin at transition {end}")
    for start, stop in spans:
        if start != end or stop <= start:
            raise DataError(f"the replay's files lack transition {end}")
        end = stop
    if end != added:
        raise DataError(f"the replay's files end at transition {end}, {added} were added")


def _require_types(values: dict[str, Any], types: dict[str, Any]) -> None:
    for name, kinds in types.items():
        value, allowed = values.get(name), kinds if isinstance(kinds, tuple) else (kinds,)
        is_flag = isinstance(value, bool) and bool not in allowed
        if name not in values or is_flag or not isinstance(value, allowed):
            raise DataError(f"manifest.json cannot be used: its {name} is damaged or missing")


def _are_counts(values: Iterable[Any]) -> bool:
    return all(type(value) is int and 0 <= value < 2**62 for value in values)
