"""What of a plan is on disk. A run's directory is the truth: nothing is remembered elsewhere, so nothing can disagree with it."""

import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Literal, NamedTuple

from dualac.errors import DataError
from dualac.training.run import DONE, Run, read_json, require_same, write_json

PLAN = "plan.json"
State = Literal["done", "failed", "begun", "missing"]


class Unit(NamedTuple):
    """One run of a plan, and how far it is."""

    run: Run
    path: Path
    state: State
    step: int = 0
    """of its last checkpoint"""
    reason: str = ""
    """why it failed"""


def survey(runs: list[Run], out: Path) -> list[Unit]:
    return [look(run, out) for run in runs]


def look(run: Run, out: Path) -> Unit:
    """How far a run is. A directory that holds another run is refused, with the difference."""
    path = run.directory(out)
    done = _told(path / DONE)
    if done and done["identity"] == run.identity() and done["step"] >= run.steps:
        return Unit(run, path, "done", done["step"])
    require_same(run, out)
    failed = _told(path / "FAILED")
    step = max((int(entry.name) for entry in (path / "checkpoints").glob("[0-9]*") if entry.name.isdigit()), default=0)
    if failed:
        return Unit(run, path, "failed", failed.get("step") or step, failed["reason"])
    return Unit(run, path, "begun" if (path / "events.jsonl").exists() else "missing", step)


def claim(out: Path, experiment: str) -> None:
    """A directory belongs to one experiment, by name: figures are made of all that is in it."""
    plan = out / PLAN
    if plan.exists():
        owner = read_json(plan)["experiment"]
        if owner != experiment:
            raise DataError(f"{out} holds the experiment {owner!r}, not {experiment!r}; choose another --out")
        return
    out.mkdir(parents=True, exist_ok=True)
    write_json(plan, {"experiment": experiment})


def counted(units: Iterable[Unit]) -> "Counter[State]":
    return Counter(unit.state for unit in units)


def _told(path: Path) -> dict | None:
    """What a verdict says, if it is there and whole."""
    try:
        return json.loads(path.read_text())
    except FileNotFoundError:
        return None
    except ValueError:
        raise DataError(f"{path} is damaged; remove it and start the sweep again: the run goes on from its last checkpoint") from None
