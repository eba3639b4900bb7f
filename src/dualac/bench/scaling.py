"""How cost grows: an exponent for each thing that can be made larger, fitted on a logarithmic
scale. 1 is in proportion, 0 not at all.
"""

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


def measure(algorithm: str, load: dict[str, int], rounds: int = 7) -> list[dict[str, Any]]:
    """Seconds of a call of the learner against what is in it, and against how full the replay is
    that its minibatches are drawn from.
    """
    found = []
    for name, sizes in GRIDS.items():
        timed = [
            Timed(algorithm, find_algorithm(algorithm), Load(**{**load, name: size}))
            for size in sizes
        ]
        for _ in range(rounds):
            for one in timed:
                # not timed: in training a call finds in the caches what the one before it left, not
                # what other learners did
                one.run()
                one.seconds.pop()
                one.run()
        calls = [median(one.seconds) * one.load.replay_ratio for one in timed]
        found.append(
            {
                "what": name,
                "sizes": list(sizes),
                "seconds": calls,
                "exponent": exponent(sizes, calls),
            }
        )
    fills = _fills(algorithm, Load(**load), rounds)
    return [
        *found,
        {
            "what": "buffer_fill",
            "sizes": list(FILLS),
            "seconds": fills,
            "exponent": exponent(FILLS, fills),
        },
    ]


def _fills(algorithm: str, load: Load, rounds: int) -> list[float]:
    """Of drawing minibatches and learning from them."""
    spec = Spec(load.obs, load.actions)
    replays, timed = (
        [filled(fill, spec) for fill in FILLS],
        Timed(algorithm, find_algorithm(algorithm), load),
    )
    times: list[list[float]] = [[] for _ in replays]
    for _ in range(3 * rounds):
        for replay, seen in zip(replays, times, strict=True):
            began = time.perf_counter()
            timed.batches = [
                replay.sample(load.replay_ratio, load.batch) for _ in range(load.seeds)
            ]
            timed.run()
            seen.append(time.perf_counter() - began)
    return [median(seen) for seen in times]


def exponent(sizes: tuple[int, ...], seconds: list[float]) -> float:
    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])
