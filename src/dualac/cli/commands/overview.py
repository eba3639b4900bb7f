"""What there is and whether it works: `dualac list` and `dualac doctor`."""

import argparse
import sys

from dualac.cli.options import Parser, console
from dualac.errors import UsageError


def show_list(argv: list[str]) -> int:
    """Show what there is: dualac list algorithms [NAME [--diff OTHER]] | tasks | experiments"""
    from dualac import envs
    from dualac.cli import listing
    from dualac.training.presets import find_algorithm

    args = _list_parser().parse(argv)
    _refuse_what_does_not_belong(args)
    if args.what == "experiments":
        listing.show_experiments(console)
    elif args.what == "tasks":
        protocol = envs.find_protocol(args.protocol or "paper") if args.verbose else None
        listing.show_tasks(console, protocol)
        print(envs.NOT_LISTED, file=sys.stderr)
    elif args.diff is not None:
        rows = (find_algorithm(args.name), find_algorithm(args.diff))
        listing.show_difference(console, (args.name, args.diff), rows)
    elif args.name:
        listing.show_algorithm(console, args.name, find_algorithm(args.name))
    else:
        listing.show_algorithms(console)
    return 0


def _list_parser() -> Parser:
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
    return parser


def _refuse_what_does_not_belong(args: argparse.Namespace) -> None:
    of_algorithms = args.name or args.diff is not None
    if (of_algorithms and args.what != "algorithms") or (args.diff is not None and not args.name):
        raise UsageError(
            "a name and --diff belong to algorithms: dualac list algorithms dac --diff sac"
        )
    if (args.verbose and args.what != "tasks") or (args.protocol and not args.verbose):
        raise UsageError(
            "--verbose is about tasks, and --protocol about what it shows: dualac list tasks "
            "--verbose --protocol official"
        )


def doctor(argv: list[str]) -> int:
    """Tell whether training works on this machine, and what is missing; --tasks: on every task of
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
        "--time-limit",
        "--protocol.time-limit",
        dest="limit",
        metavar="N",
        type=int,
        help="play --task with this cap, as train would",
    )
    args = parser.parse(argv)
    if args.task is not None:
        return examine_task(console, args.task, args.limit or 0)
    if args.limit is not None:
        raise UsageError("--time-limit is the time limit of a --task: name one")
    return examine_tasks(console) if args.tasks else examine(console)
