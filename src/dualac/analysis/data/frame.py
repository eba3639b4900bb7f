"""Many runs as columns of numbers: everything below a directory, read once, with what could not be
read counted and named.

A run's files are read as plain JSON, without the code that wrote them. Nothing here decides what
may be compared; `groups` does.
"""

import contextlib
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, final

import numpy as np

from dualac.analysis.data.collected import CollectedRun, find_collected, read_collected
from dualac.analysis.data.find import find_planned
from dualac.runs.files import Damage, DamagedFileError, read_object
from dualac.runs.layout import EVALUATIONS, EVENTS, MACHINE, TRAINING
from dualac.runs.manifest import changed_logs
from dualac.runs.plan import PlannedRun
from dualac.runs.rows import read_rows
from dualac.runs.spec import read_spec
from dualac.runs.state import EVENT_KINDS, Status, changes_since_done, read_status

Columns = dict[str, np.ndarray]

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
LONGEST_LIST = 200  # characters
TRAINING_ROWS = 200  # of a run, evenly chosen: enough for any picture


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
        """Environment steps that were planned."""
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


class Frame(NamedTuple):
    """Every run that was found, everything that was not one after all, and what a plan has and the
    disk does not.
    """

    runs: list[RunRecord]
    damaged: list[Damage]
    missing: Sequence[PlannedRun] = ()


def read(places: Sequence[Path], *, training_rows: int | None = TRAINING_ROWS) -> Frame:
    """Read the runs at or below some directories, and those of tables there, in the order of their
    paths, each once.

    `training_rows` None reads every row of train.jsonl.
    """
    found = find_planned(places)
    runs: list[RunRecord] = []
    damaged = list(found.damaged)
    missing = list(found.missing)
    for path, plan in found.runs:
        try:
            runs.append(read_run(path, plan, training_rows=training_rows))
        except DamagedFileError as error:
            damaged.append(error.damage)
            missing += [plan] if plan else []
    tables = find_collected(places)
    if tables:
        plans = {os.path.realpath(plan.path): plan for plan in missing}
        present = {os.path.realpath(path) for path, _ in found.runs}
        for run in _read_tables(tables, damaged, training_rows):
            path = os.path.realpath(run.path)
            if path not in present:  # else the directory itself stands beside its table
                runs.append(_as_record(run, plans.pop(path, None)))
        missing = list(plans.values())
        runs.sort(key=lambda run: run.path)
    damaged += [damage for run in runs for damage in run.damaged]
    return Frame(runs, damaged, missing)


def _read_tables(
    homes: Sequence[Path], damaged: list[Damage], training_rows: int | None
) -> Iterator[CollectedRun]:
    for home in homes:
        try:
            yield from read_collected(home, training_rows)
        except DamagedFileError as error:
            damaged.append(error.damage)


def _as_record(run: CollectedRun, plan: PlannedRun | None) -> RunRecord:
    """Return a run of a table as one of a directory."""
    status = run.status
    if plan and status.state == "done" and status.step < plan.steps:
        reason = f"the plan goes on to step {plan.steps}"
        status = status._replace(state="interrupted", reason=reason)
    empty = np.array([])
    return RunRecord(
        path=run.path,
        spec=run.spec,
        machine=run.machine,
        status=status,
        evaluations={name: run.evaluations.get(name, empty) for name in EVALUATION},
        training=run.training,
        events=tuple(run.events),
        damaged=tuple(Damage(run.path, what) for what in run.damage),
        experiment=plan.experiment if plan else run.experiment,
    )


def read_run(
    path: Path, plan: PlannedRun | None = None, *, training_rows: int | None = TRAINING_ROWS
) -> RunRecord:
    """Read the run in a directory. With a `plan`, its state is how far it is on that."""
    spec = read_spec(path)
    damaged: list[Damage] = []
    machine: dict[str, Any] = {}
    try:
        machine = read_object(path / MACHINE) if (path / MACHINE).exists() else {}
    except DamagedFileError as error:
        damaged.append(error.damage)
    evaluations = read_rows(path / EVALUATIONS, damaged, needed="step")
    # A broken episode has no score.
    evaluations = [
        {name: row.get(name) for name in ("step", "episode")} if row.get("bad") else row
        for row in evaluations
    ]
    training = read_rows(path / TRAINING, damaged, needed="step", most=training_rows)
    events = _read_events(path, damaged)
    damaged += _changes(path, spec["steps"])
    names = dict.fromkeys(name for row in training for name in row)
    return RunRecord(
        path=path,
        spec=spec,
        machine=machine,
        status=read_status(path, max(spec["steps"], plan.steps) if plan else spec["steps"]),
        evaluations={name: column(evaluations, name) for name in EVALUATION},
        training={name: column(training, name) for name in names},
        events=tuple(events),
        damaged=tuple(damaged),
        experiment=plan.experiment if plan else "",
    )


def _read_events(path: Path, damaged: list[Damage]) -> list[dict[str, Any]]:
    """Read the events of a run; name the kinds that no run writes."""
    events = read_rows(path / EVENTS, damaged, needed="event")
    unknown = [event["event"] for event in events if event["event"] not in EVENT_KINDS]
    if unknown:
        kinds = ", ".join(sorted(set(unknown)))[:LONGEST_LIST]
        what = f"has rows of kinds that this version does not write ({kinds})"
        damaged.append(Damage(path / EVENTS, what))
    return events


def _changes(path: Path, steps: int) -> list[Damage]:
    """Name the files that were changed since the run, or its last checkpoint, was done."""
    try:
        changed = changes_since_done(path, steps)
        files = {damage.path for damage in changed}
        return changed + [damage for damage in changed_logs(path) if damage.path not in files]
    except (DamagedFileError, OSError):  # it is named where it is read
        return []


def agree(one: RunRecord, other: RunRecord, columns: Sequence[str] = EVALUATION) -> bool:
    """Tell whether the episodes that both were evaluated in have the same numbers.

    A run that once ended earlier has an evaluation there that others have not.
    """
    ours, theirs = _episodes(one), _episodes(other)
    shared = ours.keys() & theirs.keys()
    mine, its = [ours[key] for key in shared], [theirs[key] for key in shared]
    return all(
        np.array_equal(one.evaluations[name][mine], other.evaluations[name][its], equal_nan=True)
        for name in columns
    )


def _episodes(run: RunRecord) -> dict[tuple[float, int], int]:
    """Find the row of each episode, by its step and its number there."""
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


def column(rows: list[dict[str, Any]], name: str) -> np.ndarray:
    """Read a number of each row; NaN where it is missing, null, infinite or no number."""
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
