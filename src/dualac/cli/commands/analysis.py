"""What many runs say together: `dualac report` and `dualac compare`."""

import argparse
import json
import math
import shlex
import webbrowser
from pathlib import Path
from typing import Any

from rich.table import Table

from dualac.cli.options import Parser, console, say, warn
from dualac.errors import UsageError
from dualac.parts.as_json import to_json
from dualac.parts.text import format_steps, parse_count
from dualac.runs.files import without_nan


def compare(argv: list[str]) -> int:
    """Show two or more runs or directories side by side: dualac compare RUN RUN..."""
    from dualac.analysis.summary import compare as comparison

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
    args = parser.parse(argv)
    at = None if args.at is None else parse_step(args.at)
    compared = comparison.compare(args.paths, read_choices(args, at))
    if args.json:
        rows = [without_nan(_by_name(row)) for row in compared.rows]
        print(json.dumps({"at": compared.at, "rows": rows, "sentences": compared.sentences}))
        return 0
    for task in compared.at:
        console.print(_table(compared, task))
    for sentence in compared.sentences:
        say(sentence)
    return 0


def _table(compared: Any, task: str) -> Table:
    from dualac.analysis.summary.wording import format_interval

    title = f"{task}, {compared.units[task]} at step {format_steps(compared.at[task])}"
    table = Table(box=None, title=title, title_justify="left", pad_edge=False)
    table.add_column("")
    table.add_column("seeds", justify="right", no_wrap=True)
    table.add_column("mean [95 %]", justify="right", no_wrap=True)
    table.add_column("from the first evaluation", no_wrap=True)
    for row in compared.rows:
        if row.task == task:
            seeds = f"{row.seeds}" if row.seeds == row.of else f"{row.seeds} of {row.of}"
            table.add_row(row.label, seeds, format_interval(row.found), row.sparkline)
    return table


def report(argv: list[str]) -> int:
    """Make one page of what a directory of runs says: dualac report DIR --open"""
    from dualac.analysis.report.make import Order, make, watch

    args = _report_parser().parse(argv)
    _refuse_contradictions(args)
    at = "area" if args.area else None if args.at is None else parse_step(args.at)
    choices = read_choices(args, at)
    command = shlex.join(["dualac", "report", *argv])
    order = Order(tuple(args.paths), args.format, args.out, args.title, choices, command)
    out = make(order, refresh=args.watch)
    say(f"{out}")
    if args.open and not webbrowser.open(out.resolve().as_uri()):
        warn("no browser could be started here; open the file yourself")
    if args.watch:
        watch(order, args.watch, out, say)
    return 0


def _report_parser() -> Parser:
    from dualac.analysis.report.make import FORMATS

    parser = Parser(prog="dualac report")
    add = parser.add_argument
    add("paths", type=Path, nargs="+", metavar="DIR", help="directories of runs")
    add_choices(parser)
    add(
        "--area",
        action="store_true",
        help="score a run by the area under its curve instead of by its end",
    )
    add(
        "--format",
        choices=FORMATS,
        default="html",
        help="html, md with SVGs, or only the figures as pdf, svg or png (html)",
    )
    add("--out", type=Path, help="where it goes (DIR/report.html, DIR/report.md, DIR/figures)")
    add("--title", help="what it is called (the directory's name)")
    add("--open", action="store_true", help="show it in a browser")
    add(
        "--watch",
        nargs="?",
        const=30,
        type=int,
        metavar="SECONDS",
        help="make it anew until every run has ended (30)",
    )
    return parser


def _refuse_contradictions(args: argparse.Namespace) -> None:
    if args.area and args.at:
        raise UsageError(
            "--area and --at exclude each other: the area ends at the last step that all came to"
        )
    if args.watch is not None and args.watch < 1:
        raise UsageError(f"--watch {args.watch}: give at least one second")
    if args.open and args.format != "html":
        raise UsageError("--open shows a page: leave out --format")


def read_choices(args: argparse.Namespace, at: Any) -> Any:
    from dualac.analysis.summary.summarise import Choices

    return Choices(parse_bounds(args.bounds), at, args.unlike, table_as_data())


def add_choices(parser: Parser) -> None:
    """Add the options that decide which numbers are compared."""
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


def table_as_data() -> dict[str, dict[str, Any]]:
    """Return the table of algorithms as data; None without JAX, where runs' records must do."""
    from dualac.analysis.data.groups import settings

    try:
        from dualac.agents.algorithms import ALGORITHMS
        from dualac.training.run import Run
    except ImportError:
        return {}
    return {name: settings(to_json(Run(name, row, ""))) for name, row in ALGORITHMS.items()}


def parse_step(text: str) -> int:
    number = parse_count(text)
    if number < 0:
        raise UsageError(f"--at {text}: give a step, 0 or more")
    return number


def parse_bounds(texts: list[str]) -> dict[str, tuple[float, float]]:
    """Read `--bounds -1500,0` for all other tasks, `gym/Pendulum-v1=-1500,0` for one."""
    bounds = {}
    for text in texts:
        task, _, ends = text.rpartition("=")
        try:
            low, high = (float(end) for end in ends.split(","))
        except ValueError:
            raise UsageError(
                f"--bounds {text}: give two numbers, LOW,HIGH, or TASK=LOW,HIGH"
            ) from None
        if not (math.isfinite(low) and math.isfinite(high) and low < high):
            raise UsageError(
                f"--bounds {text}: the first must be below the second, and both finite"
            )
        bounds[task] = (low, high)
    return bounds


def _by_name(value: Any) -> Any:
    """Return a named tuple as a dict, and those inside it too."""
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return {key: _by_name(item) for key, item in value._asdict().items()}  # pyright: ignore[reportAttributeAccessIssue]
    return value
