"""What many runs say together: `dualac report` and `dualac compare`."""

import json
import math
import shlex
import webbrowser
from pathlib import Path
from typing import Any

from rich.table import Table

from dualac.cli.options import Parser, console, warn
from dualac.errors import UsageError
from dualac.parts.as_json import to_json
from dualac.parts.text import format_steps, parse_count
from dualac.runs.files import without_nan


def compare(words: list[str]) -> int:
    """two or more runs or directories side by side: dualac compare RUN RUN..."""
    from dualac.analysis.summary import compare as comparison
    from dualac.analysis.summary.summarise import Choices
    from dualac.analysis.summary.wording import format_interval

    parser = Parser(prog="dualac compare")
    parser.add_argument(
        "paths",
        type=Path,
        nargs="+",
        metavar="RUN",
        help="runs, or directories of them; of one directory, its algorithms",
    )
    add_choices(parser)
    parser.add_argument(
        "--json", action="store_true", help="one object, with a row a side and task"
    )
    asked = parser.parse(words)
    at = asked.at if asked.at is None else step(asked.at)
    found = comparison.compare(
        asked.paths, Choices(bounds(asked.bounds), at, asked.unlike, known_rows())
    )
    if asked.json:
        print(
            json.dumps(
                {
                    "at": found.at,
                    "rows": [without_nan(_by_name(row)) for row in found.rows],
                    "sentences": found.sentences,
                }
            )
        )
        return 0
    for task, at_step in found.at.items():
        table = Table(
            box=None,
            title=f"{task}, {found.units[task]} at step {format_steps(at_step)}",
            title_justify="left",
            pad_edge=False,
        )
        for title, side in (
            ("", "left"),
            ("seeds", "right"),
            ("mean [95 %]", "right"),
            ("from the first evaluation", "left"),
        ):
            table.add_column(title, justify=side, no_wrap=bool(title))  # pyright: ignore[reportArgumentType]
        for row in found.rows:
            if row.task == task:
                seeds = f"{row.seeds}" if row.seeds == row.of else f"{row.seeds} of {row.of}"
                table.add_row(row.label, seeds, format_interval(row.found), row.sparkline)
        console.print(table)
    for sentence in found.sentences:
        console.print(sentence, soft_wrap=True)
    return 0


def report(words: list[str]) -> int:
    """what a directory of runs says, as one page: dualac report DIR --open"""
    from dualac.analysis.report.make import FORMATS, Order, make, watch
    from dualac.analysis.summary.summarise import Choices

    parser = Parser(prog="dualac report")
    parser.add_argument("paths", type=Path, nargs="+", metavar="DIR", help="directories of runs")
    add_choices(parser)
    parser.add_argument(
        "--area",
        action="store_true",
        help="score a run by the area under its curve instead of by its end",
    )
    parser.add_argument(
        "--format",
        choices=FORMATS,
        default="html",
        help="html, md with SVGs, or only the figures as pdf, svg or png (html)",
    )
    parser.add_argument(
        "--out", type=Path, help="where it goes (DIR/report.html, DIR/report.md, DIR/figures)"
    )
    parser.add_argument("--title", help="what it is called (the directory's name)")
    parser.add_argument("--open", action="store_true", help="show it in a browser")
    parser.add_argument(
        "--watch",
        nargs="?",
        const=30,
        type=int,
        metavar="SECONDS",
        help="make it anew until every run has ended (30)",
    )
    asked = parser.parse(words)
    if asked.area and asked.at:
        raise UsageError(
            "--area and --at exclude each other: the area ends at the last step that all came to"
        )
    if asked.watch is not None and asked.watch < 1:
        raise UsageError(f"--watch {asked.watch}: give at least one second")
    if asked.open and asked.format != "html":
        raise UsageError("--open shows a page: leave out --format")
    at = "area" if asked.area else asked.at if asked.at is None else step(asked.at)
    command = shlex.join(["dualac", "report", *words])
    order = Order(
        tuple(asked.paths),
        asked.format,
        asked.out,
        asked.title,
        Choices(bounds(asked.bounds), at, asked.unlike, known_rows()),
        command,
    )
    out = make(order, refresh=asked.watch)
    console.print(f"{out}", soft_wrap=True)
    if asked.open and not webbrowser.open(out.resolve().as_uri()):
        warn("no browser could be started here; open the file yourself")
    if asked.watch:
        watch(order, asked.watch, out, lambda sentence: console.print(sentence, soft_wrap=True))
    return 0


def add_choices(parser: Parser) -> None:
    """What decides which numbers are compared."""
    parser.add_argument(
        "--at",
        metavar="STEP",
        help="the step at which scores are taken (the last that all came to)",
    )
    parser.add_argument(
        "--bounds",
        action="append",
        default=[],
        metavar="LOW,HIGH",
        help="the returns that score 0 and 1; TASK=LOW,HIGH for one task",
    )
    parser.add_argument(
        "--unlike",
        choices=("refuse", "separate"),
        default="refuse",
        help="runs under another protocol or simulator: leave out, or keep apart (refuse)",
    )


def known_rows() -> dict[str, dict[str, Any]]:
    """The table of algorithms as the analysis takes it: data. Without JAX there is none, and a
    run's own word is all there is about its agent.
    """
    from dualac.analysis.data.groups import settings

    try:
        from dualac.agents.algorithms import ALGORITHMS
        from dualac.training.run import Run
    except ImportError:
        return {}
    return {name: settings(to_json(Run(name, row, ""))) for name, row in ALGORITHMS.items()}


def step(text: str) -> int:
    number = parse_count(text)
    if number < 0:
        raise UsageError(f"--at {text}: give a step, 0 or more")
    return number


def bounds(words: list[str]) -> dict[str, tuple[float, float]]:
    """`--bounds -1500,0` for every task that has none of its own, `--bounds
    gym/Pendulum-v1=-1500,0` for one.
    """
    found = {}
    for word in words:
        task, _, ends = word.rpartition("=")
        try:
            low, high = (float(end) for end in ends.split(","))
        except ValueError:
            raise UsageError(
                f"--bounds {word}: give two numbers, LOW,HIGH, or TASK=LOW,HIGH"
            ) from None
        if not (math.isfinite(low) and math.isfinite(high) and low < high):
            raise UsageError(
                f"--bounds {word}: the first must be below the second, and both finite"
            )
        found[task] = (low, high)
    return found


def _by_name(value: Any) -> Any:
    """Return a named tuple as a dict, and those inside it too."""
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return {key: _by_name(item) for key, item in value._asdict().items()}  # pyright: ignore[reportAttributeAccessIssue]
    return value
