"""Text for people: values as they write them on the command line and in Python, and sentences."""

import ast
import dataclasses
import difflib
import inspect
import math
import types
import typing
from collections.abc import Iterable
from decimal import Decimal
from typing import Any

from dualac.errors import UsageError
from dualac.parts.fields import field_hints, fitted, part_classes, union_members

MOST_SEEDS = 10_000


def to_python(thing: Any) -> str:
    """Write a part as one would, defaults left out: `OptimisticActor(target_kl=0.1)`."""
    if not dataclasses.is_dataclass(thing) or isinstance(thing, type):
        return repr(thing)
    words = []
    for f in dataclasses.fields(thing):
        value = getattr(thing, f.name)
        if f.default is dataclasses.MISSING:
            words.append(to_python(value))
        elif value != f.default:
            words.append(f"{f.name}={to_python(value)}")
    return f"{type(thing).__name__}({', '.join(words)})"


def parse(hint: Any, text: str) -> Any:
    """Read a word of the command line as a value of this type."""
    members = union_members(hint)
    if part_classes(hint):
        return _parse_part(part_classes(hint), text)
    if types.NoneType in members and text.lower() == "none":
        return None
    kind = next(member for member in members if member is not types.NoneType)
    if typing.get_origin(kind) is typing.Literal:
        choices = {str(choice): choice for choice in typing.get_args(kind)}
        if text not in choices:
            raise UsageError(f"{text!r} is not one of {', '.join(choices)}")
        return choices[text]
    if typing.get_origin(kind) is tuple:
        return (
            tuple(parse(typing.get_args(kind)[0], word) for word in text.split(",")) if text else ()
        )
    if kind not in _PARSERS:
        raise UsageError(f"a {getattr(kind, '__name__', kind)} cannot be written here")
    return _PARSERS[kind](text)


def parse_count(text: str) -> int:
    """Read a whole number as people write it: 200k, 1M, 1_000."""
    scale = {"k": 1_000, "m": 1_000_000}.get(text[-1:].lower(), 1)
    try:
        number = Decimal(text[:-1]) * scale if scale > 1 else Decimal(int(text))
    except (ValueError, ArithmeticError):
        raise UsageError(f"{text!r} is not a whole number (12000, 12k and 1M are)") from None
    if not number.is_finite() or number != int(number):
        raise UsageError(f"{text!r} is not a whole number")
    return int(number)


def format_steps(number: float) -> str:
    """Write a number in short: 12400 as 12.4k."""
    for scale, letter in ((1_000_000, "M"), (1_000, "k")):
        if abs(number) >= scale:
            return f"{number / scale:.4g}{letter}"
    return f"{number:.4g}"


def parse_seeds(text: str) -> list[int]:
    """Read a number of seeds (2 is 0 and 1), a range (3-5) or a list (0,2,7)."""
    first, dash, last = text.partition("-")
    if "," in text:
        found = [parse_count(word) for word in text.split(",")]
    else:
        found = (
            range(parse_count(first), parse_count(last) + 1)
            if dash and first
            else range(parse_count(text))
        )
    if not 0 < len(found[: MOST_SEEDS + 1]) <= MOST_SEEDS or len(set(found)) != len(found):
        raise UsageError(
            f"--seeds {text}: give a number of seeds (2), a range (3-5) or a list without repeats "
            f"(0,2,7), {MOST_SEEDS} at most"
        )
    return list(found)


def nearest(word: str, known: Iterable[str], count: int = 3) -> str:
    """Make the end of an error sentence about an unknown name: `; did you mean dac?`, or nothing.

    Where `known` is a dictionary, a word near one of its keys suggests that key's value.
    """
    close = difflib.get_close_matches(word, known, n=count, cutoff=0.5)
    meant = dict.fromkeys(known[name] for name in close) if isinstance(known, dict) else close
    return f"; did you mean {' or '.join(meant)}?" if meant else ""


def one_line(text: str) -> str:
    """Remove line ends, and whatever could steer the terminal: the text may come from a file."""
    return "".join(letter if letter.isprintable() else "�" for letter in " ".join(text.split()))


def _parse_part(parts: dict[str, type], text: str) -> Any:
    """Read `Held(0.25)`: a call of a known part, its arguments literals or such calls. Nothing is
    evaluated.
    """
    advice = f"write one of {', '.join(name + '(...)' for name in parts)}"
    try:
        call = ast.parse(text, mode="eval").body
        if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Name)):
            raise UsageError(f"{text!r} is not a part; {advice}")
        if call.func.id not in parts:
            raise UsageError(
                f"{call.func.id!r} cannot stand here; {advice}{nearest(call.func.id, list(parts))}"
            )
        kind = parts[call.func.id]
        bound = (
            inspect.signature(kind)
            .bind(*call.args, **{str(word.arg): word.value for word in call.keywords})
            .arguments
        )
        hints = field_hints(kind)
        return kind(
            **{
                name: _argument(hints[name], word, f"{text}: {name}")
                for name, word in bound.items()
            }
        )
    except TypeError as error:
        raise UsageError(f"{text}: {error}") from None
    except (SyntaxError, ValueError, MemoryError, RecursionError):  # what literal_eval may raise
        raise UsageError(f"{text!r} is not a part; {advice}") from None


def _argument(hint: Any, word: ast.expr, name: str) -> Any:
    inner = part_classes(hint)
    return (
        _parse_part(inner, ast.unparse(word))
        if inner and isinstance(word, ast.Call)
        else fitted(hint, ast.literal_eval(word), name)
    )


def _number(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise UsageError(f"{text!r} is not a number") from None
    if math.isnan(value):
        raise UsageError(f"{text!r} is not a number")
    return value


def _switch(text: str) -> bool:
    words = {
        "true": True,
        "yes": True,
        "on": True,
        "1": True,
        "false": False,
        "no": False,
        "off": False,
        "0": False,
    }
    if text.lower() not in words:
        raise UsageError(f"{text!r} is neither true nor false")
    return words[text.lower()]


_PARSERS = {float: _number, int: parse_count, bool: _switch, str: str}
