"""What it costs on this machine: `dualac bench`."""

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from rich.table import Table

from dualac.cli.options import Parser, console
from dualac.errors import UsageError
from dualac.execution.pinned import call
from dualac.parts.text import nearest

LEARNER, SCALING = (f"dualac.bench.{name}:measure" for name in ("learner", "scaling"))
TRAINED = "dualac.bench.training:trained"
PICTURES = (".png", ".svg", ".pdf")
Kinds = dict[str, tuple[Callable[[Parser, list[str]], int], str]]  # with a line about each
PAPER_TASKS = ("dmc/cheetah-run", "metaworld/push", "myosuite/key-turn-easy")


def bench(argv: list[str], kinds: Kinds | None = None) -> int:
    """Measure what it costs here: dualac bench learner [dac...] | train | sweep | envs | memory |
    scaling
    """
    kinds = kinds or KINDS
    if not argv or argv[0].startswith("-"):
        if argv:
            print("dualac bench KIND [options]; dualac bench KIND --help tells more")
        for name, (_, about) in kinds.items():
            print(f"  dualac bench {name:<8} {about}")
        return 0 if argv else UsageError.code
    kind, *rest = argv
    if kind not in kinds:
        raise UsageError(
            f"bench what? not {kind!r}{nearest(kind, list(kinds))}; there are {', '.join(kinds)}"
        )
    measure, about = kinds[kind]
    parser = Parser(prog=f"dualac bench {kind}", allow_abbrev=False, description=about)
    parser.add_argument(
        "--json", action="store_true", help="one object: what was measured, a row each"
    )
    parser.add_argument(
        "--plot", type=_picture, metavar="FILE", help=f"a picture of it ({', '.join(PICTURES)})"
    )
    return measure(parser, rest)


def learner(parser: Parser, argv: list[str], measure: Callable[..., Any] = call) -> int:
    parser.add_argument(
        "algorithms",
        nargs="*",
        default=["sac", "dac"],
        help="rows of the table, the first being what the others are compared with",
    )
    parser.add_argument("--all", action="store_true", help="every row, SAC first")
    _add_load(parser)
    parser.add_argument("--threads", type=int, default=1, help="cores (1)")
    parser.add_argument("--rounds", type=int, default=9, help="turns that each is timed in (9)")
    args = parser.parse(argv)
    load, threads = _load(args), _threads(args.threads)
    kinds = [(name, load) for name in _rows(args)]
    rounds = _positive(args.rounds, "--rounds")
    rows = measure(LEARNER, threads, kinds=kinds, rounds=rounds)
    columns = (
        ("algorithm", "{}"),
        ("ms_per_update", "{:.2f}"),
        ("best_ms_per_update", "{:.2f}"),
        ("times_the_first", "{:.2f}"),
        ("gflop_per_update", "{:.3f}"),
        ("floor_ms", "{:.2f}"),
        ("percent_of_sgemm", "{:.0f}"),
    )
    note = (
        f"sgemm {rows[0]['sgemm_gflops']:.0f} GFLOP/s, measured in the same run; "
        f"{rows[0]['threads']} core(s)"
    )
    return _show(args, rows, Shown(columns, "ms_per_update", note))


def _train(parser: Parser, argv: list[str]) -> int:
    parser.add_argument("algorithm", nargs="?", default="dac")
    parser.add_argument("task", nargs="?", default="dmc/cheetah-run")
    parser.add_argument(
        "--replay-ratio", type=int, default=2, help="updates for each environment step (2)"
    )
    parser.add_argument(
        "--steps", type=int, default=1_500, help="environment steps that are timed (1500)"
    )
    parser.add_argument("--threads", type=int, default=1, help="cores (1)")
    args = parser.parse(argv)
    _require_algorithm(args.algorithm)
    ratio = _positive(args.replay_ratio, "--replay-ratio")
    if args.steps < 500:
        raise UsageError(f"--steps must be at least 500 for a pace to be seen, not {args.steps}")
    question = {
        "algorithm": args.algorithm,
        "task": _task(args.task),
        "replay_ratio": ratio,
        "steps": args.steps,
    }
    row = call(TRAINED, _threads(args.threads), **question)
    columns = (
        ("algorithm", "{}"),
        ("task", "{}"),
        ("replay_ratio", "{}"),
        ("steps_per_second", "{:.1f}"),
        ("ms_per_step", "{:.2f}"),
        ("ms_per_update", "{:.2f}"),
        ("share_outside_the_learner", "{:.1%}"),
    )
    return _show(args, [row], Shown(columns, "steps_per_second"))


def _sweep(parser: Parser, argv: list[str]) -> int:
    from dualac.bench.load import Load
    from dualac.bench.training import sweep
    from dualac.machine.cores import usable_cores

    parser.add_argument("algorithm", nargs="?", default="dac")
    parser.add_argument(
        "--workers",
        type=int,
        default=len(usable_cores()),
        help="pinned processes side by side (as many as cores)",
    )
    _add_load(parser)
    args = parser.parse(argv)
    _require_algorithm(args.algorithm)
    row = sweep(args.algorithm, Load(**_load(args)), _threads(args.workers))
    columns = (
        ("algorithm", "{}"),
        ("workers", "{}"),
        ("updates_per_second_of_one", "{:.0f}"),
        ("updates_per_second_of_all", "{:.0f}"),
        ("times_one", "{:.2f}"),
    )
    return _show(args, [row], Shown(columns, "updates_per_second_of_all"))


def _envs(parser: Parser, argv: list[str]) -> int:
    from dualac.bench.envs import measure

    parser.add_argument("tasks", nargs="*", default=list(PAPER_TASKS))
    parser.add_argument("--steps", type=int, default=1_000, help="of each task (1000)")
    args = parser.parse(argv)
    rows = measure([_task(task) for task in args.tasks], _positive(args.steps, "--steps"))
    columns = (("task", "{}"), ("steps_per_second", "{:.0f}"), ("reset_ms", "{:.1f}"))
    return _show(args, rows, Shown(columns, "steps_per_second"))


def _memory(parser: Parser, argv: list[str]) -> int:
    from dualac.bench.memory import measure
    from dualac.experiments.cost import sizes
    from dualac.machine.memory import require_memory
    from dualac.training.replay import replay_bytes

    parser.add_argument("algorithm", nargs="?", default="dac")
    parser.add_argument("task", nargs="?", default="dmc/dog-run")
    parser.add_argument(
        "--capacity",
        type=int,
        default=1_000_000,
        help="transitions that the replay keeps (1000000)",
    )
    args = parser.parse(argv)
    _require_algorithm(args.algorithm)
    spec = sizes(_task(args.task))
    require_memory(
        replay_bytes(_positive(args.capacity, "--capacity"), spec),
        f"a replay of {args.capacity} transitions",
        "lower --capacity",
    )
    row = measure(args.algorithm, _task(args.task), spec, args.capacity)
    row |= {f"{name}_gb": row[f"{name}_bytes"] / 1e9 for name in ("replay", "new", "resumed")}
    row["beside_mb"] = row["beside_the_replay"] / 1e6
    columns = (
        ("algorithm", "{}"),
        ("task", "{}"),
        ("capacity", "{}"),
        ("replay_gb", "{:.2f}"),
        ("new_gb", "{:.2f}"),
        ("resumed_gb", "{:.2f}"),
        ("beside_mb", "{:.0f}"),
    )
    note = "the most that a new run's process had, and the run's when resumed; beside the replay"
    return _show(args, [row], Shown(columns, "beside_mb", note))


def _scaling(parser: Parser, argv: list[str]) -> int:
    parser.add_argument("algorithm", nargs="?", default="dac")
    _add_load(parser)
    args = parser.parse(argv)
    _require_algorithm(args.algorithm)
    rows = call(SCALING, 1, algorithm=args.algorithm, load=_load(args))
    for row in rows:
        pairs = zip(row["sizes"], row["seconds"], strict=True)
        row["milliseconds"] = "  ".join(f"{size}: {1e3 * second:.1f}" for size, second in pairs)
    columns = (("what", "{}"), ("exponent", "{:.3f}"), ("milliseconds", "{}"))
    return _show(args, rows, Shown(columns, "exponent"))


KINDS: Kinds = {
    "learner": (learner, "ms of an update, against the rate of this machine's matrix product"),
    "train": (_train, "environment steps a second, end to end"),
    "sweep": (_sweep, "updates a second of several pinned workers, against one"),
    "envs": (_envs, "steps a second of tasks alone"),
    "memory": (_memory, "peak memory against the replay's"),
    "scaling": (
        _scaling,
        "how cost grows with batch, width, critics, replay ratio and a fuller replay",
    ),
}


def _add_load(parser: Parser) -> None:
    from dualac.bench.load import Load

    for name, value in Load()._asdict().items():
        parser.add_argument(
            "--" + name.replace("_", "-"), type=int, default=value, help=f"({value})"
        )


def _load(args: argparse.Namespace) -> dict[str, int]:
    from dualac.bench.load import Load

    load = {name: getattr(args, name) for name in Load._fields}
    for name, value in load.items():
        _positive(value, "--" + name.replace("_", "-"), 0 if name in ("width", "critics") else 1)
    return load


def _rows(args: argparse.Namespace) -> list[str]:
    from dualac.agents.algorithms import ALGORITHMS

    chosen = list(dict.fromkeys(["sac", *ALGORITHMS])) if args.all else args.algorithms
    for name in chosen:
        _require_algorithm(name)
    return chosen


def _require_algorithm(name: str) -> None:
    from dualac.training.presets import find_algorithm

    find_algorithm(name)


def _task(name: str) -> str:
    from dualac import envs

    return envs.canonical(name)


def _threads(number: int) -> int:
    from dualac.machine.cores import usable_cores

    if not 1 <= number <= len(usable_cores()):
        raise UsageError(
            f"this machine lets a process use 1 to {len(usable_cores())} cores, not {number}"
        )
    return number


def _positive(number: int, option: str, least: int = 1) -> int:
    if number < least:
        raise UsageError(f"{option} must be at least {least}, not {number}")
    return number


def _picture(text: str) -> Path:
    """Check where a picture goes, before anything is measured for it."""
    path = Path(text)
    if path.suffix not in PICTURES:
        raise UsageError(f"--plot draws {', '.join(PICTURES)}, not {path.name!r}")
    if not path.absolute().parent.is_dir():
        raise UsageError(f"--plot: there is no directory {path.absolute().parent}")
    return path


class Shown(NamedTuple):
    """Which values of the rows are shown, by which form; and the one that is drawn."""

    columns: tuple[tuple[str, str], ...]
    drawn: str
    note: str = ""


def _show(args: argparse.Namespace, rows: list[dict[str, Any]], shown: Shown) -> int:
    label = shown.columns[0][0]
    if args.plot:
        from dualac.analysis.figures.curves import bars

        bars(
            {str(row[label]): float(row[shown.drawn]) for row in rows},
            shown.drawn.replace("_", " "),
            args.plot,
        )
    if args.json:
        print(json.dumps(rows[0] if len(rows) == 1 else {"rows": rows}))
        return 0
    table = Table(box=None, pad_edge=False)
    for name, _ in shown.columns:
        table.add_column(
            name.replace("_", " "),
            justify="left" if isinstance(rows[0][name], str) else "right",
            overflow="fold",
        )
    for row in rows:
        table.add_row(*(form.format(row[name]) for name, form in shown.columns))
    console.print(table)
    if shown.note:
        console.print(shown.note, soft_wrap=True)
    return 0
