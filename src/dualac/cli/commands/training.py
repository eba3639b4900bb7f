"""`dualac train` and `dualac resume`."""

import argparse
import dataclasses
import sys
from pathlib import Path
from typing import Any

from dualac.cli.options import Parser, console, given, options_of
from dualac.errors import DualacError, UsageError
from dualac.parts.fields import is_part
from dualac.parts.paths import Option, replaced
from dualac.parts.text import one_line, parse_count, parse_seeds


def train(words: list[str]) -> int:
    """train an algorithm on a task: dualac train dac dmc/cheetah-run --seeds 2 --steps 200k"""
    from dualac import envs
    from dualac.runs.state import read_status
    from dualac.training.run import prepare, require_same

    named = [word for word in words if not word.startswith("-")]
    if not named and not {"-h", "--help"} & set(words):
        raise UsageError(
            "train what? dualac train ALGORITHM TASK, for example: dualac train dac dmc/cheetah-run"
        )
    # Which options there are depends on the algorithm, and which word that is depends on the
    # options: guess, and look whether it was so.
    guess = next(
        (word for word in named if word in known_algorithms()), named[0] if named else "dac"
    )
    template, settable, asked = read_training(guess, words)
    if asked.algorithm != guess:
        template, settable, asked = read_training(asked.algorithm, words)

    task = envs.canonical(asked.task)
    changes = given(settable, asked)
    envs.require_effect(
        (path.removeprefix("protocol.") for path in changes), task.partition("/")[0]
    )
    overridden = replaced(
        template, {"task": task, "protocol": envs.find_protocol(asked.protocol), **changes}
    )
    chosen = seeds_asked(asked)
    packed = accelerated() if asked.pack is None else asked.pack
    together = tuple(chosen) if packed and len(chosen) > 1 else ()
    runs = [dataclasses.replace(overridden, seed=seed, pack=together) for seed in chosen]
    if str(asked.out) in ("", "."):
        raise UsageError("--out needs a directory of its own, such as runs/default")
    for run in runs:
        require_same(run, asked.out)
    usual = usual_threads(runs)
    places = [run.directory(asked.out) for run in runs]
    left = [path for path in places if read_status(path, runs[0].steps).state != "done"]
    announce(runs, work_of(left[:1], asked.threads, usual), flags_of(asked))
    paths = [prepare(run, asked.out) for run in runs]
    return carry_out([paths] if together else [[path] for path in paths], asked, usual)


def resume(words: list[str]) -> int:
    """continue stopped runs to the bit: dualac resume RUN"""
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
    asked = parser.parse(words)
    found = list(dict.fromkeys(path for given in asked.paths for path in find_runs(given)))
    packs: dict[Any, list[Path]] = {}
    for path in found:
        loaded = load(path)
        packs.setdefault((path.parent, loaded.pack) if loaded.pack else path, []).append(path)
    for (_, pack), paths in (
        (key, paths) for key, paths in packs.items() if isinstance(key, tuple)
    ):
        # A pack is one program: all its seeds or none.
        whole = [other_seed(paths[0], seed) for seed in pack]
        packs[paths[0].parent, pack] = whole
        for path in whole:
            load(path)
    alone = [load(path) for pack in packs.values() for path in pack]
    return carry_out(list(packs.values()), asked, usual_threads(alone))


def read_training(
    name: str, words: list[str], parts: dict[str, Any] | None = None
) -> tuple[Any, list[Option], argparse.Namespace]:
    """The run of an algorithm as it is by default, what of it can be set, and what was asked for.
    `parts`: those asked for in place of its own.
    """
    from dualac.training.presets import default_run

    template = default_run(name)
    parser = Parser(prog=f"dualac train {name}", allow_abbrev=False)
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
    add_launch_options(parser)
    settable = add_run_options(parser, template, protocol="paper")
    of_algorithm = options_of(
        parser, template.algorithm, f"the algorithm: {name}", prefix="algorithm.", instead=parts
    )
    asked, _ = parser.peek_batch(words)
    others = {
        path.removeprefix("algorithm."): part
        for path, part in given([o for o in of_algorithm if is_part(o.hint)], asked).items()
    }
    if others != (parts or {}):
        return read_training(name, words, others)  # which have options of their own
    return template, settable + of_algorithm, parser.parse(words)


def add_run_options(
    parser: Parser, template: Any, left_out: tuple[str, ...] = (), *, protocol: str | None = None
) -> list[Option]:
    """An option for each value of a run, but for those that have one of their own."""
    from dualac import envs

    parser.add_argument(
        "--eval-episodes",
        dest="protocol.eval_episodes",
        metavar="X",
        help="short for --protocol.eval-episodes",
        default=None,
    )
    parser.add_argument(
        "--protocol",
        metavar="NAME",
        help=f"how the task is played: {' or '.join(envs.PROTOCOLS)}",
        default=protocol,
    )
    return options_of(
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
    parser.add_argument("--quiet", action="store_true", help="no progress")


def isolation(asked: argparse.Namespace) -> float | None:
    """The seconds that an isolated environment has for an answer, if it is to be isolated."""
    given = getattr(asked, "env_timeout", None)
    if given is not None and not asked.isolate_env:
        raise UsageError(
            "--env-timeout needs --isolate-env: only an environment in a process of its own can "
            "be given up"
        )
    if given is not None and not 0.1 <= given <= 86_400:
        raise UsageError(f"--env-timeout must be between 0.1 and 86400 seconds, not {given:g}")
    from dualac.envs.faults.guarded import PATIENCE

    return (given or PATIENCE) if asked.isolate_env else None


def seeds_asked(asked: argparse.Namespace) -> list[int]:
    return (
        [parse_count(asked.seed)]
        if hasattr(asked, "seed")
        else parse_seeds(getattr(asked, "seeds", "1"))
    )


def accelerated() -> bool:
    from dualac.machine.cores import accelerator_installed

    return accelerator_installed()


def flags_of(asked: argparse.Namespace) -> Any:
    from dualac.training.run import Flags

    return Flags(asked.allow_inexact, asked.tensorboard, isolation(asked), asked.replay_in)


def usual_threads(runs: list[Any]) -> int:
    """One seed alone has two cores, if two are idle: nearly twice as fast. Several have a core
    each.
    """
    from dualac.machine.cores import borrowed, usable_cores

    with borrowed(2, usable_cores()) as idle:
        return 2 if len(runs) == 1 and len(idle) == 2 and not accelerated() else 1


def announce(runs: list[Any], work: Any, flags: Any) -> None:
    """Say what will be done, having made sure that it can be: the task loads, the replays of all
    seeds that run at once fit.
    """
    from dualac import envs
    from dualac.envs.foreign import ignoring_errors
    from dualac.machine.cores import usable_cores
    from dualac.machine.memory import require_memory
    from dualac.training.replay import replay_bytes
    from dualac.types import Spec

    cores, threads = len(usable_cores()), work.threads
    if not 1 <= threads <= cores:
        raise UsageError(
            f"--threads must be between 1 and {cores}, the cores this process may use, not "
            f"{threads}"
        )
    run = runs[0]
    env = envs.make(run.task, protocol=run.protocol, isolated=flags.isolated)
    spec = Spec(env.observation_space.shape[0], env.action_space.shape[0])  # pyright: ignore[reportOptionalSubscript]
    with ignoring_errors():
        env.close()
    at_once = len(runs) if run.pack else min(len(runs), cores // threads)
    each = replay_bytes(min(run.capacity, run.steps), spec)
    if flags.replay_in == "memory":
        require_memory(
            each * at_once,
            f"the replay of {at_once} seed{'s' * (at_once > 1)} at once, "
            f"{min(run.capacity, run.steps)} transitions each,",
        )
    how = (
        "one packed program"
        if run.pack
        else (
            f"{at_once} process{'es' * (at_once > 1)} at a time, {threads} "
            f"core{'s' * (threads > 1)} each"
        )
    )
    seeds = ", ".join(str(run.seed) for run in runs)
    console.print(
        f"{run.name} on {run.task}: {spec.obs_dim} observations, {spec.action_dim} actions; "
        f"{run.steps} steps, replay ratio {run.replay_ratio}; "
        f"seed {seeds} ({how}); replay {each / 1e6:.0f} MB a seed, in {flags.replay_in}",
        soft_wrap=True,
    )


def carry_out(packs: list[list[Path]], asked: argparse.Namespace, usual: int = 1) -> int:
    """Launch what is not finished, watch it, tell how it ended. `usual`: the cores of one that is
    new, where no number was asked for.
    """
    from dualac.cli.progress import Display
    from dualac.execution.local import launch
    from dualac.runs.state import read_status
    from dualac.training.run import load

    flags = flags_of(asked)

    def unfinished(pack: list[Path]) -> list[Path]:
        return [path for path in pack if read_status(path, load(path).steps).state != "done"]

    left = [pack for pack in packs if unfinished(pack)]
    refused: dict[int, DualacError] = {}
    for number, pack in enumerate(left):
        # A seed that failed does not keep the others of its pack from going on.
        errors = [refusal_to_resume(path) for path in unfinished(pack)]
        if all(errors):
            refused[number] = next(filter(None, errors))
    if left and len(refused) == len(left):
        raise refused[0]
    left = [pack for number, pack in enumerate(left) if number not in refused]
    if not left:
        console.print("already done; dualac train with a larger --steps goes on from there")
    with Display(console, quiet=asked.quiet) as display:
        failures = launch([work_of(pack, asked.threads, usual) for pack in left], display, flags)
    errors = [failure.error for failure in failures] + list(refused.values())
    for error in errors:
        print(f"dualac: {one_line(str(error))}", file=sys.stderr)
    if not errors:
        from dualac.cli.summary import (
            conclude,
        )  # it draws: half a second that no training should wait for

        conclude([path for pack in packs for path in pack], console, flags.isolated)
    return max((error.code for error in errors), default=0)


def refusal_to_resume(path: Path) -> DualacError | None:
    """Return why a run is not to be resumed, if it is not."""
    from dualac.runs.state import require_resumable

    try:
        require_resumable(path)
    except DualacError as error:
        return error
    return None


def work_of(pack: list[Path], threads: int | None, usual: int) -> Any:
    """XLA sees as many cores as when the run began: one, unless that was in a user's own Python.
    How many more help it changes no bit.
    """
    from dualac.execution.local import Work
    from dualac.runs.files import read_object
    from dualac.runs.layout import MACHINE

    started = [path / MACHINE for path in pack if (path / MACHINE).exists()]
    seen = read_object(started[0])["fingerprint"]["cores"] if started else 1
    return Work(pack, max(usual, seen) if threads is None else threads, seen)
