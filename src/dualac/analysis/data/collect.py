"""Many runs as three tables: a row a run, a row an evaluation episode, a row a log interval.

The rows on disk are the truth; the tables are made of them anew whenever they are wanted. Made of
several directories, in whatever order, perhaps of several machines and of earlier tables, they are
the same: a run that is in two of them counts once, and where the two have different numbers that is
an error. `collected` reads the tables again.
"""

import hashlib
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dualac.analysis.data.collected import EVALUATIONS, RUNS, TRAINING, parquet
from dualac.analysis.data.frame import EVALUATION, Columns, Frame, RunRecord, agree, furthest
from dualac.analysis.report.exports import as_csv
from dualac.errors import DataError
from dualac.runs.files import write_text, written_whole
from dualac.runs.layout import run_path
from dualac.runs.plan import PlannedRun
from dualac.runs.spec import FREE

ORIGIN = ("host", "commit", "dirty", "dualac", "cpu", "command")
WHOLE = ("step", "episode", "length")  # columns of whole numbers

Table = dict[str, list[Any]]


def spec_digest(run: RunRecord) -> str:
    """Return the SHA-256 of a run's spec: what the run is, whatever machine it is on."""
    decisive = {key: value for key, value in run.spec.items() if key not in FREE}
    return hashlib.sha256(_as_json(decisive).encode()).hexdigest()


def merged(runs: Iterable[RunRecord]) -> list[RunRecord]:
    """Return each run once, the longest copy of it, in an order that does not depend on where it
    was found.
    """
    copies: dict[str, RunRecord] = {}
    for run in sorted(runs, key=lambda run: str(run.path)):
        digest = spec_digest(run)
        other = copies.setdefault(digest, run)
        if other is not run:
            if not agree(other, run):
                raise DataError(
                    f"{other.path} and {run.path} are the same run with different results: "
                    "something in it is not deterministic"
                )
            copies[digest] = max(other, run, key=furthest)  # the first of equals
    return sorted(
        copies.values(),
        key=lambda run: (run.name, run.task, run.replay_ratio, run.seed, spec_digest(run)),
    )


def missing(frame: Frame) -> list[PlannedRun]:
    """Return what the plans have and no directory does: a run that is missing in one may stand in
    another.
    """
    present = {
        (run.experiment, run.name, run.task, run.replay_ratio, run.seed) for run in frame.runs
    }
    return [
        plan
        for plan in frame.missing
        if (plan.experiment, plan.name, plan.task, plan.replay_ratio, plan.seed) not in present
    ]


def evaluation_table(runs: Sequence[RunRecord]) -> Table:
    """Return a row an evaluation episode, of runs that are each once."""
    return _table(runs, [run.evaluations for run in runs], EVALUATION)


def training_table(runs: Sequence[RunRecord]) -> Table:
    """Return a row a log interval, of runs that are each once; a column for each number that any of
    them logged.
    """
    names = sorted({name for run in runs for name in run.training} - {"step"})
    return _table(runs, [run.training for run in runs], ["step", *names])


def run_table(runs: Sequence[RunRecord]) -> Table:
    """Return a row a run, with all that a report reads beside the rows of its logs."""
    rows = [
        {
            **_identity(run),
            "path": str(run_path(Path(), run.name, run.task, run.replay_ratio, run.seed)),
            "reached": run.status.step,
            "reason": run.status.reason,
            "spec": _as_json(run.spec),
            "machine": _as_json(run.machine),
            "events": _as_json(run.events),
            "damage": _as_json([damage.what for damage in run.damaged]),
        }
        for run in runs
    ]
    return {name: [row[name] for row in rows] for name in rows[0]} if rows else {}


def _table(runs: Sequence[RunRecord], logs: Sequence[Columns], names: Sequence[str]) -> Table:
    """Put the logs of runs below each other, each row with what it is a row of."""
    table: Table = {}
    lengths = [len(log.get("step", ())) for log in logs]
    identities = [_identity(run) for run in runs]
    for name in identities[0] if identities else ():
        table[name] = []
        for identity, length in zip(identities, lengths, strict=True):
            table[name] += [identity[name]] * length
    for name in names:
        table[name] = []
        for log, length in zip(logs, lengths, strict=True):
            values = log.get(name, np.full(length, np.nan))
            table[name] += [_cell(name, value) for value in values.tolist()]
    return table


def _cell(name: str, value: float) -> int | float | None:
    if np.isnan(value):
        return None
    return int(value) if name in WHOLE else float(value)


def _identity(run: RunRecord) -> dict[str, Any]:
    """Say what a run is, and where and from what code it was made; several of these where it was
    resumed elsewhere.
    """
    origin = {}
    for name in ORIGIN:
        values = [str(facts[name]) for facts in run.origins if facts.get(name) is not None]
        origin[name] = "; ".join(dict.fromkeys(values)) or None
    versions = (f"{name}={version}" for name, version in sorted(run.versions.items()))
    return {
        "experiment": run.experiment or None,
        "algorithm": run.name,
        "task": run.task,
        "replay_ratio": run.replay_ratio,
        "seed": run.seed,
        "state": run.status.state,
        **origin,
        "versions": " ".join(versions),
        "protocol": _as_json(run.spec["protocol"]),
        "run": spec_digest(run),
    }


def _as_json(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def write(runs: Sequence[RunRecord], out: Path) -> list[Path]:
    """Write the tables of runs that are each once: Parquet for programs, and the evaluations as CSV
    for people.
    """
    library = parquet()
    import pyarrow

    out.mkdir(parents=True, exist_ok=True)
    evaluations = evaluation_table(runs)
    tables = {EVALUATIONS: evaluations, TRAINING: training_table(runs), RUNS: run_table(runs)}
    for name, table in tables.items():
        with written_whole(out / name) as partial:
            library.write_table(pyarrow.table(table), partial, compression="zstd")
    columns = zip(*evaluations.values(), strict=True)
    rows = [dict(zip(evaluations, values, strict=True)) for values in columns]
    csv = (out / EVALUATIONS).with_suffix(".csv")
    write_text(csv, as_csv(rows))
    return [*(out / name for name in tables), csv]
