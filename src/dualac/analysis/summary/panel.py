"""A panel: agents that are compared on their common tasks, at a step that all came to."""

import sys
import zlib
from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np

from dualac.analysis import statistics
from dualac.analysis.data.frame import RunRecord
from dualac.analysis.data.groups import Group
from dualac.analysis.data.scores import Board, evenly, grid, paired
from dualac.analysis.statistics import AGGREGATES, Band, Difference, Interval, iqm
from dualac.analysis.summary.averages import clocks

THRESHOLDS = np.linspace(0.0, 1.0, 51)  # of a performance profile
BAND_REPLICATIONS = 1_000  # of a curve: its ends need not be known to the third digit
BAND_POINTS = 51  # of a curve that are drawn
REPLICATED_POINTS = 101  # of a curve that are resampled; an estimate is read off all evaluations

At = int | Literal["area"] | None
"""the step at which scores are taken, or the area under the curve; None is the last step that all
came to
"""


class Comparison(NamedTuple):
    """An algorithm against the best of its panel."""

    ours: str
    theirs: str
    difference: Difference
    probability: Interval


class Reached(NamedTuple):
    """When an algorithm's IQM came to the final score of the best of the others."""

    label: str
    other: str
    target: float
    steps: Interval
    share: float  # of all the steps of the panel


class Panel(NamedTuple):
    """Groups that are compared, and the numbers that compare them. Dictionaries are by label."""

    title: str
    groups: list[Group]
    tasks: list[str]
    left_out: list[str]  # tasks that not all groups have
    apart: list[Group]  # too far behind: the others would lose more than these groups add
    at: float
    area: bool
    steps: np.ndarray
    scores: dict[str, np.ndarray]  # (seeds, tasks)
    aggregates: dict[str, dict[str, Interval]]  # by label and statistic
    suites: dict[str, dict[str, Interval]]  # IQMs by suite and label, of several suites
    bands: dict[str, Band]
    clocks: dict[str, dict[str, np.ndarray]]  # by label and clock
    profiles: dict[str, Band]
    comparisons: list[Comparison]
    reached: list[Reached]
    start: float = 0.0  # of an area: the first evaluation of whoever was evaluated last

    def ranked(self) -> list[Group]:
        """Sort the groups, the best first, those without a score last."""
        scores = {label: by_name["IQM"].estimate for label, by_name in self.aggregates.items()}
        return sorted(
            self.groups, key=lambda group: -np.nan_to_num(scores[group.label], nan=-np.inf)
        )

    def names(self) -> dict[str, str]:
        """Name each group among these: with its replay ratio only where that differs."""
        several = len({group.replay_ratio for group in self.groups}) > 1
        return {group.label: group.label if several else group.agent for group in self.groups}

    def seeds(self, label: str) -> list[int]:
        """Count the seeds of each task that have a score."""
        return [int(count) for count in np.isfinite(self.scores[label]).sum(axis=0)]

    def counts(self) -> dict[str, list[tuple[int, int]]]:
        """Count, for each group and task, the seeds with a score and the runs."""
        return {
            group.label: [
                (seeds, sum(run.task == task for run in group.runs))
                for task, seeds in zip(self.tasks, self.seeds(group.label), strict=True)
            ]
            for group in self.groups
        }


def generator(*words: str) -> np.random.Generator:
    """Make an estimate's generator from its name: another algorithm changes no interval."""
    return np.random.default_rng([zlib.crc32(word.encode()) for word in words])


def make_panel(groups: list[Group], board: Board, unscaled: set[str], at: At) -> Panel:
    """Compare groups: choose tasks and steps, then estimate."""
    extent = _extent(groups, board, unscaled, at)
    curves = _Curves.of(extent, board)
    area = at == "area"
    start = _start_of_area(extent, board) if area else 0.0
    scores = {
        group.label: _scores(curves, group.label, start if area else None)
        for group in extent.groups
    }
    ratios = {group.replay_ratio for group in groups}
    panel = Panel(
        title=f"replay ratio {ratios.pop()}" if len(ratios) == 1 else "unlike replay ratios",
        groups=extent.groups,
        tasks=extent.tasks,
        left_out=extent.left_out,
        apart=[group for group in groups if group not in extent.groups],
        at=extent.end,
        area=area,
        steps=curves.shown_steps,
        scores=scores,
        aggregates={label: _aggregates(label, values) for label, values in scores.items()},
        suites=_suites(extent.tasks, scores),
        bands={label: curves.band(label) for label in curves.values},
        clocks={
            group.label: clocks(extent.runs_of(group), curves.shown_steps)
            for group in extent.groups
        },
        profiles=_profiles(scores) if extent.tasks else {},
        comparisons=[],
        reached=[],
        start=start,
    )
    if not len(curves.shown_steps):
        return panel
    return panel._replace(comparisons=_comparisons(panel), reached=_reached(panel, curves))


class _Extent(NamedTuple):
    """The groups that are compared, on which tasks, and up to which step."""

    groups: list[Group]
    tasks: list[str]
    left_out: list[str]
    end: float

    def runs_of(self, group: Group) -> list[RunRecord]:
        return [run for run in group.runs if run.task in self.tasks]

    @property
    def runs(self) -> list[RunRecord]:
        return [run for group in self.groups for run in self.runs_of(group)]


Reach = dict[str, dict[str, float]]
"""the last step with a score, by label and task"""


def _extent(groups: list[Group], board: Board, unscaled: set[str], at: At) -> _Extent:
    wanted = float(at) if isinstance(at, int) else 0.0
    reach: Reach = {}
    for group in groups:
        steps = {task: board.reached(group, task) for task in group.tasks - unscaled}
        reach[group.label] = {task: step for task, step in steps.items() if step >= wanted}
    groups = _comparable(groups, reach)
    tasks = _common_tasks(groups, reach)
    left_out = sorted({task for group in groups for task in reach[group.label]} - set(tasks))
    if isinstance(at, int):
        return _Extent(groups, tasks, left_out, wanted)
    ends = [reach[group.label][task] for group in groups for task in tasks]
    return _Extent(groups, tasks, left_out, min(ends, default=-1.0))


def _common_tasks(groups: list[Group], reach: Reach) -> list[str]:
    if not groups:
        return []
    return sorted(set.intersection(*(set(reach[group.label]) for group in groups)))


def _comparable(groups: list[Group], reach: Reach) -> list[Group]:
    """Leave out whoever costs the others more common tasks and steps than it adds. One run that
    died early must not take a whole benchmark back to where it died.
    """

    def worth(chosen: list[Group]) -> float:
        tasks = _common_tasks(chosen, reach)
        ends = [reach[group.label][task] + 1 for group in chosen for task in tasks]
        return (len(chosen) - 1) * len(tasks) * min(ends, default=0.0)

    groups = [group for group in groups if reach[group.label]]
    while len(groups) > 2:
        smaller = [[group for group in groups if group is not other] for other in groups]
        fewer = max(smaller, key=worth)
        if worth(fewer) <= worth(groups):
            break
        groups = fewer
    return groups


class _Curves(NamedTuple):
    """Every group's curves (steps, seeds, tasks), and resamples of their IQM at some steps."""

    steps: np.ndarray
    values: dict[str, np.ndarray]
    replicates: dict[str, np.ndarray]  # (replications, replicated steps)
    dense: np.ndarray  # places of the steps that are resampled
    shown: np.ndarray  # places of the steps that are drawn, among those that are resampled

    @classmethod
    def of(cls, extent: _Extent, board: Board) -> "_Curves":
        steps = np.array([])
        values: dict[str, np.ndarray] = {}
        if extent.end >= 0:
            steps = grid((board.curve(run) for run in extent.runs), extent.end, sys.maxsize)
        if len(steps):
            values = {
                group.label: board.curves_of(group, extent.tasks, steps) for group in extent.groups
            }
        dense = evenly(len(steps), REPLICATED_POINTS)
        replicates = {
            label: statistics.curve_replicates(
                curves[dense], generator(label, "curve"), BAND_REPLICATIONS
            )
            for label, curves in values.items()
        }
        return cls(steps, values, replicates, dense, evenly(len(dense), BAND_POINTS))

    @property
    def shown_steps(self) -> np.ndarray:
        return self.steps[self.dense][self.shown]

    def band(self, label: str) -> Band:
        curves = self.values[label][self.dense][self.shown]
        return statistics.curve_band(curves, self.replicates[label][:, self.shown])

    def reach(self, label: str, target: float) -> Interval:
        """Estimate when a group's IQM reaches a score, the ends from resampled steps alone."""
        curves = self.values[label]
        rough = statistics.steps_to_reach(
            curves[self.dense], self.replicates[label], self.steps[self.dense], target
        )
        exact = float(statistics.first_reached(iqm(curves), self.steps, target))
        return rough._replace(estimate=exact, low=min(rough.low, exact))


def _start_of_area(extent: _Extent, board: Board) -> float:
    """Return the step from which every curve that is whole has a score."""
    whole = [run for run in extent.runs if board.last(run) >= extent.end]
    return max((board.first(run) for run in whole), default=0.0)


def _scores(curves: _Curves, label: str, start: float | None) -> np.ndarray:
    """Return scores at the end, or, with a start, the area from there."""
    if label not in curves.values:
        return np.full((1, 1), np.nan)
    values, steps = curves.values[label], curves.steps
    if start is None:
        return values[-1]
    return statistics.area(values[steps >= start], steps[steps >= start])


def _aggregates(label: str, scores: np.ndarray) -> dict[str, Interval]:
    return {
        name: statistics.interval(scores, statistic, generator(label, name))
        for name, statistic in AGGREGATES.items()
    }


def _profiles(scores: dict[str, np.ndarray]) -> dict[str, Band]:
    return {
        label: statistics.profile_band(values, THRESHOLDS, generator(label, "profile"))
        for label, values in scores.items()
    }


def _suites(tasks: Sequence[str], scores: dict[str, np.ndarray]) -> dict[str, dict[str, Interval]]:
    """Estimate the IQM of each suite's tasks, where there are several suites."""
    columns: dict[str, list[int]] = {}
    for column, task in enumerate(tasks):
        columns.setdefault(task.partition("/")[0], []).append(column)
    if len(columns) < 2:
        return {}
    return {
        suite: {
            label: statistics.interval(values[:, places], iqm, generator(label, suite))
            for label, values in scores.items()
        }
        for suite, places in columns.items()
    }


def _comparisons(panel: Panel) -> list[Comparison]:
    best, *others = panel.ranked()
    comparisons = []
    for other in others:
        scores = panel.scores[best.label], panel.scores[other.label]
        names = best.label, other.label
        pairs = paired(best.runs, other.runs, panel.tasks)
        difference = statistics.difference(*scores, generator(*names), paired=pairs)
        probability = statistics.improvement_probability(*scores, generator(*names))
        comparisons.append(Comparison(*names, difference, probability))
    return comparisons


def _reached(panel: Panel, curves: _Curves) -> list[Reached]:
    """Estimate each group's way to the best other's final score: "in 60 % of the steps"."""
    finals = {label: float(band.estimate[-1]) for label, band in panel.bands.items()}
    finals = {label: score for label, score in finals.items() if np.isfinite(score)}
    reached = []
    for group in panel.groups:
        others = {label: score for label, score in finals.items() if label != group.label}
        if not others:
            continue
        best = max(others, key=lambda label: others[label])
        steps = curves.reach(group.label, others[best])
        share = steps.estimate / panel.at if panel.at else np.nan
        reached.append(Reached(group.label, best, others[best], steps, share))
    return reached
