"""What a run is: everything that decides its numbers, in one frozen value."""

import dataclasses
import functools
import hashlib
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple, final

from dualac.agents.algorithm import Algorithm
from dualac.envs import Protocol
from dualac.envs.foreign import remember_module, require_module
from dualac.errors import DataError, DualacError, UsageError
from dualac.machine.disk import refusal
from dualac.parts import user_files
from dualac.parts.as_json import Origin, difference, from_json, to_json
from dualac.parts.fields import PART, check_fields, former_origin_of, plain_origin_of
from dualac.parts.paths import parts_of
from dualac.runs.files import Permit, read_object, unchecked, write_json
from dualac.runs.layout import (
    CODE,
    EVALUATIONS,
    EVENTS,
    NAME,
    SPEC,
    TASK,
    TRAINING,
    checkpoint_steps,
    run_path,
)
from dualac.runs.lock import owned
from dualac.runs.manifest import changed_logs
from dualac.runs.rows import read_rows
from dualac.runs.spec import FREE, read_spec
from dualac.runs.state import changes_since_done, read_status
from dualac.runs.versions import with_defaults
from dualac.training.checkpoint import Checkpoints


@final
@dataclass(frozen=True)
class Run:
    name: str
    """the row's name in the table of algorithms"""
    algorithm: Algorithm
    """the row, fully spelt out"""
    task: str
    """canonical id of the task"""
    seed: int = 0
    """decides every random number of the run"""
    steps: int = 1_000_000
    """environment steps"""
    warmup: int = 10_000
    """steps of uniformly random actions before learning starts"""
    replay_ratio: int = 2
    """updates for each environment step"""
    batch_size: int = 256
    """transitions in a minibatch"""
    capacity: int = 1_000_000
    """transitions that the replay keeps"""
    resets: tuple[int, ...] = ()
    """steps after which every network, scalar and optimiser starts afresh (160k,320k); the replay
    stays
    """
    reset_every: int = 0
    """the same every so many steps; 0 is never"""
    reset_same_init: bool = False
    """resets return to the first initial weights, as the public codes do, instead of fresh ones"""
    eval_every: int = 10_000
    """steps between evaluations"""
    log_every: int = 1_000
    """steps between rows of train.jsonl"""
    checkpoint_every: int = 10_000
    """steps between checkpoints"""
    protocol: Protocol = Protocol()
    """how the task is played"""
    pack: tuple[int, ...] = ()
    """the seeds that share one vmapped program with this one; empty when it runs alone"""

    def __post_init__(self) -> None:
        check_fields(self)  # steps=1e6 is what people type
        ranges = {
            "seed": (0, 2**31 - 1), (
                "steps"
            ): (1, 10**12), (
                "warmup"
            ): (0, 10**12), "replay_ratio": (1, 1024), "batch_size": (1, 2**20),
            "capacity": (1, 10**10), "reset_every": (0, 10**12), "eval_every": (1, 10**12),
            "log_every": (1, 10**12), "checkpoint_every": (1, 10**12),
        }  # fmt: skip
        for field, (low, high) in ranges.items():
            value = getattr(self, field)
            if not low <= value <= high:
                raise UsageError(
                    f"--{field.replace('_', '-')} must be between {low} and {high}, not {value}"
                )
        if not NAME.fullmatch(self.name):
            raise UsageError(
                "a name is 1 to 64 letters, digits and . _ : + -, not starting with a mark: "
                f"{self.name!r} is not one"
            )
        if self.steps <= self.warmup:
            raise UsageError(
                f"--steps {self.steps} ends before learning starts: --warmup is {self.warmup}; "
                "raise the one or lower the other"
            )
        if any(step <= 0 for step in self.resets) or list(self.resets) != sorted(set(self.resets)):
            raise UsageError(
                f"--resets must be rising steps above 0, not {','.join(map(str, self.resets))}"
            )
        if self.reset_same_init and not self.resets and not self.reset_every:
            raise UsageError(
                "--reset-same-init says what a reset returns to; without --resets or "
                "--reset-every there is none"
            )
        if self.protocol.action_repeat != 1:
            raise UsageError(
                "--protocol.action-repeat must be 1 in training: every step that is counted, and "
                "plotted, is one of the simulator's"
            )
        if self.pack and (self.seed not in self.pack or len(set(self.pack)) != len(self.pack)):
            raise UsageError(
                f"a pack has each of its seeds once, seed {self.seed} among them, not {self.pack}"
            )

    def resets_after(self, step: int) -> bool:
        return step in self.resets or (
            self.reset_every > 0 and step > 0 and step % self.reset_every == 0
        )

    def restarts_explorer_after(self, step: int) -> bool:
        every = self.algorithm.explorer_restart_every
        return every > 0 and step > 0 and step % every == 0

    def identity(self, until: int | None = None, origin: Origin = plain_origin_of) -> str:
        """Return the SHA-256 of everything that decides the numbers, or those `until` a step.

        A reset that is still to come has changed none of them. Defaults are left out: a version
        that adds a field leaves the older runs what they were. Of a part of the user's own the
        values count, not its file.
        """
        chosen = {
            f.name: getattr(self, f.name)
            for f in dataclasses.fields(self)
            if f.name not in FREE and getattr(self, f.name) != f.default
        }
        if until is not None and "resets" in chosen:
            chosen["resets"] = tuple(step for step in self.resets if step < until)
            chosen = {name: value for name, value in chosen.items() if name != "resets" or value}
        spec = {name: _spelt(value, origin) for name, value in chosen.items()}
        spec[PART] = type(self).__name__
        return hashlib.sha256(
            json.dumps(spec, sort_keys=True, separators=(",", ":")).encode()
        ).hexdigest()

    def identities(self) -> list[str]:
        """List what a checkpoint of this run may carry.

        Its own identity, those it had if its schedule of resets was once shorter, and those of a
        time when the file of a user's own part counted.
        """
        moments = (None, *self.resets)
        origins: tuple[Origin, ...] = (plain_origin_of, former_origin_of)
        names = [self.identity(step, origin) for origin in origins for step in moments]
        return list(dict.fromkeys(names))

    def goes_on(self, there: "Run") -> bool:
        """Whether what is there is this run, as far as both go; one that is to go further may have
        resets added behind its end, and no others.
        """
        until = min(self.steps, there.steps)
        later = self.steps <= there.steps or there.resets == self.resets[: len(there.resets)]
        return there.identity(until) == self.identity(until) and later

    def directory(self, out: Path) -> Path:
        return run_path(out, self.name, self.task, self.replay_ratio, self.seed)


class Flags(NamedTuple):
    """How a run is carried out this time. None of it decides a number."""

    allow_inexact: bool = False
    """resume although the bits will differ"""
    tensorboard: bool = False
    """write TensorBoard files beside the rows"""
    isolated: float | None = None
    """seconds that an environment in a process of its own has for an answer; None: it has no such
    process
    """
    replay_in: Literal["memory", "disk", "device"] = "memory"
    """where the replay is: on the device that learns, or in a file beside the run, which is gone
    with the process
    """
    trust: bool = False
    """run the code that the run's directory names, whoever wrote it"""

    def spelt(self) -> str:
        """As a worker takes them."""
        return json.dumps(self._asdict())


USUAL = Flags()


@functools.lru_cache(maxsize=4096, typed=True)  # True is not 1 in JSON
def _spelt(value: Any, origin: Origin) -> Any:
    """Return a field as JSON; remembered, since the runs of an experiment share their rows."""
    return to_json(value, defaults=False, origin=origin)


def prepare(run: Run, out: Path, *, trust: bool = False) -> Path:
    """Make the directory of a run, if need be, and return it.

    One that holds another run is refused; one that holds this run, perhaps shorter, is continued,
    with the copy that it has of a user's own file. What the run names is the user's own: it is
    remembered.
    """
    path = run.directory(out)
    existing = require_same(run, out, trust=trust)
    remember_module(run.task)
    if existing:
        run = dataclasses.replace(run, algorithm=existing.algorithm)
        if existing.steps >= run.steps:
            run = dataclasses.replace(run, steps=existing.steps, resets=existing.resets)
    if run == existing or (existing and read_status(path, run.steps).state == "done"):
        return path
    if existing:
        require_extendable(path, run)
    spec = to_json(run)
    if existing:  # in the words of the version that made its copy
        spec["algorithm"] = read_object(path / SPEC)["algorithm"]
    try:
        path.mkdir(parents=True, exist_ok=True)
        with owned(path):
            if not existing:
                user_files.keep(own_code(run), path / CODE)
            write_json(path / SPEC, spec)
    except OSError as error:
        raise refusal(path, error) from None
    return path


def own_code(run: Run) -> list[user_files.Code]:
    """Return the user's own files that define parts of a run, each once."""
    codes = [user_files.code_of(type(part)) for part in parts_of(run.algorithm)]
    return list({code.key: code for code in codes if code}.values())


def describe_edits(run: Run, out: Path) -> str:
    """Say in what a user's own files differ from the copies that an existing run goes on with."""
    path = run.directory(out)
    if not (path / SPEC).exists():
        return ""
    names = []
    for ours, theirs in zip(own_code(run), own_code(load(path)), strict=False):
        if files := user_files.difference(ours, theirs):
            names.append(f"{files} of {ours.folder}")
    if not names:
        return ""
    return (
        f"{', '.join(names)} differs from what {path} was made with, which goes on with its own "
        f"copy, {path / CODE}; choose another --out for the new code"
    )


def require_extendable(path: Path, run: Run) -> None:
    """Refuse to take a run further that could not be gone on with; nothing on disk is changed."""
    for name in (EVALUATIONS, TRAINING):
        read_rows(path / name, needed="step")
    changed = [*changes_since_done(path, read_spec(path)["steps"]), *changed_logs(path)]
    if changed:
        raise DataError(f"{changed[0]}; {path} cannot go on")
    events = [row.get("event") for row in read_rows(path / EVENTS, [])]
    if checkpoint_steps(path) or "first_checkpoint" in events[_last_start(events) :]:
        Checkpoints(path, *run.identities()).require_whole()


def errors_since_done(path: Path) -> list[DataError]:
    """Return an error for each file of a finished run that is no longer what it was then."""
    return [DataError(str(damage)) for damage in changes_since_done(path, read_spec(path)["steps"])]


def _last_start(events: list[Any]) -> int:
    """Return where the last start from the first step stands among events."""
    return max((place for place, kind in enumerate(events) if kind == "started"), default=0)


def record_task(path: Path, task: dict[str, Any], permit: Permit = unchecked) -> None:
    """Keep in task.json what a run's environment says of itself.

    That is in which order an observation was flattened and which box an action was scaled to. A
    task that was learned from must be what it was: sizes would not tell of parts exchanged.
    """
    if checkpoint_steps(path):
        require_same_task(path, task, "put the environment back as it was, or choose another --out")
    file = path / TASK
    if not os.path.lexists(file) or read_object(file) != task:
        write_json(file, task, permit)


def require_same_task(
    path: Path, task: dict[str, Any], advice: str = "put the environment back as it was"
) -> None:
    """Refuse an environment that does not say of itself what the run's did."""
    file = path / TASK
    before = read_object(file) if os.path.lexists(file) else task
    if before != task:
        lines = "; ".join(difference(task, before))
        raise DataError(f"{path} was trained on another {task['task']} ({lines}); {advice}")


def require_same(run: Run, out: Path, *, trust: bool = False) -> Run | None:
    """Return the run that is already where this one would go; refuse another run there."""
    path = run.directory(out)
    if not (path / SPEC).exists():
        return None
    existing = load(path, trust=trust)
    if not run.goes_on(existing):
        here, there = (to_json(one, origin=plain_origin_of) for one in (run, existing))
        lines = [line for line in difference(here, there) if line.split(":")[0] not in FREE]
        raise DataError(f"{path} holds another run ({'; '.join(lines)}); choose another --out")
    return existing


def load(path: Path, *, trust: bool = False) -> Run:
    """Return the run that a directory holds.

    Its own code, a file or the module of its task, is neither executed nor imported unless the user
    named it on this machine, or says `trust`.
    """
    file = path / SPEC
    if not file.exists():
        raise DataError(f"{path} is not a run: it has no {SPEC}")
    data = read_object(file)
    find_part = functools.partial(user_files.find, folder=path / CODE, consent=trust)
    try:
        run = from_json(Run, with_defaults(data), find_part)
        require_module(run.task, consent=trust)
    except DualacError as error:
        raise DataError(f"{file} cannot be used: {error}") from None
    return run
