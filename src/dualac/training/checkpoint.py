"""Everything a run is, on disk: written whole or not at all, and checked before it is used.

checkpoints/<step>/
    state.safetensors               parameters, targets, optimisers, duals, the episode in flight
    replay/<from>-<to>.safetensors  transitions in the order of their addition
    manifest.json                   counters, generators, log positions; size and SHA-256 of files

A replay file never changes once written, so a checkpoint links to the files of the one before it
and adds only what is new.
"""

import contextlib
import hashlib
import json
import os
import shutil
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import safetensors.numpy

from dualac.errors import DataError, RunFailedError, TryAgainError
from dualac.machine.disk import is_disk_trouble
from dualac.runs.arrays import LARGEST_VALUE, Arrays, are_usable, load_arrays, measure
from dualac.runs.files import open_file, read_object, unchecked
from dualac.runs.layout import CHECKPOINTS, checkpoint_steps
from dualac.runs.lock import Attempt
from dualac.runs.manifest import (
    MANIFEST,
    REPLAY,
    SCHEMA,
    STATE,
    check_facts,
    check_manifest,
    seal,
    segments,
    span,
)
from dualac.training.replay import Replay, Slots, require_ends, segment_check
from dualac.types import Spec

KEPT = 2
# Transitions in a file at most: they are in memory a second time while it is read or written.
PIECE = 5_000
# Files beyond twice those of whole pieces, from which on the replay is written afresh.
MOST_SEGMENTS = 64

Facts = dict[str, Any]


class Snapshot(NamedTuple):
    """One moment of a run, beside its replay."""

    step: int
    arrays: Arrays
    facts: Facts
    regular: bool = True
    """whether every run has a checkpoint at this step; one that was stopped by a signal has one
    more
    """


class Checkpoints:
    """The checkpoints of one run."""

    def __init__(
        self,
        run_path: Path,
        *identities: str,
        spec: Spec | None = None,
        attempt: Attempt | None = None,
        piece: int = PIECE,
        most_segments: int = MOST_SEGMENTS,
    ) -> None:
        """Write under the first of the run's identities, and read what carries any of them.

        Whoever goes on from a checkpoint says what the task's sizes are, and which attempt this
        is: once a later one has begun, nothing is written.
        """
        self.path = run_path / CHECKPOINTS
        self.identities = identities
        self._spec, self._attempt = spec, attempt
        self._permit = attempt.require if attempt else unchecked
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
        bad = [name for name, array in snapshot.arrays.items() if not are_usable(array)]
        if bad:
            raise RunFailedError(f"diverged: {bad[0]} is no longer finite at step {snapshot.step}")
        # Two attempts never write into one folder.
        number = self._attempt.number if self._attempt else 0
        partial = self.path / f".partial-{snapshot.step}-{number}"
        with self._attempt.fencing() if self._attempt else contextlib.nullcontext():
            self._permit()
            try:
                manifest = self._write_all(partial, snapshot, replay)
                self._permit()
                partial.rename(final)
                self._newest = manifest
                _sync(self.path)
            except Exception as error:
                shutil.rmtree(partial, ignore_errors=True)
                if isinstance(error, OSError) and is_disk_trouble(error):
                    self._permit()
                    raise self._unwritten(snapshot.step, error) from None
                raise
            self._discard_oldest()

    def restore(self, newest: int | None = None) -> tuple[Snapshot | None, list[str]]:
        """Read the newest whole checkpoint (at most `newest`), but for its transitions.

        A sentence for each that is damaged comes with it. None means that the run never got as far
        as its first checkpoint. If there are checkpoints and all are damaged, that is an error: a
        run is never silently started from scratch.
        """
        self._newest = None
        self._permit()
        for leftover in self.path.glob(".*") if self.path.is_dir() else ():
            _remove(leftover)
        candidates = [step for step in self.steps() if newest is None or step <= newest]
        damaged: list[str] = []
        for step in reversed(candidates):
            try:
                manifest, arrays = self._read(step)
                if self._spec is not None:
                    check_facts(manifest["facts"])
            except (DataError, OSError) as error:
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
        names, added = segments(self._newest), self._newest["added"]
        oldest = max(0, added - replay.capacity)
        if added and span(names[0])[0] > oldest:
            raise DataError(f"the replay of {self.path} lacks transition {oldest}")
        # One by one: together they would be a second replay in memory.
        for name in names:
            replay.write(span(name)[0], self._load_segment(self._newest, name))
        replay.restore(self._newest["added"], self._newest["sampler"])

    def forget_after(self, step: int) -> None:
        """Delete what lies beyond a step that a pack goes back to; it will be written again.

        Delete also what a kill between a checkpoint and the end of an older one left.
        """
        for later in self.steps():
            if later > step:
                self._discard(later)
        self._discard_oldest()

    def require_whole(self) -> None:
        """Refuse a run that no checkpoint could be resumed of; nothing on disk is changed."""
        damaged = []
        for step in reversed(self.steps()):
            try:
                self._read(step)
                return
            except (DataError, OSError) as error:
                damaged.append(f"checkpoint {self.path / str(step)} is damaged ({error})")
        reason = "; ".join(damaged) or f"{self.path.parent} has lost its checkpoints"
        raise DataError(f"{reason}; move it away or choose another --out")

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
                manifest, arrays = self._read(candidate, replay=False)
            except (DataError, OSError) as error:
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
            manifest, _ = self._read(step, replay=False)
            files = [self._load_segment(manifest, name) for name in segments(manifest)]
        except (DataError, OSError) as error:
            raise DataError(
                f"the replay of {self.path / str(step)} cannot be read ({error})"
            ) from None
        if not files:
            raise DataError(f"the replay of {self.path / str(step)} is empty")
        return {name: np.concatenate([file[name] for file in files]) for name in Slots._fields}

    def _write_all(self, partial: Path, snapshot: Snapshot, replay: Replay) -> dict[str, Any]:
        """Write all files of a checkpoint and return its manifest."""
        self.path.mkdir(exist_ok=True)
        self._permit()
        shutil.rmtree(partial, ignore_errors=True)
        (partial / "replay").mkdir(parents=True)
        files = {STATE: _write(partial / STATE, safetensors.numpy.save(snapshot.arrays))}
        self._permit()
        files |= self._save_replay(partial, replay)
        self._permit()
        manifest = {
            "schema": SCHEMA,
            "identity": self.identities[0],
            "step": snapshot.step,
            "files": files,
            "added": replay.added,
            "oldest": replay.oldest(),
            "cut": replay.added if snapshot.regular else self._last_cut(),
            "sampler": replay.sampler_state(),
            "facts": snapshot.facts,
        }
        sealed = manifest | {"sha256": seal(manifest)}
        _write(partial / MANIFEST, json.dumps(sealed, indent=1).encode())
        _sync(partial / "replay")
        _sync(partial)
        return manifest

    def _last_cut(self) -> int:
        """Return up to which transition the files of the last checkpoint may stay as they are.

        What a run that was stopped wrote beyond its last regular checkpoint is written again: its
        files are then the same as those of a run that was not stopped.
        """
        return self._newest.get("cut", self._newest["added"]) if self._newest else 0

    def _save_replay(self, partial: Path, replay: Replay) -> dict[str, Any]:
        before = self._newest or {"step": None, "files": {}}
        kept = {
            name: before["files"][name]
            for name in segments(before)
            if replay.oldest() < span(name)[1] <= self._last_cut()
        }
        if len(kept) >= self._most_segments + 2 * (replay.size // self._piece):
            kept = {}
        for name in kept:
            _link(self.path / str(before["step"]) / name, partial / name)
        start = max([replay.oldest(), *(span(name)[1] for name in kept)])
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

    def _read(self, step: int, *, replay: bool = True) -> tuple[dict[str, Any], Arrays]:
        """Read the manifest and state of a checkpoint; with `replay`, check its files too."""
        folder = self.path / str(step)
        for place in (self.path, folder, folder / REPLAY.rstrip("/")):
            if place.is_symlink():
                raise DataError(f"{place} is a symbolic link, which is not followed")
        manifest = read_object(folder / MANIFEST)
        check_manifest(manifest, step)
        if manifest["identity"] not in self.identities:
            raise DataError("it belongs to another run")
        for name in segments(manifest) if replay else ():
            with open_file(folder / name) as file:
                if measure(file) != manifest["files"][name]:
                    raise DataError(f"{name} is not what was written")
        state = manifest["files"][STATE]
        return manifest, load_arrays(folder / STATE, state, largest=LARGEST_VALUE)

    def _load_segment(self, manifest: dict[str, Any], name: str) -> Arrays:
        """Read a file of the replay, whose hash must be what the manifest says."""
        file, expected = self.path / str(manifest["step"]) / name, manifest["files"][name]
        arrays = load_arrays(file, expected, segment_check(*span(name), self._spec))
        require_ends(name, arrays)
        return arrays

    def _discard_oldest(self) -> None:
        for step in self.steps()[:-KEPT]:
            self._discard(step)

    def _set_aside(self, step: int) -> None:
        """Rename a damaged checkpoint, whose step will be written again."""
        self._permit()
        number = len(list(self.path.glob(f"damaged-{step}-*"))) + 1
        (self.path / str(step)).rename(self.path / f"damaged-{step}-{number}")

    def _discard(self, step: int) -> None:
        # First out of sight: a kill in between leaves no half checkpoint.
        self._permit()
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


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _write(path: Path, content: bytes) -> Facts:
    """Have a file on disk, and return its size and hash."""
    with open_file(path, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    return {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}


def _link(source: Path, target: Path) -> None:
    try:
        os.link(source, target)
    except OSError:  # a file system without hard links
        with open_file(source) as file:
            _write(target, file.read())


def _sync(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
