"""Many runs: `dualac sweep`, `dualac status`, `dualac collect`; and the record of one: `dualac
show`.
"""

import argparse
import functools
import json
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from dualac.cli.commands.training import add_run_options
from dualac.cli.options import Parser, console, given, parse_option
from dualac.errors import DataError, UsageError
from dualac.machine.disk import refusal
from dualac.parts.paths import options
from dualac.parts.text import one_line, parse_count, parse_seeds

SET_ASIDE = 3  # the exit code of a sweep that went to its end with runs that fail every time
MOST_REASONS = 10


def sweep(words: list[str]) -> int:
    """run an experiment: dualac sweep benchmark --scale small; dualac sweep --algorithms dac,sac
    --tasks dmc/cheetah-run --seeds 2 --steps 50k
    """
    from dualac.experiments.expand import expand

    experiment, asked = _read(words)
    out = asked.out or Path("runs") / experiment.name
    if asked.recalibrate and not asked.plan:
        raise UsageError("--recalibrate is about what a plan would take: add --plan")
    if asked.address is not None and asked.executor != "ray":
        raise UsageError("--address is that of a Ray cluster: add --executor ray")
    if asked.workers is not None and (asked.workers < 1 or asked.executor == "ray"):
        raise UsageError(
            "--workers is how many processes run at a time on this machine, at least 1; a Ray "
            "cluster decides for itself"
        )
    try:
        return (
            _show_plan(experiment, expand(experiment), out, asked)
            if asked.plan
            else _carry_out(experiment, out, asked)
        )
    except OSError as error:
        if error.filename is None:  # standard output
            raise
        raise refusal(out, error) from None


def _read(words: list[str]) -> tuple[Any, argparse.Namespace]:
    """The experiment that is asked for, with whatever of its runs and agents is set by an option,
    as `dualac train` takes them.
    """
    from dualac import envs
    from dualac.agents.algorithms import ALGORITHMS
    from dualac.experiments.adapt import agents, overridden
    from dualac.experiments.expand import resolve_tasks
    from dualac.training.run import Run

    parser = _parser()
    of_run = add_run_options(parser, Run("dac", ALGORITHMS["dac"], ""), ("steps", "replay_ratio"))
    of_agents = _agent_options(parser, list(ALGORITHMS.values()), [])
    asked, _ = parser.peek_batch(words)
    experiment = _experiment(asked)
    contenders = agents(experiment)
    of_agents += _agent_options(
        parser, [one.row() for one in contenders], of_agents
    )  # an agent of one's own may have others
    asked = parser.parse(words)
    texts = {
        path: text
        for path in of_agents
        if (text := getattr(asked, f"algorithm.{path}")) is not None
    }
    of = _changes(contenders, texts)
    changes = given(of_run, asked)
    suites = {
        task.partition("/")[0] for grid in experiment.grids for task in resolve_tasks(grid.tasks)
    }
    envs.require_effect((path.removeprefix("protocol.") for path in changes), *sorted(suites))
    if asked.protocol is not None:
        changes["protocol"] = envs.find_protocol(asked.protocol)
    return overridden(experiment, changes, lambda one: of[one.name]), asked


def _changes(contenders: list[Any], texts: dict[str, str]) -> dict[str, dict[str, Any]]:
    """What each agent is to have at these paths; one that has no such path is named."""
    known_options = {
        one.name: {option.path: option for option in options(one.row())} for one in contenders
    }
    for path in texts:
        having = [name for name, known in known_options.items() if path in known]
        for name in known_options:
            if name not in having:
                instead = (
                    f"; for those that have: --algorithms {','.join(having)}"
                    if having
                    else "; dualac list algorithms NAME shows what there is"
                )
                raise UsageError(f"{name} has no --{path.replace('_', '-')}{instead}")
    return {
        name: {path: parse_option(known[path], text) for path, text in texts.items()}
        for name, known in known_options.items()
    }


def _agent_options(parser: Parser, rows: list[Any], known: list[str]) -> list[str]:
    """An option for each value that any of these rows has, by path; those that are known have
    one.
    """
    group = parser.add_argument_group("the agents")
    new = {
        option.path: option.help
        for row in rows
        for option in options(row)
        if option.path not in known
    }
    for path, told in new.items():
        group.add_argument(
            "--" + path.replace("_", "-"),
            dest=f"algorithm.{path}",
            metavar="X",
            help=told.replace("%", "%%"),
            default=None,
        )
    return list(new)


def _parser() -> Parser:
    parser = Parser(prog="dualac sweep", allow_abbrev=False)
    parser.add_argument(
        "name",
        nargs="?",
        help="an experiment of `dualac list experiments`, or a file with one: mine.py",
    )
    parser.add_argument(
        "--plan", action="store_true", help="only tell what would be done, and what it would take"
    )
    parser.add_argument(
        "--recalibrate",
        action="store_true",
        help="with --plan: time the updates anew, where the machine was busy the last time",
    )
    parser.add_argument(
        "--scale", metavar="small", help="the version of the experiment for one small machine"
    )
    parser.add_argument(
        "--algorithms", metavar="A,B", help="only these agents; without an experiment: these"
    )
    parser.add_argument("--tasks", metavar="T,U", help="these tasks or sets of tasks instead")
    parser.add_argument("--seeds", metavar="N", help="seeds 0 to N-1 instead; also 3-5 and 0,2,7")
    parser.add_argument(
        "--steps",
        metavar="N",
        help="environment steps of each run instead; more than before continues them",
    )
    parser.add_argument("--replay-ratio", metavar="R,S", help="these replay ratios instead")
    parser.add_argument("--out", metavar="DIR", type=Path, help="where the runs go (runs/NAME)")
    parser.add_argument(
        "--executor",
        choices=("local", "ray"),
        default="local",
        help="processes of this machine (local), or a Ray cluster",
    )
    parser.add_argument(
        "--address",
        metavar="HOST:PORT",
        help="of the Ray cluster; without it one is started on this machine alone",
    )
    parser.add_argument(
        "--workers",
        metavar="N",
        type=int,
        help="processes at a time, each on a core of its own (as many as there are cores)",
    )
    parser.add_argument(
        "--retry-failed", action="store_true", help="begin anew with runs that were set aside"
    )
    parser.add_argument("--quiet", action="store_true", help="no progress")
    return parser


def _experiment(asked: argparse.Namespace) -> Any:
    """The experiment that is named, as it is asked for; or one made of the command line alone."""
    from dualac.experiments.adapt import at_scale, scaled
    from dualac.experiments.find import find_experiment
    from dualac.experiments.spec import Experiment, Grid, Scale

    listed = {
        name: tuple(_listed(getattr(asked, name), f"--{name}")) for name in ("algorithms", "tasks")
    }
    ratios = tuple(parse_count(word) for word in _listed(asked.replay_ratio, "--replay-ratio"))
    seeds = None if asked.seeds is None else tuple(parse_seeds(asked.seeds))
    steps = None if asked.steps is None else parse_count(asked.steps)
    if asked.name is None:
        if not (listed["algorithms"] and listed["tasks"]):
            raise UsageError(
                "sweep what? dualac sweep benchmark --scale small, or --algorithms dac,sac "
                "--tasks dmc/cheetah-run --seeds 2"
            )
        if asked.scale is not None:
            raise UsageError(
                "--scale is that of an experiment: dualac sweep benchmark --scale small; without "
                "one, give --seeds and --steps"
            )
        grid = Grid(
            listed["algorithms"],
            listed["tasks"],
            seeds or 1,
            1_000_000 if steps is None else steps,
            ratios or (2,),
        )
        return Experiment("sweep", "what was asked for", (grid,))
    experiment = at_scale(find_experiment(asked.name), asked.scale)
    return scaled(experiment, Scale(listed["tasks"], listed["algorithms"], seeds, steps, ratios))


def _listed(text: str | None, option: str) -> list[str]:
    if text is None:
        return []
    words = [word.strip() for word in text.split(",")]
    if not all(words) or len(set(words)) != len(words):
        raise UsageError(
            f"{option} takes names with commas between them, each once: {text!r} is not that"
        )
    return words


def _show_plan(experiment: Any, runs: list[Any], out: Path, asked: argparse.Namespace) -> int:
    from dualac.experiments.cost import calibrated, estimate
    from dualac.experiments.survey import count_states, survey
    from dualac.experiments.sweep import order
    from dualac.machine.cores import usable_cores
    from dualac.runs.plan import require_experiment

    require_experiment(out, experiment.name)
    units = survey(runs, out)
    have = count_states(units)
    left = order(experiment, units, retry_failed=asked.retry_failed)
    console.print(f"{experiment.name}: {experiment.about}{_scale_note(asked)}", soft_wrap=True)
    console.print(
        f"runs       {len(units)} in {out}: {have['done']} done, "
        f"{have['running'] + have['interrupted']} begun, {have['missing']} to begin, "
        f"{have['failed']} set aside",
        soft_wrap=True,
    )
    if experiment.figures:
        console.print(f"figures    {', '.join(experiment.figures)}", soft_wrap=True)
    if left:
        needs = estimate(left, functools.partial(calibrated, anew=asked.recalibrate))
        cores = min(len(usable_cores()), asked.workers or len(usable_cores()))
        console.print(
            f"time       about {needs.core_hours:.1f} core-hours, {needs.core_hours / cores:.1f} "
            f"hours on {cores} cores of this machine"
        )
        console.print(f"memory     {needs.memory / 1e9:.2f} GB for the largest run")
        console.print(f"disk       about {needs.disk / 1e9:.1f} GB")
        for unit in left[:3]:
            run = unit.run
            console.print(
                f"first      {run.name} on {run.task}, replay ratio {run.replay_ratio}, seed "
                f"{run.seed}, {run.steps} steps",
                soft_wrap=True,
            )
    return 0


def _scale_note(asked: argparse.Namespace) -> str:
    return (
        f" (scale {asked.scale}: fewer tasks, seeds and steps than the paper's)"
        if asked.scale
        else ""
    )


def _carry_out(experiment: Any, out: Path, asked: argparse.Namespace) -> int:
    from dualac.cli.sweep_progress import Watch
    from dualac.execution.local import launch
    from dualac.experiments.expand import expand
    from dualac.experiments.survey import count_states, survey
    from dualac.experiments.sweep import Orders
    from dualac.experiments.sweep import sweep as carry_out

    if asked.executor == "ray":
        from dualac.execution.on_ray import on_ray

        executor = on_ray(asked.address)
    else:
        executor = launch
    units = survey(expand(experiment), out)
    have = count_states(units)
    console.print(
        f"{experiment.name}: {len(units)} runs in {out}, {have['done']} done{_scale_note(asked)}",
        soft_wrap=True,
    )
    with Watch(console, units, quiet=asked.quiet) as watch:
        outcome = carry_out(
            experiment, Orders(out, executor, asked.workers, asked.retry_failed), watch
        )
    have = count_states(outcome.units)
    failed = [unit for unit in outcome.units if unit.state == "failed"]
    for unit in failed[:MOST_REASONS]:
        print(f"dualac: set aside: {unit.path}: {one_line(unit.reason)}", file=sys.stderr)
    marked = {unit.path for unit in failed}
    others = [
        failure.error for failure in outcome.failures if not marked & set(failure.work.paths)
    ]  # among them what could not be marked
    for error in others[:MOST_REASONS]:
        print(f"dualac: {one_line(str(error))[:1000]}", file=sys.stderr)
    console.print(
        f"{have['done']} of {len(outcome.units)} done"
        + (f", {len(failed)} set aside (--retry-failed begins anew with them)" if failed else "")
        + _next(have, out),
        soft_wrap=True,
    )
    return max([error.code for error in others] + [SET_ASIDE if failed else 0])


def _next(have: Any, out: Path) -> str:
    if have["running"] or have["interrupted"] or have["missing"]:
        return "; the same command goes on"
    return f"; dualac collect {out} makes one table of them, dualac report {out} a page"


def status(words: list[str]) -> int:
    """how far a directory of runs is: dualac status DIR"""
    from rich.table import Table

    from dualac.analysis.data.status import grid, survey
    from dualac.runs.state import STATES

    parser = Parser(prog="dualac status")
    parser.add_argument(
        "path", type=Path, metavar="DIR", help="a sweep's directory, or one above it"
    )
    parser.add_argument("--json", action="store_true", help="one object, with a row a run")
    asked = parser.parse(words)
    marks, damaged = survey(_directory(asked.path))
    if not marks and not damaged:
        raise DataError(
            f"no run at or below {asked.path}, and no plan of any; dualac sweep makes both"
        )
    counts = Counter(mark.state for mark in marks)
    if asked.json:
        rows = [{**mark._asdict(), "path": str(mark.path) if mark.path else None} for mark in marks]
        print(
            json.dumps({"counts": counts, "runs": rows, "damaged": [str(one) for one in damaged]})
        )
        return 0
    table = Table(box=None, pad_edge=False)
    shown = [state for state in STATES if counts[state]]
    for title in ("algorithm", "rr", "task", *shown):
        table.add_column(
            title, justify="left" if title in ("algorithm", "task") else "right", no_wrap=True
        )
    for (name, ratio, task), cell in grid(marks).items():
        table.add_row(name, str(ratio), task, *(str(cell[state] or "") for state in shown))
    console.print(table)
    told = ", ".join(f"{counts[state]} {state}" for state in shown)
    console.print(
        f"{_names(mark.experiment for mark in marks)}{told}; {len(marks)} runs", soft_wrap=True
    )
    for mark in [mark for mark in marks if mark.state == "failed"][:MOST_REASONS]:
        console.print(f"failed     {mark.path}: {one_line(mark.reason)}", soft_wrap=True)
    for mark in [mark for mark in marks if mark.state == "running"][:MOST_REASONS]:
        console.print(f"running    {mark.path}: step {mark.step} of {mark.steps}", soft_wrap=True)
    for one in damaged[:MOST_REASONS]:
        print(f"dualac: warning: {one_line(str(one))}", file=sys.stderr)
    return 0


def collect(words: list[str]) -> int:
    """tables of all runs, evaluations and training rows, in Parquet: dualac collect DIR..."""
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
    asked = parser.parse(words)
    found = read([_directory(path) for path in asked.paths], training_rows=None)
    for one in found.damaged[:MOST_REASONS]:
        print(f"dualac: warning: {one_line(str(one))}", file=sys.stderr)
    runs = merged(found.runs)
    if asked.finished:
        runs = [run for run in runs if run.status.state == "done"]
    if not runs:
        raise DataError(
            f"no {'finished ' if asked.finished else ''}run at or below {asked.paths[0]}; dualac "
            f"status {asked.paths[0]} tells what was planned there"
        )
    try:
        paths = write(runs, asked.out or asked.paths[0])
    except OSError as error:
        raise refusal(error.filename or "the table", error) from None
    states, gone = Counter(run.status.state for run in runs), missing(found)
    states["missing"] += len(gone)
    told = ", ".join(f"{number} {state}" for state, number in states.items() if number)
    name = _names(one.experiment for one in (*runs, *gone))
    console.print(f"{name}{len(runs)} runs ({told}): {', '.join(map(str, paths))}", soft_wrap=True)
    for one in gone[:MOST_REASONS]:
        console.print(
            f"missing    {one.name} on {one.task}, replay ratio {one.replay_ratio}, seed "
            f"{one.seed}",
            soft_wrap=True,
        )
    return 0


def _names(experiments: Iterable[str]) -> str:
    """The beginning of a line: which experiments it is about."""
    named = sorted({one for one in experiments if one})
    return f"{', '.join(named)}: " if named else ""


def show(words: list[str]) -> int:
    """one run: what it is, where and from what it was made, its curve: dualac show RUN"""
    from dualac.analysis.data.frame import read
    from dualac.analysis.data.record import describe_run
    from dualac.runs.layout import SPEC

    parser = Parser(prog="dualac show")
    parser.add_argument("path", type=Path, metavar="RUN")
    asked = parser.parse(words)
    if not (asked.path / SPEC).exists():
        raise DataError(
            f"{asked.path} is not a run: it has no run.json; give the directory of one seed, such "
            "as runs/NAME/dac/TASK/rr2/seed0"
        )
    frame = read([asked.path])
    if not frame.runs:
        raise DataError(str(frame.damaged[0]))
    for line in describe_run(frame.runs[0]):
        console.print(line, soft_wrap=True)
    return 0


def _directory(path: Path) -> Path:
    if not path.is_dir():
        raise DataError(
            f"{path} is not a directory; give one with runs in it, such as runs/NAME of dualac "
            "sweep NAME"
        )
    return path
