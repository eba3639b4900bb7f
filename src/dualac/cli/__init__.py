"""Words in, text out. This is the only place that parses words and prints."""

import os
import shlex
import signal
import sys
from collections.abc import Callable, Mapping
from typing import NoReturn

from dualac.cli.commands import (
    analysis,
    bench,
    experiments,
    overview,
    records,
    runs,
    theory,
    training,
)
from dualac.errors import DualacError, TryAgainError, UsageError
from dualac.machine.command import COMMAND
from dualac.machine.disk import is_disk_trouble, refusal
from dualac.machine.signals import raise_ctrl_c
from dualac.parts.text import nearest, one_line

Command = Callable[[list[str]], int]
COMMANDS: dict[str, Command] = {
    "train": training.train,
    "resume": training.resume,
    "evaluate": runs.evaluate,
    "play": runs.play,
    "sweep": experiments.sweep,
    "status": records.status,
    "collect": records.collect,
    "report": analysis.report,
    "compare": analysis.compare,
    "show": records.show,
    "theory": theory.theory,
    "bench": bench.bench,
    "list": overview.show_list,
    "doctor": overview.doctor,
}


def main(argv: list[str] | None = None, commands: Mapping[str, Command] = COMMANDS) -> NoReturn:
    """Run the `dualac` command. Every error is one line; its code is the exit code."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, raise_ctrl_c)
    try:
        argv = sys.argv[1:] if argv is None else argv
        os.environ[COMMAND] = shlex.join(["dualac", *argv])
        code = run(argv, commands)
        if sys.stdout:
            sys.stdout.flush()
    except DualacError as error:
        print(f"dualac: {one_line(str(error))}", file=sys.stderr)
        code = error.code
    except KeyboardInterrupt:
        code = 130
    except BrokenPipeError:  # `dualac ... | head`
        _discard_output()
        code = 0
    except OSError as error:  # standard output on a full disk, a directory that vanished
        print(f"dualac: {one_line(str(error))}", file=sys.stderr)
        _discard_output()
        code = TryAgainError.code if is_disk_trouble(error) else DualacError.code
    sys.exit(code)


def run(argv: list[str], commands: Mapping[str, Command] = COMMANDS) -> int:
    """Run a command and return its exit code."""
    if not argv or argv[0] in ("-h", "--help"):
        print_help()
        return 0
    if argv[0] == "--version":
        from importlib.metadata import version

        print(version("dualac"))
        return 0
    name, *rest = argv
    if name not in commands:
        raise UsageError(
            f"no command is called {name!r}{nearest(name, list(commands))}; dualac --help lists "
            "them"
        )
    try:
        return commands[name](rest)
    except OSError as error:
        if error.filename is None:  # standard output
            raise
        advice = "name a place that exists and that you may use"
        raise refusal(error.filename, error, advice) from None


def print_help() -> None:
    print("dualac: risk-aware actor-critics; one algorithm, many attitudes to risk\n")
    for name, command in COMMANDS.items():
        about = (command.__doc__ or "").splitlines()[0]
        print(f"  dualac {name:<10} {about[:1].lower()}{about[1:]}")
    print(
        "\n  dualac COMMAND --help tells more; start with: dualac train dac dmc/cartpole-swingup "
        "--steps 20k --warmup 2k"
    )


def _discard_output() -> None:
    """Send what is still to be flushed nowhere: whoever read the output is gone."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
