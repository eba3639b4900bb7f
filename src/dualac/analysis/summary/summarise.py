"""The numbers of a report, before anyone decides how they look."""

from collections.abc import Sequence
from types import MappingProxyType
from typing import NamedTuple

from dualac.analysis.data.frame import Frame
from dualac.analysis.data.groups import Group, Grouped, Rows, Unlike, group, standing_for
from dualac.analysis.data.scores import Board, Bounds
from dualac.analysis.figures.style import Ink, inks
from dualac.analysis.summary.panel import At, Panel, make_panel


class Choices(NamedTuple):
    """What decides which numbers are compared."""

    bounds: Bounds = MappingProxyType({})  # the returns that score 0 and 1, by task
    at: At = None  # where scores are taken
    unlike: Unlike = "refuse"  # what becomes of runs under other rules
    rows: Rows = MappingProxyType({})  # the table of algorithms, where it is known


USUAL = Choices()


class Summary(NamedTuple):
    """Runs as groups, and the panels that compare them."""

    frame: Frame
    grouped: Grouped
    board: Board
    panels: list[Panel]
    tasks: list[str]
    unscaled: list[str]  # tasks without bounds of the return: plotted, but in no aggregate
    choices: Choices
    inks: dict[str, Ink]  # by agent

    @property
    def groups(self) -> list[Group]:
        return self.grouped.groups


def summarise(frame: Frame, choices: Choices = USUAL) -> Summary:
    grouped = group(frame.runs, choices.unlike, choices.rows)
    return _summary(frame, grouped, choices, inks(member.agent for member in grouped.groups))


def only(summary: Summary, *, names: Sequence[str] = (), tasks: Sequence[str] = ()) -> Summary:
    """Summarise fewer runs: agents that stand for these names, these tasks; inks stay."""
    labels = {one.label for name in names for one in standing_for(summary.groups, name)}
    groups = [one for one in summary.groups if not names or one.label in labels]
    groups = [
        one._replace(runs=[run for run in one.runs if not tasks or run.task in tasks])
        for one in groups
    ]
    kept = summary.grouped._replace(groups=[one for one in groups if one.runs])
    missing = [
        plan
        for plan in summary.frame.missing
        if (not names or plan.name in names) and (not tasks or plan.task in tasks)
    ]
    if kept.groups == summary.groups and len(missing) == len(summary.frame.missing):
        return summary
    return _summary(summary.frame._replace(missing=missing), kept, summary.choices, summary.inks)


def _summary(frame: Frame, grouped: Grouped, choices: Choices, colours: dict[str, Ink]) -> Summary:
    board = Board(grouped.groups, choices.bounds)
    tasks = sorted({run.task for one in grouped.groups for run in one.runs})
    unscaled = [task for task in tasks if board.scaled[task] is None]
    panels = [
        make_panel(compared, board, set(unscaled), choices.at)
        for compared in _compared_together(grouped.groups)
    ]
    return Summary(frame, grouped, board, panels, tasks, unscaled, choices, colours)


def _compared_together(groups: list[Group]) -> list[list[Group]]:
    """Divide groups by replay ratio; where no replay ratio has two agents, keep them together."""
    ratios = sorted({one.replay_ratio for one in groups})
    by_ratio = [[one for one in groups if one.replay_ratio == ratio] for ratio in ratios]
    if all(len(members) == 1 for members in by_ratio):
        return [groups] if groups else []
    return by_ratio
