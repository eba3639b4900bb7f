"""What the intervals of a report cover, and how often equal algorithms are called apart: simulated
scores whose truth is known.

.venv/bin/python benchmarks/coverage.py [WORLDS]
"""

import sys

import numpy as np

from dualac.analysis import statistics

REPLICATIONS = 1_000  # of each bootstrap
SETUPS = ((2, 1), (3, 1), (5, 1), (10, 1), (2, 10), (3, 10), (5, 10), (10, 10), (10, 30))


def separable(
    ours: np.ndarray, theirs: np.ndarray, rng: np.random.Generator, *, paired: bool = False
) -> bool:
    return statistics.difference(
        ours, theirs, rng, paired=paired, replications=REPLICATIONS
    ).separable


def main() -> None:
    worlds = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000
    titles = (
        "seeds",
        "tasks",
        "95 % interval of the IQM covers",
        "equal algorithms called apart",
        "the same in pairs",
        "of successes",
    )
    print(f"| {' | '.join((*titles, 'the same by percentiles'))} |")
    print("|---|---|---|---|---|---|---|")
    for seeds, tasks in SETUPS:
        simulate = np.random.default_rng([seeds, tasks])
        shapes = np.linspace(1.5, 6, tasks) if tasks > 1 else np.array([3.0])
        truth = float(statistics.iqm(simulate.beta(shapes, 3.0, (200_000, tasks))))
        again = np.random.default_rng([seeds, tasks, 1])
        rates = (
            np.linspace(0.05, 0.95, tasks) if tasks > 1 else np.array([0.9])
        )  # of episodes that succeed, ten of which are a score
        covered, apart, pairs, successes, naive = 0, 0, 0, 0, 0
        for _ in range(worlds):
            ours, theirs = (simulate.beta(shapes, 3.0, (seeds, tasks)) for _ in range(2))
            mine = statistics.interval(ours, statistics.iqm, simulate, REPLICATIONS)
            other = statistics.interval(theirs, statistics.iqm, simulate, REPLICATIONS)
            covered += mine.low <= truth <= mine.high
            apart += separable(ours, theirs, simulate)
            pairs += separable(ours, theirs, again, paired=True)
            ours, theirs = (again.binomial(10, rates, (seeds, tasks)) / 10 for _ in range(2))
            successes += separable(ours, theirs, again)
            naive += mine.low > other.high or other.low > mine.high
        shares = " | ".join(
            f"{count / worlds:.1%}" for count in (covered, apart, pairs, successes, naive)
        )
        print(f"| {seeds} | {tasks} | {shares} |", flush=True)


if __name__ == "__main__":
    main()
