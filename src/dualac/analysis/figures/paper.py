"""The figures of the paper, each from whatever runs there are: which of them these can make, and
what the others would need.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure

from dualac.analysis.data.completeness import describe_seeds
from dualac.analysis.data.frame import Planned, RunRecord
from dualac.analysis.data.groups import Group
from dualac.analysis.figures import panels
from dualac.analysis.summary.summarise import Summary, only
from dualac.analysis.summary.tables import design, sensitivity
from dualac.analysis.summary.wording import join_names

REFERENCE = "sac"  # the baseline of cost and of sensitivity
BASE = "dac"
HARD = ("dmc/dog-run", "dmc/dog-trot", "dmc/humanoid-run", "dmc/humanoid-walk")
HARD_AGENTS = ("dac-dog", "sr-sac", "td-mpc")
DISTRIBUTIONAL = ("dac", "dac-epistemic", "dac-aleatoric", "dac-both")
LAYER_NORM = ("dac", "dac-ln", "redq")
WALL_CLOCK = ("dac", "sac")


class Picture(NamedTuple):
    """A figure that the runs can make."""

    name: str
    title: str
    draw: Callable[[], Figure]
    caption: str


class Gallery(NamedTuple):
    pictures: list[Picture]
    missing: list[str]
    """what the paper shows and these runs cannot, with what it would need"""


def gallery(summary: Summary) -> Gallery:
    """The paper's figures, in its order."""
    pictures: list[Picture] = []
    missing: list[str] = []
    for name, (title, make, needs) in FIGURES.items():
        drawn = make(summary)
        if drawn is None:
            missing.append(f"{name}: needs {needs}")
        else:
            pictures.append(Picture(name, title, drawn[0], drawn[1]))
    return Gallery(pictures, missing)


Made = tuple[Callable[[], Figure], str] | None


def planned_of(summary: Summary, groups: Sequence[Group]) -> list[Planned]:
    """What of the plan is missing of some groups."""
    names = {one.name for one in groups}
    return [one for one in summary.frame.missing if one.name in names]


def has_duals(run: RunRecord) -> bool:
    return "train/kl" in run.training


def has_values(run: RunRecord) -> bool:
    return bool(np.isfinite(run.evaluations["value"]).any())


def hard(summary: Summary) -> list[Group]:
    """The agents that the hardest tasks are about, on them, at whatever replay ratio each needs."""
    groups = [
        one._replace(runs=[run for run in one.runs if run.task in HARD])
        for one in summary.groups
        if one.name in HARD_AGENTS
    ]
    return [one for one in groups if one.runs]


def describe_hard_seeds(summary: Summary, groups: Sequence[Group]) -> str:
    return describe_seeds(groups, [one for one in planned_of(summary, groups) if one.task in HARD])


def _sample_efficiency(summary: Summary) -> Made:
    scored = [panel for panel in summary.panels if panel.bands]
    return (
        (lambda: panels.efficiency(scored, summary.inks), panels.caption(scored, summary))
        if scored
        else None
    )


def _final_score(summary: Summary) -> Made:
    scored = [panel for panel in summary.panels if panel.bands]
    return (
        (lambda: panels.final(scored, summary.inks), panels.caption(scored, summary))
        if scored
        else None
    )


def _curves(summary: Summary) -> Made:
    return (
        (lambda: panels.tasks(summary), describe_seeds(summary.groups, summary.frame.missing))
        if summary.tasks
        else None
    )


def _adjustments(summary: Summary) -> Made:
    dual = [one for one in summary.groups if one.name == BASE and any(map(has_duals, one.runs))]
    told = (
        f"Of {BASE}, a line a task, the mean over its seeds. "
        f"{describe_seeds(dual, planned_of(summary, dual), has_duals)}"
    )
    return (lambda: panels.adjustments(dual), told) if dual else None


def _hard(summary: Summary) -> Made:
    groups = hard(summary)
    return (
        (lambda: panels.together(groups, summary), describe_hard_seeds(summary, groups))
        if groups
        else None
    )


def _design(summary: Summary) -> Made:
    rows = design(summary, BASE)
    return (
        (
            lambda: panels.shares(rows, "score relative to base"),
            describe_seeds(summary.groups, summary.frame.missing),
        )
        if rows
        else None
    )


def _sensitivity(summary: Summary) -> Made:
    rows = sensitivity(summary, REFERENCE)
    return (
        (
            lambda: panels.shares(rows, f"percent over {REFERENCE}"),
            describe_seeds(summary.groups, summary.frame.missing),
        )
        if rows
        else None
    )


def _wall_clock(summary: Summary) -> Made:
    both = only(summary, names=WALL_CLOCK)
    some = [panel for panel in both.panels if panel.bands and any(panel.clocks.values())]
    if not some or not all(
        any(one.name == name for panel in some for one in panel.groups) for name in WALL_CLOCK
    ):
        return None
    return lambda: panels.clock(some, summary.inks), panels.caption(some, both)


def _named(names: Sequence[str]) -> Callable[[Summary], Made]:
    def make(summary: Summary) -> Made:
        some = among(summary, names)
        scored = [panel for panel in some.panels if panel.bands] if some else []
        return (
            (lambda: panels.efficiency(scored, summary.inks), panels.caption(scored, some))
            if some and scored
            else None
        )

    return make


def among(summary: Summary, names: Sequence[str]) -> Summary | None:
    """These agents alone, if all are there."""
    some = only(summary, names=names)
    return some if len({one.name for one in some.groups}) == len(names) else None


def _overestimation(summary: Summary) -> Made:
    telling = [one for one in summary.groups if any(map(has_values, one.runs))]
    if not telling:
        return None
    told = (
        "Mean |Q| over mean |G| of the evaluation episodes, averaged over runs; 1 is neither too "
        "high nor too low."
    )
    return lambda: panels.overestimations(
        telling, summary.inks
    ), f"{told} {describe_seeds(telling, planned_of(summary, telling), has_values)}"


FIGURES: dict[str, tuple[str, Callable[[Summary], Made], str]] = {
    "sample-efficiency": ("Sample efficiency", _sample_efficiency, "a task with scores"),
    "final-score": ("Final score", _final_score, "a task with scores"),
    "adjustments": ("How the duals adjust", _adjustments, f"runs of {BASE}"),
    "hard-tasks": (
        "The hardest tasks",
        _hard,
        f"runs of {join_names(HARD_AGENTS)} on {join_names(HARD)}",
    ),
    "design-table": (
        "What each part of the design is worth",
        _design,
        "dac and its ablations (dac:no-kl, ...)",
    ),
    "sensitivity": ("Sensitivity", _sensitivity, "sac, and dac with several values of one setting"),
    "wall-clock": ("Against time", _wall_clock, f"runs of {join_names(WALL_CLOCK)}"),
    "layer-norm": ("Layer norm", _named(LAYER_NORM), f"runs of {join_names(LAYER_NORM)}"),
    "overestimation": (
        "Overestimation",
        _overestimation,
        "runs whose evaluations tell the critics' value",
    ),
    "distributional": (
        "Distributional critics",
        _named(DISTRIBUTIONAL),
        f"runs of {join_names(DISTRIBUTIONAL)}",
    ),
    "curves": ("Every task", _curves, "a run with an evaluation"),
}
