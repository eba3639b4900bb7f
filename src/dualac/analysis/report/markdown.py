"""A report as Markdown with SVGs beside it. The same runs make the same bytes."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl

from dualac.analysis.data.completeness import cells
from dualac.analysis.data.groups import describe_rules
from dualac.analysis.figures.paper import FIGURES, REFERENCE, PaperFigure, Picture, gallery
from dualac.analysis.figures.style import STYLE
from dualac.analysis.report.exports import (
    aggregate_table,
    escape_markdown,
    markdown_table,
    task_rows,
)
from dualac.analysis.summary.commands import commands
from dualac.analysis.summary.headline import headline
from dualac.analysis.summary.panel import Panel
from dualac.analysis.summary.problems import MOST_LISTED, problems
from dualac.analysis.summary.summarise import Summary
from dualac.analysis.summary.tables import costs, differences
from dualac.analysis.summary.wording import (
    format_count,
    format_ends,
    format_number,
    format_steps_to_reach,
    join_names,
    printable,
)
from dualac.parts.text import format_steps

# What matplotlib would date a file with.
METADATA = {"svg": {"Date": None}, "pdf": {"CreationDate": None, "ModDate": None}, "png": {}}


def write_markdown(
    summary: Summary,
    title: str,
    out: Path,
    command: str,
    figures: Mapping[str, PaperFigure] = FIGURES,
) -> Path:
    """Write the report, and its figures into a folder beside it that is called after it."""
    pictures, missing = gallery(summary, figures)
    folder = out.with_name(f"{out.stem}-figures")
    files = write_figures(pictures, folder, "svg")
    blocks = [f"# {escape_markdown(title)}"]
    blocks += [escape_markdown(sentence) for sentence in headline(summary)]
    blocks.append(_facts(summary, command))
    for panel in summary.panels:
        if panel.tasks:
            blocks += _scores(panel)
    for picture in pictures:
        blocks += [
            f"## {picture.title}",
            f"![{picture.title}]({folder.name}/{files[picture.name].name})",
            f"*{escape_markdown(picture.caption)}*",
        ]
    blocks += _completeness(summary) + _settings(summary) + _problems(summary) + _again(summary)
    if missing:
        blocks += ["## Not drawn", "\n".join(f"- {escape_markdown(name)}" for name in missing)]
    out.parent.mkdir(parents=True, exist_ok=True)
    text = "".join(f"{block}\n\n" for block in blocks)
    out.write_text(text.removesuffix("\n"), encoding="utf-8", errors="replace")
    return out


def write_figures(pictures: Sequence[Picture], folder: Path, kind: str) -> dict[str, Path]:
    """Write each picture as a file of this kind, and return where it is, by its name."""
    files = {}
    folder.mkdir(parents=True, exist_ok=True)
    for picture in pictures:
        with mpl.rc_context(STYLE):
            files[picture.name] = folder / f"{picture.name}.{kind}"
            picture.draw().savefig(files[picture.name], dpi=200, metadata=METADATA[kind])
    return files


def write_captions(pictures: Sequence[Picture], folder: Path) -> None:
    blocks = [
        f"## {picture.name}\n\n{escape_markdown(picture.title)}. "
        f"{escape_markdown(picture.caption)}\n"
        for picture in pictures
    ]
    (folder / "captions.md").write_text("\n".join(blocks), encoding="utf-8", errors="replace")


def _facts(summary: Summary, command: str) -> str:
    runs = [run for group in summary.groups for run in group.runs]
    rules = sorted({f"{run.suite}: {describe_rules(run)}" for run in runs})
    machines = sorted({str(run.machine.get("cpu", "")) for run in runs} - {""})
    lengths = [format_steps(steps) for steps in sorted({run.steps for run in runs})]
    facts = [
        f"{format_count(len(runs), 'run')} of {format_count(len(summary.groups), 'algorithm')} on "
        f"{format_count(len(summary.tasks), 'task')}"
    ]
    if lengths:
        facts.append(f"planned steps: {join_names(lengths)}")
    if machines:
        facts.append(f"machine: {join_names(machines)}")
    lines = [escape_markdown(fact) for fact in [*facts, *rules]]
    return "\n".join(f"- {line}" for line in [*lines, f"made by: `{printable(command)}`"])


def _scores(panel: Panel) -> list[str]:
    names = panel.names()
    blocks = [f"## Scores, {panel.title}", markdown_table(*aggregate_table(panel))]
    reached = [
        [
            names[one.label],
            f"{format_number(one.target)} ({names[one.other]})",
            format_steps_to_reach(one.steps),
        ]
        for one in panel.reached
    ]
    if reached:
        titles = ["algorithm", "final IQM of the best other", "steps to reach it"]
        blocks.append(markdown_table(titles, reached))
    return blocks


def _completeness(summary: Summary) -> list[str]:
    grid = cells(summary.groups, summary.frame.missing)
    if not grid:
        return []
    states = [[cell.label, cell.task, cell.describe()] for cell in grid]
    titles = ["task", "algorithm", "RR", "seeds", "step", "unit", "mean", "95 %"]
    finals = sorted(_final(row) for row in task_rows(summary))
    blocks = [
        "## Completeness",
        markdown_table(["algorithm", "task", "seeds"], states),
        "## Every task in numbers",
        markdown_table(titles, finals),
    ]
    cost = [
        [
            row.label,
            f"{row.steps_per_second:.0f}",
            f"{row.ms_per_update:.2f}",
            f"{row.hours:.2f}",
            format_number(row.against),
        ]
        for row in costs(summary.groups, REFERENCE)
        if row.runs
    ]
    if cost:
        titles = ["algorithm", "steps/s", "ms an update", "hours a run", f"time over {REFERENCE}"]
        note = "Evaluations included; what else ran on the machine is not known."
        blocks += ["## Cost", markdown_table(titles, cost), note]
    return blocks


def _final(row: dict[str, Any]) -> list[str]:
    ends = "no score"
    if row["seeds"] > 1:
        ends = format_ends(row["low"], row["high"])
    elif row["seeds"]:
        ends = "one seed"
    return [
        row["task"],
        row["algorithm"],
        str(row["replay_ratio"]),
        f"{row['seeds']} of {row['of']}",
        format_steps(row["step"]),
        row["unit"],
        format_number(row["estimate"]),
        ends,
    ]


def _settings(summary: Summary) -> list[str]:
    titles, rows = differences(summary.groups)
    if not rows:
        return []
    note = "Where these agents differ; a dash where one has no such setting."
    return ["## Settings", markdown_table(titles, rows), note]


def _problems(summary: Summary) -> list[str]:
    rows = problems(summary)
    if not rows:
        return []
    lines = [f"- {row.kind}: {escape_markdown(printable(row.text))}" for row in rows[:MOST_LISTED]]
    if len(rows) > MOST_LISTED:
        lines.append(f"- and {len(rows) - MOST_LISTED} more")
    return ["## Problems", "\n".join(lines)]


def _again(summary: Summary) -> list[str]:
    lines = [printable(line).replace("`", "'") for line in commands(summary)]
    return ["## Reproduce", "\n".join(["```", *lines, "```"])] if lines else []
