"""What the page's template reads, as text and tables."""

import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from dualac.analysis.data.completeness import (
    Cell,
    cells,
    describe_counts,
    describe_missing,
    describe_seeds,
)
from dualac.analysis.data.groups import Group, describe_rules
from dualac.analysis.figures import charts, paper
from dualac.analysis.figures.panels import caption
from dualac.analysis.report import tables
from dualac.analysis.report.exports import latex
from dualac.analysis.summary.commands import commands
from dualac.analysis.summary.headline import headline
from dualac.analysis.summary.panel import Panel
from dualac.analysis.summary.problems import MOST_LISTED, Problem
from dualac.analysis.summary.summarise import Summary
from dualac.analysis.summary.tables import design, sensitivity
from dualac.analysis.summary.wording import format_count, join_names
from dualac.parts.text import format_steps
from dualac.runs.files import without_nan

DOWNLOADS = [
    ("aggregates", "aggregates.csv"),
    ("tasks", "tasks.csv"),
    ("json", "report.json"),
    ("latex", "scores.tex"),
]
SECTIONS = (  # of the page, each with what must be there for it
    ("scores", "panels"),
    ("efficiency", "panels"),
    ("robustness", "panels"),
    ("variants", "special"),
    ("tasks", "tasks"),
    ("inside", "inside"),
    ("overestimation", "overestimation"),
    ("ablations", "shares"),
    ("cost", "costs"),
    ("completeness", "grid"),
)


class Variant(NamedTuple):
    """A comparison of a few agents among themselves."""

    title: str
    summary: Summary
    panel: Panel


def content(
    summary: Summary, variants: Sequence[Variant], rows: Sequence[Problem], home: Path
) -> dict[str, Any]:
    """Return all that the template reads, by the names that it uses."""
    blocks = {
        **_front(summary, rows),
        **_charts(summary, variants),
        "task_table": tables.task_table(summary),
        "costs": tables.cost_table(summary),
        "grid": _grid(summary, home),
        "settings": tables.settings_table(summary),
    }
    sections = [(name, name.capitalize()) for name, needed in SECTIONS if blocks[needed]]
    sections += [("problems", f"Problems ({len(rows)})"), ("reproduce", "Reproduce")]
    return {**blocks, "sections": sections}


def _front(summary: Summary, rows: Sequence[Problem]) -> dict[str, Any]:
    return {
        "facts": _facts(summary),
        "headline": headline(summary),
        "agents": sorted(summary.inks),
        "problems": rows[:MOST_LISTED],
        "more_problems": max(0, len(rows) - MOST_LISTED),
        "missing": paper.gallery(summary).missing,
        "commands": commands(summary),
        "latex": latex(summary) if scored_panels(summary) else "",
        "downloads": DOWNLOADS,
        "read": format_count(len(summary.frame.runs), "run"),
    }


def _charts(summary: Summary, variants: Sequence[Variant]) -> dict[str, Any]:
    """Return the titles and captions of charts, with tables of their numbers."""
    dual = dual_groups(summary)
    valued = [group for group in summary.groups if any(map(paper.has_values, group.runs))]
    seeds = describe_seeds(summary.groups, summary.frame.missing)
    shares = [
        {
            "title": f"{chart['title']}: {chart['x']}",
            "caption": f"The base, or default, in bold. {seeds}",
            "table": tables.share_table(chart),
        }
        for chart in share_charts(summary)
    ]
    panels = enumerate(scored_panels(summary))
    return {
        "panels": [_panel(panel, place, summary) for place, panel in panels],
        "tasks": [_task(summary, task, ratio) for task, ratio in task_panels(summary)],
        "special": _special(summary, variants),
        "inside": [group.label for group in dual],
        "inside_seeds": describe_seeds(dual, paper.planned_of(summary, dual), paper.has_duals),
        "metrics": [{"title": metric.title} for metric in charts.logged(dual)],
        "overestimation": [title for title, _ in charts.overestimation_data(summary.groups)],
        "overestimation_seeds": describe_seeds(
            valued, paper.planned_of(summary, valued), paper.has_values
        ),
        "shares": shares,
    }


def scored_panels(summary: Summary) -> list[Panel]:
    return [panel for panel in summary.panels if panel.bands]


def task_panels(summary: Summary) -> list[tuple[str, int]]:
    """List the tasks and replay ratios that have a chart."""
    ratios = sorted({group.replay_ratio for group in summary.groups})
    return [
        (task, ratio)
        for task in summary.tasks
        for ratio in ratios
        if any(group.replay_ratio == ratio and task in group.tasks for group in summary.groups)
    ]


def dual_groups(summary: Summary) -> list[Group]:
    """Return the dual actor-critics, the paper's own first."""
    dual = [group for group in summary.groups if any(map(paper.has_duals, group.runs))]
    return sorted(dual, key=lambda group: (group.agent != paper.BASE, group.label))


def variants_of(summary: Summary) -> list[Variant]:
    """Return the paper's comparisons of a few agents among themselves, where all have runs."""
    variants = []
    named = (("Layer norm", paper.LAYER_NORM), ("Distributional critics", paper.DISTRIBUTIONAL))
    for title, names in named:
        chosen = paper.among(summary, names)
        if chosen:
            variants += [Variant(title, chosen, panel) for panel in scored_panels(chosen)]
    return variants


def _special(summary: Summary, variants: Sequence[Variant]) -> list[dict[str, Any]]:
    """Return charts of a few agents or the hardest tasks, with their places in the data."""
    panels, tasks = len(scored_panels(summary)), len(task_panels(summary))
    compared = [
        {
            "chart": "efficiency",
            "index": panels + place,
            "title": f"{title}, {panel.title}",
            "caption": caption([panel], chosen),
        }
        for place, (title, chosen, panel) in enumerate(variants)
    ]
    groups = paper.hard(summary)
    labels = join_names([group.label for group in groups], 12)
    sentence = f"The hardest tasks: {labels}. {paper.describe_hard_seeds(summary, groups)}"
    names = sorted({run.task for group in groups for run in group.runs})
    return compared + [
        {"chart": "task", "index": tasks + place, "title": name, "caption": sentence}
        for place, name in enumerate(names)
    ]


def share_charts(summary: Summary) -> list[dict[str, Any]]:
    ablated, varied = design(summary, paper.BASE), sensitivity(summary, paper.REFERENCE)
    bars = charts.share_data(ablated, f"IQM relative to {paper.BASE}")
    return without_nan(bars + charts.share_data(varied, f"percent over {paper.REFERENCE}"))


def _facts(summary: Summary) -> list[str]:
    runs = [run for group in summary.groups for run in group.runs]
    if not runs:
        return []
    states = Counter(run.status.state for run in runs)
    counts = join_names([f"{count} {state}" for state, count in states.items()])
    algorithms = format_count(len(summary.groups), "algorithm")
    tasks = format_count(len(summary.tasks), "task")
    lengths = join_names([format_steps(steps) for steps in sorted({run.steps for run in runs})])
    facts = [f"{format_count(len(runs), 'run')}: {counts}; {algorithms}, {tasks}, {lengths} steps"]
    facts += sorted(
        {f"{run.suite}: {describe_rules(run)}; deterministic evaluation, raw steps" for run in runs}
    )
    machines = {
        f"{run.machine.get('cpu', 'unknown')}, {run.machine.get('cores_of_machine', '?')} cores"
        for run in runs
        if run.machine
    }
    if machines:
        facts.append(f"Machine: {join_names(sorted(machines))}")
    commits = sorted({str(run.machine.get("commit", ""))[:12] for run in runs} - {""})
    versions = sorted({f"{name} {number}" for run in runs for name, number in run.versions.items()})
    if commits or versions:
        facts.append(f"Commit {join_names(commits)}; {join_names(versions, 12)}")
    return facts


def _panel(panel: Panel, place: int, summary: Summary) -> dict[str, Any]:
    missing = describe_missing(summary.groups, summary.frame.missing)
    return {
        "title": panel.title,
        "index": place,
        "caption": caption([panel], summary),
        "suites": list(panel.suites),
        "seeds": f"Seeds of each task: {describe_counts(panel.counts())}. {missing}",
        "table": tables.aggregate_table(panel),
        "comparisons": tables.comparison_table(panel) if panel.comparisons else None,
        "reached": tables.reached_table(panel) if panel.reached else None,
    }


def _task(summary: Summary, task: str, ratio: int) -> dict[str, Any]:
    groups = [
        group._replace(runs=[run for run in group.runs if run.task == task])
        for group in summary.groups
        if group.replay_ratio == ratio and task in group.tasks
    ]
    missing = [
        plan for plan in summary.frame.missing if (plan.task, plan.replay_ratio) == (task, ratio)
    ]
    several_ratios = len({group.replay_ratio for group in summary.groups}) > 1
    scale = summary.board.scaled[task]
    unit = scale.unit if scale else "return; no bounds are known"
    return {
        "title": f"{task}, RR {ratio}" if several_ratios else task,
        "caption": f"{unit}. {describe_seeds(groups, missing)}",
    }


def _grid(summary: Summary, home: Path) -> dict[str, Any] | None:
    """Return the state of every seed: a row a task, a column an agent."""
    by_place = {
        (cell.label, cell.task): cell for cell in cells(summary.groups, summary.frame.missing)
    }
    planned = [label for label, _ in by_place]
    labels = list(dict.fromkeys([*(group.label for group in summary.groups), *planned]))
    tasks = sorted({*summary.tasks, *(task for _, task in by_place)})
    rows = [
        {"task": task, "cells": [_seeds(by_place.get((label, task)), home) for label in labels]}
        for task in tasks
    ]
    return {"labels": labels, "rows": rows} if rows else None


def _seeds(cell: Cell | None, home: Path) -> list[dict[str, Any]]:
    """Return what became of each seed of a cell, with a link to its run."""
    seeds = []
    for seed, state in cell.seeds.items() if cell else []:
        run = cell.runs.get(seed) if cell else None
        title, link = f"seed {seed}: {state}", ""
        if run:
            where = f"{format_steps(run.status.step)} of {format_steps(run.steps)}"
            title = f"{title} at {where} {run.status.reason}"
            link = _link(run.path, home)
        seeds.append({"seed": seed, "state": state, "title": title, "link": link})
    return seeds


def _link(path: Path, home: Path) -> str:
    """Return a relative link. It starts with a dot, so that no name can be a scheme."""
    return "./" + quote(os.fsencode(os.path.relpath(path.resolve(), home.resolve()))) + "/"
