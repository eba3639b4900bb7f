"""How each figure is drawn, by matplotlib, without a screen. An agent's ink is the same in all of
them.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter

from dualac.analysis import statistics
from dualac.analysis.data.completeness import describe_counts, describe_missing
from dualac.analysis.data.curves import Curve
from dualac.analysis.data.groups import Group
from dualac.analysis.data.scores import grid, held
from dualac.analysis.figures.style import DASHES, STYLE, Ink, inks, legible
from dualac.analysis.summary.summarise import Panel, Summary, overestimation
from dualac.analysis.summary.tables import Share
from dualac.analysis.summary.wording import format_count, format_steps, join_names

Inks = Mapping[str, Ink]
COLUMNS = 5  # of small multiples
ADJUSTED = {  # the paper's four panels, and what is read for each
    "Q spread / Q mean": ("train/q_std", "train/q_mean"),
    "optimism": ("train/optimism",),
    "KL weight": ("train/kl_weight",),
    "KL per action dimension": ("train/kl",),
}
LOGARITHMIC = (
    "Q spread / Q mean",
    "KL per action dimension",
)  # they fall by orders of magnitude in the first steps


def caption(panels: Sequence[Panel], summary: Summary) -> str:
    """What is shown, over what, and what is missing."""
    words = []
    for panel in panels:
        start = f"from {format_steps(panel.start)} " if panel.start else ""
        what = f"Mean score on the way {start}to" if panel.area else "Scores at"
        words.append(
            f"{panel.title}: {what.lower()} {format_steps(panel.at)} steps over "
            f"{format_count(len(panel.tasks), 'task')}"
        )
    told = "; ".join(words)
    left = sorted({task for panel in panels for task in panel.left_out})
    holes = f" Not in every algorithm's runs, and left out: {join_names(left)}." if left else ""
    seeds = [
        f"Seeds of each task{f', {panel.title}' if len(panels) > 1 else ''}: "
        f"{describe_counts(panel.counts())}."
        for panel in panels
        if panel.tasks
    ]
    gone = describe_missing(summary.groups, summary.frame.missing)
    apart = sorted({one.label for panel in panels for one in panel.apart})
    behind = f" Too far behind to be compared: {join_names(apart)}." if apart else ""
    return (
        f"IQM with 95 % stratified-bootstrap intervals. {told[:1].upper()}{told[1:]}. "
        f"{' '.join(seeds)} {gone}{holes}{behind}"
    )


def efficiency(panels: Sequence[Panel], colours: Inks) -> Figure:
    with mpl.rc_context(STYLE):
        figure, grid_of = _figure(len(panels), 2, (5.2, 3.8))
        for axes, panel in zip(grid_of, panels, strict=False):
            for one in panel.groups:
                _band(
                    axes,
                    panel.steps,
                    panel.bands[one.label],
                    colours[one.agent],
                    panel.names()[one.label],
                )
            _finish(axes, panel.title, "IQM")
        return figure


def clock(panels: Sequence[Panel], colours: Inks) -> Figure:
    """Against steps on the left, against hours on the right."""
    with mpl.rc_context(STYLE):
        figure, grid_of = _figure(2 * len(panels), 2, (5.2, 3.8))
        for place, panel in enumerate(panels):
            for side, axes in enumerate(grid_of[2 * place : 2 * place + 2]):
                for one in panel.groups:
                    seconds = panel.clocks[one.label].get("seconds")
                    if side == 0 or seconds is not None:
                        _band(
                            axes,
                            panel.steps if seconds is None or side == 0 else seconds / 3600,
                            panel.bands[one.label],
                            colours[one.agent],
                            panel.names()[one.label],
                        )
                _finish(axes, panel.title, "IQM", "hours" if side else "environment steps")
                if side:
                    axes.xaxis.set_major_formatter(mpl.ticker.ScalarFormatter())  # pyright: ignore[reportAttributeAccessIssue]
        return figure


def final(panels: Sequence[Panel], colours: Inks) -> Figure:
    """A bar an agent; beside all tasks, each suite's own."""
    columns = [(panel, name) for panel in panels for name in ["", *panel.suites]]
    with mpl.rc_context(STYLE):
        most = max(len(panel.groups) for panel in panels)
        figure, grid_of = _figure(len(columns), 4, (3.6, 1.2 + 0.34 * most))
        for axes, (panel, suite) in zip(grid_of, columns, strict=False):
            found = (
                panel.suites[suite]
                if suite
                else {label: some["IQM"] for label, some in panel.aggregates.items()}
            )
            ranked = panel.ranked()[::-1]
            for place, one in enumerate(ranked):
                estimate = found[one.label]
                axes.barh(
                    place,
                    np.nan_to_num(estimate.estimate),
                    color=colours[one.agent].colour,
                    height=0.7,
                )
                if estimate.defined:
                    axes.plot(
                        [estimate.low, estimate.high],
                        [place, place],
                        color="#333333",
                        linewidth=1.6,
                        solid_capstyle="butt",
                    )
            axes.set_yticks(
                range(len(ranked)),
                [
                    name if len(name) < 34 else name[:33] + "…"
                    for name in (panel.names()[one.label] for one in ranked)
                ],
            )
            axes.grid(visible=False, axis="y")
            axes.set_title(f"{panel.title}\n{suite or 'all tasks'}", loc="left", fontsize=9)
            axes.set_xlabel("IQM")
            lowest = np.nanmin([0.0, *(end for one in ranked for end in found[one.label][:2])])
            axes.set_xlim(1.05 * lowest, None if np.nanmax([0.0, *axes.get_xlim()]) > 1.2 else 1.0)
        return figure


def tasks(summary: Summary) -> Figure:
    """A panel a task and replay ratio: every seed a thin line, the mean over seeds a thick one."""
    ratios = sorted({one.replay_ratio for one in summary.groups})
    cells = [
        (ratio, task)
        for ratio in ratios
        for task in summary.tasks
        if any(one.replay_ratio == ratio and task in one.tasks for one in summary.groups)
    ]
    with mpl.rc_context(STYLE):
        figure, grid_of = _figure(len(cells), COLUMNS, (3.0, 2.3))
        for axes, (ratio, task) in zip(grid_of, cells, strict=False):
            for one in summary.groups:
                curves = (
                    [summary.board.curve(run) for run in one.runs if run.task == task]
                    if one.replay_ratio == ratio
                    else []
                )
                _seeds(axes, curves, summary.inks[one.agent], one.agent)
            _finish(
                axes,
                task if len(ratios) == 1 else f"{task}, RR {ratio}",
                "score" if summary.board.scaled[task] else "return",
                legend=False,
            )
        _legend(figure, grid_of)
        return figure


def together(groups: Sequence[Group], summary: Summary) -> Figure:
    """A panel a task: every agent on it, whatever its replay ratio."""
    names = sorted({run.task for one in groups for run in one.runs})
    with mpl.rc_context(STYLE):
        figure, grid_of = _figure(len(names), COLUMNS, (3.0, 2.3))
        for axes, task in zip(grid_of, names, strict=False):
            for one, dash in zip(groups, ratio_dashes(groups), strict=True):
                curves = [summary.board.curve(run) for run in one.runs if run.task == task]
                _seeds(axes, curves, Ink(summary.inks[one.agent].colour, dash), one.label)
            _finish(axes, task, "score" if summary.board.scaled[task] else "return", legend=False)
        _legend(figure, grid_of)
        return figure


def ratio_dashes(groups: Sequence[Group]) -> list[str]:
    """An agent keeps its colour; its replay ratios are told apart by dashes."""
    ratios = {
        name: sorted({one.replay_ratio for one in groups if one.name == name})
        for name in {one.name for one in groups}
    }
    return [DASHES[ratios[one.name].index(one.replay_ratio) % len(DASHES)] for one in groups]


def adjustments(groups: Sequence[Group]) -> Figure:
    """Four panels an agent: a line a task."""
    with mpl.rc_context(STYLE):
        figure, grid_of = _figure(4 * len(groups), 2 if len(groups) == 1 else 4, (4.6, 2.8))
        names = sorted({run.task for one in groups for run in one.runs})
        cells = [(one, title, columns) for one in groups for title, columns in ADJUSTED.items()]
        for axes, (one, title, columns) in zip(grid_of, cells, strict=True):
            for task in sorted(one.tasks):
                line = adjusted([run.training for run in one.runs if run.task == task], columns)
                ink = inks(names)[task]
                axes.plot(
                    line.steps,
                    line.returns,
                    color=ink.colour,
                    linestyle=ink.linestyle,
                    linewidth=1.1,
                    label=task,
                )
            if title in LOGARITHMIC and axes.lines:
                axes.set_yscale("log")
                legible(axes.yaxis)
            _finish(axes, title if len(groups) == 1 else f"{one.label}: {title}", "", legend=False)
        _legend(figure, grid_of)
        return figure


def adjusted(logs: Sequence[dict[str, np.ndarray]], columns: tuple[str, ...]) -> Curve:
    """The mean over seeds of a logged number, or of the ratio of two."""
    curves = []
    for log in logs:
        if all(name in log for name in columns):
            values = (
                log[columns[0]]
                if len(columns) == 1
                else log[columns[0]]
                / np.where(log[columns[1]] == 0, np.nan, np.abs(log[columns[1]]))
            )
            there = np.isfinite(values)
            curves.append(Curve(log["step"][there], values[there]))
    steps = grid(curves)
    return Curve(
        steps,
        statistics.task_means(np.array([held(one, steps) for one in curves]).T[:, :, None])[:, 0]
        if curves
        else steps,
    )


def overestimations(groups: Sequence[Group], colours: Inks) -> Figure:
    suites = sorted({run.suite for one in groups for run in one.runs})
    ratios = sorted({one.replay_ratio for one in groups})
    cells = [
        (r, s)
        for r in ratios
        for s in suites
        if any(one.replay_ratio == r and run.suite == s for one in groups for run in one.runs)
    ]
    with mpl.rc_context(STYLE):
        figure, grid_of = _figure(len(cells), 3, (4.4, 3.2))
        for axes, (ratio, suite) in zip(grid_of, cells, strict=False):
            for one in groups:
                ink = colours[one.agent]
                here = (
                    [run.task for run in one.runs if run.suite == suite]
                    if one.replay_ratio == ratio
                    else []
                )
                steps = grid(
                    [
                        Curve(run.evaluations["step"], run.evaluations["value"])
                        for run in one.runs
                        if run.task in here
                    ]
                )
                if len(steps):
                    axes.plot(
                        steps,
                        overestimation(one, here, steps),
                        color=ink.colour,
                        linestyle=ink.linestyle,
                        label=one.agent,
                    )
            axes.axhline(1.0, color="#777777", linestyle="--", linewidth=1)
            axes.set_yscale("log")
            legible(axes.yaxis)
            _finish(axes, f"{suite}, replay ratio {ratio}", "|Q| / |G|", legend=False)
        _legend(figure, grid_of)
        return figure


def shares(rows: Sequence[Share], label: str) -> Figure:
    titles = list(dict.fromkeys(row.panel for row in rows))
    with mpl.rc_context(STYLE):
        figure, grid_of = _figure(len(titles), 2, (6.0, 1.2 + 0.3 * len(rows) / len(titles)))
        for axes, title in zip(grid_of, titles, strict=False):
            some = [row for row in rows if row.panel == title][::-1]
            for place, row in enumerate(some):
                axes.barh(
                    place,
                    np.nan_to_num(row.found.estimate),
                    color="#0072B2" if row.default else "#56B4E9",
                    height=0.7,
                )
                if row.found.defined and math.isfinite(row.found.high):
                    axes.plot(
                        [row.found.low, row.found.high],
                        [place, place],
                        color="#333333",
                        linewidth=1.6,
                    )
            axes.set_yticks(range(len(some)), [row.label for row in some])
            for tick, row in zip(axes.get_yticklabels(), some, strict=True):
                tick.set_fontweight("bold" if row.default else "normal")
            axes.grid(visible=False, axis="y")
            axes.set_title(title, loc="left")
            axes.set_xlabel(label)
        return figure


def _figure(count: int, most: int, size: tuple[float, float]) -> tuple[Figure, list[Axes]]:
    columns = max(1, min(most, count))
    rows = max(1, math.ceil(count / columns))
    figure = Figure(figsize=(size[0] * columns, size[1] * rows), layout="constrained")
    found: Any = figure.subplots(rows, columns, squeeze=False)
    for spare in found.flat[count:]:
        spare.set_visible(False)
    return figure, list(found.flat[:count])


def _band(axes: Axes, x: np.ndarray, band: statistics.Band, ink: Ink, label: str) -> None:
    axes.plot(x, band.estimate, color=ink.colour, linestyle=ink.linestyle, linewidth=2, label=label)
    axes.fill_between(x, band.low, band.high, color=ink.colour, alpha=0.18, linewidth=0)


def _seeds(axes: Axes, curves: list[Curve], ink: Ink, label: str) -> None:
    if not curves:
        return
    for curve in curves:
        axes.plot(curve.steps, curve.returns, color=ink.colour, linewidth=0.6, alpha=0.45)
    steps = grid(curves)
    mean = statistics.task_means(np.array([held(curve, steps) for curve in curves]).T[:, :, None])[
        :, 0
    ]
    axes.plot(steps, mean, color=ink.colour, linestyle=ink.linestyle, linewidth=1.8, label=label)


def _legend(figure: Figure, some: Sequence[Axes]) -> None:
    """One for all panels."""
    handles = {
        label: line
        for axes in some
        for line, label in zip(*axes.get_legend_handles_labels(), strict=True)
    }
    if handles:
        figure.legend(
            handles.values(),
            handles.keys(),
            loc="outside lower center",
            ncols=4,
            frameon=False,
            fontsize=8,
        )


def _finish(
    axes: Axes, title: str, label: str, x: str = "environment steps", *, legend: bool = True
) -> None:
    axes.set_title(title, loc="left", fontsize=9)
    axes.set_xlabel(x)
    axes.set_ylabel(label)
    axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    if legend and axes.get_legend_handles_labels()[0]:
        axes.legend(frameon=False, fontsize=7)
