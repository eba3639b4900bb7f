"""The runs at or below some directories, each beside what its plan says of it."""

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from dualac.runs.files import Damage, DamagedFileError
from dualac.runs.layout import search
from dualac.runs.plan import PlannedRun, read_plan


class FoundRuns(NamedTuple):
    """What stands below some directories, and what should."""

    runs: list[tuple[Path, PlannedRun | None]]
    """each directory with a run.json, in the order of their paths, and the run as it is planned"""
    missing: list[PlannedRun]
    """what a plan has and the disk does not"""
    damaged: list[Damage]


def find_planned(places: Sequence[Path]) -> FoundRuns:
    """Find the runs at or below some directories, and those that are planned there."""
    found = search(places)
    damaged = list(found.damaged)
    planned = {
        os.path.realpath(run.path): run for run in _planned_runs(found.plans, places, damaged)
    }
    runs = [(path, planned.pop(real, None)) for real, path in found.runs.items()]
    return FoundRuns(runs, list(planned.values()), damaged)


def _planned_runs(
    plans: Sequence[Path], places: Sequence[Path], damaged: list[Damage]
) -> Iterable[PlannedRun]:
    """Yield the runs of some plans that are, or will be, at or below these directories."""
    homes = [os.path.realpath(place) for place in places]

    def is_within(path: Path) -> bool:
        return any(Path(os.path.realpath(path)).is_relative_to(home) for home in homes)

    for file in plans:
        try:
            plan = read_plan(file.parent)
        except DamagedFileError as error:
            damaged.append(error.damage)
            continue
        if plan is not None:
            all_within = is_within(file.parent)
            yield from (run for run in plan.runs() if all_within or is_within(run.path))
