"""The only place that parses words: a file for each group of commands."""

import os
import shlex
import sys

from dualac.cli.commands.analysis import compare, report
from dualac.cli.commands.bench import bench
from dualac.cli.commands.experiments import collect, show, status, sweep
from dualac.cli.commands.listing import doctor, show_list
from dualac.cli.commands.runs import evaluate, play
from dualac.cli.commands.theory import theory
from dualac.cli.commands.training import resume, train
from dualac.errors import DualacError, TryAgainError, UsageError
from dualac.machine.children import COMMAND
from dualac.machine.disk import is_disk_trouble, refusal
from dualac.parts.text import nearest, one_line

COMMANDS = {
    "train": train, (
        "resume"
    ): resume, "evaluate": evaluate, (
        "play"
    ): play, "sweep": sweep, "status": status, "collect": collect, "report": report,
    "compare": compare, (
        "show"
    ): show, "theory": theory, "bench": bench, "list": show_list, "doctor": doctor,
}  # fmt: skip


def main(words: list[str] | None = None) -> None:
    """The `dualac` command. Every error is one line; its code is the exit code."""
    sys.path.insert(0, os.getcwd())  # where a user's own `module:Id` stands
    try:
        typed = sys.argv[1:] if words is None else words
        os.environ[COMMAND] = shlex.join(["dualac", *typed])
        code = run(typed)
        if sys.stdout:
            sys.stdout.flush()
    except DualacError as error:
        print(f"dualac: {one_line(str(error))}", file=sys.stderr)
        code = error.code
    except KeyboardInterrupt:
        code = 130
    except BrokenPipeError:  # `dualac ... | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    except OSError as error:  # standard output on a full disk, a directory that vanished
        print(f"dualac: {one_line(str(error))}", file=sys.stderr)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = TryAgainError.code if is_disk_trouble(error) else DualacError.code
    sys.exit(code)


def run(words: list[str]) -> int:
    if not words or words[0] in ("-h", "--help"):
        print_help()
        return 0
    if words[0] == "--version":
        from importlib.metadata import version

        print(version("dualac"))
        return 0
    if words[0] not in COMMANDS:
        raise UsageError(
            f"no command is called {words[0]!r}{nearest(words[0], list(COMMANDS))}; dualac --help "
            "lists them"
        )
    try:
        return COMMANDS[words[0]](words[1:])
    except OSError as error:
        if error.filename is None:  # standard output
            raise
        raise refusal(
            error.filename, error, "name a place that exists and that you may use"
        ) from None


def print_help() -> None:
    print("dualac: risk-aware actor-critics; one algorithm, many attitudes to risk\n")
    for name, command in COMMANDS.items():
        print(f"  dualac {name:<10} {(command.__doc__ or '').splitlines()[0]}")
    print(
        "\n  dualac COMMAND --help tells more; start with: dualac train dac dmc/cartpole-swingup "
        "--steps 20k --warmup 2k"
    )
