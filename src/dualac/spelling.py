"""How a tree of frozen dataclasses is written: as JSON in a run's directory, as options on the command line, as Python for people.

Types, defaults and help are written once, in the dataclass; the string below a field is its help.
"""

import ast
import contextlib
import dataclasses
import functools
import inspect
import math
import numbers
import re
import textwrap
import types
import typing
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any, NamedTuple

from dualac import own
from dualac.errors import DataError, UsageError, nearest

MOST_SEEDS = 10_000
PART, SOURCE = "part", "source"  # the JSON keys that name a dataclass, and the SHA-256 of the file where it is a user's own


class Option(NamedTuple):
    """One value that a user may set: where it is, what it is now, what it may be."""

    path: str
    value: Any
    hint: Any
    help: str


def to_json(thing: Any, *, defaults: bool = True) -> Any:
    """As JSON, the same for equal trees: -1 where a real number is meant is -1.0. Without `defaults`, only what differs from them."""
    if dataclasses.is_dataclass(thing) and not isinstance(thing, type):
        hints = field_hints(type(thing))
        told = {f.name: getattr(thing, f.name) for f in dataclasses.fields(thing) if defaults or getattr(thing, f.name) != f.default}
        return {**_origin(type(thing)), **{name: to_json(fitted(hints[name], value, name), defaults=defaults) for name, value in told.items()}}
    return [to_json(item, defaults=defaults) for item in thing] if isinstance(thing, tuple) else thing


def fitted(hint: Any, value: Any, name: str) -> Any:
    """The value as one of this type, where it is one but for its spelling: 3.0 or NumPy's 3 for 3, a list for a tuple. Else an error."""
    for kind in _members(hint):
        inner = typing.get_origin(kind)
        if kind is Any or (kind is types.NoneType and value is None) or (inner is typing.Literal and value in typing.get_args(kind)):
            return value
        if inner is tuple and isinstance(value, list | tuple):
            return tuple(fitted(typing.get_args(kind)[0], item, name) for item in value)
        if isinstance(kind, type) and kind not in (int, float) and isinstance(value, kind):
            return value
        if inner is Mapping and isinstance(value, Mapping):
            return value
        if kind in (int, float) and isinstance(value, numbers.Real) and not isinstance(value, bool):
            with contextlib.suppress(OverflowError):
                if kind is float or float(value).is_integer():
                    return kind(value)  # pyright: ignore[reportArgumentType]
    raise UsageError(f"{name} cannot be {value!r}")


def settle(thing: Any) -> None:
    """For a dataclass's __post_init__: every field as one of its type, or an error that names it. Frozen or not, it is still being made."""
    hints = field_hints(type(thing))
    for f in dataclasses.fields(thing):
        object.__setattr__(thing, f.name, fitted(hints[f.name], getattr(thing, f.name), f.name))


def from_json(hint: Any, data: Any) -> Any:
    """What `to_json` wrote, checked against the type it is to have.

    A field that is missing has its default: an older version did not know it. One that is unknown is refused: a newer version meant something by it.
    """
    kinds = _parts(hint)
    if kinds:
        name = data.get(PART) if isinstance(data, dict) else None
        if isinstance(name, str) and SOURCE in data and _origin(kinds.get(name)) != {PART: name, SOURCE: data[SOURCE]}:
            own.find(name, data[SOURCE])
            kinds = _parts(hint)
        if not isinstance(name, str) or name not in kinds:
            raise DataError(f"{name if name else data!r} is not one of {', '.join(kinds)}")
        kind, hints = kinds[name], field_hints(kinds[name])
        given, known = set(data) - {PART, SOURCE}, {f.name: f.default for f in dataclasses.fields(kind)}
        strange = {*given - set(known), *(key for key, default in known.items() if default is dataclasses.MISSING and key not in given)}
        if strange:
            raise DataError(f"{name} has other fields than this version's: {', '.join(sorted(strange))}")
        return kind(**{key: from_json(hints[key], data[key]) if _parts(hints[key]) else fitted(hints[key], data[key], key) for key in given})
    return fitted(hint, data, "a value")


def to_python(thing: Any) -> str:
    """As one would write it, defaults left out: `OptimisticActor(target_kl=0.1)`."""
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


def options(thing: Any, instead: Mapping[str, Any] = types.MappingProxyType({}), prefix: str = "", of: str = "") -> Iterator[Option]:
    """Every value of a tree that can be set, by path: `explorer.target_kl`, and `explorer.optimism` itself where another part could stand.

    `instead`: parts that will stand at these paths. `of`: the paper's symbol for the whole, as its help has it in parentheses; it stands before
    the help of its parts.
    """
    hints, docs = field_hints(type(thing)), field_docs(type(thing))
    for f in dataclasses.fields(thing):
        path = prefix + f.name
        value = instead.get(path, getattr(thing, f.name))
        nested = dataclasses.is_dataclass(value)
        if not nested or len(_parts(hints[f.name])) > 1:
            yield Option(path, value, hints[f.name], of + docs.get(f.name, ""))
        if nested:
            symbol = re.search(r"\((\w+)\)", docs.get(f.name, ""))
            yield from options(value, instead, path + ".", f"{symbol[1]}: " if symbol else of)


def replaced(thing: Any, changes: dict[str, Any]) -> Any:
    """The tree with other values at these paths, all at once, so that only the whole is judged.

    A part that is itself replaced is then changed by the paths below it.
    """
    new = {path: value for path, value in changes.items() if "." not in path}
    below: dict[str, dict[str, Any]] = {}
    for path, value in changes.items():
        head, _, rest = path.partition(".")
        if rest:
            below.setdefault(head, {})[rest] = value
    unknown = sorted({*new, *below} - set(getattr(thing, "__dataclass_fields__", ())))
    if unknown:
        raise UsageError(f"{to_python(thing)} has no {unknown[0]}")
    for head, inner in below.items():
        new[head] = replaced(new.get(head, getattr(thing, head)), inner)
    return dataclasses.replace(thing, **new)


def parse(hint: Any, text: str) -> Any:
    """A word of the command line as a value of this type."""
    members = _members(hint)
    if _parts(hint):
        return _parse_part(_parts(hint), text)
    if types.NoneType in members and text.lower() == "none":
        return None
    kind = next(member for member in members if member is not types.NoneType)
    if typing.get_origin(kind) is typing.Literal:
        choices = {str(choice): choice for choice in typing.get_args(kind)}
        if text not in choices:
            raise UsageError(f"{text!r} is not one of {', '.join(choices)}")
        return choices[text]
    if typing.get_origin(kind) is tuple:
        return tuple(parse(typing.get_args(kind)[0], word) for word in text.split(",")) if text else ()
    if kind not in _PARSERS:
        raise UsageError(f"a {getattr(kind, '__name__', kind)} cannot be written here")
    return _PARSERS[kind](text)


def is_part(hint: Any) -> bool:
    """Whether what is wanted is a part, which may have options of its own."""
    return bool(_parts(hint))


def words_for(hint: Any) -> list[str]:
    """What may be written where this type is wanted, if that is one of a few words."""
    words = [f"{name}(...)" for name in _parts(hint)]
    for member in _members(hint):
        words += map(str, typing.get_args(member)) if typing.get_origin(member) is typing.Literal else []
    return words


@functools.cache
def field_hints(kind: type) -> dict[str, Any]:
    return typing.get_type_hints(kind)


@functools.cache
def field_docs(kind: type) -> dict[str, str]:
    """The string below each field of a dataclass, its own or inherited."""
    body = ast.parse(textwrap.dedent(inspect.getsource(kind))).body[0]
    assert isinstance(body, ast.ClassDef)
    docs: dict[str, str] = {}
    for parent in reversed(kind.__bases__):
        docs |= field_docs(parent) if dataclasses.is_dataclass(parent) else {}
    for line, below in zip(body.body, body.body[1:], strict=False):
        if (
            isinstance(line, ast.AnnAssign)
            and isinstance(line.target, ast.Name)
            and isinstance(below, ast.Expr)
            and isinstance(below.value, ast.Constant)
        ):
            docs[line.target.id] = str(below.value.value)
    return docs


def count(text: str) -> int:
    """A whole number as people write it: 200k, 1M, 1_000."""
    scale = {"k": 1_000, "m": 1_000_000}.get(text[-1:].lower(), 1)
    try:
        number = Decimal(text[:-1]) * scale if scale > 1 else Decimal(int(text))
    except (ValueError, ArithmeticError):
        raise UsageError(f"{text!r} is not a whole number (12000, 12k and 1M are)") from None
    if not number.is_finite() or number != int(number):
        raise UsageError(f"{text!r} is not a whole number")
    return int(number)


def seeds(text: str) -> list[int]:
    """How many (2 is 0 and 1), which ones from where to where (3-5), or each (0,2,7)."""
    first, dash, last = text.partition("-")
    if "," in text:
        found = [count(word) for word in text.split(",")]
    else:
        found = range(count(first), count(last) + 1) if dash and first else range(count(text))
    if not 0 < len(found[: MOST_SEEDS + 1]) <= MOST_SEEDS or len(set(found)) != len(found):
        raise UsageError(f"--seeds {text}: give a number of seeds (2), a range (3-5) or a list without repeats (0,2,7), {MOST_SEEDS} at most")
    return list(found)


def difference(ours: Any, theirs: Any, prefix: str = "") -> list[str]:
    """The lines in which two trees of JSON differ."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        lines = [difference(ours.get(key), theirs.get(key), f"{prefix}{key}.") for key in sorted({*ours, *theirs})]
        return [line for group in lines for line in group]
    return [] if ours == theirs else [f"{prefix.rstrip('.')}: {theirs!r} there, {ours!r} here"]


def changes(one: Any, other: Any, prefix: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Where two trees differ: the path, and what stands there in each. Parts of different kinds differ as wholes."""
    for f in dataclasses.fields(one):
        mine, theirs = getattr(one, f.name), getattr(other, f.name)
        if mine == theirs:
            continue
        if dataclasses.is_dataclass(mine) and type(mine) is type(theirs):
            yield from changes(mine, theirs, f"{prefix}{f.name}.")
        else:
            yield prefix + f.name, mine, theirs


def _members(hint: Any) -> tuple[Any, ...]:
    return typing.get_args(hint) if isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union else (hint,)


def _parts(hint: Any) -> dict[str, type]:
    """The dataclasses that may stand where this type does: itself and all derived from it, a user's own among them, but no abstract one."""
    return {_named(kind): kind for member in _members(hint) if isinstance(member, type) for kind in _derived(member)}


def _derived(kind: type) -> Iterator[type]:
    for child in kind.__subclasses__():
        yield from _derived(child)
    if dataclasses.is_dataclass(kind) and not inspect.isabstract(kind):
        yield kind


def _origin(kind: type | None) -> dict[str, str]:
    """What names a part: its class, and for a user's own the file that defines it, whose content must stay what it was."""
    if kind is None:
        return {}
    path = own.source(kind)
    return {PART: _named(kind)} | ({} if path is None else {SOURCE: own.loaded_digest(path)})


def _named(kind: type) -> str:
    path = own.source(kind)
    return kind.__name__ if path is None else f"{path}:{kind.__name__}"


def _parse_part(parts: dict[str, type], text: str) -> Any:
    """`Held(0.25)`: a call of a known part, its arguments literals or such calls. Nothing is evaluated."""
    advice = f"write one of {', '.join(name + '(...)' for name in parts)}"
    try:
        call = ast.parse(text, mode="eval").body
        if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Name)):
            raise UsageError(f"{text!r} is not a part; {advice}")
        if call.func.id not in parts:
            raise UsageError(f"{call.func.id!r} cannot stand here; {advice}{nearest(call.func.id, list(parts))}")
        kind = parts[call.func.id]
        bound = inspect.signature(kind).bind(*call.args, **{str(word.arg): word.value for word in call.keywords}).arguments
        hints = field_hints(kind)
        return kind(**{name: _argument(hints[name], word, f"{text}: {name}") for name, word in bound.items()})
    except TypeError as error:
        raise UsageError(f"{text}: {error}") from None
    except (SyntaxError, ValueError, MemoryError, RecursionError):  # what literal_eval may raise
        raise UsageError(f"{text!r} is not a part; {advice}") from None


def _argument(hint: Any, word: ast.expr, name: str) -> Any:
    inner = _parts(hint)
    return _parse_part(inner, ast.unparse(word)) if inner and isinstance(word, ast.Call) else fitted(hint, ast.literal_eval(word), name)


def _number(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise UsageError(f"{text!r} is not a number") from None
    if math.isnan(value):
        raise UsageError(f"{text!r} is not a number")
    return value


def _switch(text: str) -> bool:
    words = {"true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, "off": False, "0": False}
    if text.lower() not in words:
        raise UsageError(f"{text!r} is neither true nor false")
    return words[text.lower()]


_PARSERS = {float: _number, int: count, bool: _switch, str: str}
