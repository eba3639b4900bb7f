"""Tables of the paper: what each part of the design is worth, how much a setting matters, what an
algorithm costs.
"""

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from dualac.analysis import statistics
from dualac.analysis.data.groups import Group, short, standing_for
from dualac.analysis.statistics import Interval
from dualac.analysis.summary.summarise import Panel, Summary, generator


class Share(NamedTuple):
    """A row: an agent's score as a share of another's."""

    panel: str
    label: str
    agent: str
    found: Interval
    default: bool = False


def design(summary: Summary, base: str) -> list[Share]:
    """The ablations `base:...`, relative to the base, with the base itself on top."""
    rows = []
    for panel in summary.panels:
        whole = standing_for(panel.groups, base)
        parts = [one for one in panel.groups if one.name.startswith(f"{base}:")]
        if len(whole) == 1 and parts and panel.tasks:
            rows += [
                Share(
                    panel.title, one.name, one.agent, _over(panel, one, whole[0]), one is whole[0]
                )
                for one in [*whole, *parts]
            ]
    return rows


def sensitivity(summary: Summary, reference: str) -> list[Share]:
    """Agents of one name, or of `name+change`, that differ from the default, or else from the one
    in their middle, by one value, be it of several settings: percent over the reference.
    """
    rows = []
    for panel in summary.panels:
        others = standing_for(panel.groups, reference)
        if len(others) != 1 or not panel.tasks:
            continue
        for name in sorted({_base(one) for one in panel.groups if one.name != reference}):
            same = [one for one in panel.groups if _base(one) == name]
            if len(same) > 1:
                rows += _slices(panel, same, others[0])
    return rows


def _base(one: Group) -> str:
    return one.name.partition("+")[0]


def _slices(panel: Panel, same: list[Group], reference: Group) -> list[Share]:
    middle = min(
        same,
        key=lambda one: (one.agent != _base(one), sum(len(_apart(one, other)) for other in same)),
    )
    slices: dict[tuple[str, ...], list[tuple[Any, Group]]] = {}
    for one in same:
        paths = tuple(_apart(middle, one))
        value, default = (
            one.settings.get(paths[0]) if paths else None,
            middle.settings.get(paths[0]) if paths else None,
        )
        if paths and all(
            one.settings.get(path) == value and middle.settings.get(path) == default
            for path in paths
        ):
            slices.setdefault(paths, [(default, middle)]).append((value, one))
    rows = []
    for paths, some in slices.items():
        name = ", ".join(path.removeprefix("algorithm.") for path in paths)
        for value, one in sorted(some, key=lambda pair: _order(pair[0])):
            share = _over(panel, one, reference)
            percent = Interval(
                100 * (share.estimate - 1),
                100 * (share.low - 1),
                100 * (share.high - 1),
                share.defined,
            )
            rows.append(
                Share(
                    panel.title,
                    f"{name} = {value}",
                    one.agent,
                    percent,
                    one is middle and one.agent == _base(one),
                )
            )
    return rows


def _order(value: Any) -> tuple[bool, float, str]:
    """Numbers as numbers, before all that is none."""
    number = isinstance(value, int | float)
    return not number, float(value) if number else 0.0, str(value)


def _apart(one: Group, other: Group) -> list[str]:
    return [
        path
        for path in sorted({*one.settings, *other.settings})
        if one.settings.get(path) != other.settings.get(path)
    ]


def _over(panel: Panel, one: Group, other: Group) -> Interval:
    if one is other:
        return Interval(1.0, 1.0, 1.0, True)
    return statistics.ratio(
        panel.scores[one.label],
        panel.scores[other.label],
        generator(one.label, other.label, "ratio"),
    )


def differences(groups: Sequence[Group]) -> tuple[list[str], list[list[str]]]:
    """Titles and rows: a row a setting in which the agents differ, a column an agent; a dash where
    it has no such setting.
    """
    paths = sorted({path for one in groups for path in one.settings})
    unlike = [
        path
        for path in paths
        if len({json.dumps(one.settings.get(path, "-"), default=str) for one in groups}) > 1
    ]
    rows = [
        [
            path.removeprefix("algorithm."),
            *(short(one.settings[path]) if path in one.settings else "-" for one in groups),
        ]
        for path in unlike
    ]
    return ["setting", *(one.label for one in groups)], rows


class Cost(NamedTuple):
    """What a group's runs took, on average over runs that tell."""

    label: str
    agent: str
    runs: int
    steps_per_second: float
    ms_per_update: float
    hours: float
    """of a whole run, at this speed"""
    against: float
    """seconds a step, over those of the reference at the same replay ratio"""
    cpus: list[str]


def costs(groups: Sequence[Group], reference: str) -> list[Cost]:
    speeds = {one.label: _speeds(one) for one in groups}
    found = []
    for one in groups:
        paces, updates = speeds[one.label]
        beside = [
            other
            for other in groups
            if other.agent == reference and other.replay_ratio == one.replay_ratio
        ]
        theirs = speeds[beside[0].label][0] if beside else []
        pace = float(np.mean(paces)) if paces else np.nan
        cpus = sorted({str(run.machine.get("cpu", "")) for run in one.runs} - {""})
        hours = np.mean([run.steps for run in one.runs]) / pace / 3600 if paces else np.nan
        against = float(np.mean(theirs) / pace) if theirs and paces else np.nan
        found.append(
            Cost(
                one.label,
                one.agent,
                len(paces),
                pace,
                float(np.mean(updates)) if updates else np.nan,
                float(hours),
                against,
                cpus,
            )
        )
    return found


def _speeds(one: Group) -> tuple[list[float], list[float]]:
    """Steps a second and milliseconds an update of each run, evaluations included."""
    paces, updates = [], []
    for run in one.runs:
        took, made = (
            run.training.get(name, np.array([]))
            for name in ("time/time_elapsed", "train/n_updates")
        )
        if len(took) and np.isfinite(took[-1]) and took[-1] > 0:
            paces.append(float(run.training["step"][-1] / took[-1]))
            if len(made) and np.isfinite(made[-1]) and made[-1] > 0:
                updates.append(float(1000 * took[-1] / made[-1]))
    return paces, updates
