"""Pictures of the theory: utilities, premia, what the approximations cost, and the paper's
explanatory figures. Drawn from arrays alone.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure

from dualac.analysis.figures.curves import COLOURS, STYLE, save
from dualac.analysis.figures.style import legible

GREY = "#777777"
PLAIN: dict[Any, Any] = STYLE | {"axes.grid": False}
LONGEST_LABEL = 48  # in a legend
FORM_COLOURS = {
    "exact": "#000000",
    "logarithmic": COLOURS[0],
    "variance": COLOURS[1],
    "deviation": COLOURS[2],
}
FORM_LINES = {"exact": "-", "logarithmic": "--", "variance": "-.", "deviation": ":"}


class Worth(NamedTuple):
    """A utility, a lottery on it, and the certainty equivalent."""

    title: str
    x: np.ndarray
    utility: np.ndarray  # of x
    values: np.ndarray
    worth: np.ndarray  # utility of the values
    mean: float
    expected: float  # utility
    certainty: float


class Coverage(NamedTuple):
    """What critics and actors make of the plane of states (embedded in one dimension) and
    actions.
    """

    title: str
    embedding: str
    states: np.ndarray  # edges of the columns
    actions: np.ndarray  # edges of the rows
    spread: np.ndarray  # (columns, rows); NaN where no state was visited
    pessimist: np.ndarray  # density of its actions
    optimist: np.ndarray
    visited: np.ndarray  # (n, 2): embedded state and action
    pessimist_samples: np.ndarray
    optimist_samples: np.ndarray


class Saturated(NamedTuple):
    """What a policy wants before tanh, and what is executed."""

    label: str
    before: np.ndarray
    actions: np.ndarray


def utilities(panels: Sequence[Worth], out: Path) -> Path:
    """The paper's utility figure: the certainty equivalent lies where the curve is as high as the
    expected utility.
    """
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(10.5, 3.6), layout="constrained")
        for axes, one in zip(figure.subplots(1, len(panels)), panels, strict=True):
            axes.plot(one.x, one.utility, color=COLOURS[0], linewidth=2)
            axes.plot(one.values, one.worth, "o", color=COLOURS[0], label="the values")
            low = min(one.utility.min(), one.worth.min())
            axes.hlines(
                one.expected, one.x[0], max(one.mean, one.certainty), color=GREY, linewidth=1
            )
            axes.vlines(
                one.mean,
                low,
                one.expected,
                color=GREY,
                linewidth=1,
                linestyle="--",
                label=f"mean {one.mean:.3g}",
            )
            axes.vlines(
                one.certainty,
                low,
                one.expected,
                color=COLOURS[1],
                linewidth=2,
                label=f"certainty equivalent {one.certainty:.3g}",
            )
            axes.set_yticks([one.expected], ["E U"])
            axes.set_title(one.title, loc="left")
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
    """Risk premium against beta, a line a form; grey where the logarithm's series diverges."""
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(7, 4.2), layout="constrained")
        axes = figure.subplots()
        for name, premium in forms.items():
            axes.plot(
                betas,
                premium,
                color=FORM_COLOURS[name],
                linestyle=FORM_LINES[name],
                linewidth=2,
                label=name,
            )
        for bound, word in zip(bounds, ("minimum", "maximum"), strict=True):
            axes.axhline(bound, color=GREY, linewidth=1, linestyle="--")
            axes.annotate(
                word, (betas[0], bound), (4, 2), textcoords="offset points", color=GREY, fontsize=8
            )
        for start, stop in ((betas[0], -edge), (edge, betas[-1])):
            if start < stop:
                axes.axvspan(
                    start,
                    stop,
                    color=GREY,
                    alpha=0.12,
                    linewidth=0,
                    label="2 β² Var > 1" if start < 0 else None,
                )
        reach = max(abs(bound) for bound in bounds)
        axes.set_ylim(-1.7 * reach, 1.7 * reach)
        axes.set_xlim(betas[0], betas[-1])
        axes.set_title("what uncertainty costs, or is worth", loc="left")
        axes.set_xlabel("β")
        axes.set_ylabel("certainty equivalent less the mean")
        axes.legend(frameon=False, fontsize=8, loc="upper left", ncols=2)
        return save(figure, out)


def errors(
    betas: np.ndarray, spreads: np.ndarray, found: Mapping[str, np.ndarray], out: Path
) -> Path:
    """|form - exact| over the spread, for each approximation, over (beta, spread); the line is
    where the logarithm's series stops converging.
    """
    with mpl.rc_context(PLAIN):
        figure = Figure(figsize=(10.5, 3.6), layout="constrained")
        panels = figure.subplots(1, len(found), sharey=True)
        drawn: Any = None
        for axes, (name, error) in zip(panels, found.items(), strict=True):
            drawn = axes.pcolormesh(
                betas,
                spreads,
                np.maximum(error, 1e-9),
                norm=LogNorm(1e-4, 1.0),
                cmap="viridis",
                rasterized=True,
            )
            for side in (betas[betas < 0], betas[betas > 0]):
                axes.plot(side, 1 / (np.sqrt(2) * np.abs(side)), color="white", linewidth=1.5)
            axes.set_ylim(spreads[0], spreads[-1])
            axes.set_title(name, loc="left")
            axes.set_xlabel("β")
        panels[0].text(
            0.97,
            0.97,
            "above the lines\n2 β² Var > 1",
            transform=panels[0].transAxes,
            ha="right",
            va="top",
            fontsize=8,
        )
        panels[0].set_ylabel("spread of the values")
        bar = figure.colorbar(drawn, ax=panels, label="|error| / spread", extend="both")
        legible(bar.ax.yaxis)
        return save(figure, out, dpi=110)


def gradient_gaps(
    spreads: np.ndarray, gaps: Mapping[str, np.ndarray], orders: Mapping[str, float], out: Path
) -> Path:
    """How far each form's gradient is from the exact one's, against the spread; the measured order
    stands in the legend.
    """
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(6, 4.2), layout="constrained")
        axes = figure.subplots()
        for name, gap in gaps.items():
            label = f"{name}: order {round(orders[name], 1) + 0.0:.1f}"
            axes.loglog(
                spreads,
                gap,
                color=FORM_COLOURS[name],
                linestyle=FORM_LINES[name],
                linewidth=2,
                label=label,
            )
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
    """Gaussians of one deviation, and what tanh makes of them. Each pair: places, and a row of
    densities a Gaussian.
    """
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


def coverage(seen: Coverage, out: Path) -> Path:
    """Pessimistic underexploration: the critics' spread, then where the pessimist and the optimist
    act, with samples of each.
    """
    with mpl.rc_context(PLAIN):
        figure = Figure(figsize=(11, 3.7), layout="constrained")
        panels = figure.subplots(1, 3, sharey=True)
        widest, densest = _most(seen.spread), max(_most(seen.pessimist), _most(seen.optimist))
        shown = (
            (
                "critics' spread, and what was lived last",
                seen.spread,
                widest,
                seen.visited,
                "white",
                "viridis",
            ),
            (
                "pessimist: density, samples",
                seen.pessimist,
                densest,
                seen.pessimist_samples,
                "black",
                "Blues",
            ),
            (
                "optimist: density, samples",
                seen.optimist,
                densest,
                seen.optimist_samples,
                COLOURS[1],
                "Blues",
            ),
        )
        for axes, (title, field, top, dots, colour, colours) in zip(panels, shown, strict=True):
            _field(axes, seen, field, top, colours)
            axes.scatter(dots[:, 0], dots[:, 1], s=5, color=colour, alpha=0.6, linewidths=0)
            axes.set_title(title, loc="left", fontsize=10)
            axes.set_xlabel(seen.embedding)
        panels[0].set_ylabel("action")
        figure.suptitle(seen.title)
        return save(figure, out, dpi=100)


def _most(field: np.ndarray) -> float:
    """Where its colours end: densities pile up without bound at the ends of tanh."""
    return float(np.nanquantile(field, 0.97))


def _field(axes: Axes, seen: Coverage, field: np.ndarray, top: float, colours: str) -> None:
    axes.set_facecolor("#dddddd")  # states that were never visited
    drawn = axes.pcolormesh(
        seen.states,
        seen.actions,
        np.ma.masked_invalid(field.T),
        vmin=0,
        vmax=top,
        cmap=colours,
        rasterized=True,
    )
    axes.figure.colorbar(drawn, ax=axes, extend="max")


def saturation(policies: Sequence[Saturated], title: str, out: Path) -> Path:
    """How far policies push into the flat ends of tanh: their pre-tanh means, and the actions that
    come of it.
    """
    reach = max(np.quantile(np.abs(one.before), 0.995) for one in policies)
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(9, 3.6), layout="constrained")
        left, right = figure.subplots(1, 2)
        for colour, one in zip(COLOURS, policies, strict=False):
            label = (
                one.label
                if len(one.label) <= LONGEST_LABEL
                else one.label[: LONGEST_LABEL - 1] + "…"
            )
            for axes, numbers, edge in ((left, one.before, reach), (right, one.actions, 1.0)):
                inside = np.clip(numbers.ravel(), -edge, edge)
                axes.hist(
                    inside,
                    bins=np.linspace(-edge, edge, 61).tolist(),
                    density=True,
                    color=colour,
                    alpha=0.35,
                    label=label,
                )
                axes.hist(
                    inside,
                    bins=np.linspace(-edge, edge, 61).tolist(),
                    density=True,
                    color=colour,
                    histtype="step",
                    linewidth=1.5,
                )
        right.set_xticks([-1, -0.5, 0, 0.5, 1])
        left.set_title("mean before tanh", loc="left")
        right.set_title("executed actions", loc="left")
        left.set_ylabel("density")
        right.legend(frameon=False, fontsize=8, loc="upper center")
        figure.suptitle(title)
        return save(figure, out)
