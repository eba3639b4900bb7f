"""Many runs as columns of numbers: everything below a directory, read once, with what could not be
read counted and named.

A run's files are read as plain JSON, without the code that wrote them. Nothing here decides what
may be compared; `groups` does.
"""

import contextlib
import json
import os
import platform
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple, final

import numpy as np

from dualac.errors import DataError
from dualac.runs.versions import with_defaults

Columns = dict[str, np.ndarray]
State = Literal["done", "running", "interrupted", "failed"]

EVALUATION = (
    "step",
    "episode",
    "return",
    "length",
    "success",
    "success_last",
    "value",
    "discounted_return",
)
TRAINING_ROWS = 200  # of a run, evenly chosen: enough for any picture
PLAN = "plan.json"  # of a sweep: what was ever planned in its directory
DEEP = 4  # directories that a run is below its sweep's: agent, task, replay ratio, seed
NEVER_ENTERED = ("checkpoints", "tensorboard")  # a run's own folders, large and without runs
# seconds since its last row in which a run on another host counts as running: longer than a log
# interval or an evaluation
FRESH = 900
LARGEST = 2**63
NEEDED: dict[str, type] = {
    "name": str,
    "task": str,
    "seed": int,
    "steps": int,
    "replay_ratio": int,
    "algorithm": dict,
    "protocol": dict,
}


class Damage(NamedTuple):
    """What could not be read, and where."""

    path: Path
    what: str

    def __str__(self) -> str:
        return f"{self.path}: {self.what}"


class Status(NamedTuple):
    """How far a run has come, and why it is not further."""

    state: State
    step: int
    reason: str = ""


@final
@dataclass(frozen=True, eq=False)
class RunRecord:
    path: Path
    spec: dict[str, Any]
    """run.json, with the fields that its version did not know"""
    machine: dict[str, Any]
    """machine.json; empty where there is none"""
    status: Status
    evaluations: Columns
    """a row an episode: EVALUATION; NaN where a run does not tell"""
    training: Columns
    """a row a log interval, perhaps thinned: whatever numbers the run logged, by name, and
    `step`
    """
    events: tuple[dict[str, Any], ...] = ()
    damaged: tuple[Damage, ...] = field(default=())
    experiment: str = ""
    """whose plan it is in"""

    @property
    def name(self) -> str:
        return self.spec["name"]

    @property
    def task(self) -> str:
        return self.spec["task"]

    @property
    def suite(self) -> str:
        return self.task.partition("/")[0]

    @property
    def seed(self) -> int:
        return self.spec["seed"]

    @property
    def replay_ratio(self) -> int:
        return self.spec["replay_ratio"]

    @property
    def steps(self) -> int:
        """that were planned"""
        return self.spec["steps"]

    @property
    def versions(self) -> dict[str, str]:
        found = self.machine.get("fingerprint", {})
        versions = found.get("versions") if isinstance(found, dict) else None
        return (
            {name: value for name, value in versions.items() if isinstance(value, str)}
            if isinstance(versions, dict)
            else {}
        )

    @property
    def origins(self) -> list[dict[str, Any]]:
        """Where, by what command and from what code it was begun, and each time resumed."""
        return [
            one
            for one in (
                self.machine,
                *(
                    event
                    for event in self.events
                    if event.get("event") == "resumed" and "host" in event
                ),
            )
            if one
        ]

    def count(self, *kinds: str) -> int:
        return sum(event.get("event") in kinds for event in self.events)


class Planned(NamedTuple):
    """A run of a sweep's plan.json."""

    name: str
    task: str
    replay_ratio: int
    seed: int
    steps: int
    path: Path
    """where it is, or will be"""
    experiment: str


class Frame(NamedTuple):
    """Every run that was found, everything that was not one after all, and what a plan has and the
    disk does not.
    """

    runs: list[RunRecord]
    damaged: list[Damage]
    missing: Sequence[Planned] = ()


def read(places: Sequence[Path], *, training_rows: int | None = TRAINING_ROWS) -> Frame:
    """The runs at or below some directories, in the order of their paths, each once.
    `training_rows` None reads every row of train.jsonl.
    """
    runs: dict[str, RunRecord] = {}
    damaged: list[Damage] = []
    paths, plans = find(places, damaged)
    for real, path in paths.items():
        try:
            runs[real] = read_run(path, training_rows=training_rows)
        except DataError as error:
            damaged.append(Damage(path, str(error)))
    plan = {os.path.realpath(one.path): one for one in planned(plans, places, damaged)}
    found = [_as_planned(run, plan.pop(real, None)) for real, run in runs.items()]
    return Frame(
        found, [*damaged, *(one for run in found for one in run.damaged)], list(plan.values())
    )


def planned(
    plans: Sequence[Path], places: Sequence[Path], damaged: list[Damage]
) -> Iterable[Planned]:
    """The runs of some plan.json's that are, or will be, at or below these directories."""
    homes = [os.path.realpath(place) for place in places]
    for plan in plans:
        within = any(Path(os.path.realpath(plan.parent)).is_relative_to(home) for home in homes)
        try:
            told = read_object(plan)
            for cell in told["runs"]:
                for seed in cell["seeds"]:
                    _require(
                        {**cell, "seed": seed}, ("name", "task", "replay_ratio", "seed", "steps")
                    )
                    folder = cell["task"].replace("/", "-").replace(":", "-")
                    path = (
                        plan.parent
                        / cell["name"]
                        / folder
                        / f"rr{cell['replay_ratio']}"
                        / f"seed{seed}"
                    )
                    if within or any(
                        Path(os.path.realpath(path)).is_relative_to(home) for home in homes
                    ):
                        yield Planned(
                            cell["name"],
                            cell["task"],
                            cell["replay_ratio"],
                            seed,
                            cell["steps"],
                            path,
                            str(told.get("experiment", "")),
                        )
        except (DataError, KeyError, TypeError) as error:
            damaged.append(Damage(plan, f"it cannot be used: {error}"))


def _as_planned(run: RunRecord, plan: Planned | None) -> RunRecord:
    """A run that came to its own end, and that the plan takes further, is not done."""
    if plan is None:
        return run
    run = replace(run, experiment=plan.experiment)
    if run.status.state != "done" or run.status.step >= plan.steps:
        return run
    return replace(
        run,
        status=run.status._replace(
            state="interrupted", reason=f"the plan goes on to step {plan.steps}"
        ),
    )


def agree(one: RunRecord, other: RunRecord, columns: Sequence[str] = EVALUATION) -> bool:
    """Whether the episodes that both were evaluated in tell the same. A run that once ended earlier
    has an evaluation there that others have not.
    """
    ours, theirs = _episodes(one), _episodes(other)
    shared = ours.keys() & theirs.keys()
    mine, its = [ours[key] for key in shared], [theirs[key] for key in shared]
    return all(
        np.array_equal(one.evaluations[name][mine], other.evaluations[name][its], equal_nan=True)
        for name in columns
    )


def _episodes(run: RunRecord) -> dict[tuple[float, int], int]:
    """The row of each episode, by its step and its number there."""
    counted: Counter[float] = Counter()
    rows = {}
    for row, step in enumerate(run.evaluations["step"].tolist()):
        rows[step, counted[step]] = row
        counted[step] += 1
    return rows


def furthest(run: RunRecord) -> tuple[float, int]:
    """Of copies of one run, the largest of these is to count: the last step, then the number of
    rows.
    """
    steps = run.evaluations["step"]
    return float(steps.max(initial=-1.0)), len(steps)


def find(places: Sequence[Path], damaged: list[Damage]) -> tuple[dict[str, Path], list[Path]]:
    """The directories with a run.json below any of these, by their real paths, and the plans that
    speak of them: those below, and those of the directories above. What cannot be entered is named.
    """
    runs: dict[str, Path] = {}
    plans: dict[Path, Path] = {}
    for place in places:
        told: list[OSError] = []
        for home, folders, files in os.walk(place, onerror=told.append):
            folders[:] = sorted(name for name in folders if name not in NEVER_ENTERED)
            if "run.json" in files:
                runs.setdefault(os.path.realpath(home), Path(home))
            if PLAN in files:
                plans.setdefault(Path(home).resolve(), Path(home) / PLAN)
        damaged.extend(
            Damage(Path(str(error.filename)), error.strerror or "cannot be entered")
            for error in told
        )
        for home in place.resolve().parents[:DEEP]:
            if (home / PLAN).is_file():
                plans.setdefault(home, home / PLAN)
    return dict(sorted(runs.items(), key=lambda item: item[1])), sorted(plans.values())


def read_run(path: Path, *, training_rows: int | None = TRAINING_ROWS) -> RunRecord:
    spec = read_object(path / "run.json")
    try:
        _require(spec, NEEDED)
        for name, value in spec["protocol"].items():
            if isinstance(value, list | dict):
                raise DataError(f"its protocol.{name} is {_shown(value)}")
    except DataError as error:
        raise DataError(f"run.json cannot be used: {error}") from None
    damaged: list[Damage] = []
    machine: dict[str, Any] = {}
    try:
        machine = read_object(path / "machine.json") if (path / "machine.json").exists() else {}
    except DataError as error:
        damaged.append(Damage(path, str(error)))
    rows = read_lines(path / "eval.jsonl", damaged, needed="step")
    evaluations = {name: column(rows, name) for name in EVALUATION}
    thinned = read_lines(path / "train.jsonl", damaged, needed="step", most=training_rows)
    names = dict.fromkeys(name for row in thinned for name in row)
    training = {name: column(thinned, name) for name in names}
    events = tuple(read_lines(path / "events.jsonl", damaged, needed="event"))
    reached = int(
        max(
            [
                0.0,
                *(
                    np.nanmax(rows["step"], initial=0.0)
                    for rows in (evaluations, training)
                    if "step" in rows
                ),
            ]
        )
    )
    return RunRecord(
        path,
        with_defaults(spec),
        machine,
        _status(path, spec, events, reached),
        evaluations,
        training,
        events,
        tuple(damaged),
    )


def _require(spec: dict[str, Any], names: Iterable[str]) -> None:
    for name in names:
        if not isinstance(spec.get(name), NEEDED[name]) or isinstance(spec[name], bool):
            raise DataError(f"its {name} is {_shown(spec.get(name))}")
        if isinstance(spec[name], int) and not -LARGEST <= spec[name] < LARGEST:
            raise DataError(f"its {name} is {_shown(spec[name])}")
        if isinstance(spec[name], str) and "\0" in spec[name]:
            raise DataError(f"its {name} is {_shown(spec[name])}")


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:59] + "…"


def read_lines(
    path: Path, damaged: list[Damage], *, needed: str, most: int | None = None
) -> list[dict[str, Any]]:
    """The rows of a JSONL file that are whole and have what is needed; at most so many of them,
    evenly chosen, with the last.

    A last line without an end is what a kill, or a run that is still writing, leaves, and is no
    damage.
    """
    try:
        content = path.read_bytes() if path.exists() else b""
    except OSError as error:
        damaged.append(Damage(path, error.strerror or "cannot be read"))
        return []
    lines = content.split(b"\n")[:-1]
    chosen = range(len(lines))
    if most is not None and len(lines) > most:
        chosen = np.unique(np.linspace(0, len(lines) - 1, most).astype(int)).tolist()
        broken = [
            number
            for number, line in enumerate(lines)
            if not (line.startswith(b"{") and line.endswith(b"}"))
        ]
        chosen = sorted({*chosen, *broken})
    rows = _parse([lines[number] for number in chosen])
    good = [isinstance(row, dict) and _usable(row.get(needed), needed) for row in rows]
    bad = [number + 1 for number, fine in zip(chosen, good, strict=True) if not fine]
    if bad:
        named = ", ".join(map(str, bad[:5])) + (", ..." if len(bad) > 5 else "")
        damaged.append(
            Damage(path, f"{len(bad)} damaged line{'s' * (len(bad) > 1)} passed over ({named})")
        )
    return [row for row, fine in zip(rows, good, strict=True) if fine]


def column(rows: list[dict[str, Any]], name: str) -> np.ndarray:
    """A number of each row; NaN where it is missing, null, infinite or no number."""
    values = [row.get(name) for row in rows]
    with contextlib.suppress(ValueError, TypeError, OverflowError):
        numbers = np.array(values, dtype=float)
        return np.where(np.isfinite(numbers), numbers, np.nan)
    return np.array([_number(value) for value in values])


def _number(value: Any) -> float:
    with contextlib.suppress(ValueError, TypeError, OverflowError):
        number = float(value)
        return number if np.isfinite(number) else np.nan
    return np.nan


def _usable(value: Any, needed: str) -> bool:
    """A step that is one, or, of an event, its name."""
    if needed != "step":
        return isinstance(value, str)
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 10**15


def _parse(lines: list[bytes]) -> list[Any]:
    """All at once, which is fast; where that fails, or some line is not one value, one by one."""
    with contextlib.suppress(ValueError, RecursionError):
        rows = json.loads(b"[" + b",".join(lines) + b"]")
        if len(rows) == len(lines):
            return rows
    rows = []
    for line in lines:
        try:
            rows.append(json.loads(line))
        except (ValueError, RecursionError):
            rows.append(None)
    return rows


def read_object(path: Path) -> dict[str, Any]:
    try:
        data = _encodable(json.loads(path.read_bytes()))
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(f"{path.name} cannot be read: {error}") from None
    if not isinstance(data, dict):
        raise DataError(f"{path.name} is not an object")
    return data


def _encodable(tree: Any) -> Any:
    """Half a surrogate pair, which JSON can spell and no file can hold, as its escape."""
    if isinstance(tree, dict):
        return {_encodable(key): _encodable(value) for key, value in tree.items()}
    if isinstance(tree, list):
        return [_encodable(value) for value in tree]
    return tree.encode(errors="backslashreplace").decode() if isinstance(tree, str) else tree


def _status(
    path: Path, spec: dict[str, Any], events: Sequence[dict[str, Any]], reached: int
) -> Status:
    with contextlib.suppress(DataError):
        failed = read_object(path / "FAILED")
        step = failed.get("step")
        return Status(
            "failed",
            step if isinstance(step, int) and 0 <= step < LARGEST else reached,
            str(failed.get("reason", "")),
        )
    if (path / "FAILED").exists():
        return Status("failed", reached, "its FAILED cannot be read")
    if reached >= spec["steps"]:
        return Status("done", reached)
    last = next(
        (
            event
            for event in reversed(events)
            if event["event"] in ("started", "resumed", "interrupted", "done")
        ),
        {},
    )
    if last.get("event") in ("started", "resumed") and at_work(path):
        return Status("running", reached)
    if last.get("event") == "interrupted":  # after a checkpoint, perhaps before its first row
        return Status(
            "interrupted",
            max(
                reached, int(_number(last.get("step")) if _usable(last.get("step"), "step") else 0)
            ),
            "stopped by a signal",
        )
    return Status("interrupted", reached, "it stopped without a word" if events else "")


def at_work(path: Path) -> bool:
    """Whether the process that wrote the lock is still there; on another host, whether it wrote a
    row lately. The lock itself is left alone: to try it could turn away the run's own process.
    """
    with contextlib.suppress(DataError, OSError):
        owner = read_object(path / "lock")
        if owner.get("host") == platform.node() and isinstance(owner.get("pid"), int):
            with contextlib.suppress(PermissionError):  # another user's, and there
                os.kill(owner["pid"], 0)
            return True
        if isinstance(owner.get("host"), str) and owner["host"] != platform.node():
            return (
                time.time()
                - max((rows.stat().st_mtime for rows in path.glob("*.jsonl")), default=0.0)
                < FRESH
            )
    return False
