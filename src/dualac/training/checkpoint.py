"""Everything a run is, on disk: written whole or not at all, and checked before it is used.

checkpoints/<step>/
    state.safetensors               parameters, targets, optimisers, duals, the episode in flight
    replay/<from>-<to>.safetensors  transitions in the order of their addition
    manifest.json                   counters, generators, log positions; size and SHA-256 of files

A replay file never changes once written, so a checkpoint links to the files of the one before it
and adds only what is new.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Callable
from io import BufferedReader
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
# Transitions in a file at most: they are in memory a second time while it is read or written.
PIECE = 5_000
# Files beyond twice those of whole pieces, from which on the replay is written afresh.
MOST_SEGMENTS = 64

STATE, MANIFEST, REPLAY = "state.safetensors", "manifest.json", "replay/"
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

    def __init__(
        self,
        run_path: Path,
        *identities: str,
        piece: int = PIECE,
        most_segments: int = MOST_SEGMENTS,
    ) -> None:
        """Write under the first of the run's identities, and read what carries any of them."""
        self.path = run_path / CHECKPOINTS
        self.identities = identities
        self._piece, self._most_segments = piece, most_segments
        self._newest: dict[str, Any] | None = None  # manifest of the last one written or read

    def steps(self) -> list[int]:
        """List the committed checkpoints, oldest first."""
        return checkpoint_steps(self.path.parent)

    def save(self, snapshot: Snapshot, replay: Replay) -> None:
        """Write a checkpoint and delete the oldest; one that exists already is kept."""
        final = self.path / str(snapshot.step)
        if final.exists():
            return  # a checkpoint is a pure function of its step
        bad = [name for name, array in snapshot.arrays.items() if not np.isfinite(array).all()]
        if bad:
            raise RunFailedError(f"diverged: {bad[0]} is no longer finite at step {snapshot.step}")
        partial = self.path / f".partial-{snapshot.step}"
        try:
            self._newest = self._write_all(partial, snapshot, replay)
            partial.rename(final)
            _sync(self.path)
        except OSError as error:
            shutil.rmtree(partial, ignore_errors=True)
            if is_disk_trouble(error):
                raise self._unwritten(snapshot.step, error) from None
            raise
        for step in self.steps()[:-KEPT]:
            self._discard(step)

    def restore(self, newest: int | None = None) -> tuple[Snapshot | None, list[str]]:
        """Read the newest whole checkpoint (at most `newest`), but for its transitions.

        A sentence for each that is damaged comes with it. None means that the run never got as far
        as its first checkpoint. If there are checkpoints and all are damaged, that is an error: a
        run is never silently started from scratch.
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
            for later in candidates[candidates.index(step) + 1 :]:
                self._set_aside(later)
            return Snapshot(step, arrays, manifest["facts"]), damaged
        if damaged:
            raise DataError(f"{'; '.join(damaged)}; no checkpoint is left to resume from")
        return None, damaged

    def refill(self, replay: Replay) -> None:
        """Put into an empty replay what the restored checkpoint held."""
        assert self._newest is not None
        folder = self.path / str(self._newest["step"])
        # One by one: together they would be a second replay in memory.
        for name in _segments(self._newest):
            replay.write(_span(name)[0], _load(folder / name))
        replay.restore(self._newest["added"], self._newest["sampler"])

    def forget_after(self, step: int) -> None:
        """Delete what lies beyond a step that a pack goes back to; it will be written again."""
        for later in self.steps():
            if later > step:
                self._discard(later)

    def peek(self, step: int | None = None) -> tuple[Snapshot, list[str]]:
        """Read the newest whole state, or the one at `step`, without its replay.

        A sentence for each newer one that is damaged comes with it. Nothing on disk is changed:
        training may be going on.
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
        """Read the transitions of the checkpoint at a step, oldest first.

        Nothing on disk is changed: training may be going on.
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

    def _write_all(self, partial: Path, snapshot: Snapshot, replay: Replay) -> dict[str, Any]:
        """Write all files of a checkpoint and return its manifest."""
        self.path.mkdir(exist_ok=True)
        shutil.rmtree(partial, ignore_errors=True)
        (partial / "replay").mkdir(parents=True)
        files = {STATE: _write(partial / STATE, safetensors.numpy.save(snapshot.arrays))}
        files |= self._save_replay(partial, replay)
        manifest = {
            "schema": SCHEMA,
            "identity": self.identities[0],
            "step": snapshot.step,
            "files": files,
            "added": replay.added,
            "sampler": replay.sampler_state(),
            "facts": snapshot.facts,
        }
        manifest["sha256"] = _digest(manifest)
        _write(partial / MANIFEST, json.dumps(manifest, indent=1).encode())
        _sync(partial / "replay")
        _sync(partial)
        return manifest

    def _save_replay(self, partial: Path, replay: Replay) -> dict[str, Any]:
        before = self._newest or {"step": None, "files": {}}
        kept = {
            name: before["files"][name]
            for name in _segments(before)
            if _span(name)[1] > replay.oldest()
        }
        if len(kept) >= self._most_segments + 2 * (replay.size // self._piece):
            kept = {}
        for name in kept:
            _link(self.path / str(before["step"]) / name, partial / name)
        start = max([replay.oldest(), *(_span(name)[1] for name in kept)])
        for first in range(start, replay.added, self._piece):
            last = min(first + self._piece, replay.added)
            name = f"{REPLAY}{first}-{last}.safetensors"
            kept[name] = _write(partial / name, safetensors.numpy.save(replay.read(first, last)))
        return kept

    def _unwritten(self, step: int, error: OSError) -> TryAgainError:
        steps = self.steps()
        good = f"the one at step {steps[-1]} is good" if steps else "there is none before it"
        return TryAgainError(
            f"the checkpoint at step {step} could not be written ({error.strerror}); {good}; "
            "free space and resume"
        )

    def _read(self, step: int, wanted: Callable[[str], bool]) -> tuple[dict[str, Any], Arrays]:
        """Read the manifest and state of a checkpoint whose wanted files have their hashes."""
        folder = self.path / str(step)
        manifest = json.loads((folder / MANIFEST).read_text())
        if manifest.pop("sha256", None) != _digest(manifest):
            raise DataError("manifest.json is not what was written")
        if manifest["schema"] != SCHEMA:
            raise DataError(f"written in format {manifest['schema']}, this version reads {SCHEMA}")
        if manifest["identity"] not in self.identities:
            raise DataError("it belongs to another run")
        for name in filter(wanted, manifest["files"]):
            with (folder / name).open("rb") as file:
                if _measure(file) != manifest["files"][name]:
                    raise DataError(f"{name} is not what was written")
        return manifest, _load(folder / STATE)

    def _set_aside(self, step: int) -> None:
        """Rename a damaged checkpoint, whose step will be written again."""
        number = len(list(self.path.glob(f"damaged-{step}-*"))) + 1
        (self.path / str(step)).rename(self.path / f"damaged-{step}-{number}")

    def _discard(self, step: int) -> None:
        # First out of sight: a kill in between leaves no half checkpoint.
        trash = self.path / f".trash-{step}"
        (self.path / str(step)).rename(trash)
        shutil.rmtree(trash, ignore_errors=True)


def restore_together(
    pack: list[Checkpoints],
) -> tuple[list[Snapshot], list[list[str]]]:
    """Read the newest checkpoint that all seeds of a pack have, and what is damaged of each.

    A kill may fall between two seeds' writing of the same step. No snapshots mean a new run.
    """
    damaged: list[list[str]] = [[] for _ in pack]
    newest: int | None = None
    while True:
        restored = [checkpoints.restore(newest) for checkpoints in pack]
        for sentences, (_, more) in zip(damaged, restored, strict=True):
            sentences.extend(more)
        snapshots = [snapshot for snapshot, _ in restored if snapshot is not None]
        steps = {-1 if snapshot is None else snapshot.step for snapshot, _ in restored}
        if len(steps) == 1:
            break
        newest = min(steps)
    if not snapshots and all(checkpoints.steps() for checkpoints in pack):
        sentences = "; ".join(sentence for each in damaged for sentence in each)
        raise DataError(
            f"the seeds of {pack[0].path.parents[1]} have no whole checkpoint of one step "
            f"({sentences}); move them away or choose another --out"
        )
    for checkpoints in pack:
        checkpoints.forget_after(snapshots[0].step if snapshots else -1)
    return snapshots, damaged


def _segments(manifest: dict[str, Any]) -> list[str]:
    """List the replay's files, oldest first."""
    return sorted((name for name in manifest["files"] if name.startswith(REPLAY)), key=_span)


def _span(name: str) -> tuple[int, int]:
    start, stop = Path(name).stem.split("-")
    return int(start), int(stop)


def _digest(manifest: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()


def _load(path: Path) -> Arrays:
    return safetensors.numpy.load(path.read_bytes())


def _write(path: Path, content: bytes) -> Facts:
    """Have a file on disk, and return its size and hash."""
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    return {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}


def _measure(file: BufferedReader) -> Facts:
    size = os.fstat(file.fileno()).st_size
    return {"bytes": size, "sha256": hashlib.file_digest(file, "sha256").hexdigest()}


def _link(source: Path, target: Path) -> None:
    try:
        os.link(source, target)
    except OSError:  # a file system without hard links
        _write(target, source.read_bytes())


def _sync(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
