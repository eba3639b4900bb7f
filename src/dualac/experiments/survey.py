"""What of a plan is on disk. A run's directory is the truth: nothing is remembered elsewhere, so nothing can disagree with it."""

import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal, NamedTuple

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


def claim(out: Path, experiment: str, runs: list[Run]) -> None:
    """A directory belongs to one experiment, by name: figures are made of all that is in it. What was ever planned there stands in plan.json,
    so that a run that is missing is seen to be.
    """
    plan = out / PLAN
    before = read_json(plan) if plan.exists() else {"experiment": experiment, "runs": []}
    if before["experiment"] != experiment:
        raise DataError(f"{out} holds the experiment {before['experiment']!r}, not {experiment!r}; choose another --out")
    out.mkdir(parents=True, exist_ok=True)
    told = {"experiment": experiment, "runs": _cells(before["runs"], runs)}
    if told != before:
        write_json(plan, told)


def _cells(before: list[dict[str, Any]], runs: list[Run]) -> list[dict[str, Any]]:
    """Agent, task and replay ratio, with all seeds and the most steps that were planned for them."""
    cells = {(cell["name"], cell["task"], cell["replay_ratio"]): cell for cell in before}
    for run in runs:
        empty = {"name": run.name, "task": run.task, "replay_ratio": run.replay_ratio, "steps": 0, "seeds": []}
        cell = cells.setdefault((run.name, run.task, run.replay_ratio), empty)
        cell["steps"] = max(cell["steps"], run.steps)
        cell["seeds"].append(run.seed)
    return [{**cell, "seeds": sorted(set(cell["seeds"]))} for cell in cells.values()]


def counted(units: Iterable[Unit]) -> "Counter[State]":
    return Counter(unit.state for unit in units)


def _told(path: Path) -> dict | None:
    """What a verdict says, if it is there and whole."""
    try:
        return json.loads(path.read_text())
    except (FileNotFoundError, NotADirectoryError):
        return None
    except ValueError:
        raise DataError(f"{path} is damaged; remove it and start the sweep again: the run goes on from its last checkpoint") from None
