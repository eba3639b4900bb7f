"""The fields of frozen dataclasses: their types, defaults and help, each written once, in the
class; the string below a field is its help.
"""

import ast
import contextlib
import dataclasses
import functools
import inspect
import numbers
import textwrap
import types
import typing
from collections.abc import Iterator, Mapping
from typing import Any

from dualac.errors import UsageError
from dualac.parts import user_files

PART, SOURCE = (
    "part",
    "source",
)  # the JSON keys that name a dataclass, and the SHA-256 of the file where it is a user's own


OWN = "own:"  # before the class of a user's own, where its file does not count


def fitted(hint: Any, value: Any, name: str) -> Any:
    """Return the value as one of this type, where it is one but for its spelling: 3.0 or NumPy's 3
    for 3, a list for a tuple. Else raise an error.
    """
    for kind in union_members(hint):
        inner = typing.get_origin(kind)
        if (
            kind is Any
            or (kind is types.NoneType and value is None)
            or (inner is typing.Literal and value in typing.get_args(kind))
        ):
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


def check_fields(thing: Any) -> None:
    """Check, in a __post_init__, that every field is of its type; an error names the field. Frozen
    or not, the dataclass is still being made.
    """
    hints = field_hints(type(thing))
    for f in dataclasses.fields(thing):
        object.__setattr__(thing, f.name, fitted(hints[f.name], getattr(thing, f.name), f.name))


def is_part(hint: Any) -> bool:
    """Tell whether what is wanted is a part, which may have options of its own."""
    return bool(part_classes(hint))


def words_for(hint: Any) -> list[str]:
    """List what may be written where this type is wanted, if that is one of a few words."""
    words = [f"{name}(...)" for name in part_classes(hint)]
    for member in union_members(hint):
        words += (
            map(str, typing.get_args(member)) if typing.get_origin(member) is typing.Literal else []
        )
    return words


@functools.cache
def field_hints(kind: type) -> dict[str, Any]:
    return typing.get_type_hints(kind)


@functools.cache
def field_docs(kind: type) -> dict[str, str]:
    """Read the string below each field of a dataclass, its own or inherited."""
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


def union_members(hint: Any) -> tuple[Any, ...]:
    return (
        typing.get_args(hint)
        if isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union
        else (hint,)
    )


def part_classes(hint: Any) -> dict[str, type]:
    """List the dataclasses that may stand where this type does: itself and all derived from it, a
    user's own among them, but no abstract one.
    """
    return {
        part_name(kind): kind
        for member in union_members(hint)
        if isinstance(member, type)
        for kind in _derived(member)
    }


def _derived(kind: type) -> Iterator[type]:
    for child in kind.__subclasses__():
        yield from _derived(child)
    if dataclasses.is_dataclass(kind) and not inspect.isabstract(kind):
        yield kind


def origin_of(kind: type) -> dict[str, str]:
    """Return what names a part: its class, and for a user's own the file that defines it, by name
    and digest.
    """
    code = user_files.code_of(kind)
    if code is None:
        return {PART: kind.__name__}
    return {PART: f"{code.main}:{kind.__name__}", SOURCE: code.digest}


def former_origin_of(kind: type) -> dict[str, str]:
    """Return what named a part before runs kept copies: a user's own file by its absolute path."""
    code = user_files.code_of(kind)
    if code is None:
        return {PART: kind.__name__}
    return {PART: part_name(kind), SOURCE: code.main_digest}


def plain_origin_of(kind: type) -> dict[str, str]:
    """Return what a part is called wherever its file is and whatever else that says."""
    own = user_files.source(kind) is not None
    return {PART: OWN + kind.__name__ if own else kind.__name__}


def part_name(kind: type) -> str:
    path = user_files.source(kind)
    return kind.__name__ if path is None else f"{path}:{kind.__name__}"
