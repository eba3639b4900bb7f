"""What there is and whether it works: `dualac list` and `dualac doctor`."""

import sys

from dualac.cli.options import Parser, console
from dualac.errors import UsageError


def show_list(words: list[str]) -> int:
    """show what there is: dualac list algorithms [NAME [--diff OTHER]] | tasks | experiments"""
    from dualac import envs
    from dualac.cli.listing import (
        show_algorithm,
        show_algorithms,
        show_difference,
        show_experiments,
        show_tasks,
    )
    from dualac.training.presets import find_algorithm

    parser = Parser(prog="dualac list")
    parser.add_argument("what", choices=("algorithms", "tasks", "experiments"))
    parser.add_argument("name", nargs="?", help="one algorithm, fully spelt out")
    parser.add_argument("--diff", metavar="OTHER", help="how NAME differs from this algorithm")
    parser.add_argument(
        "--verbose",
        action="store_true",
        help="tasks with their sizes, caps, scores and sets, and the protocol they are played by",
    )
    parser.add_argument(
        "--protocol", metavar="NAME", help="the protocol that --verbose shows (paper)"
    )
    asked = parser.parse(words)
    if (asked.what != "algorithms" and (asked.name or asked.diff)) or (
        asked.diff is not None and not asked.name
    ):
        raise UsageError(
            "a name and --diff belong to algorithms: dualac list algorithms dac --diff sac"
        )
    if (asked.verbose and asked.what != "tasks") or (
        asked.protocol is not None and not asked.verbose
    ):
        raise UsageError(
            "--verbose is about tasks, and --protocol about what it shows: dualac list tasks "
            "--verbose --protocol official"
        )
    if asked.what == "experiments":
        show_experiments(console)
    elif asked.what == "tasks":
        show_tasks(envs.find_protocol(asked.protocol or "paper") if asked.verbose else None)
        print(envs.NOT_LISTED, file=sys.stderr)
    elif asked.diff is not None:
        show_difference(
            console,
            (asked.name, asked.diff),
            (find_algorithm(asked.name), find_algorithm(asked.diff)),
        )
    elif asked.name:
        show_algorithm(console, asked.name, find_algorithm(asked.name))
    else:
        show_algorithms(console)
    return 0


def doctor(words: list[str]) -> int:
    """tell whether training works on this machine, and what is missing; --tasks: on every task of
    the paper; --task ID: on one, your own say
    """
    from dualac.cli.doctor import examine, examine_task, examine_tasks

    parser = Parser(prog="dualac doctor", allow_abbrev=False)
    instead = parser.add_mutually_exclusive_group()
    instead.add_argument(
        "--tasks", action="store_true", help="load and step every task of the paper instead"
    )
    instead.add_argument(
        "--task",
        metavar="ID",
        help="play this task, such as your own my_env:Reach-v0, and tell what is wrong with it",
    )
    parser.add_argument(
        "--protocol.time-limit",
        dest="limit",
        metavar="N",
        type=int,
        help="play --task with this cap, as train would",
    )
    asked = parser.parse(words)
    if asked.task is not None:
        return examine_task(console, asked.task, asked.limit or 0)
    if asked.limit is not None:
        raise UsageError("--protocol.time-limit is the time limit of a --task: name one")
    return examine_tasks(console) if asked.tasks else examine(console)
