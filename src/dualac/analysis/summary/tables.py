"""Tables of the paper: the parts of the design, a setting's importance, an algorithm's cost."""

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from dualac.analysis import statistics
from dualac.analysis.data.groups import Group, short, standing_for
from dualac.analysis.statistics import Interval
from dualac.analysis.summary.panel import Panel, generator
from dualac.analysis.summary.summarise import Summary


class Share(NamedTuple):
    """A row: an agent's score as a share of another's, or in percent over it."""

    panel: str
    label: str
    agent: str
    interval: Interval
    default: bool = False


def design(summary: Summary, base: str) -> list[Share]:
    """Return the scores of the ablations `base:...` relative to the base, which comes first."""
    rows = []
    for panel in summary.panels:
        bases = standing_for(panel.groups, base)
        parts = [group for group in panel.groups if group.name.startswith(f"{base}:")]
        if len(bases) == 1 and parts and panel.tasks:
            whole = bases[0]
            for group in [whole, *parts]:
                share = _ratio(panel, group, whole)
                rows.append(Share(panel.title, group.name, group.agent, share, group is whole))
    return rows


def sensitivity(summary: Summary, reference: str) -> list[Share]:
    """Return in percent over the reference how variants of a name score, one value changed."""
    rows = []
    for panel in summary.panels:
        references = standing_for(panel.groups, reference)
        if len(references) != 1 or not panel.tasks:
            continue
        varied = [group for group in panel.groups if group.name != reference]
        for name in sorted({_base_name(group) for group in varied}):
            variants = [group for group in panel.groups if _base_name(group) == name]
            if len(variants) > 1:
                rows += _slices(panel, variants, references[0])
    return rows


def _base_name(group: Group) -> str:
    return group.name.partition("+")[0]


def _slices(panel: Panel, variants: list[Group], reference: Group) -> list[Share]:
    """Return a row for each value of each setting that variants differ in, one at a time."""
    middle = min(variants, key=lambda group: _distance_from_middle(group, variants))
    slices: dict[tuple[str, ...], list[tuple[Any, Group]]] = {}
    for group in variants:
        paths = tuple(_unlike_paths(middle, group))
        if not paths:
            continue
        values = [group.settings.get(path) for path in paths]
        defaults = [middle.settings.get(path) for path in paths]
        if _all_equal(values) and _all_equal(defaults):
            slices.setdefault(paths, [(defaults[0], middle)]).append((values[0], group))
    rows = []
    for paths, settings in slices.items():
        name = ", ".join(path.removeprefix("algorithm.") for path in paths)
        for value, group in sorted(settings, key=lambda setting: _order(setting[0])):
            percent = _percent_over(_ratio(panel, group, reference))
            default = group is middle and group.agent == _base_name(group)
            rows.append(Share(panel.title, f"{name} = {value}", group.agent, percent, default))
    return rows


def _distance_from_middle(group: Group, variants: list[Group]) -> tuple[bool, int]:
    """Rank variants: the default of their name first, then the one that differs least from all."""
    distance = sum(len(_unlike_paths(group, other)) for other in variants)
    return group.agent != _base_name(group), distance


def _all_equal(values: Sequence[Any]) -> bool:
    return all(value == values[0] for value in values)


def _percent_over(share: Interval) -> Interval:
    estimate, low, high = (100 * (number - 1) for number in (share.estimate, share.low, share.high))
    return Interval(estimate, low, high, share.defined)


def _order(value: Any) -> tuple[bool, float, str]:
    """Sort numbers as numbers, before everything else."""
    number = isinstance(value, int | float)
    return not number, float(value) if number else 0.0, str(value)


def _unlike_paths(group: Group, other: Group) -> list[str]:
    paths = sorted({*group.settings, *other.settings})
    return [path for path in paths if group.settings.get(path) != other.settings.get(path)]


def _ratio(panel: Panel, group: Group, other: Group) -> Interval:
    if group is other:
        return Interval(1.0, 1.0, 1.0, True)
    rng = generator(group.label, other.label, "ratio")
    return statistics.ratio(panel.scores[group.label], panel.scores[other.label], rng)


def differences(groups: Sequence[Group]) -> tuple[list[str], list[list[str]]]:
    """Return titles and rows of the settings in which agents differ: a column an agent."""
    rows = []
    for path in sorted({path for group in groups for path in group.settings}):
        values = [json.dumps(group.settings.get(path, "-"), default=str) for group in groups]
        if len(set(values)) > 1:
            cells = [
                short(group.settings[path]) if path in group.settings else "-" for group in groups
            ]
            rows.append([path.removeprefix("algorithm."), *cells])
    return ["setting", *(group.label for group in groups)], rows


class Cost(NamedTuple):
    """What a group's runs took, on average over those with a clock."""

    label: str
    agent: str
    runs: int
    steps_per_second: float
    ms_per_update: float
    hours: float  # of a whole run, at this speed
    against: float  # seconds a step, over those of the reference at the same replay ratio
    cpus: list[str]


def costs(groups: Sequence[Group], reference: str) -> list[Cost]:
    paces = {group.label: _steps_per_second(group) for group in groups}
    rows = []
    for group in groups:
        pace, updates = paces[group.label], _ms_per_update(group)
        beside = [
            paces[other.label]
            for other in groups
            if other.agent == reference and other.replay_ratio == group.replay_ratio
        ]
        steps = float(np.mean([run.steps for run in group.runs]))
        rows.append(
            Cost(
                group.label,
                group.agent,
                runs=len(pace),
                steps_per_second=_mean(pace),
                ms_per_update=_mean(updates),
                hours=steps / _mean(pace) / 3600,
                against=_mean(beside[0]) / _mean(pace) if beside else np.nan,
                cpus=sorted({str(run.machine.get("cpu", "")) for run in group.runs} - {""}),
            )
        )
    return rows


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values)) if values else np.nan


def _steps_per_second(group: Group) -> list[float]:
    """Return each run's speed, evaluations included."""
    return [
        float(run.training["step"][-1] / seconds)
        for run in group.runs
        if (seconds := _last(run.training, "time/time_elapsed")) > 0
    ]


def _ms_per_update(group: Group) -> list[float]:
    """Return each run's milliseconds an update, evaluations included."""
    return [
        1000 * seconds / updates
        for run in group.runs
        if (seconds := _last(run.training, "time/time_elapsed")) > 0
        and (updates := _last(run.training, "train/n_updates")) > 0
    ]


def _last(training: dict[str, np.ndarray], name: str) -> float:
    """Return the last number of a column; NaN where there is none."""
    column = training.get(name, np.array([]))
    return float(column[-1]) if len(column) else np.nan
