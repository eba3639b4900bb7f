"""A tree of frozen dataclasses as JSON, and back."""

import dataclasses
from typing import Any

from dualac.errors import DataError
from dualac.parts import user_files
from dualac.parts.fields import PART, SOURCE, field_hints, fitted, origin_of, part_classes


def to_json(thing: Any, *, defaults: bool = True) -> Any:
    """Write as JSON, the same for equal trees: -1 where a real number is meant is -1.0. Without
    `defaults`, only what differs from them.
    """
    if dataclasses.is_dataclass(thing) and not isinstance(thing, type):
        hints = field_hints(type(thing))
        values = {
            f.name: getattr(thing, f.name)
            for f in dataclasses.fields(thing)
            if defaults or getattr(thing, f.name) != f.default
        }
        return {
            **origin_of(type(thing)),
            **{
                name: to_json(fitted(hints[name], value, name), defaults=defaults)
                for name, value in values.items()
            },
        }
    return (
        [to_json(item, defaults=defaults) for item in thing] if isinstance(thing, tuple) else thing
    )


def from_json(hint: Any, data: Any) -> Any:
    """Read what `to_json` wrote, checked against the type it is to have.

    A field that is missing has its default: an older version did not know it. One that is unknown
    is refused: a newer version meant something by it.
    """
    kinds = part_classes(hint)
    if kinds:
        name = data.get(PART) if isinstance(data, dict) else None
        if (
            isinstance(name, str)
            and SOURCE in data
            and origin_of(kinds.get(name)) != {PART: name, SOURCE: data[SOURCE]}
        ):
            user_files.find(name, data[SOURCE])
            kinds = part_classes(hint)
        if not isinstance(name, str) or name not in kinds:
            raise DataError(f"{name if name else data!r} is not one of {', '.join(kinds)}")
        kind, hints = kinds[name], field_hints(kinds[name])
        given, known = (
            set(data) - {PART, SOURCE},
            {f.name: f.default for f in dataclasses.fields(kind)},
        )
        strange = {
            *given - set(known),
            *(
                key
                for key, default in known.items()
                if default is dataclasses.MISSING and key not in given
            ),
        }
        if strange:
            raise DataError(
                f"{name} has other fields than this version's: {', '.join(sorted(strange))}"
            )
        return kind(
            **{
                key: from_json(hints[key], data[key])
                if part_classes(hints[key])
                else fitted(hints[key], data[key], key)
                for key in given
            }
        )
    return fitted(hint, data, "a value")


def difference(ours: Any, theirs: Any, prefix: str = "") -> list[str]:
    """List the lines in which two trees of JSON differ."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        lines = [
            difference(ours.get(key), theirs.get(key), f"{prefix}{key}.")
            for key in sorted({*ours, *theirs})
        ]
        return [line for group in lines for line in group]
    return [] if ours == theirs else [f"{prefix.rstrip('.')}: {theirs!r} there, {ours!r} here"]
