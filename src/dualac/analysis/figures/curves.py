"""Pictures of runs, by matplotlib, without a screen."""

from collections.abc import Mapping
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from dualac.analysis.data.curves import evaluation_curve, training_series
from dualac.analysis.figures.style import COLOURS, STYLE, legible

INSIDE = {  # the risk story of a dual actor-critic, a panel each
    "KL per action dimension": ("train/kl", "train/kl_median"),
    "optimism": ("train/optimism",),
    "KL weight": ("train/kl_weight",),
    "temperature": ("train/ent_coef",),
}
LOGARITHMIC = (
    "KL per action dimension",
    "temperature",
)  # they fall by orders of magnitude in the first steps


def learning_curve(
    groups: Mapping[str, list[Path]], title: str, out: Path, random_score: float | None = None
) -> Path:
    """Return against steps: each seed a thin line, each group's mean a thick one. The number of
    seeds stands in the legend.
    """
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(7, 4.2), layout="constrained")
        axes = figure.subplots()
        for colour, (name, runs) in zip(COLOURS, groups.items(), strict=False):
            curves = [evaluation_curve(run) for run in runs]
            for curve in curves:
                axes.plot(curve.steps, curve.returns, color=colour, linewidth=0.8, alpha=0.5)
            common = sorted(set.intersection(*(set(curve.steps.tolist()) for curve in curves)))
            mean = np.mean(
                [curve.returns[np.isin(curve.steps, common)] for curve in curves], axis=0
            )
            axes.plot(
                common,
                mean,
                color=colour,
                linewidth=2.2,
                label=f"{name} ({len(runs)} seed{'s' * (len(runs) > 1)})",
            )
        if random_score is not None:
            axes.axhline(
                random_score, color="#777777", linewidth=1, linestyle="--", label="random policy"
            )
        _finish(axes, title, "return of the evaluated policy")
        axes.legend(frameon=False)
        return save(figure, out)


def inside(runs: list[Path], title: str, targets: Mapping[str, float], out: Path) -> Path:
    """How the duals of a dual actor-critic move: KL (mean and median), optimism, KL weight,
    temperature; a thin line a seed.
    """
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(10, 5.6), layout="constrained")
        for axes, (panel, names) in zip(figure.subplots(2, 2).flat, INSIDE.items(), strict=True):
            for colour, name in zip(COLOURS, names, strict=False):
                for number, run in enumerate(runs):
                    series = training_series(run, name)
                    axes.plot(
                        series.steps,
                        series.returns,
                        color=colour,
                        linewidth=1,
                        label=name if number == 0 and len(names) > 1 else None,
                    )
            if panel in targets:
                axes.axhline(
                    targets[panel], color="#777777", linestyle="--", linewidth=1, label="target"
                )
            if panel in LOGARITHMIC:
                axes.set_yscale("log")
                legible(axes.yaxis)
            _finish(axes, panel, "")
            if len(names) > 1 or panel in targets:
                axes.legend(frameon=False, fontsize=8)
        figure.suptitle(title)
        return save(figure, out)


def _finish(axes: Axes, title: str, label: str) -> None:
    axes.set_title(title, loc="left")
    axes.set_xlabel("environment steps")
    axes.set_ylabel(label)


def bars(values: Mapping[str, float], label: str, out: Path) -> Path:
    """A bar a name."""
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(7, 0.8 + 0.35 * len(values)), layout="constrained")
        axes = figure.subplots()
        axes.barh(list(values)[::-1], list(values.values())[::-1], color=COLOURS[0])
        axes.set_xlabel(label)
        return save(figure, out)


def save(figure: Figure, out: Path, dpi: int = 150) -> Path:
    out.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(out, dpi=dpi, metadata={"Date": None} if out.suffix == ".svg" else None)
    return out
