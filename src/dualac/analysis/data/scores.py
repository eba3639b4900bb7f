"""From returns to scores between 0 and 1, and from runs to the arrays that `statistics` takes."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from dualac.analysis.data.curves import Curve
from dualac.analysis.data.frame import Columns, RunRecord
from dualac.analysis.data.groups import Group

SUCCESS = {"any": "success", "last": "success_last"}  # the rule, and the column that it reads
GRID = 101  # points of a curve at most


class Scale(NamedTuple):
    """How a task's evaluations become scores: a column, and the values that are 0 and 1."""

    column: str
    low: float
    high: float
    unit: str


Bounds = Mapping[str, tuple[float, float]]  # by task; "" is for every task that has none of its own


def scale(run: RunRecord, bounds: Bounds) -> Scale | None:
    """None where nobody knows what a good return is: the task is then plotted, and enters no
    aggregate.
    """
    given = bounds.get(run.task)
    if given:
        return Scale("return", *given, f"return, {given[0]:g} to {given[1]:g}")
    if run.suite == "dmc":
        return Scale("return", 0.0, 1000.0, "return / 1000")
    if run.suite in ("metaworld", "myosuite"):
        rule = run.spec["protocol"].get("success", "any")
        return Scale(
            SUCCESS.get(rule, "success"),
            0.0,
            1.0,
            f"success at {'any' if rule == 'any' else 'the last'} step",
        )
    if "" in bounds:
        return Scale("return", *bounds[""], f"return, {bounds[''][0]:g} to {bounds[''][1]:g}")
    return None


def by_step(columns: Columns, name: str) -> Curve:
    """Average a column over the episodes of each evaluation; NaN where no episode has a
    number.
    """
    steps, where = np.unique(columns["step"], return_inverse=True)
    values = columns[name]
    there = np.isfinite(values)
    counts = np.bincount(where, there, minlength=len(steps))
    sums = np.bincount(where, np.where(there, values, 0.0), minlength=len(steps))
    return Curve(steps, np.where(counts > 0, sums / np.maximum(counts, 1), np.nan))


def score_curve(run: RunRecord, bounds: Bounds) -> Curve:
    """Scores where the task has a scale, returns where it has none."""
    found = scale(run, bounds)
    curve = by_step(run.evaluations, found.column if found else "return")
    return (
        Curve(curve.steps, (curve.returns - found.low) / (found.high - found.low))
        if found
        else curve
    )


def held(curve: Curve, steps: np.ndarray) -> np.ndarray:
    """Read a curve at other steps: the last evaluation at or before each; NaN before the first and
    beyond the last.
    """
    if not len(curve.steps):
        return np.full(len(steps), np.nan)
    place = np.searchsorted(curve.steps, steps, side="right") - 1
    return np.where(
        (place >= 0) & (steps <= curve.steps[-1]), curve.returns[np.maximum(place, 0)], np.nan
    )


def grid(curves: Iterable[Curve], last: float = np.inf, most: int = GRID) -> np.ndarray:
    """List steps at which any of the curves was evaluated, evenly thinned to what a picture needs,
    the last among them.
    """
    found = [curve.steps for curve in curves if len(curve.steps)]
    steps = np.unique(np.concatenate(found)) if found else np.array([])
    steps = steps[steps <= last]
    return steps[evenly(len(steps), most)]


def evenly(count: int, most: int) -> np.ndarray:
    """Places of a row that are enough for a picture, the first and the last among them."""
    return (
        np.arange(count)
        if count <= most
        else np.unique(np.linspace(0, count - 1, most).round().astype(int))
    )


def paired(ours: Sequence[RunRecord], theirs: Sequence[RunRecord], tasks: Iterable[str]) -> bool:
    """Whether two algorithms have the same seeds on every task: then seeds are compared in
    pairs.
    """
    return all(
        [run.seed for run in ours if run.task == task]
        == [run.seed for run in theirs if run.task == task]
        for task in tasks
    )


class Board:
    """The curve of every run, read once and asked often."""

    def __init__(self, groups: Sequence[Group], bounds: Bounds) -> None:
        self.bounds = bounds
        self.curves = {id(run): score_curve(run, bounds) for one in groups for run in one.runs}
        self.scaled = {run.task: scale(run, bounds) for one in groups for run in one.runs}

    def curve(self, run: RunRecord) -> Curve:
        return self.curves[id(run)]

    def last(self, run: RunRecord) -> float:
        """Return the last step at which a run has a score."""
        curve = self.curve(run)
        whole = curve.steps[np.isfinite(curve.returns)]
        return float(whole[-1]) if len(whole) else -1.0

    def first(self, run: RunRecord) -> float:
        """Return the first step at which a run has a score."""
        curve = self.curve(run)
        return float(curve.steps[np.isfinite(curve.returns)][0])

    def reached(self, one: Group, task: str) -> float:
        """Return the furthest step that any seed has come to."""
        return max((self.last(run) for run in one.runs if run.task == task), default=-1.0)

    def curves_of(self, one: Group, tasks: Sequence[str], steps: np.ndarray) -> np.ndarray:
        """Return an array (steps, seeds, tasks), NaN where there is nothing."""
        runs = {task: [run for run in one.runs if run.task == task] for task in tasks}
        found = np.full((len(steps), max([1, *map(len, runs.values())]), len(tasks)), np.nan)
        for column, task in enumerate(tasks):
            for row, run in enumerate(runs[task]):
                found[:, row, column] = held(self.curve(run), steps)
        return found
