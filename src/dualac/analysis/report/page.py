"""A report as one HTML file that needs nothing else: no network, no library. What users named is
text, and a policy in the page forbids the rest.
"""

import base64
import hashlib
import math
import os
from collections import Counter
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from dualac.analysis.data.completeness import (
    cells,
    describe_counts,
    describe_missing,
    describe_seeds,
)
from dualac.analysis.data.groups import describe_rules
from dualac.analysis.figures import charts
from dualac.analysis.figures.panels import caption
from dualac.analysis.figures.paper import (
    BASE,
    DISTRIBUTIONAL,
    LAYER_NORM,
    REFERENCE,
    among,
    describe_hard_seeds,
    gallery,
    hard,
    has_duals,
    has_values,
    planned_of,
)
from dualac.analysis.report.exports import aggregate_rows, as_csv, as_json, latex, plain, task_rows
from dualac.analysis.statistics import AGGREGATES
from dualac.analysis.summary.findings import MOST_LISTED, commands, headline, problems
from dualac.analysis.summary.summarise import THRESHOLDS, Panel, Summary
from dualac.analysis.summary.tables import costs, design, differences, sensitivity
from dualac.analysis.summary.wording import (
    format_count,
    format_interval,
    format_number,
    format_range,
    format_steps,
    format_steps_to_reach,
    join_names,
)


class Text(NamedTuple):
    """A cell of a table, and the number to sort it by if it is one."""

    text: str
    value: float | None = None


class Variant(NamedTuple):
    """A comparison of a few agents among themselves."""

    title: str
    summary: Summary
    panel: Panel


class Table(NamedTuple):
    titles: list[str]
    rows: list[list[Text]]


def write_page(
    summary: Summary, title: str, out: Path, command: str, refresh: int | None = None
) -> Path:
    """Written beside and renamed, so that whoever looks at it while it is made anew sees a whole
    one.
    """
    out.parent.mkdir(parents=True, exist_ok=True)
    partial = out.with_name(out.name + ".partial")
    partial.write_text(
        page(summary, title, out.parent, command, refresh), encoding="utf-8", errors="replace"
    )
    partial.replace(out)
    return out


def page(summary: Summary, title: str, home: Path, command: str, refresh: int | None = None) -> str:
    folder = files("dualac.analysis.report") / "html"
    style, script = ((folder / name).read_text() for name in ("report.css", "report.js"))
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    variants = _variants(summary)
    shown = _shown(summary, variants, home)
    return environment.from_string((folder / "report.html").read_text()).render(
        title=title,
        command=command,
        refresh=refresh,
        style=Markup(style),
        script=Markup(script),
        style_hash=Markup(_digest(style)),
        script_hash=Markup(_digest(script)),
        data=Markup(as_json(_data(summary, variants, shown["problems_all"]))),
        version=_version(),
        **shown,
    )


def _digest(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _version() -> str:
    try:
        return version("dualac")
    except PackageNotFoundError:
        return ""


def _scored(summary: Summary) -> list[Panel]:
    return [panel for panel in summary.panels if panel.bands]


def _task_panels(summary: Summary) -> list[tuple[str, int]]:
    ratios = sorted({one.replay_ratio for one in summary.groups})
    return [
        (task, r)
        for task in summary.tasks
        for r in ratios
        if any(one.replay_ratio == r and task in one.tasks for one in summary.groups)
    ]


def _dual(summary: Summary) -> list[Any]:
    """The dual actor-critics, the paper's own first."""
    found = [one for one in summary.groups if any(map(has_duals, one.runs))]
    return sorted(found, key=lambda one: (one.agent != BASE, one.label))


def _data(summary: Summary, variants: Sequence[Variant], found: list[Any]) -> dict[str, Any]:
    """All that the script reads."""
    aggregates, finals = aggregate_rows(summary), task_rows(summary)
    everything = {
        "aggregates": aggregates,
        "tasks": finals,
        "problems": [one._asdict() for one in found],
    }
    downloads = {
        "aggregates": {"name": "aggregates.csv", "type": "text/csv", "text": as_csv(aggregates)},
        "tasks": {"name": "tasks.csv", "type": "text/csv", "text": as_csv(finals)},
        "json": {"name": "report.json", "type": "application/json", "text": as_json(everything)},
        "latex": {"name": "scores.tex", "type": "text/plain", "text": latex(summary)},
    }
    return {
        "inks": {agent: list(ink) for agent, ink in summary.inks.items()},
        "thresholds": charts.rounded(THRESHOLDS),
        "panels": [
            charts.panel_data(panel)
            for panel in [*_scored(summary), *(panel for _, _, panel in variants)]
        ],
        "tasks": [
            *(charts.task_data(summary, task, ratio) for task, ratio in _task_panels(summary)),
            *charts.together_data(summary, hard(summary)),
        ],
        "metrics": [
            {"name": name, "title": title, "log": log}
            for name, title, _, log in charts.logged(_dual(summary))
        ],
        "inside": charts.inside_data(_dual(summary)),
        "overestimation": [data for _, data in charts.overestimation_data(summary.groups)],
        "shares": _shares(summary),
        "downloads": downloads,
    }


def _variants(summary: Summary) -> list[Variant]:
    """The paper's comparisons of a few agents among themselves, where all of them are there."""
    found = [
        (title, among(summary, names))
        for title, names in (("Layer norm", LAYER_NORM), ("Distributional critics", DISTRIBUTIONAL))
    ]
    return [Variant(title, some, panel) for title, some in found if some for panel in _scored(some)]


def _special(summary: Summary, variants: Sequence[Variant]) -> list[dict[str, Any]]:
    """Charts beyond every algorithm and every task, with their places in what the script reads."""
    panels, tasks = len(_scored(summary)), len(_task_panels(summary))
    compared = [
        {
            "chart": "efficiency",
            "index": panels + place,
            "title": f"{title}, {panel.title}",
            "caption": caption([panel], some),
        }
        for place, (title, some, panel) in enumerate(variants)
    ]
    groups = hard(summary)
    names = sorted({run.task for one in groups for run in one.runs})
    told = (
        f"The hardest tasks: {join_names([one.label for one in groups], 12)}. "
        f"{describe_hard_seeds(summary, groups)}"
    )
    return compared + [
        {"chart": "task", "index": tasks + place, "title": name, "caption": told}
        for place, name in enumerate(names)
    ]


def _shares(summary: Summary) -> list[dict[str, Any]]:
    ablated, varied = design(summary, BASE), sensitivity(summary, REFERENCE)
    return plain(
        [
            *charts.share_data(ablated, f"IQM relative to {BASE}"),
            *charts.share_data(varied, f"percent over {REFERENCE}"),
        ]
    )


def _shown(summary: Summary, variants: Sequence[Variant], home: Path) -> dict[str, Any]:
    """All that the template reads, as text."""
    found = problems(summary)
    shares = [
        {
            "title": f"{one['title']}: {one['x']}",
            "caption": (
                "The base, or default, in bold. "
                f"{describe_seeds(summary.groups, summary.frame.missing)}"
            ),
            "table": _share_table(one),
        }
        for one in _shares(summary)
    ]
    titles, unlike = differences(summary.groups)
    overestimated = [title for title, _ in charts.overestimation_data(summary.groups)]
    dual, valued = _dual(summary), [one for one in summary.groups if any(map(has_values, one.runs))]
    told = {
        "facts": _facts(summary),
        "headline": headline(summary),
        "agents": sorted(summary.inks),
        "panels": [_panel(panel, place, summary) for place, panel in enumerate(_scored(summary))],
        "tasks": [_task(summary, task, ratio) for task, ratio in _task_panels(summary)],
        "task_table": _task_table(summary),
        "special": _special(summary, variants),
        "inside": [one.label for one in dual],
        "inside_seeds": describe_seeds(dual, planned_of(summary, dual), has_duals),
        "metrics": [{"title": title} for _, title, _, _ in charts.logged(dual)],
        "overestimation": overestimated,
        "overestimation_seeds": describe_seeds(valued, planned_of(summary, valued), has_values),
        "shares": shares,
        "costs": _cost_table(summary),
        "grid": _grid(summary, home),
        "problems": found[:MOST_LISTED],
        "problems_all": found,
        "more_problems": max(0, len(found) - MOST_LISTED),
        "missing": gallery(summary).missing,
        "commands": commands(summary),
        "settings": Table(titles, [[Text(cell) for cell in row] for row in unlike])
        if unlike
        else None,
        "latex": latex(summary) if _scored(summary) else "",
        "downloads": [
            ("aggregates", "aggregates.csv"),
            ("tasks", "tasks.csv"),
            ("json", "report.json"),
            ("latex", "scores.tex"),
        ],
        "read": format_count(len(summary.frame.runs), "run"),
    }
    names = (
        ("scores", ("panels")),
        ("efficiency", ("panels")),
        ("robustness", "panels"),
        ("variants", "special"),
        ("tasks", "tasks"),
        ("inside", ("inside")),
        ("overestimation", "overestimation"),
        ("ablations", "shares"),
        ("cost", "costs"),
        ("completeness", "grid"),
    )
    sections = [(name, name.capitalize()) for name, key in names if told[key]]
    return {
        **told,
        "sections": [
            *sections,
            ("problems", f"Problems ({len(found)})"),
            ("reproduce", "Reproduce"),
        ],
    }


def _facts(summary: Summary) -> list[str]:
    runs = [run for one in summary.groups for run in one.runs]
    if not runs:
        return []
    states = Counter(run.status.state for run in runs)
    machines = sorted(
        {
            f"{run.machine.get('cpu', 'unknown')}, {run.machine.get('cores_of_machine', '?')} cores"
            for run in runs
            if run.machine
        }
    )
    commits = sorted({str(run.machine.get("commit", ""))[:12] for run in runs} - {""})
    versions = sorted({f"{name} {number}" for run in runs for name, number in run.versions.items()})
    lengths = sorted({run.steps for run in runs})
    algorithms = format_count(len(summary.groups), "algorithm")
    grid = f"{algorithms}, {format_count(len(summary.tasks), 'task')}"
    return [
        f"{format_count(len(runs), 'run')}: "
        f"{join_names([f'{count} {state}' for state, count in states.items()])}; {grid}, "
        f"{join_names([format_steps(one) for one in lengths])} steps",
        *sorted(
            {
                f"{run.suite}: {describe_rules(run)}; deterministic evaluation, raw steps"
                for run in runs
            }
        ),
        *([f"Machine: {join_names(machines)}"] if machines else []),
        *(
            [f"Commit {join_names(commits)}; {join_names(versions, 12)}"]
            if commits or versions
            else []
        ),
    ]


def _panel(panel: Panel, place: int, summary: Summary) -> dict[str, Any]:
    names = panel.names()
    rows = []
    for one in panel.ranked():
        found = [panel.aggregates[one.label][name] for name in AGGREGATES]
        numbers = [Text(format_interval(each), _finite(each.estimate)) for each in found]
        rows.append([Text(names[one.label]), Text(format_range(panel.seeds(one.label))), *numbers])
    compared = [
        [
            Text(names[one.theirs]),
            Text(format_interval(one.difference.interval)),
            Text(format_interval(one.probability)),
            Text("apart" if one.difference.separable else _more(one.difference.more_seeds)),
            Text(("by seed") if one.difference.paired else "no"),
        ]
        for one in panel.comparisons
    ]
    reached = [
        [
            Text(names[one.label]),
            Text(f"{format_number(one.target)} ({names[one.other]})"),
            Text(format_steps_to_reach(one.steps), _finite(one.steps.estimate)),
            Text(f"{one.share:.0%}" if math.isfinite(one.share) else "-"),
        ]
        for one in panel.reached
    ]
    best = names[panel.ranked()[0].label]
    return {
        "title": panel.title,
        "index": place,
        "caption": caption([panel], summary),
        "suites": list(panel.suites),
        "seeds": (
            f"Seeds of each task: {describe_counts(panel.counts())}. "
            f"{describe_missing(summary.groups, summary.frame.missing)}"
        ),
        "table": Table(["algorithm", "seeds", *AGGREGATES], rows),
        "comparisons": Table(
            ["algorithm", f"{best} minus it", f"P({best} beats it)", "more seeds", "paired"],
            compared,
        )
        if compared
        else None,
        "reached": Table(["algorithm", "score", "steps [95 %]", "share of all steps"], reached)
        if reached
        else None,
    }


def _more(seeds: float) -> str:
    return (
        "one seed: unknown"
        if math.isnan(seeds)
        else "over 1000"
        if math.isinf(seeds)
        else f"about {seeds:.0f} each"
    )


def _task(summary: Summary, task: str, ratio: int) -> dict[str, Any]:
    groups = [one for one in summary.groups if one.replay_ratio == ratio and task in one.tasks]
    several_ratios = len({one.replay_ratio for one in summary.groups}) > 1
    here = [one._replace(runs=[run for run in one.runs if run.task == task]) for one in groups]
    missing = [
        one for one in summary.frame.missing if (one.task, one.replay_ratio) == (task, ratio)
    ]
    scale = summary.board.scaled[task]
    unit = scale.unit if scale else "return; no bounds are known"
    return {
        "title": f"{task}, RR {ratio}" if several_ratios else task,
        "caption": f"{unit}. {describe_seeds(here, missing)}",
    }


def _task_table(summary: Summary) -> Table:
    titles = ["task", "algorithm", "RR", "seeds", "step", "unit", "mean", "95 %", "best seed"]
    rows = []
    for row in task_rows(summary):
        ends = (
            f"[{format_number(row['low'])}, {format_number(row['high'])}]"
            if math.isfinite(row["low"])
            else "one seed"
            if row["seeds"]
            else "no score"
        )
        rows.append(
            [
                Text(row[("task")]),
                Text(row[("algorithm")]),
                Text(str(row[("replay_ratio")]), row["replay_ratio"]),
                Text(f"{row['seeds']} of {row['of']}"),
                Text(format_steps(row[("step")]), row[("step")]),
                Text(row["unit"]),
                Text(format_number(row["estimate"]), _finite(row["estimate"])),
                Text(ends),
                Text(format_number(row["best"]), _finite(row["best"])),
            ]
        )
    return Table(titles, sorted(rows))


def _share_table(one: dict[str, Any]) -> Table:
    rows = []
    for row in one["rows"]:
        ends = (
            f"[{format_number(row['low'])}, {format_number(row['high'])}]"
            if row["low"] is not None and row["high"] is not None
            else "-"
        )
        rows.append(
            [
                Text(row["name"]),
                Text(
                    "none" if row["estimate"] is None else format_number(row["estimate"]),
                    row["estimate"],
                ),
                Text(ends),
            ]
        )
    return Table(["", one["x"], "95 %"], rows)


def _cost_table(summary: Summary) -> Table | None:
    rows = [
        [
            Text(one.label),
            Text(str(one.runs), one.runs),
            Text(format_number(one.steps_per_second), _finite(one.steps_per_second)),
            Text(format_number(one.ms_per_update), _finite(one.ms_per_update)),
            Text(format_number(one.hours), _finite(one.hours)),
            Text(format_number(one.against), _finite(one.against)),
            Text(join_names(one.cpus)),
        ]
        for one in costs(summary.groups, REFERENCE)
        if one.runs
    ]
    return (
        Table(
            [
                "algorithm",
                "runs",
                "steps/s",
                "ms an update",
                "hours a run",
                f"time over {REFERENCE}",
                "CPU",
            ],
            rows,
        )
        if rows
        else None
    )


def _grid(summary: Summary, home: Path) -> dict[str, Any] | None:
    found = {(cell.label, cell.task): cell for cell in cells(summary.groups, summary.frame.missing)}
    labels = list(
        dict.fromkeys([*(one.label for one in summary.groups), *(label for label, _ in found)])
    )
    rows = []
    for task in sorted({*summary.tasks, *(task for _, task in found)}):
        line = []
        for label in labels:
            cell = found.get((label, task))
            seeds = []
            for seed, state in cell.seeds.items() if cell else []:
                run = cell.runs.get(seed) if cell else None
                told = f"seed {seed}: {state}" + (
                    f" at {format_steps(run.status.step)} of {format_steps(run.steps)} "
                    f"{run.status.reason}"
                    if run
                    else ""
                )
                seeds.append(
                    {
                        "seed": seed,
                        "state": state,
                        "title": told,
                        "link": _link(run.path, home) if run else "",
                    }
                )
            line.append(seeds)
        rows.append({"task": task, "cells": line})
    return {"labels": labels, "rows": rows} if rows else None


def _link(path: Path, home: Path) -> str:
    """From where the page is; it starts with a dot, so that no name can be a scheme."""
    return "./" + quote(os.fsencode(os.path.relpath(path.resolve(), home.resolve()))) + "/"


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
