"""Everything a run is, on disk: written whole or not at all, checked before it is believed, never
pickled.

checkpoints/<step>/state.safetensors   parameters, targets, optimisers, duals, running means, the
episode in flight replay/<from>-<to>.safetensors   transitions by order of arrival manifest.json
counters, generators, log positions; size and SHA-256 of every file

A replay file never changes once written, so a checkpoint links to the files of the one before it
and adds only what is new.
"""

import hashlib
import itertools
import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import safetensors
import safetensors.numpy

from dualac.errors import DataError, RunFailedError, TryAgainError
from dualac.machine.disk import is_disk_trouble
from dualac.runs.layout import CHECKPOINTS, checkpoint_steps
from dualac.training.replay import Replay, Slots

SCHEMA = 2
KEPT = 2
# transitions in a file at most: it is in memory a second time while it is read or written
PIECE = 5_000
MOST_SEGMENTS = (
    64  # files beyond twice those of whole pieces, from which on the replay is written afresh
)

# In the order in which safetensors lays arrays out: so all are aligned.
DTYPES = {
    "uint64": "U64", (
        "int64"
    ): "I64", "float64": (
        "F64"
    ), "float32": "F32", "uint32": "U32", "int32": "I32", "float16": "F16", "uint16": "U16",
    "int16": "I16", "int8": "I8", "uint8": "U8", "bool": "BOOL",
}  # fmt: skip
REPLAY = "replay/"
_UNREADABLE = (DataError, OSError, ValueError, KeyError, TypeError, safetensors.SafetensorError)

Arrays = dict[str, np.ndarray]
Facts = dict[str, Any]


class Snapshot(NamedTuple):
    """One moment of a run, beside its replay."""

    step: int
    arrays: Arrays
    facts: Facts


class Checkpoints:
    """The checkpoints of one run."""

    def __init__(self, run_path: Path, *identities: str) -> None:
        """The run's identity, under which they are written, and those under which they may have
        been.
        """
        self.path = run_path / CHECKPOINTS
        self.identities = identities
        self._newest: dict[str, Any] | None = None  # manifest of the last one written or read

    def steps(self) -> list[int]:
        """Committed checkpoints, oldest first."""
        return checkpoint_steps(self.path.parent)

    def save(self, snapshot: Snapshot, replay: Replay) -> None:
        final = self.path / str(snapshot.step)
        if final.exists():
            return  # a checkpoint is a pure function of its step
        bad = [name for name, array in snapshot.arrays.items() if not np.isfinite(array).all()]
        if bad:
            raise RunFailedError(f"diverged: {bad[0]} is no longer finite at step {snapshot.step}")
        partial = self.path / f".partial-{snapshot.step}"
        try:
            self.path.mkdir(exist_ok=True)
            shutil.rmtree(partial, ignore_errors=True)
            (partial / "replay").mkdir(parents=True)
            files = {
                "state.safetensors": _write(
                    partial / "state.safetensors", _safetensors(snapshot.arrays)
                )
            }
            files |= self._save_replay(partial, replay)
            manifest = {
                "schema": SCHEMA, (
                    "identity"
                ): self.identities[0], "step": snapshot.step, "files": files,
                "added": replay.added, "sampler": replay.sampler_state(), "facts": snapshot.facts,
            }  # fmt: skip
            manifest["sha256"] = _digest(manifest)
            _write(partial / "manifest.json", [json.dumps(manifest, indent=1).encode()])
            _sync(partial / "replay")
            _sync(partial)
            partial.rename(final)
            _sync(self.path)
        except OSError as error:
            shutil.rmtree(partial, ignore_errors=True)
            if is_disk_trouble(error):
                last = (
                    f"the one at step {self.steps()[-1]} is good"
                    if self.steps()
                    else "there is none before it"
                )
                raise TryAgainError(
                    f"the checkpoint at step {snapshot.step} could not be written "
                    f"({error.strerror}); {last}; free space and resume"
                ) from None
            raise
        self._newest = manifest
        for step in self.steps()[:-KEPT]:
            self._discard(step)

    def restore(self, newest: int | None = None) -> tuple[Snapshot | None, list[str]]:
        """The newest checkpoint that is whole (at most `newest`), but for its transitions; and a
        sentence for each that is damaged.

        None if the run never got as far as its first checkpoint. If there are checkpoints and all
        are damaged, that is an error: a run is never silently started from scratch.
        """
        self._newest = None
        for leftover in self.path.glob(".*") if self.path.is_dir() else ():
            shutil.rmtree(leftover, ignore_errors=True)
        candidates = [step for step in self.steps() if newest is None or step <= newest]
        damaged: list[str] = []
        for step in reversed(candidates):
            try:
                manifest, arrays = self._read(step, lambda name: True)
            except _UNREADABLE as error:
                damaged.append(f"checkpoint {self.path / str(step)} is damaged ({error})")
                continue
            self._newest = manifest
            for later in (
                s for s in candidates if s > step
            ):  # set aside, not deleted: the step will be written again
                (self.path / str(later)).rename(
                    self.path / f"damaged-{later}-{_next_number(self.path, later)}"
                )
            return Snapshot(step, arrays, manifest["facts"]), damaged
        if damaged:
            raise DataError(f"{'; '.join(damaged)}; no checkpoint is left to resume from")
        return None, damaged

    def refill(self, replay: Replay) -> None:
        """Put into an empty replay what the checkpoint held that was restored."""
        assert self._newest is not None
        for name in _segments(
            self._newest
        ):  # one by one: together they would be a second replay in memory
            replay.write(_span(name)[0], _load(self.path / str(self._newest["step"]) / name))
        replay.restore(self._newest["added"], self._newest["sampler"])

    def forget_after(self, step: int) -> None:
        """A pack went back to what all its seeds have: what this one had beyond that will be
        written again.
        """
        for later in self.steps():
            if later > step:
                self._discard(later)

    def peek(self, step: int | None = None) -> tuple[Snapshot, list[str]]:
        """The newest whole state (or the one at `step`), without its replay and without changing
        anything: training may be going on.

        And a sentence for each newer one that is damaged.
        """
        if step is not None and step not in self.steps():
            raise DataError(
                f"there is no checkpoint at step {step}; there are "
                f"{', '.join(map(str, self.steps())) or 'none'}"
            )
        reasons = []
        for candidate in reversed(self.steps() if step is None else [step]):
            try:
                manifest, arrays = self._read(candidate, lambda name: not name.startswith(REPLAY))
            except _UNREADABLE as error:
                reasons.append(f"checkpoint {self.path / str(candidate)} is damaged ({error})")
                continue
            return Snapshot(candidate, arrays, manifest["facts"]), reasons
        raise DataError(
            f"no checkpoint can be read ({'; '.join(reasons) or f'{self.path} holds none'})"
        )

    def transitions(self, step: int) -> Arrays:
        """What the checkpoint at this step keeps of what was lived, oldest first. Nothing is
        changed: training may be going on.
        """
        try:
            manifest, _ = self._read(step, lambda name: True)
            segments = [_load(self.path / str(step) / name) for name in _segments(manifest)]
        except _UNREADABLE as error:
            raise DataError(
                f"the replay of {self.path / str(step)} cannot be read ({error})"
            ) from None
        if not segments:
            raise DataError(f"the replay of {self.path / str(step)} is empty")
        return {
            name: np.concatenate([segment[name] for segment in segments]) for name in Slots._fields
        }

    def _read(self, step: int, wanted: Callable[[str], bool]) -> tuple[dict[str, Any], Arrays]:
        """Manifest and state of a checkpoint, once every wanted file has its size and hash."""
        folder = self.path / str(step)
        manifest = json.loads((folder / "manifest.json").read_text())
        if manifest.pop("sha256", None) != _digest(manifest):
            raise DataError("manifest.json is not what was written")
        if manifest["schema"] != SCHEMA:
            raise DataError(f"written in format {manifest['schema']}, this version reads {SCHEMA}")
        if manifest["identity"] not in self.identities:
            raise DataError("it belongs to another run")
        for name in filter(wanted, manifest["files"]):
            with (folder / name).open("rb") as file:
                found = {
                    "bytes": os.fstat(file.fileno()).st_size,
                    "sha256": hashlib.file_digest(file, "sha256").hexdigest(),
                }
            if found != manifest["files"][name]:
                raise DataError(f"{name} is not what was written")
        return manifest, _load(folder / "state.safetensors")

    def _save_replay(self, partial: Path, replay: Replay) -> dict[str, Any]:
        before = self._newest or {"step": None, "files": {}}
        kept = {
            name: before["files"][name]
            for name in _segments(before)
            if _span(name)[1] > replay.oldest()
        }
        if len(kept) >= MOST_SEGMENTS + 2 * (replay.size // PIECE):
            kept = {}
        for name in kept:
            _link(self.path / str(before["step"]) / name, partial / name)
        start = max([replay.oldest(), *(_span(name)[1] for name in kept)])
        for first in range(start, replay.added, PIECE):
            last = min(first + PIECE, replay.added)
            name = f"{REPLAY}{first}-{last}.safetensors"
            kept[name] = _write(partial / name, _safetensors(replay.read(first, last)))
        return kept

    def _discard(self, step: int) -> None:
        trash = self.path / f".trash-{step}"
        (self.path / str(step)).rename(
            trash
        )  # first out of sight: a kill in between leaves no half checkpoint
        shutil.rmtree(trash, ignore_errors=True)


def _segments(manifest: dict[str, Any]) -> list[str]:
    """The replay's files, oldest first."""
    return sorted((name for name in manifest["files"] if name.startswith(REPLAY)), key=_span)


def _span(name: str) -> tuple[int, int]:
    start, stop = Path(name).stem.split("-")
    return int(start), int(stop)


def _digest(manifest: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()


def _load(path: Path) -> Arrays:
    return safetensors.numpy.load(path.read_bytes())


def _safetensors(arrays: Arrays) -> Iterator[bytes | memoryview]:
    """The file that safetensors makes of these, piece by piece, where it would copy all of them
    twice: the head's length, the head, the arrays.
    """
    if strange := [name for name, array in arrays.items() if array.dtype.name not in DTYPES]:
        raise DataError(
            f"{strange[0]} is of {arrays[strange[0]].dtype}, which a checkpoint cannot hold; it "
            f"can hold {', '.join(DTYPES)}"
        )
    arrays = dict(
        sorted(arrays.items(), key=lambda item: (list(DTYPES).index(item[1].dtype.name), item[0]))
    )
    ends = itertools.accumulate((array.nbytes for array in arrays.values()), initial=0)
    places = zip(arrays.items(), itertools.pairwise(ends), strict=True)
    head = {
        name: {"dtype": DTYPES[array.dtype.name], "shape": array.shape, "data_offsets": place}
        for (name, array), place in places
    }
    words = json.dumps(head, separators=(",", ":"), ensure_ascii=False).encode()
    words += b" " * (-len(words) % 8)
    yield len(words).to_bytes(8, "little") + words
    for array in arrays.values():
        yield np.ascontiguousarray(array).reshape(-1).view(np.uint8).data


def _write(path: Path, pieces: Iterable[bytes | memoryview]) -> dict[str, Any]:
    count, digest = 0, hashlib.sha256()
    with path.open("wb") as file:
        for piece in pieces:
            file.write(piece)
            digest.update(piece)
            count += len(piece)
        file.flush()
        os.fsync(file.fileno())
    return {"bytes": count, "sha256": digest.hexdigest()}


def _link(source: Path, target: Path) -> None:
    try:
        os.link(source, target)
    except OSError:  # a file system without hard links
        _write(target, [source.read_bytes()])


def _sync(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _next_number(folder: Path, step: int) -> int:
    return len(list(folder.glob(f"damaged-{step}-*"))) + 1
