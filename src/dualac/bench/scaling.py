"""How cost grows: an exponent for each thing that can be made larger (1: in proportion)."""

import time
from statistics import median
from typing import Any

import numpy as np

from dualac.bench.learner import Timed
from dualac.bench.load import Load
from dualac.bench.memory import filled
from dualac.training.presets import find_algorithm
from dualac.types import Spec

GRIDS: dict[str, tuple[int, ...]] = {
    "batch": (64, 128, 256, 512, 1024),
    "width": (64, 128, 256, 512),
    "critics": (2, 4, 8),
    "replay_ratio": (2, 4, 8, 16, 32),
}
FILLS = (10_000, 30_000, 100_000, 300_000, 1_000_000)  # transitions in the replay


def measure(
    algorithm: str,
    load: dict[str, int],
    rounds: int = 7,
    grids: dict[str, tuple[int, ...]] = GRIDS,
    fills: tuple[int, ...] = FILLS,
) -> list[dict[str, Any]]:
    """Measure a call of the learner against the sizes of its load, and against a fuller replay."""
    rows = []
    for name, sizes in grids.items():
        row = find_algorithm(algorithm)
        timed = [Timed(algorithm, row, Load(**{**load, name: size})) for size in sizes]
        for _ in range(rounds):
            for learner in timed:
                # The first call is not timed: in training a call finds in the caches what the one
                # before it left, not what other learners did.
                learner.run()
                learner.seconds.pop()
                learner.run()
        calls = [median(learner.seconds) * learner.load.replay_ratio for learner in timed]
        rows.append(_row(name, sizes, calls))
    seconds = _fill_seconds(algorithm, Load(**load), rounds, fills)
    return [*rows, _row("buffer_fill", fills, seconds)]


def _row(what: str, sizes: tuple[int, ...], seconds: list[float]) -> dict[str, Any]:
    slope = exponent(sizes, seconds)
    return {"what": what, "sizes": list(sizes), "seconds": seconds, "exponent": slope}


def _fill_seconds(algorithm: str, load: Load, rounds: int, fills: tuple[int, ...]) -> list[float]:
    """Measure drawing minibatches and learning from them."""
    spec = Spec(load.obs, load.actions)
    replays = [filled(fill, spec) for fill in fills]
    timed = Timed(algorithm, find_algorithm(algorithm), load)
    times: list[list[float]] = [[] for _ in replays]
    for _ in range(3 * rounds):
        for replay, seconds in zip(replays, times, strict=True):
            began = time.perf_counter()
            timed.batches = [
                replay.sample(load.replay_ratio, load.batch) for _ in range(load.seeds)
            ]
            timed.run()
            seconds.append(time.perf_counter() - began)
    return [median(seconds) for seconds in times]


def exponent(sizes: tuple[int, ...], seconds: list[float]) -> float:
    """Fit the slope on a logarithmic scale."""
    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])
