"""Which cells of the grid of algorithms, tasks and seeds there are, and what became of each."""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from dualac.analysis.frame import RunRecord
from dualac.analysis.groups import Group
from dualac.analysis.wording import count_told, range_told, several

STATES = ("done", "running", "interrupted", "failed", "missing")


class Cell(NamedTuple):
    """An algorithm on a task: what became of each seed that any algorithm of its replay ratio has."""

    label: str
    task: str
    seeds: dict[int, str]
    runs: dict[int, RunRecord]

    def counts(self) -> Counter[str]:
        return Counter(self.seeds.values())

    def told(self) -> str:
        counts = self.counts()
        return ", ".join(f"{counts[state]} {state}" for state in STATES if counts[state])


def cells(groups: Sequence[Group]) -> list[Cell]:
    found = []
    for one in groups:
        beside = [run for other in groups if other.replay_ratio == one.replay_ratio for run in other.runs]
        tasks, seeds = sorted({run.task for run in beside}), sorted({run.seed for run in beside})
        for task in tasks:
            runs = {run.seed: run for run in one.runs if run.task == task}
            found.append(Cell(one.label, task, {seed: runs[seed].status.state if seed in runs else "missing" for seed in seeds}, runs))
    return found


def seeds_told(groups: Sequence[Group]) -> str:
    """The end of every caption: how many seeds, and what is missing."""
    counts = {one.label: range_told([sum(run.task == task for run in one.runs) for task in sorted(one.tasks)]) for one in groups}
    usual = Counter(counts.values()).most_common(1)[0][0] if counts else "0"
    others = [f"{label} has {some}" for label, some in counts.items() if some != usual]
    states = Counter(state for cell in cells(groups) for state in cell.seeds.values() if state != "done")
    gone = several([f"{states[state]} {state}" for state in STATES if states[state]])
    told = f"Seeds of each task: {usual}{'; ' + several(others) if others else ''}. "
    return told + (f"Not complete: {gone} of {count_told(_size(groups), 'run')}." if states else "No run is missing.")


def _size(groups: Sequence[Group]) -> int:
    return sum(len(cell.seeds) for cell in cells(groups))
