"""A tree of frozen dataclasses as JSON, and back."""

import dataclasses
from collections.abc import Callable
from typing import Any

from dualac.errors import DataError
from dualac.parts.fields import (
    OWN,
    PART,
    SOURCE,
    field_hints,
    fitted,
    former_origin_of,
    origin_of,
    part_classes,
)

Origin = Callable[[type], dict[str, str]]
# Loads the file of a user's own that defines a part: `mine.py:Mine`, and the digest of the file.
FindPart = Callable[[str, str], None]


def to_json(thing: Any, *, defaults: bool = True, origin: Origin = origin_of) -> Any:
    """Write as JSON, the same for equal trees: -1 where a real number is meant is -1.0.

    Without `defaults`, only what differs from them. `origin` names the classes.
    """
    if dataclasses.is_dataclass(thing) and not isinstance(thing, type):
        hints = field_hints(type(thing))
        written: dict[str, Any] = {**origin(type(thing))}
        # A user edits the defaults of a part of one's own: only its values tell what it is.
        whole = defaults or written[PART].startswith(OWN)
        for f in dataclasses.fields(thing):
            value = getattr(thing, f.name)
            if whole or value != f.default:
                value = fitted(hints[f.name], value, f.name)
                written[f.name] = to_json(value, defaults=defaults, origin=origin)
        return written
    if isinstance(thing, tuple):
        return [to_json(item, defaults=defaults, origin=origin) for item in thing]
    return thing


def find_no_part(name: str, digest: str) -> None:
    """Load nothing: where no run says whose file it is, only what is loaded already will do."""


def from_json(hint: Any, data: Any, find_part: FindPart = find_no_part) -> Any:
    """Read what `to_json` wrote, checked against the type it is to have.

    A field that is missing has its default: an older version did not know it. One that is unknown
    is refused: a newer version meant something by it.
    """
    if not part_classes(hint):
        return fitted(hint, data, "a value")
    kind = _find_class(hint, data, find_part)
    hints = field_hints(kind)
    defaults = {f.name: f.default for f in dataclasses.fields(kind)}
    names = set(data) - {PART, SOURCE}
    required = {name for name, value in defaults.items() if value is dataclasses.MISSING}
    strange = (names - set(defaults)) | (required - names)
    if strange:
        raise DataError(
            f"{data[PART]} has other fields than this version's: {', '.join(sorted(strange))}"
        )
    values = {}
    for name in names:
        if part_classes(hints[name]):
            values[name] = from_json(hints[name], data[name], find_part)
        else:
            values[name] = fitted(hints[name], data[name], name)
    return kind(**values)


def _find_class(hint: Any, data: Any, find_part: FindPart) -> type:
    """Return the class that JSON names, of those that may stand here."""
    name = data.get(PART) if isinstance(data, dict) else None
    if not isinstance(name, str):
        raise DataError(f"{data!r} is not one of {', '.join(part_classes(hint))}")
    if SOURCE in data:
        kind = _find_own(hint, name, data[SOURCE])
        if kind is None:
            find_part(name, str(data[SOURCE]))
            kind = _find_own(hint, name, data[SOURCE])
    else:
        kind = part_classes(hint).get(name)
    if kind is None:
        raise DataError(f"{name} is not one of {', '.join(part_classes(hint))}")
    return kind


def _find_own(hint: Any, name: str, digest: str) -> type | None:
    """Return the class of a user's own file, if it is loaded; the first, where it is so twice."""
    origin = {PART: name, SOURCE: digest}
    for kind in part_classes(hint).values():
        if kind.__name__ == name.rpartition(":")[2] and origin in (
            origin_of(kind),
            former_origin_of(kind),
        ):
            return kind
    return None


def difference(ours: Any, theirs: Any, prefix: str = "") -> list[str]:
    """List the lines in which two trees of JSON differ."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        lines = [
            difference(ours.get(key), theirs.get(key), f"{prefix}{key}.")
            for key in sorted({*ours, *theirs})
        ]
        return [line for group in lines for line in group]
    return [] if ours == theirs else [f"{prefix.rstrip('.')}: {theirs!r} there, {ours!r} here"]
