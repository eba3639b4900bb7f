"""What directories of runs hold: `dualac status`, `dualac collect` and `dualac show`."""

import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from rich.table import Table

from dualac.cli.options import Parser, console, say, warn
from dualac.errors import DataError
from dualac.machine.disk import refusal
from dualac.parts.text import one_line

MOST_REASONS = 10


def status(argv: list[str]) -> int:
    """Show how far a directory of runs is: dualac status DIR"""
    from dualac.analysis.data.status import survey

    parser = Parser(prog="dualac status")
    parser.add_argument(
        "path", type=Path, metavar="DIR", help="a sweep's directory, or one above it"
    )
    parser.add_argument("--json", action="store_true", help="one object, with a row a run")
    args = parser.parse(argv)
    marks, damaged = survey(_require_directory(args.path))
    if not marks and not damaged:
        raise DataError(
            f"no run at or below {args.path}, and no plan of any; dualac sweep makes both"
        )
    if args.json:
        rows = [{**mark._asdict(), "path": str(mark.path) if mark.path else None} for mark in marks]
        counts = Counter(mark.state for mark in marks)
        errors = [str(error) for error in damaged]
        print(json.dumps({"counts": counts, "runs": rows, "damaged": errors}))
    else:
        _show_status(marks)
        for error in damaged[:MOST_REASONS]:
            warn(str(error))
    return 0


def _show_status(marks: list[Any]) -> None:
    from dualac.analysis.data.status import grid
    from dualac.runs.state import STATES

    counts = Counter(mark.state for mark in marks)
    states = [state for state in STATES if counts[state]]
    table = Table(box=None, pad_edge=False)
    for title in ("algorithm", "rr", "task", *states):
        side = "left" if title in ("algorithm", "task") else "right"
        table.add_column(title, justify=side, no_wrap=True)
    for (name, ratio, task), cell in grid(marks).items():
        table.add_row(name, str(ratio), task, *(str(cell[state] or "") for state in states))
    console.print(table)
    listed = ", ".join(f"{counts[state]} {state}" for state in states)
    names = _names(mark.experiment for mark in marks)
    say(f"{names}{listed}; {len(marks)} runs")
    for mark in [mark for mark in marks if mark.state == "failed"][:MOST_REASONS]:
        say(f"failed     {mark.path}: {one_line(mark.reason)}")
    for mark in [mark for mark in marks if mark.state == "running"][:MOST_REASONS]:
        say(f"running    {mark.path}: step {mark.step} of {mark.steps}")


def collect(argv: list[str]) -> int:
    """Write tables of all runs, evaluations and training rows, in Parquet: dualac collect DIR..."""
    from dualac.analysis.data.collect import merged, missing, write
    from dualac.analysis.data.frame import read

    parser = Parser(prog="dualac collect")
    parser.add_argument(
        "paths",
        type=Path,
        nargs="+",
        metavar="DIR",
        help="directories of runs, or of tables of them, perhaps of several machines",
    )
    parser.add_argument(
        "--out", type=Path, metavar="DIR", help="where the tables go (the first DIR)"
    )
    parser.add_argument("--finished", action="store_true", help="only runs that are done")
    args = parser.parse(argv)
    everything = read([_require_directory(path) for path in args.paths], training_rows=None)
    for error in everything.damaged[:MOST_REASONS]:
        warn(str(error))
    runs = merged(everything.runs)
    if args.finished:
        runs = [run for run in runs if run.status.state == "done"]
    if not runs:
        kind = "finished run" if args.finished else "run"
        raise DataError(
            f"no {kind} at or below {args.paths[0]}; dualac status {args.paths[0]} tells what was "
            "planned there"
        )
    try:
        paths = write(runs, args.out or args.paths[0])
    except OSError as error:
        raise refusal(error.filename or "the table", error) from None
    _show_collected(runs, missing(everything), paths)
    return 0


def _show_collected(runs: list[Any], missing: list[Any], paths: list[Path]) -> None:
    counts = dict(Counter(run.status.state for run in runs))
    if missing:
        counts["missing"] = len(missing)
    listed = ", ".join(f"{count} {state}" for state, count in counts.items())
    names = _names(run.experiment for run in (*runs, *missing))
    files = ", ".join(map(str, paths))
    say(f"{names}{len(runs)} runs ({listed}): {files}")
    for run in missing[:MOST_REASONS]:
        say(
            f"missing    {run.name} on {run.task}, replay ratio {run.replay_ratio}, seed {run.seed}"
        )


def show(argv: list[str]) -> int:
    """Show one run: what it is, where and from what it was made, its curve: dualac show RUN"""
    from dualac.analysis.data import record
    from dualac.analysis.data.frame import read
    from dualac.runs.layout import SPEC

    parser = Parser(prog="dualac show")
    parser.add_argument("path", type=Path, metavar="RUN")
    args = parser.parse(argv)
    if not (args.path / SPEC).exists():
        raise DataError(
            f"{args.path} is not a run: it has no run.json; give the directory of one seed, such "
            "as runs/NAME/dac/TASK/rr2/seed0"
        )
    frame = read([args.path])
    if not frame.runs:
        raise DataError(str(frame.damaged[0]))
    for error in frame.damaged[:MOST_REASONS]:
        warn(str(error))
    for line in record.describe_run(frame.runs[0]):
        say(line)
    return 0


def _names(experiments: Iterable[str]) -> str:
    """Begin a line with the experiments that it is about."""
    names = sorted({name for name in experiments if name})
    return f"{', '.join(names)}: " if names else ""


def _require_directory(path: Path) -> Path:
    if not path.is_dir():
        raise DataError(
            f"{path} is not a directory; give one with runs in it, such as runs/NAME of dualac "
            "sweep NAME"
        )
    return path
