"""Pictures of runs, by matplotlib, without a screen."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from dualac.analysis.data.curves import evaluation_curve, training_series
from dualac.analysis.figures.style import COLOURS, STYLE, legible
from dualac.analysis.metrics import METRICS

INSIDE = ("kl", "optimism", "kl_weight", "temperature")  # a panel each
DASHED: dict[str, Any] = {"color": "#777777", "linestyle": "--", "linewidth": 1}
BESIDE = {"kl": METRICS["kl_median"].columns}  # what is drawn on top in a panel


def learning_curve(
    groups: Mapping[str, list[Path]], title: str, out: Path, random_score: float | None = None
) -> Path:
    """Draw return against steps: each seed a thin line, each group's mean a thick one."""
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(7, 4.2), layout="constrained")
        axes = figure.subplots()
        for colour, (name, runs) in zip(COLOURS, groups.items(), strict=False):
            curves = [evaluation_curve(run) for run in runs]
            for curve in curves:
                axes.plot(curve.steps, curve.returns, color=colour, linewidth=0.8, alpha=0.5)
            steps = sorted(set.intersection(*(set(curve.steps.tolist()) for curve in curves)))
            returns = [curve.returns[np.isin(curve.steps, steps)] for curve in curves]
            label = f"{name} ({len(runs)} seed{'s' * (len(runs) > 1)})"
            axes.plot(steps, np.mean(returns, axis=0), color=colour, linewidth=2.2, label=label)
        if random_score is not None:
            axes.axhline(random_score, **DASHED, label="random policy")
        _finish(axes, title, "return of the evaluated policy")
        axes.legend(frameon=False)
        return save(figure, out)


def inside(runs: list[Path], title: str, targets: Mapping[str, float], out: Path) -> Path:
    """Draw how duals move, a thin line a seed, with dashed `targets` by the title of a panel."""
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(10, 5.6), layout="constrained")
        for axes, key in zip(figure.subplots(2, 2).flat, INSIDE, strict=True):
            metric = METRICS[key]
            names = (*metric.columns, *BESIDE.get(key, ()))
            _plot_series(axes, runs, names)
            if metric.title in targets:
                axes.axhline(targets[metric.title], **DASHED, label="target")
            if metric.logarithmic:
                axes.set_yscale("log")
                legible(axes.yaxis)
            _finish(axes, metric.title, "")
            if len(names) > 1 or metric.title in targets:
                axes.legend(frameon=False, fontsize=8)
        figure.suptitle(title)
        return save(figure, out)


def _plot_series(axes: Axes, runs: Sequence[Path], names: Sequence[str]) -> None:
    """Draw logged numbers, a colour each; of several, each is named once."""
    for colour, name in zip(COLOURS, names, strict=False):
        for number, run in enumerate(runs):
            series = training_series(run, name)
            label = name if number == 0 and len(names) > 1 else None
            axes.plot(series.steps, series.returns, color=colour, linewidth=1, label=label)


def _finish(axes: Axes, title: str, label: str) -> None:
    axes.set_title(title, loc="left")
    axes.set_xlabel("environment steps")
    axes.set_ylabel(label)


def bars(values: Mapping[str, float], label: str, out: Path) -> Path:
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(7, 0.8 + 0.35 * len(values)), layout="constrained")
        axes = figure.subplots()
        axes.barh(list(values)[::-1], list(values.values())[::-1], color=COLOURS[0])
        axes.set_xlabel(label)
        return save(figure, out)


def save(figure: Figure, out: Path, dpi: int = 150) -> Path:
    """Write a figure; an SVG without its date, so that the same figure is the same bytes."""
    out.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(out, dpi=dpi, metadata={"Date": None} if out.suffix == ".svg" else None)
    return out
