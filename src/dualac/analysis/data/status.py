"""How far a directory of runs is: done, running, interrupted, failed, or missing from its plan.

Fast: of a finished run two small files are read.
"""

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from dualac.analysis.data.find import find_planned
from dualac.runs.files import Damage, DamagedFileError
from dualac.runs.spec import read_spec
from dualac.runs.state import State, read_status


class RunSummary(NamedTuple):
    """One run, there or planned."""

    name: str
    task: str
    replay_ratio: int
    seed: int
    steps: int
    state: State
    step: int = 0
    reason: str = ""
    path: Path | None = None
    experiment: str = ""


def survey(place: Path) -> tuple[list[RunSummary], list[Damage]]:
    """Return every run at or below a directory, and those that a plan has and the disk does not."""
    found = find_planned([place])
    damaged = list(found.damaged)
    runs: list[RunSummary] = []
    for path, plan in found.runs:
        try:
            spec = read_spec(path)
            steps = max(spec["steps"], plan.steps) if plan else spec["steps"]
            status = read_status(path, steps)
        except DamagedFileError as error:
            damaged.append(error.damage)
            found.missing.extend([plan] if plan else [])
            continue
        about = spec["name"], spec["task"], spec["replay_ratio"], spec["seed"], steps
        experiment = plan.experiment if plan else ""
        runs.append(RunSummary(*about, *status, path, experiment))
    runs += [RunSummary(*plan[:5], "missing", experiment=plan.experiment) for plan in found.missing]
    return sorted(runs, key=lambda run: run[:4]), damaged


def grid(runs: Iterable[RunSummary]) -> dict[tuple[str, int, str], Counter[str]]:
    """Count the runs in each state, by algorithm, replay ratio and task."""
    cells: dict[tuple[str, int, str], Counter[str]] = {}
    for run in runs:
        cells.setdefault((run.name, run.replay_ratio, run.task), Counter())[run.state] += 1
    return cells
