"""Many runs as one tidy frame: a row an evaluation episode, with what it was an evaluation of and
where it came from.

The rows on disk are the truth; a frame is made of them anew whenever it is wanted. Made of several
directories, in whatever order, perhaps of several machines, it is the same frame: a run that is in
two of them counts once, and where the two tell different numbers that is an error.
"""

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from dualac.analysis.data.frame import EVALUATION, Frame, RunRecord, agree, furthest
from dualac.analysis.report.exports import as_csv
from dualac.errors import DataError, UsageError
from dualac.runs.files import write_text, written_whole
from dualac.runs.plan import PlannedRun
from dualac.runs.spec import FREE

ORIGIN = ("host", "commit", "dirty", "dualac", "cpu", "command")

Table = dict[str, list[Any]]


def spec_digest(run: RunRecord) -> str:
    """What a run is, whatever machine it is on: the SHA-256 of its spec."""
    told = {key: value for key, value in run.spec.items() if key not in FREE}
    return hashlib.sha256(
        json.dumps(told, sort_keys=True, separators=(",", ":")).encode()
    ).hexdigest()


def merged(runs: Iterable[RunRecord]) -> list[RunRecord]:
    """Each run once, the longest that there is of it, in an order that does not depend on where it
    was found.
    """
    found: dict[str, RunRecord] = {}
    for run in sorted(runs, key=lambda run: str(run.path)):
        name = spec_digest(run)
        other = found.setdefault(name, run)
        if other is not run:
            if not agree(other, run):
                raise DataError(
                    f"{other.path} and {run.path} are the same run with different results: "
                    "something in it is not deterministic"
                )
            found[name] = max(other, run, key=furthest)  # the first of equals
    return sorted(
        found.values(),
        key=lambda run: (run.name, run.task, run.replay_ratio, run.seed, spec_digest(run)),
    )


def missing(found: Frame) -> list[PlannedRun]:
    """What the plans have and no directory does: a run that is missing in one may stand in
    another.
    """
    there = {(run.experiment, run.name, run.task, run.replay_ratio, run.seed) for run in found.runs}
    return [
        one
        for one in found.missing
        if (one.experiment, one.name, one.task, one.replay_ratio, one.seed) not in there
    ]


def frame(runs: list[RunRecord]) -> Table:
    """Of runs that are each once: a row an evaluation episode."""
    lengths = [len(run.evaluations["step"]) for run in runs]
    told = [{**_about(run), "run": spec_digest(run)} for run in runs]
    names = list(told[0]) if told else []
    table: Table = {
        name: [
            value
            for one, length in zip(told, lengths, strict=True)
            for value in [one[name]] * length
        ]
        for name in names
    }
    whole = ("step", "episode", "length")
    for name in EVALUATION:
        column = np.concatenate([run.evaluations[name] for run in runs]) if runs else np.array([])
        table[name] = [
            None if np.isnan(value) else int(value) if name in whole else float(value)
            for value in column.tolist()
        ]
    return table


def _about(run: RunRecord) -> dict[str, Any]:
    told = {
        name: dict.fromkeys(str(one[name]) for one in run.origins if one.get(name) is not None)
        for name in ORIGIN
    }
    origin = {
        name: "; ".join(values) if values else None for name, values in told.items()
    }  # several, where it was taken up elsewhere
    versions = " ".join(f"{name}={version}" for name, version in sorted(run.versions.items()))
    about = {
        "experiment": run.experiment or None,
        "algorithm": run.name,
        "task": run.task,
        "replay_ratio": run.replay_ratio,
        "seed": run.seed,
        "state": run.status.state,
    }
    protocol = json.dumps(run.spec["protocol"], sort_keys=True, separators=(",", ":"))
    return {
        **about,
        **origin,
        "versions": versions,
        "protocol": protocol,
    }


def write(table: Table, out: Path) -> list[Path]:
    """The same frame twice: Parquet for programs, CSV for people."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise UsageError("dualac collect needs pyarrow: pip install 'dualac[collect]'") from None
    out.mkdir(parents=True, exist_ok=True)
    paths = [out / "evaluations.parquet", out / "evaluations.csv"]
    rows = [dict(zip(table, values, strict=True)) for values in zip(*table.values(), strict=True)]
    with written_whole(paths[0]) as partial:
        pyarrow.parquet.write_table(pyarrow.table(table), partial)
    write_text(paths[1], as_csv(rows))
    return paths
