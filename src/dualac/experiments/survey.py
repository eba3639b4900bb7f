"""What of a plan is on disk. The runs' directories are the only record."""

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from dualac.runs.state import State, is_end_of, read_status
from dualac.training.run import Run, require_same


class Unit(NamedTuple):
    """One run of a plan, and how far it is."""

    run: Run
    path: Path
    state: State
    step: int = 0  # that it has come to
    reason: str = ""  # why it is not further


def survey(runs: list[Run], out: Path) -> list[Unit]:
    return [look(run, out) for run in runs]


def look(run: Run, out: Path) -> Unit:
    """Return how far a run is; refuse a directory that holds another run."""
    path = run.directory(out)
    status = read_status(path, run.steps)
    # What has ended as this very run need not be compared: of many runs that takes its time.
    if status.state != "done" or not is_end_of(path, run.identity()):
        require_same(run, out)
    return Unit(run, path, *status)


def count_states(units: Iterable[Unit]) -> "Counter[State]":
    return Counter(unit.state for unit in units)
