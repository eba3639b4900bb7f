"""The numbers of a report in the forms that others read: CSV, JSON, LaTeX, Markdown. What users
named is text in all of them.
"""

import csv
import io
import json
import math
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from dualac.analysis import statistics
from dualac.analysis.summary.summarise import Panel, Summary, generator
from dualac.analysis.summary.wording import format_interval, format_number, format_range

Rows = list[dict[str, Any]]
_LATEX = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"} | {
    mark: f"\\{mark}" for mark in "&%$#_{}"
}


def aggregate_rows(summary: Summary) -> Rows:
    """A row an algorithm and statistic."""
    rows: Rows = []
    for panel in summary.panels:
        for one in panel.groups if panel.tasks else []:
            about = {
                "algorithm": one.agent,
                "replay_ratio": one.replay_ratio,
                "step": panel.at,
                "area": panel.area,
                "tasks": len(panel.tasks),
            }
            seeds = format_range(panel.seeds(one.label))
            for name, found in panel.aggregates[one.label].items():
                rows.append(
                    {**about, "seeds": seeds, "statistic": name, "suite": "all", **_ends(found)}
                )
            for suite, some in panel.suites.items():
                rows.append(
                    {
                        **about,
                        "seeds": seeds,
                        "statistic": "IQM",
                        "suite": suite,
                        **_ends(some[one.label]),
                    }
                )
    return rows


def task_rows(summary: Summary) -> Rows:
    """A row an algorithm and task: where each got to."""
    rows: Rows = []
    for one in summary.groups:
        for task in sorted(one.tasks):
            runs = [run for run in one.runs if run.task == task]
            last = summary.board.reached(one, task)
            scale = summary.board.scaled[task]
            curves = summary.board.curves_of(one, [task], np.array([max(last, 0.0)]))[0]
            found = statistics.interval(curves, statistics.mean, generator(one.label, task))
            finite = curves[np.isfinite(curves)]
            about = {
                "algorithm": one.agent,
                "replay_ratio": one.replay_ratio,
                "task": task,
                "unit": scale.unit if scale else "return",
            }
            about |= {
                "step": last,
                "seeds": int(np.isfinite(curves).sum()),
                "of": len(runs),
                "best": float(finite.max()) if finite.size else math.nan,
            }
            rows.append({**about, **_ends(found)})
    return rows


def _ends(found: statistics.Interval) -> dict[str, Any]:
    return {
        "estimate": found.estimate,
        "low": found.low if found.defined else math.nan,
        "high": found.high if found.defined else math.nan,
    }


def as_csv(rows: Rows) -> str:
    """A cell that a spreadsheet would take for a formula is quoted as text."""
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
    """One line; what is not finite is null, and nothing in it can end a script element."""
    text = json.dumps(plain(value), separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def plain(value: Any) -> Any:
    """As JSON has it: no NaN, no arrays, no tuples."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, np.generic):
        return plain(value.item())
    return None if isinstance(value, float) and not math.isfinite(value) else value


def latex(summary: Summary) -> str:
    """Final scores as a booktabs table; the best of each replay ratio, and whatever is not
    separable from it, in bold.
    """
    lines = [
        r"\begin{tabular}{llrrr}",
        r"\toprule",
        r"Algorithm & RR & Seeds & IQM & 95\,\% interval \\",
        r"\midrule",
    ]
    for panel in summary.panels:
        near = best(panel)
        for one in panel.ranked() if panel.tasks else []:
            found = panel.aggregates[one.label]["IQM"]
            number = format_number(found.estimate)
            ends = (
                f"[{format_number(found.low)}, {format_number(found.high)}]"
                if found.defined
                else "--"
            )
            score = rf"\textbf{{{number}}}" if one.label in near else number
            lines.append(
                rf"{escape_latex(one.agent)} & {one.replay_ratio} & "
                rf"{format_range(panel.seeds(one.label))} & {score} & {ends} \\"
            )
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", ""])


def best(panel: Panel) -> set[str]:
    """The first, and those that cannot be told from it."""
    if not panel.tasks:
        return set()
    return {
        panel.ranked()[0].label,
        *(one.theirs for one in panel.comparisons if not one.difference.separable),
    }


def escape_latex(text: str) -> str:
    return "".join(_LATEX.get(letter, letter) for letter in text)


def markdown_table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [titles, ["---"] * len(titles), *rows]
    return "\n".join(
        "| " + " | ".join(cell if cell == "---" else escape_markdown(cell) for cell in line) + " |"
        for line in lines
    )


def escape_markdown(text: str) -> str:
    """Text that stays text: no markup, no HTML, no link, no new cell."""
    text = " ".join(text.split())
    for mark in "\\`*_{}[]<>#|!~$":
        text = text.replace(
            mark, f"\\{mark}" if mark not in "<>" else f"&{'lt' if mark == '<' else 'gt'};"
        )
    return text


def aggregate_table(panel: Panel) -> tuple[list[str], list[list[str]]]:
    """As people read it: an algorithm a row, the best first."""
    names = list(statistics.AGGREGATES)
    rows = [
        [
            one.agent,
            str(one.replay_ratio),
            format_range(panel.seeds(one.label)),
            *(format_interval(panel.aggregates[one.label][name]) for name in names),
        ]
        for one in panel.ranked()
    ]
    return ["algorithm", "replay ratio", "seeds", *names], rows
