"""`dualac train` and `dualac resume`."""

import argparse
import dataclasses
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dualac.cli.options import Parser, add_options, add_trust, console, read_options, warn
from dualac.cli.unfinished import is_done, pass_over_failed, resumable
from dualac.errors import UsageError
from dualac.parts.fields import is_part
from dualac.parts.paths import Option, replaced
from dualac.parts.text import one_line, parse_count, parse_seeds

CarryOut = Callable[[list[list[Path]], argparse.Namespace, int], int]


def train(argv: list[str], *, carry_out: CarryOut | None = None) -> int:
    """Train an algorithm on a task: dualac train dac dmc/cheetah-run --seeds 2 --steps 200k"""
    from dualac import envs
    from dualac.training.run import describe_edits, prepare, require_extendable, require_same

    template, options, args = _parse_training(argv)
    task = envs.canonical(args.task)
    changes = read_options(options, args)
    of_protocol = (path.removeprefix("protocol.") for path in changes)
    envs.require_effect(of_protocol, task.partition("/")[0])
    changes = {"task": task, "protocol": envs.find_protocol(args.protocol), **changes}
    run = replaced(template, changes)
    seeds = seeds_asked(args)
    packed = accelerated() if args.pack is None else args.pack
    pack = tuple(seeds) if packed and len(seeds) > 1 else ()
    runs = [dataclasses.replace(run, seed=seed, pack=pack) for seed in seeds]
    if str(args.out) in ("", "."):
        raise UsageError("--out needs a directory of its own, such as runs/default")
    for run in runs:
        existing = require_same(run, args.out, trust=args.trust)
        if existing and existing.steps < run.steps:
            further = dataclasses.replace(run, algorithm=existing.algorithm)
            require_extendable(run.directory(args.out), further)
        if edits := describe_edits(run, args.out):
            warn(edits)
    threads = usual_threads(len(runs))
    left = [path for run in runs if not is_done(path := run.directory(args.out), run.steps)]
    announce(runs, work_of(left[:1], args.threads, threads), flags_of(args))
    paths = [prepare(run, args.out, trust=args.trust) for run in runs]
    packs = [paths] if pack else [[path] for path in paths]
    return (carry_out or launch_all)(packs, args, threads)


def resume(argv: list[str]) -> int:
    """Continue stopped runs to the bit: dualac resume RUN"""
    from dualac.runs.layout import find_runs, other_seed
    from dualac.training.run import load

    parser = Parser(prog="dualac resume")
    parser.add_argument(
        "paths",
        nargs="+",
        type=Path,
        metavar="RUN",
        help="a run, or a directory with runs below it",
    )
    add_launch_options(parser)
    args = parser.parse(argv)
    packs: dict[tuple[Path, ...], None] = {}
    for path in (run for folder in args.paths for run in find_runs(folder)):
        pack = load(path, trust=args.trust).pack
        # A pack is one program: all its seeds or none.
        packs[tuple(other_seed(path, seed) for seed in pack) if pack else (path,)] = None
    paths = [path for pack in packs for path in pack]
    for path in paths:
        load(path, trust=args.trust)
    ready, failed = pass_over_failed([list(pack) for pack in packs], args.paths)
    for error in failed:
        console.print(f"passed over: {error}", soft_wrap=True)
    return launch_all(ready, args, usual_threads(len(paths)))


def _parse_training(argv: list[str]) -> tuple[Any, list[Option], argparse.Namespace]:
    """Parse the words of `dualac train`.

    Which options there are depends on the algorithm, and which word that is depends on the options:
    guess, and look whether it was so.
    """
    named = [word for word in argv if not word.startswith("-")]
    if not named and not {"-h", "--help"} & set(argv):
        raise UsageError(
            "train what? dualac train ALGORITHM TASK, for example: dualac train dac dmc/cheetah-run"
        )
    first = named[0] if named else "dac"
    guess = next((word for word in named if word in known_algorithms()), first)
    template, options, args = read_training(guess, argv)
    if args.algorithm == guess:
        return template, options, args
    return read_training(args.algorithm, argv)


def read_training(
    name: str, argv: list[str], parts: dict[str, Any] | None = None
) -> tuple[Any, list[Option], argparse.Namespace]:
    """Return the run of an algorithm as it is by default, the options that there are for it, and
    what was typed. `parts` stand in place of the algorithm's own.
    """
    from dualac.training.presets import default_run

    template = default_run(name)
    parser = Parser(prog=f"dualac train {name}", allow_abbrev=False)
    _add_training_arguments(parser)
    add_launch_options(parser)
    of_run = add_run_options(parser, template, protocol="paper")
    title = f"the algorithm: {name}"
    of_algorithm = add_options(
        parser, template.algorithm, title, prefix="algorithm.", instead=parts
    )
    args, _ = parser.parse_some(argv)
    typed = read_options([option for option in of_algorithm if is_part(option.hint)], args)
    others = {path.removeprefix("algorithm."): part for path, part in typed.items()}
    if others != (parts or {}):
        return read_training(name, argv, others)  # which have options of their own
    return template, of_run + of_algorithm, parser.parse(argv)


def _add_training_arguments(parser: Parser) -> None:
    parser.add_argument("algorithm", help="a row of `dualac list algorithms`")
    parser.add_argument(
        "task",
        help="dmc/cheetah-run, gym/HalfCheetah-v5, module:Id; `dualac list tasks` shows them",
    )
    seeds = parser.add_mutually_exclusive_group()
    seeds.add_argument("--seed", metavar="S", help="one seed", default=argparse.SUPPRESS)
    seeds.add_argument(
        "--seeds", metavar="N", help="seeds 0 to N-1; also 3-5 and 0,2,7", default=argparse.SUPPRESS
    )
    parser.add_argument(
        "--out",
        metavar="DIR",
        type=Path,
        default=Path("runs/default"),
        help="where the runs go (runs/default)",
    )
    parser.add_argument(
        "--pack",
        action=argparse.BooleanOptionalAction,
        help="all seeds in one vmapped program (default: on an accelerator)",
        default=None,
    )


def add_run_options(
    parser: Parser, template: Any, left_out: tuple[str, ...] = (), *, protocol: str | None = None
) -> list[Option]:
    """Add an option for each value of a run that has none of its own."""
    from dualac import envs

    parser.add_argument(
        "--eval-episodes",
        dest="protocol.eval_episodes",
        metavar="X",
        help="short for --protocol.eval-episodes",
        default=None,
    )
    parser.add_argument(
        "--time-limit",
        dest="protocol.time_limit",
        metavar="X",
        help="short for --protocol.time-limit",
        default=None,
    )
    parser.add_argument(
        "--protocol",
        metavar="NAME",
        help=f"how the task is played: {' or '.join(envs.PROTOCOLS)}",
        default=protocol,
    )
    return add_options(
        parser, template, "the run", ("name", "algorithm", "task", "seed", "pack", *left_out)
    )


def known_algorithms() -> list[str]:
    from dualac.agents.algorithms import ALGORITHMS
    from dualac.training.presets import PRESETS

    return [*ALGORITHMS, *PRESETS]


def add_launch_options(parser: Parser) -> None:
    parser.add_argument(
        "--threads",
        metavar="N",
        type=int,
        help=(
            "cores for each seed, whose bits do not depend on it (two, if idle, for one seed "
            "alone; else one)"
        ),
    )
    parser.add_argument(
        "--tensorboard", action="store_true", help="write TensorBoard files beside the rows"
    )
    parser.add_argument(
        "--allow-inexact",
        action="store_true",
        help="resume although the bits will differ: other versions, other cores",
    )
    parser.add_argument(
        "--isolate-env",
        action="store_true",
        help="the environment in a process of its own, which may hang or crash",
    )
    parser.add_argument(
        "--env-timeout",
        type=float,
        metavar="SECONDS",
        help="for an isolated environment's answer (60)",
        default=argparse.SUPPRESS,
    )
    places = (
        "where the replay is: on the device that learns, or in a file beside the run, for one "
        "larger than memory (memory)"
    )
    parser.add_argument(
        "--replay-in", choices=["memory", "disk", "device"], default="memory", help=places
    )
    add_trust(parser)
    parser.add_argument("--quiet", action="store_true", help="no progress")


def isolation(args: argparse.Namespace) -> float | None:
    """Return the seconds that an isolated environment has for an answer, if it is isolated."""
    from dualac.envs.faults.guarded import PATIENCE

    seconds = getattr(args, "env_timeout", None)
    if seconds is None:
        return PATIENCE if args.isolate_env else None
    if not args.isolate_env:
        raise UsageError(
            "--env-timeout needs --isolate-env: only an environment in a process of its own can "
            "be given up"
        )
    if not 0.1 <= seconds <= 86_400:
        raise UsageError(f"--env-timeout must be between 0.1 and 86400 seconds, not {seconds:g}")
    return seconds


def seeds_asked(args: argparse.Namespace) -> list[int]:
    if hasattr(args, "seed"):
        return [parse_count(args.seed)]
    return parse_seeds(getattr(args, "seeds", "1"))


def accelerated() -> bool:
    from dualac.machine.cores import accelerator_installed

    return accelerator_installed()


def flags_of(args: argparse.Namespace) -> Any:
    from dualac.training.run import Flags

    return Flags(args.allow_inexact, args.tensorboard, isolation(args), args.replay_in)


def usual_threads(seeds: int) -> int:
    """Return how many cores a seed has: two for one alone, if two are idle, which is nearly twice
    as fast; else one.
    """
    from dualac.machine.cores import borrowed, usable_cores

    with borrowed(2, usable_cores()) as idle:
        return 2 if seeds == 1 and len(idle) == 2 and not accelerated() else 1


def announce(runs: list[Any], work: Any, flags: Any) -> None:
    """Print what will be done, having made sure that it can be: the task loads, the replays of all
    seeds that run at once fit.
    """
    from dualac.machine.cores import usable_cores
    from dualac.machine.memory import require_memory
    from dualac.training.replay import replay_bytes

    cores, threads, run = len(usable_cores()), work.threads, runs[0]
    if not 1 <= threads <= cores:
        raise UsageError(
            f"--threads must be between 1 and {cores}, the cores this process may use, not "
            f"{threads}"
        )
    spec = _sizes(run, flags.isolated)
    at_once = len(runs) if run.pack else min(len(runs), cores // threads)
    transitions = min(run.capacity, run.steps)
    each = replay_bytes(transitions, spec)
    if flags.replay_in == "memory":
        seeds = f"{at_once} seed{'s' * (at_once > 1)}"
        what = f"the replay of {seeds} at once, {transitions} transitions each,"
        require_memory(each * at_once, what)
    how = "one packed program"
    if not run.pack:
        processes = f"{at_once} process{'es' * (at_once > 1)} at a time"
        how = f"{processes}, {threads} core{'s' * (threads > 1)} each"
    console.print(
        f"{run.name} on {run.task}: {spec.obs_dim} observations, {spec.action_dim} actions; "
        f"{run.steps} steps, replay ratio {run.replay_ratio}; "
        f"seed {', '.join(str(run.seed) for run in runs)} ({how}); "
        f"replay {each / 1e6:.0f} MB a seed, in {flags.replay_in}",
        soft_wrap=True,
    )


def _sizes(run: Any, isolated: float | None) -> Any:
    """Make the task once and return its sizes."""
    from dualac import envs
    from dualac.envs.foreign import ignoring_errors
    from dualac.types import Spec

    env = envs.make(run.task, protocol=run.protocol, isolated=isolated)
    spec = Spec(env.observation_space.shape[0], env.action_space.shape[0])  # pyright: ignore[reportOptionalSubscript]
    with ignoring_errors():
        env.close()
    return spec


def launch_all(packs: list[list[Path]], args: argparse.Namespace, usual: int = 1) -> int:
    """Launch what is not finished, watch it, and print how it ended. `usual`: the cores of one that
    is new, where no number was typed.
    """
    from dualac.cli.progress import Display
    from dualac.execution.local import launch
    from dualac.training.run import errors_since_done, load

    flags = flags_of(args)
    left = [pack for pack in packs if not all(is_done(path, load(path).steps) for path in pack)]
    ready, errors = resumable(left)
    finished = [path for pack in packs if pack not in left for path in pack]
    errors += [error for path in finished for error in errors_since_done(path)]
    if not left and not errors:
        console.print("already done; dualac train with a larger --steps goes on from there")
    elif not ready and errors:
        raise errors[0]
    with Display(console, quiet=args.quiet) as display:
        failures = launch([work_of(pack, args.threads, usual) for pack in ready], display, flags)
    errors = [failure.error for failure in failures] + errors
    for error in errors:
        print(f"dualac: {one_line(str(error))}", file=sys.stderr)
    if not errors:
        # It draws: half a second that no training should wait for.
        from dualac.cli.summary import summarise

        summarise([path for pack in packs for path in pack], console, flags.isolated)
    return max((error.code for error in errors), default=0)


def work_of(pack: list[Path], threads: int | None, usual: int) -> Any:
    """Make the work of a pack.

    XLA sees as many cores as when the run began: one, unless that was in a user's own Python. How
    many more help it changes no bit.
    """
    from dualac.execution.local import Work
    from dualac.runs.spec import read_cores

    seen = next(filter(None, map(read_cores, pack)), 1)
    return Work(pack, max(usual, seen) if threads is None else threads, seen)
