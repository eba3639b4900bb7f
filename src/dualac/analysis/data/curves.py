"""A run's files as numbers. The rows on disk are the truth; nothing here needs the code that wrote
them.
"""

from pathlib import Path
from typing import NamedTuple

import numpy as np

from dualac.errors import DataError
from dualac.runs.layout import EVALUATIONS, TRAINING
from dualac.runs.rows import read_rows


class Curve(NamedTuple):
    """Mean over the episodes of each evaluation, against environment steps."""

    steps: np.ndarray
    returns: np.ndarray


def evaluation_curve(run: Path, column: str = "return") -> Curve:
    """Return the mean of a column of eval.jsonl: `return`; `success` (at any step) and
    `success_last` where the task defines success. Broken episodes do not count.
    """
    returns: dict[int, list[float]] = {}
    for row in read_rows(run / EVALUATIONS):
        if column in row and not row.get("bad"):
            returns.setdefault(row["step"], []).append(row[column])
    if not returns:
        raise DataError(
            f"{run} has no evaluations yet, or all their episodes broke"
            if column == "return"
            else f"no evaluation of {run} tells of {column}"
        )
    steps = sorted(returns)
    return Curve(np.array(steps), np.array([np.mean(returns[step]) for step in steps]))


def training_series(run: Path, name: str) -> Curve:
    rows = [row for row in read_rows(run / TRAINING) if row.get(name) is not None]
    return Curve(np.array([row["step"] for row in rows]), np.array([row[name] for row in rows]))
