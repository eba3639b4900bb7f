"""plan.json: what was ever planned in the directory of a sweep."""

import fcntl
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from dualac.errors import DataError
from dualac.runs.files import DamagedFileError, open_file, read_object, sweep_partials, write_json
from dualac.runs.layout import PLAN, PLAN_LOCK, run_path
from dualac.runs.spec import require_fields

FIELDS = ("name", "task", "replay_ratio", "seed", "steps")

Cell = tuple[str, str, int, int]  # agent, task, replay ratio, seed
Steps = dict[Cell, int]  # how far each run is to go


class Planned(Protocol):
    """A run that is planned."""

    @property
    def name(self) -> str: ...
    @property
    def task(self) -> str: ...
    @property
    def replay_ratio(self) -> int: ...
    @property
    def seed(self) -> int: ...
    @property
    def steps(self) -> int: ...


class PlannedRun(NamedTuple):
    """A run of a plan.json."""

    name: str
    task: str
    replay_ratio: int
    seed: int
    steps: int
    path: Path
    """where it is, or will be"""
    experiment: str


class Plan(NamedTuple):
    """The runs that were planned in a directory, and the experiment that they belong to."""

    home: Path
    experiment: str
    steps: Steps

    def runs(self) -> Iterator[PlannedRun]:
        for (name, task, ratio, seed), steps in self.steps.items():
            path = run_path(self.home, name, task, ratio, seed)
            yield PlannedRun(name, task, ratio, seed, steps, path, self.experiment)


def read_plan(home: Path) -> Plan | None:
    """Read the plan of a directory; None where it has none."""
    file = home / PLAN
    if not os.path.lexists(file):
        return None
    data = read_object(file)
    steps: Steps = {}
    try:
        for cell in data["runs"]:
            for seed in cell["seeds"]:
                require_fields(file, {**cell, "seed": seed}, FIELDS)
                steps[cell["name"], cell["task"], cell["replay_ratio"], seed] = cell["steps"]
        return Plan(home, str(data["experiment"]), steps)
    except (TypeError, KeyError):
        raise DamagedFileError(file, "cannot be used: its experiment or runs are damaged") from None


def require_experiment(home: Path, experiment: str) -> Steps:
    """Return what was planned in a directory so far; refuse one of another experiment."""
    try:
        plan = read_plan(home)
    except DamagedFileError as error:
        raise DataError(
            f"{error}; remove it and start the sweep again: the runs that are there count"
        ) from None
    if plan is None:
        return {}
    if plan.experiment != experiment:
        raise DataError(
            f"{home} holds the experiment {plan.experiment!r}, not {experiment!r}; choose another "
            "--out"
        )
    return plan.steps


def claim(home: Path, experiment: str, runs: Sequence[Planned]) -> None:
    """Add runs to the plan of a directory, which belongs to one experiment.

    Figures are made of all that is in a directory, and what was ever planned there stands in its
    plan, so that a run that is missing is seen to be. Where nothing is new nothing is written.
    """
    if home.exists() and not _additions(require_experiment(home, experiment), runs):
        return
    home.mkdir(parents=True, exist_ok=True)
    with open_file(home / PLAN_LOCK, "ab") as lock:
        # Another sweep may plan for this directory at the same moment.
        fcntl.flock(lock, fcntl.LOCK_EX)
        before = require_experiment(home, experiment)
        sweep_partials(home)
        steps = {**before, **_additions(before, runs)}
        write_json(home / PLAN, {"experiment": experiment, "runs": _cells(steps)})


def _additions(before: Steps, runs: Iterable[Planned]) -> Steps:
    """Return the runs that are new, and those that are to go further than before."""
    steps = {(run.name, run.task, run.replay_ratio, run.seed): run.steps for run in runs}
    return {cell: count for cell, count in steps.items() if count > before.get(cell, 0)}


def _cells(steps: Steps) -> list[dict[str, Any]]:
    """Put together the seeds of one agent, task and replay ratio that go as far."""
    cells: dict[tuple[str, str, int, int], list[int]] = {}
    for (name, task, ratio, seed), count in steps.items():
        cells.setdefault((name, task, ratio, count), []).append(seed)
    return [
        {"name": name, "task": task, "replay_ratio": ratio, "steps": count, "seeds": sorted(seeds)}
        for (name, task, ratio, count), seeds in cells.items()
    ]
