"""Runs and directories side by side, for a terminal: a row each, and what can honestly be said
about their differences.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from dualac.analysis import statistics
from dualac.analysis.data.frame import RunRecord, read
from dualac.analysis.data.groups import Group, group, usual_rules
from dualac.analysis.data.scores import Board, grid, held, paired
from dualac.analysis.statistics import Interval, iqm
from dualac.analysis.summary.summarise import USUAL, At, Choices, generator
from dualac.analysis.summary.wording import (
    describe_difference,
    format_count,
    format_range,
    format_steps,
    join_names,
    printable,
)
from dualac.errors import DataError, UsageError

BARS = "▁▂▃▄▅▆▇█"
WIDTH = 24  # of a sparkline


class Row(NamedTuple):
    label: str
    task: str
    seeds: int
    of: int
    found: Interval
    """of the mean over seeds, at the step"""
    sparkline: str


class Compared(NamedTuple):
    at: dict[str, float]
    """the step at which a task is compared: the furthest that every side came to"""
    units: dict[str, str]
    rows: list[Row]
    sentences: list[str]


class Side(NamedTuple):
    label: str
    runs: list[RunRecord]


def compare(places: Sequence[Path], choices: Choices = USUAL) -> Compared:
    """Each place is a side if there are several, each agent is one if there is one place."""
    frames = [read([place]) for place in places]
    for place, frame in zip(places, frames, strict=True):
        if not frame.runs:
            told = f" ({frame.damaged[0]})" if frame.damaged else ""
            raise DataError(f"no run at or below {place}{told}; dualac train makes some")
    usual = usual_rules(
        run for frame in frames for run in frame.runs
    )  # of all that is compared: each place alone may agree with itself
    grouped = [group(frame.runs, choices.unlike, choices.rows, usual) for frame in frames]
    sides = _sides(places, [found.groups for found in grouped])
    refused = [f"{run.path}, {reason}" for found in grouped for run, reason in found.refused]
    if len(sides) < 2 and refused:
        told = (
            f"too little is left to compare without {format_count(len(refused), 'run')} that "
            f"cannot be: {printable(refused[0])}"
        )
        raise DataError(f"{told}; --unlike separate keeps them apart")
    if len(sides) < 2:
        raise UsageError(
            f"only {sides[0].label if sides else 'nothing'} was found: give a second RUN or "
            "directory to compare with"
        )
    board = Board([one for found in grouped for one in found.groups], choices.bounds)
    tasks = sorted(set.intersection(*({run.task for run in side.runs} for side in sides)))
    if not tasks:
        told = "; ".join(
            f"{side.label} has {join_names(sorted({run.task for run in side.runs}), 3)}"
            for side in sides
        )
        raise DataError(f"no task is common to all that are compared: {told}")
    steps = {task: _common_step(sides, board, task, choices.at) for task in tasks}
    rows = [row for task in tasks for row in _rows(sides, board, task, steps[task])]
    notes = [f"left out: {one} (--unlike separate keeps it apart)" for one in refused]
    notes += [str(one) for frame in frames for one in frame.damaged]
    scaled = {task: board.scaled[task] for task in tasks}
    units = {printable(task): found.unit if (found := scaled[task]) else "return" for task in tasks}
    return Compared(
        {printable(task): step for task, step in steps.items()},
        units,
        rows,
        [*_verdicts(sides, board, tasks, steps), *_differences(sides), *map(printable, notes)],
    )


def _sides(places: Sequence[Path], found: Sequence[Sequence[Group]]) -> list[Side]:
    sides = []
    names = [one.agent for groups in found for one in groups]
    ratios = {one.replay_ratio for groups in found for one in groups}
    for place, groups in zip(places, found, strict=True):
        for one in groups:
            ratio = f", RR {one.replay_ratio}" if len(ratios) > 1 else ""
            where = (
                f" ({_ending(place, places)})"
                if names.count(one.agent) > 1 and len(places) > 1
                else ""
            )
            sides.append(Side(printable(f"{one.agent}{ratio}{where}"), one.runs))
    return sides


def _ending(place: Path, places: Sequence[Path]) -> str:
    """As much of a path as tells it from the others."""
    parts = place.resolve().parts
    for count in range(1, len(parts)):
        ending = parts[-count:]
        if sum(other.resolve().parts[-count:] == ending for other in places) == 1:
            return "/".join(ending)
    return str(place)


def _common_step(sides: list[Side], board: Board, task: str, at: At) -> float:
    reached = min(max(board.last(run) for run in side.runs if run.task == task) for side in sides)
    if reached < 0:
        behind = [
            side.label
            for side in sides
            if max(board.last(run) for run in side.runs if run.task == task) < 0
        ]
        raise DataError(f"{join_names(behind)} has no evaluation of {task} yet; wait for the first")
    if isinstance(at, int) and at > reached:
        raise UsageError(f"--at {at}: on {task} not all have come further than {reached:.0f}")
    return float(at) if isinstance(at, int) else reached


def _scores(side: Side, board: Board, task: str, step: float) -> np.ndarray:
    return np.array(
        [held(board.curve(run), np.array([step]))[0] for run in side.runs if run.task == task]
    )


def _rows(sides: list[Side], board: Board, task: str, step: float) -> list[Row]:
    """A row a side, their sparklines on one scale."""
    curves = [[board.curve(run) for run in side.runs if run.task == task] for side in sides]
    lines = []
    for some in curves:
        steps = grid(some, step, 10_000)
        lines.append(
            statistics.task_means(
                np.stack([held(curve, steps) for curve in some], axis=1)[:, :, None]
            )[:, 0]
        )
    ends = np.concatenate(lines)
    rows = []
    for side, some, line in zip(sides, curves, lines, strict=True):
        scores = _scores(side, board, task, step)
        found = statistics.interval(scores[:, None], statistics.mean, generator(side.label, task))
        rows.append(
            Row(
                side.label,
                printable(task),
                int(np.isfinite(scores).sum()),
                len(some),
                found,
                sparkline(line, ends),
            )
        )
    return rows


def sparkline(values: np.ndarray, scale: np.ndarray, width: int = WIDTH) -> str:
    """The shape of a curve in letters, between the least and the greatest of `scale`; a gap where
    there is no number.
    """
    if not len(values):
        return ""
    shown = values[np.linspace(0, len(values) - 1, min(width, len(values))).round().astype(int)]
    there = scale[np.isfinite(scale)]
    low, span = (there.min(), np.ptp(there)) if len(there) else (0.0, 0.0)
    return "".join(
        " "
        if not np.isfinite(one)
        else BARS[int((one - low) / span * (len(BARS) - 1)) if span else 0]
        for one in shown
    )


def _verdicts(
    sides: list[Side], board: Board, tasks: list[str], steps: dict[str, float]
) -> list[str]:
    """Each pair on all tasks that have scores, by IQM; without scores, task by task, by return."""
    scaled = [task for task in tasks if board.scaled[task]]
    sets = ([scaled] if scaled else []) + [[task] for task in tasks if task not in scaled]
    found = []
    for some in sets:
        tables = [
            _table([_scores(side, board, task, steps[task]) for task in some]) for side in sides
        ]
        for first, ours in enumerate(sides):
            for second, theirs in list(enumerate(sides))[first + 1 :]:
                order = (
                    (first, second)
                    if iqm(tables[first]) >= iqm(tables[second])
                    else (second, first)
                )
                pairs = paired(ours.runs, theirs.runs, some)
                told = statistics.difference(
                    tables[order[0]],
                    tables[order[1]],
                    generator(ours.label, theirs.label, *some),
                    paired=pairs,
                )
                counts = [
                    int(count)
                    for table in (tables[first], tables[second])
                    for count in np.isfinite(table).sum(axis=0)
                ]
                where = f"On {join_names(some, 3)}: " if len(sets) > 1 or len(some) > 1 else ""
                found.append(
                    printable(
                        where
                        + describe_difference(
                            sides[order[0]].label, sides[order[1]].label, told, format_range(counts)
                        )
                    )
                )
    return found


def _table(columns: list[np.ndarray]) -> np.ndarray:
    table = np.full((max(map(len, columns)), len(columns)), np.nan)
    for place, column in enumerate(columns):
        table[: len(column), place] = column
    return table


def _differences(sides: list[Side]) -> list[str]:
    """Where two sides are of one algorithm, or of unlike replay ratios, what is different about
    them.
    """
    ratios = sorted({run.replay_ratio for side in sides for run in side.runs})
    told = (
        [
            f"The replay ratios differ ({', '.join(map(str, ratios))}): more updates, not only "
            "another algorithm."
        ]
        if len(ratios) > 1
        else []
    )
    lengths = sorted({run.steps for side in sides for run in side.runs})
    return told + (
        [
            "They were planned to unlike lengths "
            f"({join_names([format_steps(one) for one in lengths])} steps)."
        ]
        if len(lengths) > 1
        else []
    )
