"""What every command needs: a parser whose complaints are one line, a console, options made from a
tree of values.
"""

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
    """A terminal or a pipe; where the reader of a pipe goes away, that is an error like any
    other.
    """

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


console = Pipe(highlight=False, markup=False)  # what users name may hold brackets


class Parser(argparse.ArgumentParser):
    """argparse, with its complaints as one-line errors."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message}; {self.prog} --help shows what it takes")

    def peek_batch(self, words: list[str]) -> tuple[argparse.Namespace, list[str]]:
        """The words it knows, and the others."""
        self._negative_number_matcher = NEGATIVE  # argparse's own takes -1e-3 for an option
        return self.parse_known_args(words)

    def parse(self, words: list[str]) -> argparse.Namespace:
        """All words or an error that suggests the option that was meant."""
        known, unknown = self.peek_batch(words)
        if unknown:
            options = [option for action in self._actions for option in action.option_strings]
            word = unknown[0].split("=")[0]
            longer = [
                option for option in options if option.endswith("." + word.lstrip("-"))
            ]  # --target-kl for --explorer.target-kl
            meant = f"; did you mean {' or '.join(longer)}?" if longer else nearest(word, options)
            raise UsageError(
                f"{self.prog} has no option {word!r}{meant}; {self.prog} --help shows them"
            )
        return known


def options_of(
    parser: Parser,
    thing: Any,
    title: str,
    left_out: tuple[str, ...] = (),
    *,
    prefix: str = "",
    instead: dict[str, Any] | None = None,
) -> list[Option]:
    """An option for each value of a tree, its help from the tree: `explorer.target_kl` becomes
    --explorer.target-kl.

    `instead`: parts that will stand at these paths, for whose values there are options too.
    """
    group = parser.add_argument_group(title)
    every = {option.path: option for tree in ({}, instead or {}) for option in options(thing, tree)}
    found = [option for option in every.values() if option.path.split(".")[0] not in left_out]
    for option in found:
        words = words_for(option.hint)
        told = (
            f"{option.help}{': one of ' * bool(words)}{', '.join(words)} (now "
            f"{to_python(option.value)})"
        ).replace("%", "%%")
        group.add_argument(
            "--" + option.path.replace("_", "-"),
            dest=prefix + option.path,
            metavar="X",
            help=told,
            default=None,
        )
    return [option._replace(path=prefix + option.path) for option in found]


def parse_option(option: Option, text: str) -> Any:
    try:
        return parse(option.hint, text)
    except UsageError as error:
        raise UsageError(
            f"--{option.path.removeprefix('algorithm.').replace('_', '-')} {text}: {error}"
        ) from None


def given(options: list[Option], asked: argparse.Namespace) -> dict[str, Any]:
    """What was asked for of these, by path."""
    return {
        option.path: parse_option(option, text)
        for option in options
        if (text := getattr(asked, option.path)) is not None
    }


def warn(sentence: str) -> None:
    print(f"dualac: warning: {one_line(sentence)}", file=sys.stderr)
