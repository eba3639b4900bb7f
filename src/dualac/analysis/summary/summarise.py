"""What a directory of runs says: the numbers of a report, before anyone decides how they look."""

import sys
import zlib
from collections.abc import Sequence
from types import MappingProxyType
from typing import Literal, NamedTuple

import numpy as np

from dualac.analysis import statistics
from dualac.analysis.data.frame import Frame, RunRecord
from dualac.analysis.data.groups import Group, Grouped, Rows, Unlike, group, standing_for
from dualac.analysis.data.scores import Board, Bounds, by_step, evenly, grid, held, paired
from dualac.analysis.figures.style import Ink, inks
from dualac.analysis.statistics import AGGREGATES, Band, Difference, Interval, iqm

THRESHOLDS = np.linspace(0.0, 1.0, 51)
BAND_REPLICATIONS = 1_000  # of a curve: its ends need not be known to the third digit
BAND_POINTS = 51  # that are drawn
REPLICATED_POINTS = 101  # of a curve that are resampled; an estimate is read off all evaluations
CLOCKS = {
    "updates": "train/n_updates",
    "seconds": "time/time_elapsed",
}  # other axes than environment steps

At = int | Literal["area"] | None


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
    share: float
    """of all the steps of the panel"""


class Panel(NamedTuple):
    """Groups that are compared: on the tasks that all of them have, at a step that all of them came
    to.
    """

    title: str
    groups: list[Group]
    tasks: list[str]
    left_out: list[str]
    """tasks that not all groups have"""
    apart: list[Group]
    """groups that are too far behind to be compared: the others would lose more than they are
    worth
    """
    at: float
    area: bool
    steps: np.ndarray
    scores: dict[str, np.ndarray]
    aggregates: dict[str, dict[str, Interval]]
    suites: dict[str, dict[str, Interval]]
    bands: dict[str, Band]
    clocks: dict[str, dict[str, np.ndarray]]
    profiles: dict[str, Band]
    comparisons: list[Comparison]
    reached: list[Reached]
    start: float = 0.0
    """where an area begins: at the first evaluation of whoever was evaluated last"""

    def ranked(self) -> list[Group]:
        """The best first; those without a score last."""
        return sorted(
            self.groups,
            key=lambda one: -np.nan_to_num(self.aggregates[one.label]["IQM"].estimate, nan=-np.inf),
        )

    def names(self) -> dict[str, str]:
        """What each group is called among these: with its replay ratio only where that differs."""
        return {
            one.label: one.agent
            if len({other.replay_ratio for other in self.groups}) == 1
            else one.label
            for one in self.groups
        }

    def seeds(self, label: str) -> list[int]:
        """With a score, of each task."""
        return [int(count) for count in np.isfinite(self.scores[label]).sum(axis=0)]

    def counts(self) -> dict[str, list[tuple[int, int]]]:
        """By group, of each task: seeds with a score, of how many runs."""
        runs = {
            one.label: [sum(run.task == task for run in one.runs) for task in self.tasks]
            for one in self.groups
        }
        return {label: list(zip(self.seeds(label), of, strict=True)) for label, of in runs.items()}


class Summary(NamedTuple):
    frame: Frame
    grouped: Grouped
    board: Board
    panels: list[Panel]
    tasks: list[str]
    unscaled: list[str]
    """tasks whose returns have no bounds: they are plotted and enter no aggregate"""
    choices: "Choices"
    inks: dict[str, Ink]
    """of each agent"""

    @property
    def groups(self) -> list[Group]:
        return self.grouped.groups


class Choices(NamedTuple):
    """What decides which numbers are compared."""

    bounds: Bounds = MappingProxyType({})
    """the returns that score 0 and 1, by task"""
    at: At = None
    """the step at which scores are taken, or the area under the curve; None is the last step that
    all came to
    """
    unlike: Unlike = "refuse"
    """what becomes of runs under other rules"""
    rows: Rows = MappingProxyType({})
    """the table of algorithms, where it is known"""


USUAL = Choices()


def summarise(frame: Frame, choices: Choices = USUAL) -> Summary:
    grouped = group(frame.runs, choices.unlike, choices.rows)
    return summary_of(frame, grouped, choices, inks(one.agent for one in grouped.groups))


def only(summary: Summary, *, names: Sequence[str] = (), tasks: Sequence[str] = ()) -> Summary:
    """The same of fewer runs: agents that stand for these names, these tasks. Everyone keeps name
    and ink.
    """
    stand = {one.label for name in names for one in standing_for(summary.groups, name)}
    groups = [one for one in summary.groups if not names or one.label in stand]
    groups = [
        one._replace(runs=[run for run in one.runs if not tasks or run.task in tasks])
        for one in groups
    ]
    kept = summary.grouped._replace(groups=[one for one in groups if one.runs])
    missing = [
        one
        for one in summary.frame.missing
        if (not names or one.name in names) and (not tasks or one.task in tasks)
    ]
    if kept.groups == summary.groups and len(missing) == len(summary.frame.missing):
        return summary
    return summary_of(summary.frame._replace(missing=missing), kept, summary.choices, summary.inks)


def summary_of(
    frame: Frame, grouped: Grouped, choices: Choices, colours: dict[str, Ink]
) -> Summary:
    at, board = choices.at, Board(grouped.groups, choices.bounds)
    tasks = sorted({run.task for one in grouped.groups for run in one.runs})
    unscaled = [task for task in tasks if board.scaled[task] is None]
    ratios = sorted({one.replay_ratio for one in grouped.groups})
    together = [[one for one in grouped.groups if one.replay_ratio == ratio] for ratio in ratios]
    if all(
        len(some) == 1 for some in together
    ):  # nothing to compare within a replay ratio: compare what there is
        together = [grouped.groups] if grouped.groups else []
    panels = [_panel(some, board, set(unscaled), at) for some in together]
    return Summary(frame, grouped, board, panels, tasks, unscaled, choices, colours)


def generator(*words: str) -> np.random.Generator:
    """Its own for each thing that is estimated: another algorithm beside it changes no interval."""
    return np.random.default_rng([zlib.crc32(word.encode()) for word in words])


def _panel(groups: list[Group], board: Board, unscaled: set[str], at: At) -> Panel:
    ratios = {one.replay_ratio for one in groups}
    title = f"replay ratio {ratios.pop()}" if len(ratios) == 1 else "unlike replay ratios"
    everyone = groups
    wanted = float(at) if isinstance(at, int) else 0.0
    reached = {
        one.label: {
            task: step
            for task in one.tasks - unscaled
            if (step := board.reached(one, task)) >= wanted
        }
        for one in groups
    }
    groups = _comparable(groups, reached)
    tasks = _common_tasks(groups, reached)
    left_out = sorted({task for one in groups for task in reached[one.label]} - set(tasks))
    end = (
        wanted
        if isinstance(at, int)
        else min((reached[one.label][task] for one in groups for task in tasks), default=-1.0)
    )
    runs = [run for one in groups for run in one.runs if run.task in tasks]
    every = grid((board.curve(run) for run in runs), end, sys.maxsize) if end >= 0 else np.array([])
    whole = {one.label: board.curves_of(one, tasks, every) for one in groups} if len(every) else {}
    area = at == "area"
    start = (
        max((board.first(run) for run in runs if board.last(run) >= end), default=0.0)
        if area
        else 0.0
    )
    scores = {
        one.label: _scores(whole.get(one.label), every, start if area else None) for one in groups
    }
    dense = evenly(len(every), REPLICATED_POINTS)
    shown = evenly(len(dense), BAND_POINTS)
    steps = every[dense][shown]
    aggregates = {
        label: {
            name: statistics.interval(found, statistic, generator(label, name))
            for name, statistic in AGGREGATES.items()
        }
        for label, found in scores.items()
    }
    replicates = {
        label: statistics.curve_replicates(
            found[dense], generator(label, "curve"), BAND_REPLICATIONS
        )
        for label, found in whole.items()
    }
    panel = Panel(
        title,
        groups,
        tasks,
        left_out,
        [one for one in everyone if one not in groups],
        end,
        area,
        steps,
        scores,
        aggregates,
        suites=_suites(tasks, scores),
        bands={
            label: statistics.curve_band(whole[label][dense][shown], found[:, shown])
            for label, found in replicates.items()
        },
        clocks={
            one.label: clocks([run for run in one.runs if run.task in tasks], steps)
            for one in groups
        },
        profiles={
            label: statistics.profile_band(found, THRESHOLDS, generator(label, ("profile")))
            for label, found in scores.items()
            if tasks
        },
        comparisons=[],
        reached=[],
        start=start,
    )
    if not len(steps):
        return panel
    ways = {label: _Way(every, dense, whole[label], replicates[label]) for label in whole}
    return panel._replace(comparisons=_comparisons(panel), reached=_reached(panel, ways))


def _common_tasks(groups: list[Group], reached: dict[str, dict[str, float]]) -> list[str]:
    return sorted(set.intersection(*(set(reached[one.label]) for one in groups))) if groups else []


def _comparable(groups: list[Group], reached: dict[str, dict[str, float]]) -> list[Group]:
    """Those that are compared: without whoever costs the others more common tasks and steps than it
    adds. One run that died early must not take a whole benchmark back to where it died.
    """

    def worth(some: list[Group]) -> float:
        tasks = _common_tasks(some, reached)
        return (
            (len(some) - 1)
            * len(tasks)
            * min((reached[one.label][task] + 1 for one in some for task in tasks), default=0.0)
        )

    groups = [one for one in groups if reached[one.label]]
    while len(groups) > 2:
        fewer = max(([one for one in groups if one is not other] for other in groups), key=worth)
        if worth(fewer) <= worth(groups):
            break
        groups = fewer
    return groups


def _scores(curves: np.ndarray | None, steps: np.ndarray, start: float | None) -> np.ndarray:
    """At the end, or, with a start, on the way from there."""
    if curves is None:
        return np.full((1, 1), np.nan)
    return (
        curves[-1]
        if start is None
        else statistics.area(curves[steps >= start], steps[steps >= start])
    )


def _suites(tasks: list[str], scores: dict[str, np.ndarray]) -> dict[str, dict[str, Interval]]:
    suites = {task.partition("/")[0]: [] for task in tasks}
    for column, task in enumerate(tasks):
        suites[task.partition("/")[0]].append(column)
    if len(suites) < 2:
        return {}
    return {
        suite: {
            label: statistics.interval(found[:, columns], iqm, generator(label, suite))
            for label, found in scores.items()
        }
        for suite, columns in suites.items()
    }


def clocks(runs: Sequence[RunRecord], steps: np.ndarray) -> dict[str, np.ndarray]:
    """Updates and seconds, on average over the runs, when a step was reached; NaN where no run
    tells, as after its last row.
    """
    found = {}
    for clock, name in CLOCKS.items():
        told = [clock_at(run, name, steps) for run in runs if name in run.training]
        rows = np.array([row for row in told if np.isfinite(row).any()])
        if len(rows):
            found[clock] = statistics.task_means(rows[:, :, None].transpose(1, 0, 2))[:, 0]
    return found


def clock_at(run: RunRecord, name: str, steps: np.ndarray) -> np.ndarray:
    """A clock of a run, read between the rows of its log; a run starts at nothing."""
    there = np.isfinite(run.training[name])
    if not there.any():
        return np.full(len(steps), np.nan)
    known, read = (
        np.concatenate([[0.0], run.training["step"][there]]),
        np.concatenate([[0.0], run.training[name][there]]),
    )
    return np.where(steps <= known[-1], np.interp(steps, known, read), np.nan)


def _comparisons(panel: Panel) -> list[Comparison]:
    best, *others = panel.ranked()
    found = []
    for other in others:
        ours, theirs = panel.scores[best.label], panel.scores[other.label]
        told = statistics.difference(
            ours,
            theirs,
            generator(best.label, other.label),
            paired=paired(best.runs, other.runs, panel.tasks),
        )
        found.append(
            Comparison(
                best.label,
                other.label,
                told,
                statistics.improvement_probability(
                    ours, theirs, generator(best.label, other.label)
                ),
            )
        )
    return found


class _Way(NamedTuple):
    """A group's curves at every evaluation, and resamples of them at some."""

    steps: np.ndarray
    dense: np.ndarray
    curves: np.ndarray
    replicates: np.ndarray

    def reaches(self, target: float) -> Interval:
        rough = statistics.steps_to_reach(
            self.curves[self.dense], self.replicates, self.steps[self.dense], target
        )
        exact = float(statistics.first_reached(iqm(self.curves), self.steps, target))
        return rough._replace(estimate=exact, low=min(rough.low, exact))


def _reached(panel: Panel, ways: dict[str, _Way]) -> list[Reached]:
    """The paper's `in 60 % of the steps`: each algorithm's way to the final score of the best of
    the others.
    """
    found = []
    for one in panel.groups:
        finals = {
            other.label: float(panel.bands[other.label].estimate[-1])
            for other in panel.groups
            if other is not one
        }
        finals = {label: score for label, score in finals.items() if np.isfinite(score)}
        if not finals:
            continue
        other = max(finals, key=lambda label: finals[label])
        steps = ways[one.label].reaches(finals[other])
        found.append(
            Reached(
                one.label,
                other,
                finals[other],
                steps,
                steps.estimate / panel.at if panel.at else np.nan,
            )
        )
    return found


def overestimation(one: Group, tasks: Sequence[str], steps: np.ndarray) -> np.ndarray:
    """Mean |Q| over mean |G| of a group's evaluations, averaged over its runs; NaN where no run
    tells.
    """
    rows = []
    for run in one.runs:
        if run.task in tasks and np.isfinite(run.evaluations["value"]).any():
            value, truth = (
                by_step(run.evaluations, "value"),
                by_step(run.evaluations, "discounted_return"),
            )
            ratio = np.where(
                truth.returns > 0,
                value.returns / np.where(truth.returns > 0, truth.returns, 1.0),
                np.nan,
            )
            rows.append(held(value._replace(returns=ratio), steps))
    return (
        statistics.task_means(np.array(rows)[:, :, None].transpose(1, 0, 2))[:, 0]
        if rows
        else np.full(len(steps), np.nan)
    )
