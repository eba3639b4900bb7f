"""The numbers that a page's charts are drawn from, thinned and rounded to what an eye can see."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from dualac.analysis import statistics
from dualac.analysis.data.curves import Curve
from dualac.analysis.data.groups import Group
from dualac.analysis.data.scores import GRID, grid, held
from dualac.analysis.figures.panels import adjusted, ratio_dashes
from dualac.analysis.figures.style import inks
from dualac.analysis.summary.summarise import Panel, Summary, clocks, overestimation
from dualac.analysis.summary.tables import Share

DIGITS = 4
INSIDE_POINTS = 61
THIN_POINTS = 51  # of a task's curve where there are very many runs
MANY_RUNS = 600
METRICS = (  # name, title, the columns that are read, whether the axis is logarithmic
    ("ratio", "Q spread / |Q mean|", ("train/q_std", "train/q_mean"), True),
    ("optimism", "optimism", ("train/optimism",), False),
    ("kl_weight", "KL weight", ("train/kl_weight",), False),
    ("kl", "KL per action dimension", ("train/kl",), True),
    ("temperature", "temperature", ("train/ent_coef",), True),
    ("saturation", "mean |pre-tanh action|", ("train/saturation",), False),
)


def logged(groups: Sequence[Group]) -> list[tuple[str, str, tuple[str, ...], bool]]:
    """The metrics that some of these runs tell of."""
    names = {name for one in groups for run in one.runs for name in run.training}
    return [metric for metric in METRICS if names.issuperset(metric[2])]


def rounded(values: np.ndarray) -> list[float | None]:
    return [
        float(f"{value:.{DIGITS}g}") if math.isfinite(value) else None for value in values.tolist()
    ]


def whole(values: np.ndarray) -> list[int | None]:
    return [round(value) if math.isfinite(value) else None for value in values.tolist()]


def panel_data(panel: Panel) -> dict[str, Any]:
    groups = []
    for one in panel.groups:
        band, names = panel.bands[one.label], panel.names()
        bars = {"all": panel.aggregates[one.label]["IQM"]} | {
            suite: some[one.label] for suite, some in panel.suites.items()
        }
        told = {name: {(
            "estimate"
        ): found.estimate, (
            "low"
        ): found.low if found.defined else None, "high": found.high if found.defined else None}
                for name, found in bars.items()}  # fmt: skip
        profile = (
            [rounded(line) for line in panel.profiles[one.label]]
            if one.label in panel.profiles
            else None
        )
        about = {"agent": one.agent, "name": names[one.label], "bars": told, "profile": profile}
        lines = {
            "iqm": rounded(band.estimate),
            "low": rounded(band.low),
            "high": rounded(band.high),
        }
        groups.append(
            {
                **about,
                **lines,
                **{clock: rounded(found) for clock, found in panel.clocks[one.label].items()},
            }
        )
    return {"steps": whole(panel.steps), "groups": groups}


def task_data(summary: Summary, task: str, ratio: int) -> dict[str, Any]:
    """Each seed's curve on one axis of steps, with the clocks of its group."""
    return _task_data(
        summary,
        task,
        [one for one in summary.groups if one.replay_ratio == ratio and task in one.tasks],
    )


def together_data(summary: Summary, groups: Sequence[Group]) -> list[dict[str, Any]]:
    """A chart a task: every agent on it, whatever its replay ratio."""
    dashes = dict(zip((one.label for one in groups), ratio_dashes(groups), strict=True))
    found = []
    for task in sorted({run.task for one in groups for run in one.runs}):
        here = [one for one in groups if task in one.tasks]
        data = _task_data(summary, task, here)
        told = [
            {**line, "name": one.label, "dash": dashes[one.label]}
            for one, line in zip(here, data["groups"], strict=True)
        ]
        found.append({**data, "groups": told})
    return found


def _task_data(summary: Summary, task: str, groups: Sequence[Group]) -> dict[str, Any]:
    runs = {one.label: [run for run in one.runs if run.task == task] for one in groups}
    points = THIN_POINTS if len(summary.frame.runs) > MANY_RUNS else GRID
    steps = grid((summary.board.curve(run) for some in runs.values() for run in some), most=points)
    found = []
    for one in groups:
        values = np.array([held(summary.board.curve(run), steps) for run in runs[one.label]])
        seeds = [
            {"seed": run.seed, "y": rounded(row)}
            for run, row in zip(runs[one.label], values, strict=True)
        ]
        times = {clock: rounded(row) for clock, row in clocks(runs[one.label], steps).items()}
        mean = statistics.task_means(values.T[:, :, None])[:, 0]
        found.append(
            {"agent": one.agent, "name": one.agent, "mean": rounded(mean), "seeds": seeds, **times}
        )
    scale = summary.board.scaled[task]
    return {"unit": "score" if scale else "return", "steps": whole(steps), "groups": found}


def inside_data(groups: Sequence[Group]) -> list[dict[str, Any]]:
    """The duals of each dual actor-critic: a line a task, the KL's target, the resets."""
    found = []
    for one in groups:
        colours = inks(one.tasks)
        tasks = []
        for task in sorted(one.tasks):
            logs = [run.training for run in one.runs if run.task == task]
            lines = {}
            for name, _, columns, _ in logged(groups):
                line = adjusted(logs, columns)
                if len(line.steps):
                    thin = grid([line], most=INSIDE_POINTS)
                    lines[name] = {
                        "x": whole(thin),
                        "y": rounded(held(Curve(line.steps, line.returns), thin)),
                    }
            tasks.append(
                {
                    "task": task,
                    "colour": colours[task].colour,
                    "dash": colours[task].dash,
                    "lines": lines,
                }
            )
        target = one.settings.get("algorithm.explorer.target_kl")
        refs = {"kl": target} if isinstance(target, int | float) else {}
        found.append({"label": one.label, "refs": refs, "marks": _resets(one), "tasks": tasks})
    return found


def _resets(one: Group) -> list[int]:
    listed, every = one.settings.get("resets"), one.settings.get("reset_every")
    last = max(run.steps for run in one.runs)
    marks = [step for step in listed if isinstance(step, int)] if isinstance(listed, list) else []
    return [
        *marks,
        *(range(every, last, every) if isinstance(every, int) and every > last // 200 else []),
    ]


def overestimation_data(groups: Sequence[Group]) -> list[tuple[str, dict[str, Any]]]:
    """By replay ratio and suite: mean |Q| over mean |G| against steps."""
    found = []
    for ratio in sorted({one.replay_ratio for one in groups}):
        for suite in sorted(
            {run.suite for one in groups for run in one.runs if one.replay_ratio == ratio}
        ):
            lines = []
            for one in groups:
                here = [run for run in one.runs if run.suite == suite and one.replay_ratio == ratio]
                steps = grid(
                    (Curve(np.unique(run.evaluations["step"]), np.array([])) for run in here),
                    most=INSIDE_POINTS,
                )
                values = overestimation(one, [run.task for run in here], steps)
                if np.isfinite(values).any():
                    lines.append(
                        {
                            "agent": one.agent,
                            "name": one.agent,
                            "x": whole(steps),
                            "y": rounded(values),
                        }
                    )
            if lines:
                found.append((f"{suite}, replay ratio {ratio}", {"lines": lines}))
    return found


def share_data(rows: Sequence[Share], unit: str) -> list[dict[str, Any]]:
    found = []
    for title in dict.fromkeys(row.panel for row in rows):
        some = [row for row in rows if row.panel == title]
        bars = [{"name": row.label, (
            "estimate"
        ): row.found.estimate, "low": row.found.low if row.found.defined else None,
                 "high": row.found.high if row.found.defined else None, (
                     "strong"
                 ): row.default} for row in some]  # fmt: skip
        found.append({"title": title, "x": unit, "rows": bars})
    return found
