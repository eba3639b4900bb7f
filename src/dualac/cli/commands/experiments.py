"""`dualac sweep`: an experiment planned or carried out."""

import argparse
import functools
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dualac.cli.commands.training import add_run_options
from dualac.cli.options import Parser, console, parse_option, read_options, say
from dualac.errors import UsageError
from dualac.machine.disk import refusal
from dualac.parts.paths import Option, options
from dualac.parts.text import one_line, parse_count, parse_seeds

SET_ASIDE = 3  # the exit code of a sweep that went to its end with runs that fail every time
MOST_REASONS = 10


def find_executor(args: argparse.Namespace) -> Any:
    """Find what carries out the runs of a sweep: processes of this machine, or Ray."""
    if args.executor == "ray":
        from dualac.execution.on_ray import on_ray

        return on_ray(args.address)
    from dualac.execution.local import launch

    return launch


def sweep(
    argv: list[str],
    *,
    find_executor: Callable[[argparse.Namespace], Any] = find_executor,
    measure: Callable[[list[dict[str, Any]]], list[float]] | None = None,
) -> int:
    """Run an experiment: dualac sweep benchmark --scale small"""
    from dualac.experiments.expand import expand

    experiment, args = _read(argv)
    out = args.out or Path("runs") / experiment.name
    if args.recalibrate and not args.plan:
        raise UsageError("--recalibrate is about what a plan would take: add --plan")
    if args.address is not None and args.executor != "ray":
        raise UsageError("--address is that of a Ray cluster: add --executor ray")
    if args.workers is not None and (args.workers < 1 or args.executor == "ray"):
        raise UsageError(
            "--workers is how many processes run at a time on this machine, at least 1; a Ray "
            "cluster decides for itself"
        )
    try:
        if args.plan:
            return _show_plan(experiment, expand(experiment), out, args, measure)
        return _carry_out(experiment, out, args, find_executor)
    except OSError as error:
        if error.filename is None:  # standard output
            raise
        raise refusal(out, error) from None


def _read(argv: list[str]) -> tuple[Any, argparse.Namespace]:
    """Read the experiment that is meant, its runs and agents changed by the options."""
    from dualac import envs
    from dualac.agents import ALGORITHMS
    from dualac.experiments.adapt import agents, overridden
    from dualac.experiments.expand import resolve_tasks
    from dualac.training.run import Run

    parser = _parser()
    of_run = add_run_options(parser, Run("dac", ALGORITHMS["dac"], ""), ("steps", "replay_ratio"))
    paths = _add_agent_options(parser, list(ALGORITHMS.values()), [])
    args, _ = parser.parse_some(argv)
    experiment = _experiment(args)
    contenders = agents(experiment)
    # An agent of one's own may have others.
    paths += _add_agent_options(parser, [one.row() for one in contenders], paths)
    args = parser.parse(argv)
    of_agents = _changes_of_agents(contenders, _typed(paths, args))
    changes = read_options(of_run, args)
    tasks = [task for grid in experiment.grids for task in resolve_tasks(grid.tasks)]
    suites = sorted({task.partition("/")[0] for task in tasks})
    envs.require_effect((path.removeprefix("protocol.") for path in changes), *suites)
    if args.protocol is not None:
        changes["protocol"] = envs.find_protocol(args.protocol)
    return overridden(experiment, changes, lambda one: of_agents[one.name]), args


def _typed(paths: list[str], args: argparse.Namespace) -> dict[str, str]:
    texts = {path: getattr(args, f"algorithm.{path}") for path in paths}
    return {path: text for path, text in texts.items() if text is not None}


def _changes_of_agents(contenders: list[Any], texts: dict[str, str]) -> dict[str, dict[str, Any]]:
    """Return what each agent is to have at these paths, or refuse one without such a path."""
    by_agent = {
        one.name: {option.path: option for option in options(one.row())} for one in contenders
    }
    for path in texts:
        _require_path(path, by_agent)
    return {
        name: {path: parse_option(by_path[path], text) for path, text in texts.items()}
        for name, by_path in by_agent.items()
    }


def _require_path(path: str, by_agent: dict[str, dict[str, Option]]) -> None:
    having = [name for name, by_path in by_agent.items() if path in by_path]
    without = [name for name in by_agent if name not in having]
    if without:
        instead = "; dualac list algorithms NAME shows what there is"
        if having:
            instead = f"; for those that have: --algorithms {','.join(having)}"
        raise UsageError(f"{without[0]} has no --{path.replace('_', '-')}{instead}")


def _add_agent_options(parser: Parser, rows: list[Any], existing: list[str]) -> list[str]:
    """Add an option for each value that any of these rows has; return the new paths."""
    group = parser.add_argument_group("the agents")
    every = [option for row in rows for option in options(row)]
    new = {option.path: option.help for option in every if option.path not in existing}
    for path, text in new.items():
        group.add_argument(
            "--" + path.replace("_", "-"),
            dest=f"algorithm.{path}",
            metavar="X",
            help=text.replace("%", "%%"),
            default=None,
        )
    return list(new)


def _parser() -> Parser:
    parser = Parser(prog="dualac sweep", allow_abbrev=False)
    _add_what(parser)
    _add_how(parser)
    return parser


def _add_what(parser: Parser) -> None:
    add = parser.add_argument
    add(
        "name",
        nargs="?",
        help="an experiment of `dualac list experiments`, or a file with one: mine.py",
    )
    add("--scale", metavar="small", help="the version of the experiment for one small machine")
    add("--algorithms", metavar="A,B", help="only these agents; without an experiment: these")
    add("--tasks", metavar="T,U", help="these tasks or sets of tasks instead")
    add("--seeds", metavar="N", help="seeds 0 to N-1 instead; also 3-5 and 0,2,7")
    add(
        "--steps",
        metavar="N",
        help="environment steps of each run instead; more than before continues them",
    )
    add("--replay-ratio", metavar="R,S", help="these replay ratios instead")


def _add_how(parser: Parser) -> None:
    add = parser.add_argument
    add("--plan", action="store_true", help="only tell what would be done, and what it would take")
    add(
        "--recalibrate",
        action="store_true",
        help="with --plan: time the updates anew, where the machine was busy the last time",
    )
    add("--out", metavar="DIR", type=Path, help="where the runs go (runs/NAME)")
    add(
        "--executor",
        choices=("local", "ray"),
        default="local",
        help="processes of this machine (local), or a Ray cluster",
    )
    add(
        "--address",
        metavar="HOST:PORT",
        help="of the Ray cluster; without it one is started on this machine alone",
    )
    add(
        "--workers",
        metavar="N",
        type=int,
        help="processes at a time, each on a core of its own (as many as there are cores)",
    )
    add("--retry-failed", action="store_true", help="begin anew with runs that were set aside")
    add("--quiet", action="store_true", help="no progress")


def _experiment(args: argparse.Namespace) -> Any:
    """Find the experiment that is named, at its scale; or make one of the command line alone."""
    from dualac.experiments.adapt import at_scale, scaled
    from dualac.experiments.find import find_experiment
    from dualac.experiments.spec import Scale

    scale = Scale(
        tuple(_split(args.tasks, "--tasks")),
        tuple(_split(args.algorithms, "--algorithms")),
        None if args.seeds is None else tuple(parse_seeds(args.seeds)),
        None if args.steps is None else parse_count(args.steps),
        tuple(parse_count(text) for text in _split(args.replay_ratio, "--replay-ratio")),
    )
    if args.name is None:
        return _unnamed(scale, args)
    return scaled(at_scale(find_experiment(args.name), args.scale), scale)


def _unnamed(scale: Any, args: argparse.Namespace) -> Any:
    """Make the experiment of `--algorithms` and `--tasks` without a name."""
    from dualac.experiments.spec import Experiment, Grid

    if not (scale.contenders and scale.tasks):
        raise UsageError(
            "sweep what? dualac sweep benchmark --scale small, or --algorithms dac,sac "
            "--tasks dmc/cheetah-run --seeds 2"
        )
    if args.scale is not None:
        raise UsageError(
            "--scale is that of an experiment: dualac sweep benchmark --scale small; without one, "
            "give --seeds and --steps"
        )
    steps = 1_000_000 if scale.steps is None else scale.steps
    ratios = scale.replay_ratios or (2,)
    grid = Grid(scale.contenders, scale.tasks, scale.seeds or 1, steps, ratios)
    return Experiment("sweep", "what was asked for", (grid,))


def _split(text: str | None, option: str) -> list[str]:
    if text is None:
        return []
    names = [name.strip() for name in text.split(",")]
    if not all(names) or len(set(names)) != len(names):
        raise UsageError(
            f"{option} takes names with commas between them, each once: {text!r} is not that"
        )
    return names


def _show_plan(
    experiment: Any,
    runs: list[Any],
    out: Path,
    args: argparse.Namespace,
    measure: Callable[[list[dict[str, Any]]], list[float]] | None,
) -> int:
    from dualac.experiments.cost import calibrated, estimate, measure_updates
    from dualac.experiments.survey import count_states, survey
    from dualac.experiments.sweep import order
    from dualac.machine.cores import usable_cores
    from dualac.runs.plan import require_experiment

    require_experiment(out, experiment.name)
    units = survey(runs, out)
    counts = count_states(units)
    begun = counts["running"] + counts["interrupted"]
    left = order(experiment, units, retry_failed=args.retry_failed)
    say(f"{experiment.name}: {experiment.about}{_scale_note(args)}")
    say(
        f"runs       {len(units)} in {out}: {counts['done']} done, {begun} begun, "
        f"{counts['missing']} to begin, {counts['failed']} set aside"
    )
    if experiment.figures:
        say(f"figures    {', '.join(experiment.figures)}")
    if left:
        timed = functools.partial(
            calibrated, anew=args.recalibrate, measure=measure or measure_updates
        )
        needs = estimate(left, timed)
        cores = min(len(usable_cores()), args.workers or len(usable_cores()))
        console.print(
            f"time       about {needs.core_hours:.1f} core-hours, {needs.core_hours / cores:.1f} "
            f"hours on {cores} cores of this machine"
        )
        console.print(f"memory     {needs.memory / 1e9:.2f} GB for the largest run")
        console.print(f"disk       about {needs.disk / 1e9:.1f} GB")
        for unit in left[:3]:
            run = unit.run
            say(
                f"first      {run.name} on {run.task}, replay ratio {run.replay_ratio}, seed "
                f"{run.seed}, {run.steps} steps"
            )
    return 0


def _scale_note(args: argparse.Namespace) -> str:
    if not args.scale:
        return ""
    return f" (scale {args.scale}: fewer tasks, seeds and steps than the paper's)"


def _carry_out(
    experiment: Any,
    out: Path,
    args: argparse.Namespace,
    find_executor: Callable[[argparse.Namespace], Any],
) -> int:
    from dualac.cli.sweep_progress import Watch
    from dualac.experiments.expand import expand
    from dualac.experiments.survey import count_states, survey
    from dualac.experiments.sweep import Orders, sweep

    executor = find_executor(args)
    units = survey(expand(experiment), out)
    done = count_states(units)["done"]
    say(f"{experiment.name}: {len(units)} runs in {out}, {done} done{_scale_note(args)}")
    with Watch(console, units, quiet=args.quiet) as watch:
        orders = Orders(out, executor, args.workers, args.retry_failed)
        outcome = sweep(experiment, orders, watch)
    return _show_outcome(outcome, out)


def _show_outcome(outcome: Any, out: Path) -> int:
    from dualac.experiments.survey import count_states

    counts = count_states(outcome.units)
    failed = [unit for unit in outcome.units if unit.state == "failed"]
    for unit in failed[:MOST_REASONS]:
        print(f"dualac: set aside: {unit.path}: {one_line(unit.reason)}", file=sys.stderr)
    marked = {unit.path for unit in failed}
    # Among the others are errors that could not be marked.
    others = [failure.error for failure in outcome.failures if not marked & set(failure.work.paths)]
    for error in others[:MOST_REASONS]:
        print(f"dualac: {one_line(str(error))[:1000]}", file=sys.stderr)
    parts = [f"{counts['done']} of {len(outcome.units)} done"]
    if failed:
        parts.append(f"{len(failed)} set aside (--retry-failed begins anew with them)")
    say(", ".join(parts) + _next_step(counts, out))
    return max([error.code for error in others] + [SET_ASIDE if failed else 0])


def _next_step(counts: Any, out: Path) -> str:
    if counts["running"] or counts["interrupted"] or counts["missing"]:
        return "; the same command goes on"
    return f"; dualac collect {out} makes one table of them, dualac report {out} a page"
