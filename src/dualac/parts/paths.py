"""The values of a tree of frozen dataclasses by path, such as `explorer.target_kl`."""

import dataclasses
import re
import types
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from dualac.errors import UsageError
from dualac.parts.fields import field_docs, field_hints, part_classes
from dualac.parts.text import to_python


class Option(NamedTuple):
    """One value that a user may set: where it is, what it is now, what it may be."""

    path: str
    value: Any
    hint: Any
    help: str


def options(
    thing: Any,
    instead: Mapping[str, Any] = types.MappingProxyType({}),
    prefix: str = "",
    of: str = "",
) -> Iterator[Option]:
    """List every value of a tree that can be set, by path: `explorer.target_kl`, and
    `explorer.optimism` itself where another part could stand.

    `instead`: parts that will stand at these paths. `of`: the paper's symbol for the whole, as its
    help has it in parentheses; it stands before the help of its parts.
    """
    hints, docs = field_hints(type(thing)), field_docs(type(thing))
    for f in dataclasses.fields(thing):
        path = prefix + f.name
        value = instead.get(path, getattr(thing, f.name))
        nested = dataclasses.is_dataclass(value)
        if not nested or len(part_classes(hints[f.name])) > 1:
            yield Option(path, value, hints[f.name], of + docs.get(f.name, ""))
        if nested:
            symbol = re.search(r"\((\w+)\)", docs.get(f.name, ""))
            yield from options(value, instead, path + ".", f"{symbol[1]}: " if symbol else of)


def replaced(thing: Any, changes: dict[str, Any]) -> Any:
    """Return the tree with other values at these paths, all at once: only the whole is checked.

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


def parts_of(thing: Any) -> Iterator[Any]:
    """List a tree's dataclasses, itself among them."""
    yield thing
    for f in dataclasses.fields(thing):
        value = getattr(thing, f.name)
        if dataclasses.is_dataclass(value):
            yield from parts_of(value)


def changes(one: Any, other: Any, prefix: str = "") -> Iterator[tuple[str, Any, Any]]:
    """List where two trees differ: the path, and what stands there in each. Parts of different
    kinds differ as wholes.
    """
    for f in dataclasses.fields(one):
        mine, theirs = getattr(one, f.name), getattr(other, f.name)
        if mine == theirs:
            continue
        if dataclasses.is_dataclass(mine) and type(mine) is type(theirs):
            yield from changes(mine, theirs, f"{prefix}{f.name}.")
        else:
            yield prefix + f.name, mine, theirs
