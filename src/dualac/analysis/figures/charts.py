"""The numbers that a page's charts are drawn from, thinned and rounded to what an eye can see."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from dualac.analysis import statistics
from dualac.analysis.data.curves import Curve
from dualac.analysis.data.groups import Group
from dualac.analysis.data.scores import GRID, grid, held
from dualac.analysis.figures.panels import mean_series, ratio_dashes
from dualac.analysis.figures.style import inks
from dualac.analysis.metrics import METRICS, Metric
from dualac.analysis.summary.averages import clocks, overestimation
from dualac.analysis.summary.panel import Panel
from dualac.analysis.summary.summarise import Summary
from dualac.analysis.summary.tables import Share

DIGITS = 4
INSIDE_POINTS = 61
THIN_POINTS = 51  # of a task's curve where the runs are many
MANY_RUNS = 600

Data = dict[str, Any]


def logged(groups: Sequence[Group]) -> list[Metric]:
    """Return the metrics that some of these runs have logged."""
    names = {name for group in groups for run in group.runs for name in run.training}
    return [metric for metric in METRICS.values() if names.issuperset(metric.columns)]


def rounded(values: np.ndarray) -> list[float | None]:
    """Round to a few significant digits; a number that is not finite is None."""
    return [
        float(f"{value:.{DIGITS}g}") if math.isfinite(value) else None for value in values.tolist()
    ]


def whole(values: np.ndarray) -> list[int | None]:
    """Round to whole numbers; a number that is not finite is None."""
    return [round(value) if math.isfinite(value) else None for value in values.tolist()]


def panel_data(panel: Panel) -> Data:
    return {
        "steps": whole(panel.steps),
        "groups": [_panel_group(panel, group) for group in panel.groups],
    }


def _panel_group(panel: Panel, group: Group) -> Data:
    label = group.label
    bars = {"all": panel.aggregates[label]["IQM"]}
    bars |= {suite: intervals[label] for suite, intervals in panel.suites.items()}
    profile = None
    if label in panel.profiles:
        profile = [rounded(line) for line in panel.profiles[label]]
    band = panel.bands[label]
    return {
        "agent": group.agent,
        "name": panel.names()[label],
        "bars": {name: interval.as_dict() for name, interval in bars.items()},
        "profile": profile,
        "iqm": rounded(band.estimate),
        "low": rounded(band.low),
        "high": rounded(band.high),
        **{clock: rounded(values) for clock, values in panel.clocks[label].items()},
    }


def task_data(summary: Summary, task: str, ratio: int) -> Data:
    """Return each seed's curve on one axis of steps, with the clocks of its group."""
    groups = [
        group for group in summary.groups if group.replay_ratio == ratio and task in group.tasks
    ]
    return _task_data(summary, task, groups)


def together_data(summary: Summary, groups: Sequence[Group]) -> list[Data]:
    """Return a chart a task, with every agent on it, whatever its replay ratio."""
    dashes = dict(zip((group.label for group in groups), ratio_dashes(groups), strict=True))
    charts = []
    for task in sorted({run.task for group in groups for run in group.runs}):
        on_task = [group for group in groups if task in group.tasks]
        data = _task_data(summary, task, on_task)
        lines = [
            {**line, "name": group.label, "dash": dashes[group.label]}
            for group, line in zip(on_task, data["groups"], strict=True)
        ]
        charts.append({**data, "groups": lines})
    return charts


def _task_data(summary: Summary, task: str, groups: Sequence[Group]) -> Data:
    runs = {group.label: [run for run in group.runs if run.task == task] for group in groups}
    points = THIN_POINTS if len(summary.frame.runs) > MANY_RUNS else GRID
    curves = [summary.board.curve(run) for members in runs.values() for run in members]
    steps = grid(curves, most=points)
    lines = []
    for group in groups:
        members = runs[group.label]
        values = [held(summary.board.curve(run), steps) for run in members]
        mean = statistics.mean_over_seeds(values)
        seeds = [
            {"seed": run.seed, "y": rounded(row)} for run, row in zip(members, values, strict=True)
        ]
        times = {clock: rounded(row) for clock, row in clocks(members, steps).items()}
        names = {"agent": group.agent, "name": group.agent}
        lines.append({**names, "mean": rounded(mean), "seeds": seeds, **times})
    unit = "score" if summary.board.scaled[task] else "return"
    return {"unit": unit, "steps": whole(steps), "groups": lines}


def inside_data(groups: Sequence[Group]) -> list[Data]:
    """Return how duals and diagnoses move: a chart an agent, a line a task, the resets marked."""
    metrics = logged(groups)
    charts = []
    for group in groups:
        colours = inks(group.tasks)
        tasks = []
        for task in sorted(group.tasks):
            logs = [run.training for run in group.runs if run.task == task]
            lines = {metric.key: _metric_line(logs, metric) for metric in metrics}
            tasks.append(
                {
                    "task": task,
                    "colour": colours[task].colour,
                    "dash": colours[task].dash,
                    "lines": {key: line for key, line in lines.items() if line},
                }
            )
        target = group.settings.get("algorithm.explorer.target_kl")
        refs = {"kl": target} if isinstance(target, int | float) else {}
        charts.append({"label": group.label, "refs": refs, "marks": _resets(group), "tasks": tasks})
    return charts


def _metric_line(logs: Sequence[dict[str, np.ndarray]], metric: Metric) -> Data | None:
    """Return the mean over seeds of a metric, with its band where that is logged."""
    line = mean_series(logs, metric.columns)
    if not len(line.steps):
        return None
    steps = grid([line], most=INSIDE_POINTS)
    data = {"x": whole(steps), "y": rounded(held(line, steps))}
    if metric.band is None:
        return data
    low, high = (held(mean_series(logs, (column,)), steps) for column in metric.band)
    if not (np.isfinite(low).any() and np.isfinite(high).any()):
        return data
    if metric.logarithmic:  # such an axis has no place for 0
        low = np.where(low > 0, low, np.nan)
    return {**data, "low": rounded(low), "high": rounded(high)}


def _resets(group: Group) -> list[int]:
    listed, every = group.settings.get("resets"), group.settings.get("reset_every")
    last = max(run.steps for run in group.runs)
    marks = [step for step in listed if isinstance(step, int)] if isinstance(listed, list) else []
    if isinstance(every, int) and every > last // 200:
        marks += range(every, last, every)
    return marks


def overestimation_data(groups: Sequence[Group]) -> list[tuple[str, Data]]:
    """Return mean |Q| over mean |G| against steps, by replay ratio and suite."""
    charts = []
    for ratio in sorted({group.replay_ratio for group in groups}):
        members = [group for group in groups if group.replay_ratio == ratio]
        for suite in sorted({run.suite for group in members for run in group.runs}):
            lines = [line for group in members if (line := _overestimation_line(group, suite))]
            if lines:
                charts.append((f"{suite}, replay ratio {ratio}", {"lines": lines}))
    return charts


def _overestimation_line(group: Group, suite: str) -> Data | None:
    runs = [run for run in group.runs if run.suite == suite]
    evaluated = [Curve(np.unique(run.evaluations["step"]), np.array([])) for run in runs]
    steps = grid(evaluated, most=INSIDE_POINTS)
    values = overestimation(group, [run.task for run in runs], steps)
    if not np.isfinite(values).any():
        return None
    return {"agent": group.agent, "name": group.agent, "x": whole(steps), "y": rounded(values)}


def share_data(rows: Sequence[Share], unit: str) -> list[Data]:
    return [
        {
            "title": title,
            "x": unit,
            "rows": [
                {"name": row.label, **row.interval.as_dict(), "strong": row.default}
                for row in rows
                if row.panel == title
            ],
        }
        for title in dict.fromkeys(row.panel for row in rows)
    ]
