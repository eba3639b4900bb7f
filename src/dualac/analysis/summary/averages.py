"""Averages over runs beside the scores: what clocks read, how far critics overestimate."""

from collections.abc import Sequence

import numpy as np

from dualac.analysis import statistics
from dualac.analysis.data.frame import RunRecord
from dualac.analysis.data.groups import Group
from dualac.analysis.data.scores import by_step, held

# Other axes than environment steps, and where they are logged.
CLOCKS = {"updates": "train/n_updates", "seconds": "time/time_elapsed"}


def clocks(runs: Sequence[RunRecord], steps: np.ndarray) -> dict[str, np.ndarray]:
    """Return mean updates and seconds at each step over the runs that logged them."""
    averages = {}
    for clock, name in CLOCKS.items():
        readings = [clock_at(run, name, steps) for run in runs if name in run.training]
        readings = [reading for reading in readings if np.isfinite(reading).any()]
        if readings:
            averages[clock] = statistics.mean_over_seeds(readings)
    return averages


def clock_at(run: RunRecord, name: str, steps: np.ndarray) -> np.ndarray:
    """Read a run's clock between the rows of its log; NaN after the last row. It starts at 0."""
    finite = np.isfinite(run.training[name])
    if not finite.any():
        return np.full(len(steps), np.nan)
    logged = np.concatenate([[0.0], run.training["step"][finite]])
    readings = np.concatenate([[0.0], run.training[name][finite]])
    return np.where(steps <= logged[-1], np.interp(steps, logged, readings), np.nan)


def overestimation(group: Group, tasks: Sequence[str], steps: np.ndarray) -> np.ndarray:
    """Return mean |Q| over mean |G| of a group's evaluations; NaN where no run has both."""
    rows = []
    for run in group.runs:
        if run.task in tasks and np.isfinite(run.evaluations["value"]).any():
            value = by_step(run.evaluations, "value")
            truth = by_step(run.evaluations, "discounted_return").returns
            divisor = np.where(truth > 0, truth, 1.0)
            ratio = np.where(truth > 0, value.returns / divisor, np.nan)
            rows.append(held(value._replace(returns=ratio), steps))
    return statistics.mean_over_seeds(rows) if rows else np.full(len(steps), np.nan)
