"""What of a plan is on disk. A run's directory is the truth: nothing is remembered elsewhere, so
nothing can disagree with it.
"""

import fcntl
import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal, NamedTuple

from dualac.errors import DataError
from dualac.training.run import DONE, Run, read_json, require_same, sweep_up, write_json

PLAN = "plan.json"
State = Literal["done", "failed", "begun", "missing"]
Planned = dict[
    tuple[str, str, int, int], int
]  # the steps of a run, by agent, task, replay ratio and seed


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
    done, failed = _told(path / DONE), _told(path / "FAILED")
    over = done if done and done["step"] >= run.steps and not failed else None
    if (
        not over or over["identity"] != run.identity()
    ):  # one whose resets were planned otherwise behind its end is the same
        require_same(run, out)
    if over:
        return Unit(run, path, "done", over["step"])
    step = max(
        (
            int(entry.name)
            for entry in (path / "checkpoints").glob("[0-9]*")
            if entry.name.isdigit()
        ),
        default=0,
    )
    if failed:
        return Unit(run, path, "failed", failed.get("step") or step, failed["reason"])
    return Unit(run, path, "begun" if (path / "events.jsonl").exists() else "missing", step)


def claim(out: Path, experiment: str, runs: list[Run]) -> None:
    """A directory belongs to one experiment, by name: figures are made of all that is in it. What
    was ever planned there stands in plan.json, so that a run that is missing is seen to be. Where
    nothing is new nothing is written.
    """
    if out.exists() and not _new(require_own(out, experiment), runs):
        return
    out.mkdir(parents=True, exist_ok=True)
    with (out / ".plan-lock").open("a") as lock:
        fcntl.flock(
            lock, fcntl.LOCK_EX
        )  # another sweep may plan for this directory at the same moment
        before = require_own(out, experiment)
        sweep_up(out)
        write_json(
            out / PLAN, {"experiment": experiment, "runs": _cells({**before, **_new(before, runs)})}
        )


def require_own(out: Path, experiment: str) -> Planned:
    """What was planned in a directory so far; that of another experiment is refused."""
    plan = out / PLAN
    if not plan.exists():
        return {}
    told = read_json(plan)
    try:
        before = {
            (cell["name"], cell["task"], cell["replay_ratio"], seed): cell["steps"]
            for cell in told["runs"]
            for seed in cell["seeds"]
        }
        owner = told["experiment"]
    except (TypeError, KeyError):
        raise DataError(
            f"{plan} is damaged; remove it and start the sweep again: the runs that are there count"
        ) from None
    if owner != experiment:
        raise DataError(
            f"{out} holds the experiment {owner!r}, not {experiment!r}; choose another --out"
        )
    return before


def _new(before: Planned, runs: list[Run]) -> Planned:
    """What these add: runs, and steps of runs."""
    asked = {(run.name, run.task, run.replay_ratio, run.seed): run.steps for run in runs}
    return {key: steps for key, steps in asked.items() if steps > before.get(key, 0)}


def _cells(planned: Planned) -> list[dict[str, Any]]:
    """Seeds that go as far, of one agent on one task at one replay ratio, together."""
    cells: dict[tuple[str, str, int, int], list[int]] = {}
    for (name, task, ratio, seed), steps in planned.items():
        cells.setdefault((name, task, ratio, steps), []).append(seed)
    return [
        {"name": name, "task": task, "replay_ratio": ratio, "steps": steps, "seeds": sorted(seeds)}
        for (name, task, ratio, steps), seeds in cells.items()
    ]


def counted(units: Iterable[Unit]) -> "Counter[State]":
    return Counter(unit.state for unit in units)


def _told(path: Path) -> dict | None:
    """What a verdict says, if it is there and whole."""
    try:
        return json.loads(path.read_text())
    except (FileNotFoundError, NotADirectoryError):
        return None
    except ValueError:
        raise DataError(
            f"{path} is damaged; remove it and start the sweep again: the run goes on from its "
            "last checkpoint"
        ) from None
