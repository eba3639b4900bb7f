"""A report as Markdown with SVGs beside it, for a repository's docs. The same runs make the same
bytes.
"""

from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl

from dualac.analysis.data.completeness import cells
from dualac.analysis.data.groups import describe_rules
from dualac.analysis.figures.paper import REFERENCE, Picture, gallery
from dualac.analysis.figures.style import STYLE
from dualac.analysis.report.exports import (
    aggregate_table,
    escape_markdown,
    markdown_table,
    task_rows,
)
from dualac.analysis.summary.findings import MOST_LISTED, commands, headline, problems
from dualac.analysis.summary.summarise import Summary
from dualac.analysis.summary.tables import costs, differences
from dualac.analysis.summary.wording import (
    format_count,
    format_number,
    format_steps,
    format_steps_to_reach,
    join_names,
    printable,
)

FORMATS = {"svg": {"Date": None}, "pdf": {"CreationDate": None, "ModDate": None}, "png": {}}


def write_markdown(summary: Summary, title: str, out: Path, command: str) -> Path:
    """The report at `out`, its figures in a folder beside it that is called after it."""
    found = gallery(summary)
    folder = out.with_name(f"{out.stem}-figures")
    drawn = write_figures(found.pictures, folder, "svg")
    blocks = [
        f"# {escape_markdown(title)}",
        *(escape_markdown(sentence) for sentence in headline(summary)),
        _about(summary, command),
    ]
    for panel in summary.panels:
        if panel.tasks:
            blocks += [f"## Scores, {panel.title}", markdown_table(*aggregate_table(panel))]
            reached = [
                [
                    panel.names()[one.label],
                    f"{format_number(one.target)} ({panel.names()[one.other]})",
                    format_steps_to_reach(one.steps),
                ]
                for one in panel.reached
            ]
            blocks += (
                [
                    markdown_table(
                        ["algorithm", "final IQM of the best other", "steps to reach it"], reached
                    )
                ]
                if reached
                else []
            )
    for picture in found.pictures:
        if picture.name in drawn:
            blocks += [
                f"## {picture.title}",
                f"![{picture.title}]({folder.name}/{drawn[picture.name].name})",
                f"*{escape_markdown(picture.caption)}*",
            ]
    blocks += _tables(summary)
    blocks += (
        ["## Not drawn", "\n".join(f"- {escape_markdown(one)}" for one in found.missing)]
        if found.missing
        else []
    )
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text("\n".join(_spaced(blocks)), encoding="utf-8", errors="replace")
    return out


def write_figures(pictures: Sequence[Picture], folder: Path, kind: str) -> dict[str, Path]:
    """Each as a file of this kind."""
    written = {}
    folder.mkdir(parents=True, exist_ok=True)
    for picture in pictures:
        with mpl.rc_context(STYLE):
            written[picture.name] = folder / f"{picture.name}.{kind}"
            picture.draw().savefig(written[picture.name], dpi=200, metadata=FORMATS[kind])
    return written


def write_captions(pictures: Sequence[Picture], folder: Path) -> None:
    """What figures show, beside them, where no report says it."""
    blocks = [
        f"## {picture.name}\n\n{escape_markdown(picture.title)}. "
        f"{escape_markdown(picture.caption)}\n"
        for picture in pictures
    ]
    (folder / "captions.md").write_text("\n".join(blocks), encoding="utf-8", errors="replace")


def _about(summary: Summary, command: str) -> str:
    runs = [run for one in summary.groups for run in one.runs]
    rules = sorted({f"{run.suite}: {describe_rules(run)}" for run in runs})
    machines = sorted({str(run.machine.get("cpu", "")) for run in runs} - {""})
    lengths = sorted({run.steps for run in runs})
    lines = [
        f"{format_count(len(runs), 'run')} of {format_count(len(summary.groups), 'algorithm')} on "
        f"{format_count(len(summary.tasks), 'task')}"
    ]
    lines += (
        [f"planned steps: {join_names([format_steps(one) for one in lengths])}"] if lengths else []
    )
    lines += [f"machine: {join_names(machines)}"] if machines else []
    lines += [*rules, f"made by: `{printable(command)}`"]
    return "\n".join(
        f"- {line if line.startswith('made by') else escape_markdown(line)}" for line in lines
    )


def _tables(summary: Summary) -> list[str]:
    blocks: list[str] = []
    rows = [
        [cell.label, cell.task, cell.describe()]
        for cell in cells(summary.groups, summary.frame.missing)
    ]
    if rows:
        blocks += ["## Completeness", markdown_table(["algorithm", "task", "seeds"], rows)]
        finals = []
        for row in task_rows(summary):
            ends = (
                f"[{format_number(row['low'])}, {format_number(row['high'])}]"
                if row["seeds"] > 1
                else "one seed"
                if row["seeds"]
                else "no score"
            )
            finals.append(
                [
                    row["task"],
                    row["algorithm"],
                    str(row["replay_ratio"]),
                    f"{row['seeds']} of {row['of']}",
                    format_steps(row["step"]),
                    row["unit"],
                    format_number(row["estimate"]),
                    ends,
                ]
            )
        titles = ["task", "algorithm", "RR", "seeds", "step", "unit", "mean", "95 %"]
        blocks += ["## Every task in numbers", markdown_table(titles, sorted(finals))]
        cost = [
            [
                one.label,
                f"{one.steps_per_second:.0f}",
                f"{one.ms_per_update:.2f}",
                f"{one.hours:.2f}",
                format_number(one.against),
            ]
            for one in costs(summary.groups, REFERENCE)
            if one.runs
        ]
        titles = ["algorithm", "steps/s", "ms an update", "hours a run", f"time over {REFERENCE}"]
        blocks += (
            [
                "## Cost",
                markdown_table(titles, cost),
                "Evaluations included; what else ran on the machine is not known.",
            ]
            if cost
            else []
        )
    titles, unlike = differences(summary.groups)
    blocks += (
        [
            "## Settings",
            markdown_table(titles, unlike),
            "Where these agents differ; a dash where one has no such setting.",
        ]
        if unlike
        else []
    )
    found = problems(summary)
    if found:
        listed = [
            f"- {one.kind}: {escape_markdown(printable(one.text))}" for one in found[:MOST_LISTED]
        ]
        blocks += [
            "## Problems",
            "\n".join(
                [
                    *listed,
                    *(
                        [f"- and {len(found) - MOST_LISTED} more"]
                        if len(found) > MOST_LISTED
                        else []
                    ),
                ]
            ),
        ]
    made = commands(summary)
    return (
        [
            *blocks,
            "## Reproduce",
            "```\n" + "\n".join(printable(line).replace("`", "'") for line in made) + "\n```",
        ]
        if made
        else blocks
    )


def _spaced(blocks: Sequence[str]) -> list[str]:
    lines: list[str] = []
    for block in blocks:
        lines += [block, ""]
    return lines
