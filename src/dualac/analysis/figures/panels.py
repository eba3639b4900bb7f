"""How each figure is drawn, by matplotlib, without a screen. An agent has one ink in all."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter, ScalarFormatter

from dualac.analysis import statistics
from dualac.analysis.data.completeness import describe_counts, describe_missing
from dualac.analysis.data.curves import Curve
from dualac.analysis.data.groups import Group
from dualac.analysis.data.scores import grid, held
from dualac.analysis.figures.style import DASHES, STYLE, Ink, inks, legible, shortened
from dualac.analysis.metrics import METRICS, Metric
from dualac.analysis.statistics import Interval
from dualac.analysis.summary.averages import overestimation
from dualac.analysis.summary.panel import Panel
from dualac.analysis.summary.summarise import Summary
from dualac.analysis.summary.tables import Share
from dualac.analysis.summary.wording import format_count, join_names
from dualac.parts.text import format_steps

Inks = Mapping[str, Ink]
COLUMNS = 5  # of small multiples
LONGEST_NAME = 34  # beside a bar
ADJUSTED = ("ratio", "optimism", "kl_weight", "kl")  # the paper's four panels
DIAGNOSED = ("std_ratio", "shift", "disagreement", "kl_median", "kl_q99", "data_distance")


def caption(panels: Sequence[Panel], summary: Summary) -> str:
    """Say what is shown, over what, and what is missing."""
    shown = "; ".join(_describe_panel(panel) for panel in panels)
    seeds = [
        f"Seeds of each task{f', {panel.title}' if len(panels) > 1 else ''}: "
        f"{describe_counts(panel.counts())}."
        for panel in panels
        if panel.tasks
    ]
    missing = describe_missing(summary.groups, summary.frame.missing)
    left_out = sorted({task for panel in panels for task in panel.left_out})
    holes = ""
    if left_out:
        holes = f" Not in every algorithm's runs, and left out: {join_names(left_out)}."
    apart = sorted({group.label for panel in panels for group in panel.apart})
    behind = f" Too far behind to be compared: {join_names(apart)}." if apart else ""
    return (
        f"IQM with 95 % stratified-bootstrap intervals. {shown[:1].upper()}{shown[1:]}. "
        f"{' '.join(seeds)} {missing}{holes}{behind}"
    )


def _describe_panel(panel: Panel) -> str:
    where = "scores at"
    if panel.area:
        start = f"from {format_steps(panel.start)} " if panel.start else ""
        where = f"mean score on the way {start}to"
    tasks = format_count(len(panel.tasks), "task")
    return f"{panel.title}: {where} {format_steps(panel.at)} steps over {tasks}"


def efficiency(panels: Sequence[Panel], colours: Inks) -> Figure:
    with mpl.rc_context(STYLE):
        figure, grid_of = _figure(len(panels), 2, (5.2, 3.8))
        for axes, panel in zip(grid_of, panels, strict=False):
            for group in panel.groups:
                _band(axes, panel.steps, panel, group, colours)
            _finish(axes, panel.title, "IQM")
        return figure


def clock(panels: Sequence[Panel], colours: Inks) -> Figure:
    """Draw the IQM against steps on the left, against hours on the right."""
    with mpl.rc_context(STYLE):
        figure, grid_of = _figure(2 * len(panels), 2, (5.2, 3.8))
        for place, panel in enumerate(panels):
            by_steps, by_hours = grid_of[2 * place : 2 * place + 2]
            for group in panel.groups:
                _band(by_steps, panel.steps, panel, group, colours)
                seconds = panel.clocks[group.label].get("seconds")
                if seconds is not None:
                    _band(by_hours, seconds / 3600, panel, group, colours)
            _finish(by_steps, panel.title, "IQM")
            _finish(by_hours, panel.title, "IQM", "hours")
            by_hours.xaxis.set_major_formatter(ScalarFormatter())
        return figure


def final(panels: Sequence[Panel], colours: Inks) -> Figure:
    """Draw a bar an agent; beside all tasks, each suite's own."""
    cells = [(panel, suite) for panel in panels for suite in ["", *panel.suites]]
    most = max(len(panel.groups) for panel in panels)
    with mpl.rc_context(STYLE):
        figure, grid_of = _figure(len(cells), 4, (3.6, 1.2 + 0.34 * most))
        for axes, (panel, suite) in zip(grid_of, cells, strict=False):
            intervals = {label: scores["IQM"] for label, scores in panel.aggregates.items()}
            if suite:
                intervals = panel.suites[suite]
            _score_bars(axes, panel, intervals, colours)
            axes.set_title(f"{panel.title}\n{suite or 'all tasks'}", loc="left", fontsize=9)
        return figure


def _score_bars(axes: Axes, panel: Panel, intervals: Mapping[str, Interval], colours: Inks) -> None:
    groups = panel.ranked()[::-1]
    for place, group in enumerate(groups):
        score = intervals[group.label]
        colour = colours[group.agent].colour
        axes.barh(place, np.nan_to_num(score.estimate), color=colour, height=0.7)
        if score.defined:
            ends = [score.low, score.high]
            axes.plot(ends, [place, place], color="#333333", linewidth=1.6, solid_capstyle="butt")
    names = [shortened(panel.names()[group.label], LONGEST_NAME) for group in groups]
    axes.set_yticks(range(len(groups)), names)
    axes.grid(visible=False, axis="y")
    axes.set_xlabel("IQM")
    lowest = np.nanmin([0.0, *(end for group in groups for end in intervals[group.label][:2])])
    highest = np.nanmax([0.0, *axes.get_xlim()])
    axes.set_xlim(1.05 * lowest, None if highest > 1.2 else 1.0)


def tasks(summary: Summary) -> Figure:
    """Draw a panel a task and replay ratio: every seed a thin line, their mean a thick one."""
    ratios = sorted({group.replay_ratio for group in summary.groups})
    cells = [
        (ratio, task)
        for ratio in ratios
        for task in summary.tasks
        if any(group.replay_ratio == ratio and task in group.tasks for group in summary.groups)
    ]
    with mpl.rc_context(STYLE):
        figure, grid_of = _figure(len(cells), COLUMNS, (3.0, 2.3))
        for axes, (ratio, task) in zip(grid_of, cells, strict=False):
            for group in summary.groups:
                if group.replay_ratio == ratio:
                    curves, ink = _curves(summary, group, task), summary.inks[group.agent]
                    _seeds(axes, curves, ink, group.agent)
            title = task if len(ratios) == 1 else f"{task}, RR {ratio}"
            _finish(axes, title, _unit(summary, task), legend=False)
        _legend(figure, grid_of)
        return figure


def together(groups: Sequence[Group], summary: Summary) -> Figure:
    """Draw a panel a task, with every agent on it, whatever its replay ratio."""
    names = sorted({run.task for group in groups for run in group.runs})
    with mpl.rc_context(STYLE):
        figure, grid_of = _figure(len(names), COLUMNS, (3.0, 2.3))
        for axes, task in zip(grid_of, names, strict=False):
            for group, dash in zip(groups, ratio_dashes(groups), strict=True):
                ink = Ink(summary.inks[group.agent].colour, dash)
                _seeds(axes, _curves(summary, group, task), ink, group.label)
            _finish(axes, task, _unit(summary, task), legend=False)
        _legend(figure, grid_of)
        return figure


def _curves(summary: Summary, group: Group, task: str) -> list[Curve]:
    return [summary.board.curve(run) for run in group.runs if run.task == task]


def _unit(summary: Summary, task: str) -> str:
    return "score" if summary.board.scaled[task] else "return"


def ratio_dashes(groups: Sequence[Group]) -> list[str]:
    """Choose dashes by replay ratio: an agent keeps its colour at all of them."""
    ratios = {
        name: sorted({group.replay_ratio for group in groups if group.name == name})
        for name in {group.name for group in groups}
    }
    return [DASHES[ratios[group.name].index(group.replay_ratio) % len(DASHES)] for group in groups]


def adjustments(groups: Sequence[Group]) -> Figure:
    """Draw how the duals move: the paper's four panels for each agent, a line a task."""
    return _metrics(groups, [METRICS[key] for key in ADJUSTED], 2)


def diagnoses(groups: Sequence[Group]) -> Figure:
    """Draw where the optimist departs from the pessimist: a line a task."""
    names = {name for group in groups for run in group.runs for name in run.training}
    metrics = [METRICS[key] for key in DIAGNOSED if names.issuperset(METRICS[key].columns)]
    return _metrics(groups, metrics, 3)


def _metrics(groups: Sequence[Group], metrics: Sequence[Metric], columns: int) -> Figure:
    """Draw a row of panels an agent; `columns` are those of a single agent."""
    names = sorted({run.task for group in groups for run in group.runs})
    colours = inks(names)
    with mpl.rc_context(STYLE):
        most = columns if len(groups) == 1 else len(metrics)
        figure, grid_of = _figure(len(metrics) * len(groups), most, (4.6, 2.8))
        cells = [(group, metric) for group in groups for metric in metrics]
        for axes, (group, metric) in zip(grid_of, cells, strict=True):
            for task in sorted(group.tasks):
                logs = [run.training for run in group.runs if run.task == task]
                _metric_line(axes, logs, metric, colours[task], task)
            if metric.logarithmic and axes.lines:
                axes.set_yscale("log")
                legible(axes.yaxis)
            title = metric.title if len(groups) == 1 else f"{group.label}: {metric.title}"
            _finish(axes, title, "", legend=False)
        _legend(figure, grid_of)
        return figure


def _metric_line(
    axes: Axes, logs: Sequence[dict[str, np.ndarray]], metric: Metric, ink: Ink, label: str
) -> None:
    line = mean_series(logs, metric.columns)
    style = {"color": ink.colour, "linestyle": ink.linestyle, "linewidth": 1.1}
    axes.plot(line.steps, line.returns, **style, label=label)
    if metric.band is None:
        return
    low, high = (mean_series(logs, (column,)) for column in metric.band)
    if len(low.steps) and len(high.steps):
        upper = held(high, low.steps)
        axes.fill_between(low.steps, low.returns, upper, color=ink.colour, alpha=0.14, linewidth=0)


def mean_series(logs: Sequence[dict[str, np.ndarray]], columns: Sequence[str]) -> Curve:
    """Return the mean over seeds of a logged number, or of its ratio to the size of a second."""
    curves = []
    for log in logs:
        if not all(name in log for name in columns):
            continue
        values, *divisors = (log[name] for name in columns)
        for divisor in divisors:
            values = values / np.where(divisor == 0, np.nan, np.abs(divisor))
        finite = np.isfinite(values)
        curves.append(Curve(log["step"][finite], values[finite]))
    steps = grid(curves)
    return Curve(steps, _mean_curve(curves, steps)) if curves else Curve(steps, steps)


def _mean_curve(curves: Sequence[Curve], steps: np.ndarray) -> np.ndarray:
    return statistics.mean_over_seeds([held(curve, steps) for curve in curves])


def overestimations(groups: Sequence[Group], colours: Inks) -> Figure:
    """Draw mean |Q| over mean |G| against steps, a panel a replay ratio and suite."""
    suites = sorted({run.suite for group in groups for run in group.runs})
    ratios = sorted({group.replay_ratio for group in groups})
    cells = [
        (ratio, suite)
        for ratio in ratios
        for suite in suites
        if any(_tasks_of(group, ratio, suite) for group in groups)
    ]
    with mpl.rc_context(STYLE):
        figure, grid_of = _figure(len(cells), 3, (4.4, 3.2))
        for axes, (ratio, suite) in zip(grid_of, cells, strict=False):
            for group in groups:
                names = _tasks_of(group, ratio, suite)
                _overestimation_line(axes, group, names, colours[group.agent])
            axes.axhline(1.0, color="#777777", linestyle="--", linewidth=1)
            axes.set_yscale("log")
            legible(axes.yaxis)
            _finish(axes, f"{suite}, replay ratio {ratio}", "|Q| / |G|", legend=False)
        _legend(figure, grid_of)
        return figure


def _tasks_of(group: Group, ratio: int, suite: str) -> list[str]:
    """List the task of each run of a group, if it has this replay ratio."""
    runs = group.runs if group.replay_ratio == ratio else []
    return [run.task for run in runs if run.suite == suite]


def _overestimation_line(axes: Axes, group: Group, names: Sequence[str], ink: Ink) -> None:
    runs = [run for run in group.runs if run.task in names]
    steps = grid([Curve(run.evaluations["step"], run.evaluations["value"]) for run in runs])
    if len(steps):
        values = overestimation(group, names, steps)
        axes.plot(steps, values, color=ink.colour, linestyle=ink.linestyle, label=group.agent)


def shares(rows: Sequence[Share], label: str) -> Figure:
    """Draw a bar a share, the default in bold."""
    titles = list(dict.fromkeys(row.panel for row in rows))
    with mpl.rc_context(STYLE):
        figure, grid_of = _figure(len(titles), 2, (6.0, 1.2 + 0.3 * len(rows) / len(titles)))
        for axes, title in zip(grid_of, titles, strict=False):
            of_panel = [row for row in rows if row.panel == title][::-1]
            for place, row in enumerate(of_panel):
                share = row.interval
                colour = "#0072B2" if row.default else "#56B4E9"
                axes.barh(place, np.nan_to_num(share.estimate), color=colour, height=0.7)
                if share.defined and math.isfinite(share.high):
                    ends = [share.low, share.high]
                    axes.plot(ends, [place, place], color="#333333", linewidth=1.6)
            axes.set_yticks(range(len(of_panel)), [row.label for row in of_panel])
            for tick, row in zip(axes.get_yticklabels(), of_panel, strict=True):
                tick.set_fontweight("bold" if row.default else "normal")
            axes.grid(visible=False, axis="y")
            axes.set_title(title, loc="left")
            axes.set_xlabel(label)
        return figure


def _figure(count: int, most: int, size: tuple[float, float]) -> tuple[Figure, list[Axes]]:
    """Make a figure of `count` axes, at most so many beside each other, each of this size."""
    columns = max(1, min(most, count))
    rows = max(1, math.ceil(count / columns))
    figure = Figure(figsize=(size[0] * columns, size[1] * rows), layout="constrained")
    axes: Any = figure.subplots(rows, columns, squeeze=False)
    for spare in axes.flat[count:]:
        spare.set_visible(False)
    return figure, list(axes.flat[:count])


def _band(axes: Axes, x: np.ndarray, panel: Panel, group: Group, colours: Inks) -> None:
    band, ink = panel.bands[group.label], colours[group.agent]
    label = panel.names()[group.label]
    axes.plot(x, band.estimate, color=ink.colour, linestyle=ink.linestyle, linewidth=2, label=label)
    axes.fill_between(x, band.low, band.high, color=ink.colour, alpha=0.18, linewidth=0)


def _seeds(axes: Axes, curves: Sequence[Curve], ink: Ink, label: str) -> None:
    if not curves:
        return
    for curve in curves:
        axes.plot(curve.steps, curve.returns, color=ink.colour, linewidth=0.6, alpha=0.45)
    steps = grid(curves)
    style = {"color": ink.colour, "linestyle": ink.linestyle, "linewidth": 1.8}
    axes.plot(steps, _mean_curve(curves, steps), **style, label=label)


def _legend(figure: Figure, panels: Sequence[Axes]) -> None:
    handles = {
        label: line
        for axes in panels
        for line, label in zip(*axes.get_legend_handles_labels(), strict=True)
    }
    if handles:
        style: Any = {"loc": "outside lower center", "ncols": 4, "frameon": False, "fontsize": 8}
        figure.legend(handles.values(), handles.keys(), **style)


def _finish(
    axes: Axes, title: str, label: str, x: str = "environment steps", *, legend: bool = True
) -> None:
    axes.set_title(title, loc="left", fontsize=9)
    axes.set_xlabel(x)
    axes.set_ylabel(label)
    axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    if legend and axes.get_legend_handles_labels()[0]:
        axes.legend(frameon=False, fontsize=7)
