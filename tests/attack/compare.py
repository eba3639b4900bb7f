"""Whether two directories hold the same run: its numbers, and its files."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy

CLOCK = "time/"
# Of a manifest's facts: what no two runs have alike.
OWN = ("seconds", "positions")
# Files that say when, where or how a run was carried out, not what came out of it.
DIARY = ("events.jsonl", "worker.log", "lock", "attempt", "machine.json", "traceback.txt")


def differences(run: Path, golden: Path) -> list[str]:
    """Name what differs in numbers; nothing where the two are the same to the bit."""
    problems = []
    if (run / "eval.jsonl").read_bytes() != (golden / "eval.jsonl").read_bytes():
        problems.append("eval.jsonl")
    if timeless(run) != timeless(golden):
        problems.append("train.jsonl")
    for name in ("run.json", "task.json", "DONE"):
        if not (run / name).exists() or (run / name).read_bytes() != (golden / name).read_bytes():
            problems.append(name)
    if (run / "FAILED").exists():
        problems.append(f"FAILED: {(run / 'FAILED').read_text()}")
    ours, theirs = checkpoints(run), checkpoints(golden)
    if not ours or ours[-1].name != theirs[-1].name:
        return [*problems, f"checkpoints {[path.name for path in ours]}"]
    for other in ours:
        if (golden / "checkpoints" / other.name).is_dir():
            step = f"checkpoint {other.name}"
            problems += [
                f"{step}: {what}"
                for what in checkpoint_differences(other, golden / "checkpoints" / other.name)
            ]
    return problems


def file_differences(run: Path, golden: Path) -> list[str]:
    """Names that only one of the two has."""
    ours, theirs = files(run), files(golden)
    return [f"{name} is left over" for name in sorted(ours - theirs)] + [
        f"{name} is missing" for name in sorted(theirs - ours)
    ]


def files(run: Path) -> set[str]:
    names = {str(path.relative_to(run)) for path in run.rglob("*") if not path.is_dir()}
    return {name for name in names if name not in DIARY}


def checkpoints(run: Path) -> list[Path]:
    place = run / "checkpoints"
    problems = [path for path in place.iterdir() if path.name.isdigit()] if place.is_dir() else []
    return sorted(problems, key=lambda path: int(path.name))


def checkpoint_differences(ours: Path, theirs: Path) -> list[str]:
    problems = []
    if (ours / "state.safetensors").read_bytes() != (theirs / "state.safetensors").read_bytes():
        problems.append("state")
    left, right = replay(ours), replay(theirs)
    if left.keys() != right.keys() or any(left[k].tobytes() != right[k].tobytes() for k in left):
        problems.append("replay")
    mine, golden = manifest(ours), manifest(theirs)
    for name in ("sampler", "added", "identity", "step"):
        if mine[name] != golden[name]:
            problems.append(name)
    for name in golden["facts"].keys() | mine["facts"].keys():
        if name not in OWN and mine["facts"].get(name) != golden["facts"].get(name):
            problems.append(name)
    return problems


def manifest(checkpoint: Path) -> dict[str, Any]:
    return json.loads((checkpoint / "manifest.json").read_text())


def replay(checkpoint: Path) -> dict[str, np.ndarray]:
    """Return the newest transitions, which every checkpoint must have, however cut into files."""
    files = sorted((checkpoint / "replay").iterdir(), key=lambda file: int(file.stem.split("-")[0]))
    parts = [safetensors.numpy.load_file(file) for file in files]
    for part in parts:
        ends, led = part.pop("ends"), part.pop("led")
        part["next_obs"] = np.concatenate([part["obs"][1:], led[-1:]])
        part["next_obs"][ends] = led
    capacity = 20
    return {name: np.concatenate([part[name] for part in parts])[-capacity:] for name in parts[0]}


def timeless(run: Path) -> list[dict[str, Any]]:
    lines = (run / "train.jsonl").read_text().splitlines()
    rows = [json.loads(line) for line in lines]
    return [{k: v for k, v in row.items() if not k.startswith(CLOCK)} for row in rows]


def digests(place: Path) -> dict[str, str]:
    """Of every file below a directory, to see that nothing was written."""
    return {
        str(path.relative_to(place)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(place.rglob("*"))
        if path.is_file() and not path.is_symlink()
    }
