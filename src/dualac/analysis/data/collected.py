"""Runs that `dualac collect` has put into three tables, read as if they were directories.

runs.parquet           a row a run: what it is, where it was made, what became of it
evaluations.parquet    a row an evaluation episode
training.parquet       a row a log interval

The column `run` joins them. A run has the path here that it would have below a sweep's directory.
"""

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from dualac.errors import UsageError
from dualac.runs.files import DamagedFileError
from dualac.runs.layout import CHECKPOINTS, TENSORBOARD
from dualac.runs.rows import choose_evenly
from dualac.runs.state import Status
from dualac.runs.versions import with_defaults

RUNS, EVALUATIONS, TRAINING = "runs.parquet", "evaluations.parquet", "training.parquet"

Columns = dict[str, np.ndarray]


class CollectedRun(NamedTuple):
    """A run of the tables."""

    path: Path
    spec: dict[str, Any]
    machine: dict[str, Any]
    status: Status
    evaluations: Columns
    training: Columns
    events: list[dict[str, Any]]
    damage: list[str]
    experiment: str


def parquet() -> Any:
    """Return the library that reads and writes the tables, where it is installed."""
    try:
        import pyarrow.parquet
    except ImportError:
        raise UsageError("tables of runs need pyarrow: pip install 'dualac[collect]'") from None
    return pyarrow.parquet


def find_collected(places: Sequence[Path]) -> list[Path]:
    """Find the directories with a runs.parquet at or below some places, each once."""
    homes = {}
    for place in places:
        for home, folders, files in os.walk(place):
            folders[:] = sorted(name for name in folders if name not in (CHECKPOINTS, TENSORBOARD))
            if RUNS in files:
                homes.setdefault(os.path.realpath(home), Path(home))
    return sorted(homes.values())


def read_collected(home: Path, most: int | None = None) -> list[CollectedRun]:
    """Read the runs of a directory's tables, at most so many rows of training each, evenly chosen,
    with the last.
    """
    library = parquet()
    try:
        runs = library.read_table(home / RUNS).to_pylist()
        evaluations = _rows_by_run(library.read_table(home / EVALUATIONS))
        rows = _rows_by_run(library.read_table(home / TRAINING))
        training = {run: _thinned(columns, most) for run, columns in rows.items()}
        return [
            _read_run(home, row, evaluations.get(row["run"], {}), training.get(row["run"], {}))
            for row in runs
        ]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DamagedFileError(home / RUNS, f"its tables cannot be read: {error}") from None


def _read_run(
    home: Path, row: dict[str, Any], evaluations: Columns, training: Columns
) -> CollectedRun:
    status = Status(row["state"], row["reached"], row["reason"])
    if status.state == "running":  # nobody can say what became of it
        status = status._replace(state="interrupted", reason="it ran when it was collected")
    return CollectedRun(
        path=home / row["path"],
        spec=with_defaults(json.loads(row["spec"])),
        machine=json.loads(row["machine"]),
        status=status,
        evaluations=evaluations,
        training=training,
        events=json.loads(row["events"]),
        damage=json.loads(row["damage"]),
        experiment=row["experiment"] or "",
    )


def _rows_by_run(table: Any) -> dict[str, Columns]:
    """Divide the numbers of a table by run; the columns that only name the run are left out."""
    names = np.array(table["run"].to_pylist(), dtype=str)
    numbers = {
        field.name: np.asarray(table[field.name].to_numpy(zero_copy_only=False), dtype=float)
        for field in table.schema
        if not _is_text(field) and field.name not in ("replay_ratio", "seed")
    }
    runs, place = np.unique(names, return_inverse=True)
    order = np.argsort(place, kind="stable")
    rows = np.split(order, np.searchsorted(place[order], np.arange(1, len(runs))))
    return {
        str(run): {name: values[mine] for name, values in numbers.items()}
        for run, mine in zip(runs, rows, strict=False)
    }


def _is_text(field: Any) -> bool:
    return str(field.type) in ("string", "large_string")


def _thinned(training: Columns, most: int | None) -> Columns:
    """Choose rows evenly, as the reader of train.jsonl does, and drop columns without a number."""
    chosen = choose_evenly(len(training.get("step", ())), most)
    training = {name: values[chosen] for name, values in training.items()}
    return {name: values for name, values in training.items() if np.isfinite(values).any()}
