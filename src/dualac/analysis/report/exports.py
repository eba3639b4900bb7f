"""A report's numbers as CSV, JSON, LaTeX and Markdown. What users named is text in all of them."""

import csv
import io
import json
import math
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from dualac.analysis import statistics
from dualac.analysis.data.groups import Group
from dualac.analysis.summary import wording
from dualac.analysis.summary.panel import Panel, generator
from dualac.analysis.summary.summarise import Summary
from dualac.runs.files import without_nan

Rows = list[dict[str, Any]]
_LATEX = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"} | {
    mark: f"\\{mark}" for mark in "&%$#_{}"
}


def aggregate_rows(summary: Summary) -> Rows:
    """Return a row an algorithm and statistic."""
    return [
        row
        for panel in summary.panels
        if panel.tasks
        for group in panel.groups
        for row in _rows_of_group(panel, group)
    ]


def _rows_of_group(panel: Panel, group: Group) -> Rows:
    row = {
        "algorithm": group.agent,
        "replay_ratio": group.replay_ratio,
        "step": panel.at,
        "area": panel.area,
        "tasks": len(panel.tasks),
        "seeds": wording.format_range(panel.seeds(group.label)),
    }
    rows = [
        {**row, "statistic": name, "suite": "all", **interval.as_dict()}
        for name, interval in panel.aggregates[group.label].items()
    ]
    return rows + [
        {**row, "statistic": "IQM", "suite": suite, **intervals[group.label].as_dict()}
        for suite, intervals in panel.suites.items()
    ]


def task_rows(summary: Summary) -> Rows:
    """Return a row an algorithm and task: its mean score at the last step with one."""
    return [
        _task_row(summary, group, task) for group in summary.groups for task in sorted(group.tasks)
    ]


def _task_row(summary: Summary, group: Group, task: str) -> dict[str, Any]:
    last = summary.board.reached(group, task)
    scale = summary.board.scaled[task]
    scores = summary.board.curves_of(group, [task], np.array([max(last, 0.0)]))[0]
    interval = statistics.interval(scores, statistics.mean, generator(group.label, task))
    finite = scores[np.isfinite(scores)]
    return {
        "algorithm": group.agent,
        "replay_ratio": group.replay_ratio,
        "task": task,
        "unit": scale.unit if scale else "return",
        "step": last,
        "seeds": len(finite),
        "of": sum(run.task == task for run in group.runs),
        "best": float(finite.max()) if finite.size else math.nan,
        **interval.as_dict(),
    }


def as_csv(rows: Rows) -> str:
    """Write rows as CSV. A cell that a spreadsheet would take for a formula is quoted as text."""
    if not rows:
        return ""
    out = io.StringIO()
    writer = csv.DictWriter(out, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: _cell(value) for name, value in row.items()} for row in rows)
    return out.getvalue()


def _cell(value: Any) -> Any:
    if isinstance(value, float):
        return "" if not math.isfinite(value) else value
    return f"'{value}" if isinstance(value, str) and re.match(r"\s*[=+\-@\t\r]", value) else value


def as_json(value: Any) -> str:
    """Write a value as one line of JSON in which nothing can end a script element."""
    text = json.dumps(without_nan(value), separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def latex(summary: Summary) -> str:
    """Write final scores as a booktabs table, in bold whatever is not separable from the best."""
    panels = [panel for panel in summary.panels if panel.tasks]
    rows = [_latex_row(panel, group) for panel in panels for group in panel.ranked()]
    titles = r"Algorithm & RR & Seeds & IQM & 95\,\% interval \\"
    top = [r"\begin{tabular}{llrrr}", r"\toprule", titles, r"\midrule"]
    return "\n".join([*top, *rows, r"\bottomrule", r"\end{tabular}", ""])


def _latex_row(panel: Panel, group: Group) -> str:
    score = panel.aggregates[group.label]["IQM"]
    number = wording.format_number(score.estimate)
    if group.label in _not_below_the_best(panel):
        number = rf"\textbf{{{number}}}"
    ends = wording.format_ends(score.low, score.high) if score.defined else "--"
    agent, seeds = escape_latex(group.agent), wording.format_range(panel.seeds(group.label))
    return " & ".join([agent, str(group.replay_ratio), seeds, number, ends]) + r" \\"


def _not_below_the_best(panel: Panel) -> set[str]:
    near = {one.theirs for one in panel.comparisons if not one.difference.separable}
    return {panel.ranked()[0].label, *near}


def escape_latex(text: str) -> str:
    return "".join(_LATEX.get(letter, letter) for letter in text)


def markdown_table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [titles, ["---"] * len(titles), *rows]
    return "\n".join(
        "| " + " | ".join(cell if cell == "---" else escape_markdown(cell) for cell in line) + " |"
        for line in lines
    )


def escape_markdown(text: str) -> str:
    """Keep text as text: no markup, no HTML, no link, no new cell."""
    text = " ".join(text.split())
    for mark in "\\`*_{}[]#|!~$":
        text = text.replace(mark, f"\\{mark}")
    return text.replace("<", "&lt;").replace(">", "&gt;")


def aggregate_table(panel: Panel) -> tuple[list[str], list[list[str]]]:
    """Return titles and rows as people read them: an algorithm a row, the best first."""
    names = list(statistics.AGGREGATES)
    rows = [
        [
            group.agent,
            str(group.replay_ratio),
            wording.format_range(panel.seeds(group.label)),
            *(wording.format_interval(panel.aggregates[group.label][name]) for name in names),
        ]
        for group in panel.ranked()
    ]
    return ["algorithm", "replay ratio", "seeds", *names], rows
