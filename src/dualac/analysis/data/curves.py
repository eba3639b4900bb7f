"""A run's files as numbers. The rows on disk are the truth; nothing here needs the code that wrote
them.
"""

import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from dualac.errors import DataError


class Curve(NamedTuple):
    """Mean over the episodes of each evaluation, against environment steps."""

    steps: np.ndarray
    returns: np.ndarray


def read_rows(path: Path) -> list[dict[str, Any]]:
    """The rows of a JSONL file. A half-written last line is what a kill leaves, and is passed over;
    a damaged one elsewhere is named.
    """
    lines = path.read_text().splitlines() if path.exists() else []
    rows = []
    for number, line in enumerate(lines, 1):
        try:
            rows.append(json.loads(line))
        except ValueError:
            if number < len(lines):
                raise DataError(f"{path}, line {number} is damaged") from None
    return rows


def evaluation_curve(run: Path, column: str = "return") -> Curve:
    """The mean of a column of eval.jsonl: `return`; `success` (at any step) and `success_last`
    where the task defines success.
    """
    returns: dict[int, list[float]] = {}
    for row in read_rows(run / "eval.jsonl"):
        if column in row:
            returns.setdefault(row["step"], []).append(row[column])
    if not returns:
        raise DataError(
            f"{run} has no evaluations yet"
            if column == "return"
            else f"no evaluation of {run} tells of {column}"
        )
    steps = sorted(returns)
    return Curve(np.array(steps), np.array([np.mean(returns[step]) for step in steps]))


def training_series(run: Path, name: str) -> Curve:
    rows = [row for row in read_rows(run / "train.jsonl") if row.get(name) is not None]
    return Curve(np.array([row["step"] for row in rows]), np.array([row[name] for row in rows]))
