"""Which cells of the grid of algorithms, tasks and seeds there are, and what became of each."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from dualac.analysis.data.frame import RunRecord
from dualac.analysis.data.groups import Group
from dualac.analysis.summary.wording import format_count, format_range, join_names
from dualac.runs.plan import PlannedRun
from dualac.runs.state import STATES


class Cell(NamedTuple):
    """An algorithm on a task: what became of each seed that its plan, or any algorithm of its
    replay ratio, has.
    """

    label: str
    task: str
    seeds: dict[int, str]
    runs: dict[int, RunRecord]

    def counts(self) -> Counter[str]:
        return Counter(self.seeds.values())

    def describe(self) -> str:
        counts = self.counts()
        return ", ".join(f"{counts[state]} {state}" for state in STATES if counts[state])


def evaluated(run: RunRecord) -> bool:
    """Whether some evaluation gave a number."""
    return bool(
        np.isfinite(run.evaluations["return"]).any()
        or np.isfinite(run.evaluations["success"]).any()
    )


def cells(groups: Sequence[Group], missing: Sequence[PlannedRun] = ()) -> list[Cell]:
    """Lay out the grid of what was begun and of what else was planned."""
    found: dict[tuple[str, str], Cell] = {}
    for one in groups:
        beside = [
            run for other in groups if other.replay_ratio == one.replay_ratio for run in other.runs
        ]
        tasks, seeds = sorted({run.task for run in beside}), sorted({run.seed for run in beside})
        for task in tasks:
            runs = {run.seed: run for run in one.runs if run.task == task}
            states = {
                seed: runs[seed].status.state if seed in runs else "missing" for seed in seeds
            }
            found[one.label, task] = Cell(one.label, task, states, runs)
    ratios = {one.replay_ratio for one in (*groups, *missing)}
    for plan in missing:
        label = _planned_label(plan, groups, several_ratios=len(ratios) > 1)
        found.setdefault((label, plan.task), Cell(label, plan.task, {}, {})).seeds.setdefault(
            plan.seed, "missing"
        )
    return [cell._replace(seeds=dict(sorted(cell.seeds.items()))) for cell in found.values()]


def _planned_label(plan: PlannedRun, groups: Sequence[Group], *, several_ratios: bool) -> str:
    """Return the label of a planned run: that of its agent, if one has begun.

    A plan knows no settings, so the name is all there is.
    """
    same = [one for one in groups if (one.name, one.replay_ratio) == (plan.name, plan.replay_ratio)]
    named = [one for one in same if one.agent == plan.name]
    return (
        (named or same)[0].label
        if same
        else f"{plan.name}, RR {plan.replay_ratio}"
        if several_ratios
        else plan.name
    )


def describe_seeds(
    groups: Sequence[Group],
    missing: Sequence[PlannedRun] = (),
    tells: Callable[[RunRecord], bool] = evaluated,
) -> str:
    """Write the end of a caption: how many seeds stand behind it, and what is missing.

    `tells` says whether a run has what is shown.
    """
    counts = {
        one.label: [
            [tells(run) for run in one.runs if run.task == task] for task in sorted(one.tasks)
        ]
        for one in groups
    }
    seeds = describe_counts(
        {label: [(sum(some), len(some)) for some in tasks] for label, tasks in counts.items()}
    )
    return f"Seeds of each task: {seeds}. {describe_missing(groups, missing)}"


def describe_counts(counts: Mapping[str, Sequence[tuple[int, int]]]) -> str:
    """By algorithm, of each task: how many seeds have a number, of how many runs."""
    texts = {}
    for label, tasks in counts.items():
        some, of = (format_range([pair[place] for pair in tasks]) for place in (0, 1))
        texts[label] = (
            some if all(there == all_of for there, all_of in tasks) else f"{some} of {of}"
        )
    usual = Counter(texts.values()).most_common(1)[0][0] if texts else "0"
    others = [f"{label} has {some}" for label, some in texts.items() if some != usual]
    return f"{usual}; {join_names(others)}" if others else usual


def describe_missing(groups: Sequence[Group], missing: Sequence[PlannedRun] = ()) -> str:
    grid = cells(groups, missing)
    states = Counter(state for cell in grid for state in cell.seeds.values() if state != "done")
    gone = join_names([f"{states[state]} {state}" for state in STATES if states[state]])
    return (
        f"Not complete: {gone} of {format_count(sum(len(cell.seeds) for cell in grid), 'run')}."
        if states
        else "No run is missing."
    )
