"""A report as one HTML file that needs no network. What users named is text in it."""

import base64
import hashlib
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from dualac.analysis.figures import charts
from dualac.analysis.figures.paper import hard
from dualac.analysis.report.content import (
    Variant,
    content,
    dual_groups,
    scored_panels,
    share_charts,
    task_panels,
    variants_of,
)
from dualac.analysis.report.exports import aggregate_rows, as_csv, as_json, latex, task_rows
from dualac.analysis.summary.panel import THRESHOLDS
from dualac.analysis.summary.problems import Problem, problems
from dualac.analysis.summary.summarise import Summary
from dualac.runs.files import write_text


def write_page(
    summary: Summary, title: str, out: Path, command: str, refresh: int | None = None
) -> Path:
    """Write the page beside its place and rename it, so that readers see a whole one."""
    out.parent.mkdir(parents=True, exist_ok=True)
    text = page(summary, title, out.parent, command, refresh)
    write_text(out, text)
    return out


def page(summary: Summary, title: str, home: Path, command: str, refresh: int | None = None) -> str:
    """Return the text of the page that stands in the directory `home`."""
    folder = files("dualac.analysis.report") / "html"
    style, script, template = (
        (folder / name).read_text() for name in ("report.css", "report.js", "report.html")
    )
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    variants = variants_of(summary)
    rows = problems(summary)
    return environment.from_string(template).render(
        title=title,
        command=command,
        refresh=refresh,
        style=Markup(style),
        script=Markup(script),
        style_hash=Markup(_digest(style)),
        script_hash=Markup(_digest(script)),
        data=Markup(as_json(_data(summary, variants, rows))),
        version=_version(),
        **content(summary, variants, rows, home),
    )


def _digest(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _version() -> str:
    try:
        return version("dualac")
    except PackageNotFoundError:
        return ""


def _data(summary: Summary, variants: Sequence[Variant], rows: Sequence[Problem]) -> dict[str, Any]:
    dual = dual_groups(summary)
    panels = [*scored_panels(summary), *(variant.panel for variant in variants)]
    tasks = [charts.task_data(summary, task, ratio) for task, ratio in task_panels(summary)]
    metrics = [
        {"name": metric.key, "title": metric.title, "log": metric.logarithmic}
        for metric in charts.logged(dual)
    ]
    return {
        "inks": {agent: list(ink) for agent, ink in summary.inks.items()},
        "thresholds": charts.rounded(THRESHOLDS),
        "panels": [charts.panel_data(panel) for panel in panels],
        "tasks": tasks + charts.together_data(summary, hard(summary)),
        "metrics": metrics,
        "inside": charts.inside_data(dual),
        "overestimation": [data for _, data in charts.overestimation_data(summary.groups)],
        "shares": share_charts(summary),
        "downloads": _downloads(summary, rows),
    }


def _downloads(summary: Summary, rows: Sequence[Problem]) -> dict[str, dict[str, str]]:
    aggregates, finals = aggregate_rows(summary), task_rows(summary)
    everything = {
        "aggregates": aggregates,
        "tasks": finals,
        "problems": [row._asdict() for row in rows],
    }
    return {
        "aggregates": {"name": "aggregates.csv", "type": "text/csv", "text": as_csv(aggregates)},
        "tasks": {"name": "tasks.csv", "type": "text/csv", "text": as_csv(finals)},
        "json": {"name": "report.json", "type": "application/json", "text": as_json(everything)},
        "latex": {"name": "scores.tex", "type": "text/plain", "text": latex(summary)},
    }
