"""Pictures of the theory, and the paper's explanatory figures, drawn from arrays alone."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure

from dualac.analysis.figures.curves import save
from dualac.analysis.figures.style import COLOURS, STYLE, legible, shortened

GREY = "#777777"
PLAIN: dict[Any, Any] = STYLE | {"axes.grid": False}
LONGEST_LABEL = 48  # in a legend
FORM_LINES: dict[str, Any] = {
    "exact": {"color": "#000000", "linestyle": "-", "linewidth": 2},
    "logarithmic": {"color": COLOURS[0], "linestyle": "--", "linewidth": 2},
    "variance": {"color": COLOURS[1], "linestyle": "-.", "linewidth": 2},
    "deviation": {"color": COLOURS[2], "linestyle": ":", "linewidth": 2},
}


class Worth(NamedTuple):
    """A utility, a lottery on it, and the certainty equivalent."""

    title: str
    x: np.ndarray
    utility: np.ndarray  # of x
    values: np.ndarray  # of the lottery
    worth: np.ndarray  # the values' utilities
    mean: float
    expected: float  # the mean of the utilities
    certainty: float


class Coverage(NamedTuple):
    """Critics and actors over the plane of states (embedded in one dimension) and actions."""

    title: str
    embedding: str
    states: np.ndarray  # edges of the columns
    actions: np.ndarray  # edges of the rows
    spread: np.ndarray  # the critics' (columns, rows); NaN where no state was visited
    pessimist: np.ndarray  # density of its actions (columns, rows)
    optimist: np.ndarray  # density of its actions (columns, rows)
    visited: np.ndarray  # (n, 2): embedded state and action
    pessimist_samples: np.ndarray
    optimist_samples: np.ndarray


class Saturated(NamedTuple):
    """A policy's means before tanh, and the actions that are executed."""

    label: str
    before: np.ndarray
    actions: np.ndarray


def utilities(panels: Sequence[Worth], out: Path) -> Path:
    """Draw utilities: at the certainty equivalent a curve is as high as the expected utility."""
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(10.5, 3.6), layout="constrained")
        for axes, panel in zip(figure.subplots(1, len(panels)), panels, strict=True):
            axes.plot(panel.x, panel.utility, color=COLOURS[0], linewidth=2)
            axes.plot(panel.values, panel.worth, "o", color=COLOURS[0], label="the values")
            low = min(panel.utility.min(), panel.worth.min())
            mean, certainty, height = panel.mean, panel.certainty, panel.expected
            axes.hlines(height, panel.x[0], max(mean, certainty), color=GREY, linewidth=1)
            label = f"mean {mean:.3g}"
            axes.vlines(mean, low, height, color=GREY, linewidth=1, linestyle="--", label=label)
            label = f"certainty equivalent {certainty:.3g}"
            axes.vlines(certainty, low, height, color=COLOURS[1], linewidth=2, label=label)
            axes.set_yticks([height], ["E U"])
            axes.set_title(panel.title, loc="left")
            axes.set_xlabel("value")
            axes.margins(y=0.08)
            axes.legend(frameon=False, fontsize=8, loc="upper left")
        return save(figure, out)


def premiums(
    betas: np.ndarray,
    forms: Mapping[str, np.ndarray],
    bounds: tuple[float, float],
    edge: float,
    out: Path,
) -> Path:
    """Draw the risk premium against beta; grey where the logarithm's series diverges."""
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(7, 4.2), layout="constrained")
        axes = figure.subplots()
        for name, premium in forms.items():
            axes.plot(betas, premium, **FORM_LINES[name], label=name)
        for bound, word in zip(bounds, ("minimum", "maximum"), strict=True):
            axes.axhline(bound, color=GREY, linewidth=1, linestyle="--")
            style = {"textcoords": "offset points", "color": GREY, "fontsize": 8}
            axes.annotate(word, (betas[0], bound), (4, 2), **style)
        for start, stop in ((betas[0], -edge), (edge, betas[-1])):
            if start < stop:
                label = "2 β² Var > 1" if start < 0 else None
                axes.axvspan(start, stop, color=GREY, alpha=0.12, linewidth=0, label=label)
        reach = max(abs(bound) for bound in bounds)
        axes.set_ylim(-1.7 * reach, 1.7 * reach)
        axes.set_xlim(betas[0], betas[-1])
        axes.set_title("what uncertainty costs, or is worth", loc="left")
        axes.set_xlabel("β")
        axes.set_ylabel("certainty equivalent less the mean")
        axes.legend(frameon=False, fontsize=8, loc="upper left", ncols=2)
        return save(figure, out)


def errors(
    betas: np.ndarray, spreads: np.ndarray, errors_of: Mapping[str, np.ndarray], out: Path
) -> Path:
    """Draw |form - exact| / spread over (beta, spread), and where the logarithm's series ends."""
    with mpl.rc_context(PLAIN):
        figure = Figure(figsize=(10.5, 3.6), layout="constrained")
        panels = figure.subplots(1, len(errors_of), sharey=True)
        mesh: Any = None
        for axes, (name, error) in zip(panels, errors_of.items(), strict=True):
            style = {"norm": LogNorm(1e-4, 1.0), "cmap": "viridis", "rasterized": True}
            mesh = axes.pcolormesh(betas, spreads, np.maximum(error, 1e-9), **style)
            for side in (betas[betas < 0], betas[betas > 0]):
                axes.plot(side, 1 / (np.sqrt(2) * np.abs(side)), color="white", linewidth=1.5)
            axes.set_ylim(spreads[0], spreads[-1])
            axes.set_title(name, loc="left")
            axes.set_xlabel("β")
        corner = {"transform": panels[0].transAxes, "ha": "right", "va": "top"}
        panels[0].text(0.97, 0.97, "above the lines\n2 β² Var > 1", **corner, fontsize=8)
        panels[0].set_ylabel("spread of the values")
        bar = figure.colorbar(mesh, ax=panels, label="|error| / spread", extend="both")
        legible(bar.ax.yaxis)
        return save(figure, out, dpi=110)


def gradient_gaps(
    spreads: np.ndarray, gaps: Mapping[str, np.ndarray], orders: Mapping[str, float], out: Path
) -> Path:
    """Draw each form's distance from the exact gradient against the spread, and its order."""
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(6, 4.2), layout="constrained")
        axes = figure.subplots()
        for name, gap in gaps.items():
            label = f"{name}: order {round(orders[name], 1) + 0.0:.1f}"
            axes.loglog(spreads, gap, **FORM_LINES[name], label=label)
        legible(axes.xaxis, axes.yaxis)
        axes.set_title("distance from the exact gradient", loc="left")
        axes.set_xlabel("spread of the values")
        axes.set_ylabel("largest difference in a value's weight")
        axes.legend(frameon=False, fontsize=9)
        return save(figure, out)


def gaussians(
    before: tuple[np.ndarray, np.ndarray],
    after: tuple[np.ndarray, np.ndarray],
    labels: Sequence[str],
    out: Path,
) -> Path:
    """Draw Gaussians of one deviation before and after tanh: places, and rows of densities."""
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(9, 3.4), layout="constrained")
        titles = ("before tanh: x", "after tanh: a = tanh x")
        for axes, (places, densities), title in zip(
            figure.subplots(1, 2), (before, after), titles, strict=True
        ):
            for colour, density, label in zip(COLOURS, densities, labels, strict=False):
                axes.plot(places, density, color=colour, linewidth=2, label=label)
                axes.fill_between(places, density, color=colour, alpha=0.15)
            axes.set_ylim(bottom=0)
            axes.set_title(title, loc="left")
        figure.axes[-1].set_xticks([-1, -0.5, 0, 0.5, 1])
        figure.axes[-1].legend(frameon=False, fontsize=8, loc="upper left")
        return save(figure, out)


def coverage(plane: Coverage, out: Path) -> Path:
    """Draw pessimistic underexploration: the critics' spread, then where each actor acts."""
    with mpl.rc_context(PLAIN):
        figure = Figure(figsize=(11, 3.7), layout="constrained")
        spread, pessimist, optimist = figure.subplots(1, 3, sharey=True)
        densest = max(_most(plane.pessimist), _most(plane.optimist))
        _field(spread, plane, plane.spread, _most(plane.spread), "viridis")
        _field(pessimist, plane, plane.pessimist, densest, "Blues")
        _field(optimist, plane, plane.optimist, densest, "Blues")
        _dots(spread, plane.visited, "white")
        _dots(pessimist, plane.pessimist_samples, "black")
        _dots(optimist, plane.optimist_samples, COLOURS[1])
        spread.set_title("critics' spread, and what was lived last", loc="left", fontsize=10)
        pessimist.set_title("pessimist: density, samples", loc="left", fontsize=10)
        optimist.set_title("optimist: density, samples", loc="left", fontsize=10)
        for axes in (spread, pessimist, optimist):
            axes.set_xlabel(plane.embedding)
        spread.set_ylabel("action")
        figure.suptitle(plane.title)
        return save(figure, out, dpi=100)


def _dots(axes: Axes, places: np.ndarray, colour: str) -> None:
    axes.scatter(places[:, 0], places[:, 1], s=5, color=colour, alpha=0.6, linewidths=0)


def _most(field: np.ndarray) -> float:
    """Return where a field's colours end: densities pile up without bound at the ends of tanh."""
    return float(np.nanquantile(field, 0.97))


def _field(axes: Axes, plane: Coverage, field: np.ndarray, top: float, colours: str) -> None:
    axes.set_facecolor("#dddddd")  # states that were never visited
    style: dict[str, Any] = {"vmin": 0, "vmax": top, "cmap": colours, "rasterized": True}
    mesh = axes.pcolormesh(plane.states, plane.actions, np.ma.masked_invalid(field.T), **style)
    axes.figure.colorbar(mesh, ax=axes, extend="max")


def saturation(policies: Sequence[Saturated], title: str, out: Path) -> Path:
    """Draw how far policies push into the flat ends of tanh: before it, and after."""
    reach = max(np.quantile(np.abs(policy.before), 0.995) for policy in policies)
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(9, 3.6), layout="constrained")
        left, right = figure.subplots(1, 2)
        for colour, policy in zip(COLOURS, policies, strict=False):
            label = shortened(policy.label, LONGEST_LABEL)
            _histogram(left, policy.before, reach, colour, label)
            _histogram(right, policy.actions, 1.0, colour, label)
        right.set_xticks([-1, -0.5, 0, 0.5, 1])
        left.set_title("mean before tanh", loc="left")
        right.set_title("executed actions", loc="left")
        left.set_ylabel("density")
        right.legend(frameon=False, fontsize=8, loc="upper center")
        figure.suptitle(title)
        return save(figure, out)


def _histogram(axes: Axes, numbers: np.ndarray, edge: float, colour: str, label: str) -> None:
    inside = np.clip(numbers.ravel(), -edge, edge)
    bins = np.linspace(-edge, edge, 61).tolist()
    axes.hist(inside, bins=bins, density=True, color=colour, alpha=0.35, label=label)
    axes.hist(inside, bins=bins, density=True, color=colour, histtype="step", linewidth=1.5)
