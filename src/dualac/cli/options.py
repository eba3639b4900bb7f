"""What every command needs: a parser that complains in one line, a console, options of a tree."""

import argparse
import re
import sys
from typing import Any, NoReturn

from rich.console import Console

from dualac.errors import UsageError
from dualac.parts.fields import words_for
from dualac.parts.paths import Option, options
from dualac.parts.text import nearest, one_line, parse, to_python

NEGATIVE = re.compile(r"-(\d|\.\d|inf|nan)[\w.,+-]*$")


class Pipe(Console):
    """A terminal or a pipe. That the reader of a pipe goes away is an error like any other."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


console = Pipe(highlight=False, markup=False)  # what users name may hold brackets


class Parser(argparse.ArgumentParser):
    """argparse, with its complaints as one-line errors."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message}; {self.prog} --help shows what it takes")

    def parse_some(self, argv: list[str]) -> tuple[argparse.Namespace, list[str]]:
        """Parse what this parser takes; return also what it does not take."""
        self._negative_number_matcher = NEGATIVE  # argparse's own takes -1e-3 for an option
        return self.parse_known_args(argv)

    def parse(self, argv: list[str]) -> argparse.Namespace:
        """Parse everything, or raise an error that suggests the option that was meant."""
        args, unknown = self.parse_some(argv)
        if unknown:
            names = [name for action in self._actions for name in action.option_strings]
            wrong = unknown[0].split("=")[0]
            # --target-kl for --explorer.target-kl
            longer = [name for name in names if name.endswith("." + wrong.lstrip("-"))]
            meant = f"; did you mean {' or '.join(longer)}?" if longer else nearest(wrong, names)
            raise UsageError(
                f"{self.prog} has no option {wrong!r}{meant}; {self.prog} --help shows them"
            )
        return args


def add_options(
    parser: Parser,
    thing: Any,
    title: str,
    left_out: tuple[str, ...] = (),
    *,
    prefix: str = "",
    instead: dict[str, Any] | None = None,
) -> list[Option]:
    """Add an option for each value of a tree, its help from the tree: `explorer.target_kl` becomes
    --explorer.target-kl.

    `instead`: parts that will stand at these paths, for whose values there are options too.
    """
    group = parser.add_argument_group(title)
    by_path = {
        option.path: option for tree in ({}, instead or {}) for option in options(thing, tree)
    }
    added = [option for option in by_path.values() if option.path.split(".")[0] not in left_out]
    for option in added:
        group.add_argument(
            "--" + option.path.replace("_", "-"),
            dest=prefix + option.path,
            metavar="X",
            help=_help(option).replace("%", "%%"),
            default=None,
        )
    return [option._replace(path=prefix + option.path) for option in added]


def add_trust(parser: Parser) -> None:
    """Add the consent to run the code that a directory names."""
    parser.add_argument(
        "--trust",
        action="store_true",
        help="run the code of a run that was made elsewhere; each file is named with its digest",
    )


def parse_option(option: Option, text: str) -> Any:
    try:
        return parse(option.hint, text)
    except UsageError as error:
        name = option.path.removeprefix("algorithm.").replace("_", "-")
        raise UsageError(f"--{name} {text}: {error}") from None


def read_options(options: list[Option], args: argparse.Namespace) -> dict[str, Any]:
    """Read the values of those options that were typed, by path."""
    return {
        option.path: parse_option(option, text)
        for option in options
        if (text := getattr(args, option.path)) is not None
    }


def say(text: str) -> None:
    console.print(text, soft_wrap=True)


def warn(sentence: str) -> None:
    print(f"dualac: warning: {one_line(sentence)}", file=sys.stderr)


def _help(option: Option) -> str:
    choices = words_for(option.hint)
    listed = f": one of {', '.join(choices)}" if choices else ""
    return f"{option.help}{listed} (now {to_python(option.value)})"
