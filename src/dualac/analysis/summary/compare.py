"""Runs and directories side by side, for a terminal: rows, and sentences on differences."""

from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

import numpy as np

from dualac.analysis import statistics
from dualac.analysis.data.frame import Frame, RunRecord, read
from dualac.analysis.data.groups import Grouped, group, usual_rules
from dualac.analysis.data.scores import Board, grid, held, paired
from dualac.analysis.statistics import Interval, iqm
from dualac.analysis.summary.panel import At, generator
from dualac.analysis.summary.summarise import USUAL, Choices
from dualac.analysis.summary.wording import (
    describe_difference,
    format_count,
    format_range,
    join_names,
    printable,
)
from dualac.errors import DataError, UsageError
from dualac.parts.text import format_steps

BARS = "▁▂▃▄▅▆▇█"
WIDTH = 24  # of a sparkline
MOST_POINTS = 10_000  # of a curve that a sparkline is drawn from


class Row(NamedTuple):
    """A side on a task."""

    label: str
    task: str
    seeds: int  # with a score
    of: int  # runs
    found: Interval  # of the mean over seeds, at the step
    sparkline: str


class Compared(NamedTuple):
    """A comparison as people read it."""

    at: dict[str, float]  # where a task is compared: the furthest step that every side came to
    units: dict[str, str]
    rows: list[Row]
    sentences: list[str]


class Side(NamedTuple):
    """What is compared: an agent, of one place."""

    label: str
    runs: list[RunRecord]

    def on(self, task: str) -> list[RunRecord]:
        return [run for run in self.runs if run.task == task]

    @property
    def tasks(self) -> set[str]:
        return {run.task for run in self.runs}


def compare(places: Sequence[Path], choices: Choices = USUAL) -> Compared:
    """Compare several places with each other, or the agents of one place."""
    frames = [_read(place) for place in places]
    # The usual rules are those of all that is compared: each place alone may agree with itself.
    usual = usual_rules(run for frame in frames for run in frame.runs)
    grouped = [group(frame.runs, choices.unlike, choices.rows, usual) for frame in frames]
    refused = [f"{run.path}, {reason}" for one in grouped for run, reason in one.refused]
    sides = _sides(places, grouped)
    _require_two(sides, refused)
    board = Board([one for some in grouped for one in some.groups], choices.bounds)
    tasks = _common_tasks(sides)
    steps = {task: _common_step(sides, board, task, choices.at) for task in tasks}
    notes = [f"left out: {reason} (--unlike separate keeps it apart)" for reason in refused]
    notes += [str(damage) for frame in frames for damage in frame.damaged]
    scales = {task: board.scaled[task] for task in tasks}
    return Compared(
        at={printable(task): step for task, step in steps.items()},
        units={
            printable(task): scale.unit if scale else "return" for task, scale in scales.items()
        },
        rows=[row for task in tasks for row in _rows(sides, board, task, steps[task])],
        sentences=[
            *_verdicts(sides, board, tasks, steps),
            *_differences(sides),
            *map(printable, notes),
        ],
    )


def _read(place: Path) -> Frame:
    frame = read([place])
    if not frame.runs:
        damage = f" ({frame.damaged[0]})" if frame.damaged else ""
        raise DataError(f"no run at or below {place}{damage}; dualac train makes some")
    return frame


def _sides(places: Sequence[Path], grouped: Sequence[Grouped]) -> list[Side]:
    agents = [one.agent for some in grouped for one in some.groups]
    ratios = {one.replay_ratio for some in grouped for one in some.groups}
    sides = []
    for place, some in zip(places, grouped, strict=True):
        for one in some.groups:
            ratio = f", RR {one.replay_ratio}" if len(ratios) > 1 else ""
            where = ""
            if agents.count(one.agent) > 1 and len(places) > 1:
                where = f" ({_ending(place, places)})"
            sides.append(Side(printable(f"{one.agent}{ratio}{where}"), one.runs))
    return sides


def _ending(place: Path, places: Sequence[Path]) -> str:
    """Return as much of the end of a path as sets it apart from the others."""
    parts = place.resolve().parts
    for count in range(1, len(parts)):
        ending = parts[-count:]
        if sum(other.resolve().parts[-count:] == ending for other in places) == 1:
            return "/".join(ending)
    return str(place)


def _require_two(sides: list[Side], refused: list[str]) -> None:
    if len(sides) >= 2:
        return
    if refused:
        raise DataError(
            f"too little is left to compare without {format_count(len(refused), 'run')} that "
            f"cannot be: {printable(refused[0])}; --unlike separate keeps them apart"
        )
    only = sides[0].label if sides else "nothing"
    raise UsageError(f"only {only} was found: give a second RUN or directory to compare with")


def _common_tasks(sides: list[Side]) -> list[str]:
    tasks = sorted(set.intersection(*(side.tasks for side in sides)))
    if not tasks:
        having = "; ".join(
            f"{side.label} has {join_names(sorted(side.tasks), 3)}" for side in sides
        )
        raise DataError(f"no task is common to all that are compared: {having}")
    return tasks


def _common_step(sides: list[Side], board: Board, task: str, at: At) -> float:
    reached = {side.label: max(board.last(run) for run in side.on(task)) for side in sides}
    behind = [label for label, step in reached.items() if step < 0]
    if behind:
        raise DataError(f"{join_names(behind)} has no evaluation of {task} yet; wait for the first")
    last = min(reached.values())
    if not isinstance(at, int):
        return last
    if at > last:
        raise UsageError(f"--at {at}: on {task} not all have come further than {last:.0f}")
    return float(at)


def _scores(side: Side, board: Board, task: str, step: float) -> np.ndarray:
    return np.array([held(board.curve(run), np.array([step]))[0] for run in side.on(task)])


def _rows(sides: list[Side], board: Board, task: str, step: float) -> list[Row]:
    """Return a row a side, their sparklines on one scale."""
    lines = [_mean_curve(side, board, task, step) for side in sides]
    scale = np.concatenate(lines)
    rows = []
    for side, line in zip(sides, lines, strict=True):
        scores = _scores(side, board, task, step)
        interval = statistics.interval(
            scores[:, None], statistics.mean, generator(side.label, task)
        )
        seeds = int(np.isfinite(scores).sum())
        shape = sparkline(line, scale)
        rows.append(Row(side.label, printable(task), seeds, len(scores), interval, shape))
    return rows


def _mean_curve(side: Side, board: Board, task: str, step: float) -> np.ndarray:
    curves = [board.curve(run) for run in side.on(task)]
    steps = grid(curves, step, MOST_POINTS)
    return statistics.mean_over_seeds([held(curve, steps) for curve in curves])


def sparkline(values: np.ndarray, scale: np.ndarray, width: int = WIDTH) -> str:
    """Draw a curve in letters, between the ends of `scale`; a gap where there is no number."""
    if not len(values):
        return ""
    places = np.linspace(0, len(values) - 1, min(width, len(values))).round().astype(int)
    finite = scale[np.isfinite(scale)]
    low, span = (finite.min(), np.ptp(finite)) if len(finite) else (0.0, 0.0)
    return "".join(_letter(value, low, span) for value in values[places])


def _letter(value: float, low: float, span: float) -> str:
    if not np.isfinite(value):
        return " "
    return BARS[int((value - low) / span * (len(BARS) - 1)) if span else 0]


def _verdicts(
    sides: list[Side], board: Board, tasks: list[str], steps: dict[str, float]
) -> list[str]:
    """Compare each pair by IQM on all tasks with scores, by return on each other task."""
    scaled = [task for task in tasks if board.scaled[task]]
    sets = ([scaled] if scaled else []) + [[task] for task in tasks if task not in scaled]
    sentences = []
    for names in sets:
        where = f"On {join_names(names, 3)}: " if len(sets) > 1 or len(names) > 1 else ""
        tables = [
            _table([_scores(side, board, task, steps[task]) for task in names]) for side in sides
        ]
        for first, second in combinations(range(len(sides)), 2):
            pair = [(sides[first], tables[first]), (sides[second], tables[second])]
            sentences.append(printable(where + _verdict(pair, names)))
    return sentences


def _verdict(pair: list[tuple[Side, np.ndarray]], tasks: list[str]) -> str:
    """Say which of two sides is above the other, if that can be said."""
    rng = generator(pair[0][0].label, pair[1][0].label, *tasks)
    pairs = paired(pair[0][0].runs, pair[1][0].runs, tasks)
    counts = [int(count) for _, table in pair for count in np.isfinite(table).sum(axis=0)]
    ordered = pair if iqm(pair[0][1]) >= iqm(pair[1][1]) else pair[::-1]
    (best, ours), (other, theirs) = ordered
    difference = statistics.difference(ours, theirs, rng, paired=pairs)
    return describe_difference(best.label, other.label, difference, format_range(counts))


def _table(columns: list[np.ndarray]) -> np.ndarray:
    table = np.full((max(map(len, columns)), len(columns)), np.nan)
    for place, column in enumerate(columns):
        table[: len(column), place] = column
    return table


def _differences(sides: list[Side]) -> list[str]:
    """Say in what sides are unlike beside the algorithm: replay ratio and length."""
    sentences = []
    ratios = sorted({run.replay_ratio for side in sides for run in side.runs})
    if len(ratios) > 1:
        sentences.append(
            f"The replay ratios differ ({', '.join(map(str, ratios))}): more updates, not only "
            "another algorithm."
        )
    lengths = sorted({run.steps for side in sides for run in side.runs})
    if len(lengths) > 1:
        steps = join_names([format_steps(length) for length in lengths])
        sentences.append(f"They were planned to unlike lengths ({steps} steps).")
    return sentences
