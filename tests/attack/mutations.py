"""Damage to the files of a run, one kind a function: it changes a file in place, by chance."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import stat
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

Damage = Callable[[Path, random.Random, Path], None]
ESCAPES = "\x1b[2J\x1b]0;owned\x07\x00\x9b31m"
HUGE = (10**400, 1e308, -(2**63), 2**64, 1e400)


def flipped_bit(file: Path, chance: random.Random, outside: Path) -> None:
    content = bytearray(file.read_bytes() or b"\0")
    content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
    file.write_bytes(content)


def changed_digit(file: Path, chance: random.Random, outside: Path) -> None:
    content = bytearray(file.read_bytes())
    places = [place for place, sign in enumerate(content) if 48 <= sign <= 57]
    if places:
        place = chance.choice(places)
        content[place] = 48 + (content[place] - 48 + chance.randint(1, 9)) % 10
    file.write_bytes(content)


def cut_short(file: Path, chance: random.Random, outside: Path) -> None:
    size = file.stat().st_size
    os.truncate(file, chance.randrange(size) if size else 0)


def emptied(file: Path, chance: random.Random, outside: Path) -> None:
    file.write_bytes(b"")


def removed(file: Path, chance: random.Random, outside: Path) -> None:
    remove(file)


def garbage(file: Path, chance: random.Random, outside: Path) -> None:
    file.write_bytes(chance.randbytes(chance.randint(1, 4096)))


def deep(file: Path, chance: random.Random, outside: Path) -> None:
    depth = chance.choice([1_000, 100_000])
    sign = chance.choice(["[", '{"a":'])
    file.write_text(sign * depth + "1" + {"[": "]", '{"a":': "}"}[sign] * depth + "\n")


def another_type(file: Path, chance: random.Random, outside: Path) -> None:
    file.write_text(chance.choice(["[]", "{}", "null", "1", '"text"', "[[1]]", "NaN"]) + "\n")


def long_line(file: Path, chance: random.Random, outside: Path) -> None:
    file.write_text('{"step": "' + "x" * 60_000_000 + '"}\n')


# ---- of JSON documents ----


def places_in(tree: Any, at: tuple = ()) -> list[tuple]:
    if isinstance(tree, dict):
        return [
            p for key, value in tree.items() for p in [(*at, key), *places_in(value, (*at, key))]
        ]
    if isinstance(tree, list):
        inner = enumerate(tree)
        return [p for key, value in inner for p in [(*at, key), *places_in(value, (*at, key))]]
    return []


def edited(document: Any, chance: random.Random, change: Callable[[Any, Any], Any]) -> Any:
    """Replace one value, anywhere in the document; `change` may drop it."""
    places = places_in(document)
    if not places:
        return document
    *path, last = chance.choice(places)
    inner = document
    for key in path:
        inner = inner[key]
    new = change(inner[last], chance)
    if new is Dropped:
        del inner[last]
    else:
        inner[last] = new
    return document


class Dropped:
    """In the place of a value: none."""


def other_value(value: Any, chance: random.Random) -> Any:
    return chance.choice([None, [], {}, True, "text", -1, 0.5, [[1]], {"a": 1}])


def huge_value(value: Any, chance: random.Random) -> Any:
    return chance.choice(HUGE)


def hostile_value(value: Any, chance: random.Random) -> Any:
    return chance.choice([ESCAPES, "../" * 20 + "etc/passwd", "x" * 100_000, "<script>alert(1)"])


def dropped_value(value: Any, chance: random.Random) -> Any:
    return Dropped


def rewrite(file: Path, chance: random.Random, change: Any) -> None:
    """One value of a JSON file, or of one row of a file of rows."""
    if file.suffix == ".jsonl":
        rows = [json.loads(line) for line in file.read_text().splitlines()]
        if not rows:
            return
        place = chance.randrange(len(rows))
        rows[place] = edited(rows[place], chance, change)
        file.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return
    document = edited(json.loads(file.read_text()), chance, change)
    sealed = isinstance(document, dict) and "sha256" in document and "files" in document
    if sealed and chance.random() < 0.7:
        document = sealed_anew(document)
    file.write_text(json.dumps(document, indent=1) + "\n")


def sealed_anew(manifest: dict[str, Any]) -> dict[str, Any]:
    """As whoever edits a manifest on purpose would leave it."""
    import hashlib

    rest = {name: value for name, value in manifest.items() if name != "sha256"}
    try:
        text = json.dumps(rest, sort_keys=True)
    except (TypeError, ValueError):
        return manifest
    return rest | {"sha256": hashlib.sha256(text.encode()).hexdigest()}


def wrong_type(file: Path, chance: random.Random, outside: Path) -> None:
    rewrite(file, chance, other_value)


def huge_number(file: Path, chance: random.Random, outside: Path) -> None:
    rewrite(file, chance, huge_value)


def hostile_text(file: Path, chance: random.Random, outside: Path) -> None:
    rewrite(file, chance, hostile_value)


def dropped_field(file: Path, chance: random.Random, outside: Path) -> None:
    rewrite(file, chance, dropped_value)


# ---- of rows ----


def joined_rows(file: Path, chance: random.Random, outside: Path) -> None:
    lines = file.read_text().splitlines(keepends=True)
    place = chance.randrange(max(1, len(lines) - 1))
    lines[place] = lines[place].rstrip("\n")
    file.write_text("".join(lines))


def unknown_row(file: Path, chance: random.Random, outside: Path) -> None:
    lines = file.read_text().splitlines(keepends=True)
    lines.insert(chance.randint(0, len(lines)), '{"event": "' + "new" + '", "step": 1}\n')
    file.write_text("".join(lines))


def repeated_row(file: Path, chance: random.Random, outside: Path) -> None:
    lines = file.read_text().splitlines(keepends=True)
    lines.insert(chance.randint(0, len(lines)), chance.choice(lines))
    file.write_text("".join(lines))


def missing_row(file: Path, chance: random.Random, outside: Path) -> None:
    lines = file.read_text().splitlines(keepends=True)
    del lines[chance.randrange(len(lines))]
    file.write_text("".join(lines))


# ---- in the place of a file ----


def remove(file: Path) -> None:
    if file.is_dir() and not file.is_symlink():
        shutil.rmtree(file)
    else:
        file.unlink(missing_ok=True)


def link_outside(file: Path, chance: random.Random, outside: Path) -> None:
    target = outside / "victim"
    if chance.random() < 0.5 and file.is_file():
        shutil.copy(file, target)
    elif chance.random() < 0.5:
        target = outside / "not-there"
    remove(file)
    file.symlink_to(target)


def fifo(file: Path, chance: random.Random, outside: Path) -> None:
    remove(file)
    os.mkfifo(file)


def directory(file: Path, chance: random.Random, outside: Path) -> None:
    remove(file)
    (file / "inner").mkdir(parents=True)


def device(file: Path, chance: random.Random, outside: Path) -> None:
    remove(file)
    numbers = {"zero": (1, 5), "full": (1, 7), "null": (1, 3)}
    name = chance.choice(sorted(numbers))
    try:
        os.mknod(file, stat.S_IFCHR | 0o666, os.makedev(*numbers[name]))
    except PermissionError:
        file.symlink_to(f"/dev/{name}")


def link_loop(file: Path, chance: random.Random, outside: Path) -> None:
    remove(file)
    file.symlink_to(file.name)


# ---- of arrays ----


def header(file: Path) -> tuple[dict[str, Any], bytes]:
    content = file.read_bytes()
    size = struct.unpack("<Q", content[:8])[0]
    return json.loads(content[8 : 8 + size]), content[8 + size :]


def with_header(file: Path, text: str, rest: bytes, length: int | None = None) -> None:
    head = text.encode("utf-8", "surrogatepass")
    size = len(head) if length is None else length
    file.write_bytes(struct.pack("<Q", size % 2**64) + head + rest)
    reseal(file)


def reseal(file: Path) -> None:
    """Make the manifest agree: what is damaged is what a checked file says."""
    import hashlib

    folder = file.parent.parent if file.parent.name == "replay" else file.parent
    place = folder / "manifest.json"
    manifest = json.loads(place.read_text())
    content = file.read_bytes()
    name = str(file.relative_to(folder))
    about = {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    manifest["files"][name] = about
    place.write_text(json.dumps(sealed_anew(manifest), indent=1))


def wrong_offsets(file: Path, chance: random.Random, outside: Path) -> None:
    head, rest = header(file)
    name = chance.choice(sorted(head))
    low, high = head[name]["data_offsets"]
    head[name]["data_offsets"] = chance.choice(
        [[low, high + 4], [high, low], [low, 2**62], [-4, high], [low + 1, high + 1], [0, 0]]
    )
    with_header(file, json.dumps(head), rest)


def wrong_shape(file: Path, chance: random.Random, outside: Path) -> None:
    head, rest = header(file)
    name = chance.choice(sorted(head))
    shape = head[name]["shape"]
    other = [[2**40], [*shape, 0], [-1, *shape], [1] * 200, [*shape, 1], "text", shape[::-1] or [1]]
    head[name]["shape"] = chance.choice(other)
    with_header(file, json.dumps(head), rest)


def wrong_kind(file: Path, chance: random.Random, outside: Path) -> None:
    head, rest = header(file)
    name = chance.choice(sorted(head))
    head[name]["dtype"] = chance.choice(["F64", "BOOL", "F8_E4M3", "", 7, "U32"])
    with_header(file, json.dumps(head), rest)


def wrong_length(file: Path, chance: random.Random, outside: Path) -> None:
    head, rest = header(file)
    length = chance.choice([2**63, 2**33, 99_999_999, 0, 1, -1])
    with_header(file, json.dumps(head), rest, length)


def deep_header(file: Path, chance: random.Random, outside: Path) -> None:
    _, rest = header(file)
    with_header(file, '{"a":' * 200_000, rest)


def renamed_array(file: Path, chance: random.Random, outside: Path) -> None:
    head, rest = header(file)
    name = chance.choice(sorted(head))
    head[chance.choice([name + "x", ESCAPES, "__metadata__", "../up"])] = head.pop(name)
    with_header(file, json.dumps(head), rest)


def bigger(file: Path, chance: random.Random, outside: Path) -> None:
    """Add an array that is well formed and of two gigabytes."""
    head, rest = header(file)
    name = chance.choice(sorted(head))
    size = 1 << 31
    end = max(entry["data_offsets"][1] for entry in head.values())
    head[name] = {"dtype": "U8", "shape": [size], "data_offsets": [end, end + size]}
    with_header(file, json.dumps(head), rest)
    os.truncate(file, file.stat().st_size + size)  # sparse
    manifest = json.loads((file.parent / "manifest.json").read_text())
    manifest["files"][file.name]["bytes"] = file.stat().st_size
    (file.parent / "manifest.json").write_text(json.dumps(sealed_anew(manifest)))


def extreme_values(file: Path, chance: random.Random, outside: Path) -> None:
    head, rest = header(file)
    content = bytearray(rest)
    floats = [name for name in sorted(head) if head[name]["dtype"] == "F32"]
    low, high = head[chance.choice(floats)]["data_offsets"]
    value = chance.choice([1e38, float("nan"), float("inf"), -1e38])
    for place in range(low, high - 3, 4):
        content[place : place + 4] = struct.pack("<f", value)
    with_header(file, json.dumps(head), bytes(content))


ANY: tuple[Damage, ...] = (
    flipped_bit,
    cut_short,
    emptied,
    removed,
    garbage,
    link_outside,
    fifo,
    directory,
    device,
    link_loop,
)
TEXT: tuple[Damage, ...] = (
    changed_digit,
    deep,
    another_type,
    long_line,
    wrong_type,
    huge_number,
    hostile_text,
    dropped_field,
)
ROWS: tuple[Damage, ...] = (joined_rows, unknown_row, repeated_row, missing_row)
ARRAYS: tuple[Damage, ...] = (
    wrong_offsets,
    wrong_shape,
    wrong_kind,
    wrong_length,
    deep_header,
    renamed_array,
    extreme_values,
)


def kinds(name: str) -> tuple[Damage, ...]:
    """List what can be done to a file of this name."""
    match re.sub(r".*\.", "", name):
        case "json" | "DONE" | "FAILED":
            return ANY + TEXT
        case "jsonl":
            return ANY + TEXT + ROWS
        case "safetensors":
            return ANY + ARRAYS + ((bigger,) if name.endswith("state.safetensors") else ())
    return ANY
