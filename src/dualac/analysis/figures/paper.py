"""The figures of the paper: which of them these runs can make, and what the others need."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure

from dualac.analysis.data.completeness import describe_seeds
from dualac.analysis.data.frame import RunRecord
from dualac.analysis.data.groups import Group
from dualac.analysis.figures import panels
from dualac.analysis.metrics import METRICS
from dualac.analysis.summary.panel import Panel
from dualac.analysis.summary.summarise import Summary, only
from dualac.analysis.summary.tables import Share, design, sensitivity
from dualac.analysis.summary.wording import join_names
from dualac.runs.plan import PlannedRun

REFERENCE = "sac"  # the baseline of cost and of sensitivity
BASE = "dac"
HARD = ("dmc/dog-run", "dmc/dog-trot", "dmc/humanoid-run", "dmc/humanoid-walk")
HARD_AGENTS = ("dac-dog", "sr-sac", "td-mpc")
DISTRIBUTIONAL = ("dac", "dac-epistemic", "dac-aleatoric", "dac-both")
LAYER_NORM = ("dac", "dac-ln", "redq")
WALL_CLOCK = ("dac", "sac")


class Drawing(NamedTuple):
    """A figure that can be drawn, and what its caption says."""

    draw: Callable[[], Figure]
    caption: str


class PaperFigure(NamedTuple):
    """A figure by its name: how to make it of a summary, and what that needs."""

    title: str
    make: Callable[[Summary], Drawing | None]
    needs: str  # runs without which it is not drawn; "" where a report is whole without it


class Picture(NamedTuple):
    """A figure that the runs can make."""

    name: str
    title: str
    draw: Callable[[], Figure]
    caption: str


class Gallery(NamedTuple):
    pictures: list[Picture]
    missing: list[str]  # figures that these runs cannot make, each with what it would need


def planned_of(summary: Summary, groups: Sequence[Group]) -> list[PlannedRun]:
    """List what of the plan is missing of some groups."""
    names = {group.name for group in groups}
    return [plan for plan in summary.frame.missing if plan.name in names]


def has_duals(run: RunRecord) -> bool:
    return METRICS["kl"].columns[0] in run.training


def has_diagnoses(run: RunRecord) -> bool:
    return METRICS["shift"].columns[0] in run.training


def has_values(run: RunRecord) -> bool:
    return bool(np.isfinite(run.evaluations["value"]).any())


def hard(summary: Summary) -> list[Group]:
    """Return the agents that the hardest tasks are about, with their runs on those tasks."""
    groups = [
        group._replace(runs=[run for run in group.runs if run.task in HARD])
        for group in summary.groups
        if group.name in HARD_AGENTS
    ]
    return [group for group in groups if group.runs]


def among(summary: Summary, names: Sequence[str]) -> Summary | None:
    """Return the summary of these agents alone, if all of them have runs."""
    chosen = only(summary, names=names)
    return chosen if len({group.name for group in chosen.groups}) == len(names) else None


def describe_hard_seeds(summary: Summary, groups: Sequence[Group]) -> str:
    missing = [plan for plan in planned_of(summary, groups) if plan.task in HARD]
    return describe_seeds(groups, missing)


def _scored(summary: Summary) -> list[Panel]:
    return [panel for panel in summary.panels if panel.bands]


def _of_panels(
    summary: Summary, scored: list[Panel], draw: Callable[[list[Panel], panels.Inks], Figure]
) -> Drawing | None:
    if not scored:
        return None
    return Drawing(lambda: draw(scored, summary.inks), panels.caption(scored, summary))


def _sample_efficiency(summary: Summary) -> Drawing | None:
    return _of_panels(summary, _scored(summary), panels.efficiency)


def _final_score(summary: Summary) -> Drawing | None:
    return _of_panels(summary, _scored(summary), panels.final)


def _curves(summary: Summary) -> Drawing | None:
    if not summary.tasks:
        return None
    caption = describe_seeds(summary.groups, summary.frame.missing)
    return Drawing(lambda: panels.tasks(summary), caption)


def _lines_of_base(
    summary: Summary, logs: Callable[[RunRecord], bool], draw: Callable[[list[Group]], Figure]
) -> Drawing | None:
    groups = [
        group for group in summary.groups if group.name == BASE and any(map(logs, group.runs))
    ]
    if not groups:
        return None
    seeds = describe_seeds(groups, planned_of(summary, groups), logs)
    caption = f"Of {BASE}, a line a task, the mean over its seeds. {seeds}"
    return Drawing(lambda: draw(groups), caption)


def _adjustments(summary: Summary) -> Drawing | None:
    return _lines_of_base(summary, has_duals, panels.adjustments)


def _diagnoses(summary: Summary) -> Drawing | None:
    return _lines_of_base(summary, has_diagnoses, panels.diagnoses)


def _hard(summary: Summary) -> Drawing | None:
    groups = hard(summary)
    if not groups:
        return None
    return Drawing(lambda: panels.together(groups, summary), describe_hard_seeds(summary, groups))


def _shares(summary: Summary, rows: list[Share], label: str) -> Drawing | None:
    if not rows:
        return None
    caption = describe_seeds(summary.groups, summary.frame.missing)
    return Drawing(lambda: panels.shares(rows, label), caption)


def _design(summary: Summary) -> Drawing | None:
    return _shares(summary, design(summary, BASE), "score relative to base")


def _sensitivity(summary: Summary) -> Drawing | None:
    return _shares(summary, sensitivity(summary, REFERENCE), f"percent over {REFERENCE}")


def _wall_clock(summary: Summary) -> Drawing | None:
    both = only(summary, names=WALL_CLOCK)
    timed = [panel for panel in _scored(both) if any(panel.clocks.values())]
    names = {group.name for panel in timed for group in panel.groups}
    return _of_panels(both, timed, panels.clock) if names.issuperset(WALL_CLOCK) else None


def _compared(names: Sequence[str]) -> Callable[[Summary], Drawing | None]:
    """Return what makes the figure of a few agents among themselves."""

    def make(summary: Summary) -> Drawing | None:
        chosen = among(summary, names)
        return _sample_efficiency(chosen) if chosen else None

    return make


def _overestimation(summary: Summary) -> Drawing | None:
    groups = [group for group in summary.groups if any(map(has_values, group.runs))]
    if not groups:
        return None
    seeds = describe_seeds(groups, planned_of(summary, groups), has_values)
    caption = (
        "Mean |Q| over mean |G| of the evaluation episodes, averaged over runs; 1 is neither too "
        f"high nor too low. {seeds}"
    )
    return Drawing(lambda: panels.overestimations(groups, summary.inks), caption)


FIGURES: dict[str, PaperFigure] = {
    "sample-efficiency": PaperFigure("Sample efficiency", _sample_efficiency, "a task with scores"),
    "final-score": PaperFigure("Final score", _final_score, "a task with scores"),
    "adjustments": PaperFigure("How the duals adjust", _adjustments, f"runs of {BASE}"),
    "diagnoses": PaperFigure("Where the optimist departs", _diagnoses, ""),
    "hard-tasks": PaperFigure(
        "The hardest tasks", _hard, f"runs of {join_names(HARD_AGENTS)} on {join_names(HARD)}"
    ),
    "design-table": PaperFigure(
        "What each part of the design is worth", _design, "dac and its ablations (dac:no-kl, ...)"
    ),
    "sensitivity": PaperFigure(
        "Sensitivity", _sensitivity, "sac, and dac with several values of one setting"
    ),
    "wall-clock": PaperFigure("Against time", _wall_clock, f"runs of {join_names(WALL_CLOCK)}"),
    "layer-norm": PaperFigure(
        "Layer norm", _compared(LAYER_NORM), f"runs of {join_names(LAYER_NORM)}"
    ),
    "overestimation": PaperFigure(
        "Overestimation", _overestimation, "runs whose evaluations tell the critics' value"
    ),
    "distributional": PaperFigure(
        "Distributional critics", _compared(DISTRIBUTIONAL), f"runs of {join_names(DISTRIBUTIONAL)}"
    ),
    "curves": PaperFigure("Every task", _curves, "a run with an evaluation"),
}


def gallery(summary: Summary, figures: Mapping[str, PaperFigure] = FIGURES) -> Gallery:
    """Find the figures that a summary can make, in the paper's order."""
    pictures: list[Picture] = []
    missing: list[str] = []
    for name, figure in figures.items():
        drawing = figure.make(summary)
        if drawing is not None:
            pictures.append(Picture(name, figure.title, drawing.draw, drawing.caption))
        elif figure.needs:
            missing.append(f"{name}: needs {figure.needs}")
    return Gallery(pictures, missing)
