"""Estimates with intervals, after Agarwal et al. (2021), "Deep reinforcement learning at the edge
of the statistical precipice".

Scores are an array whose last two axes are (seeds, tasks). NaN is a seed that is missing. Every
random number comes from the generator that is given: the same generator, the same interval.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from scipy.special import ndtri, stdtrit

LEVEL = 0.95  # of every interval
REPLICATIONS = 5_000
BLOCK = 4_000_000  # numbers that are resampled at a time: what bounds the memory
# probability with which the seeds that are advised would separate two algorithms, were the observed
# difference the true one
POWER = 0.8
TRIMMED = 0.25  # of the scores, at either end
FEW_SEEDS = 5  # below which the intervals of the bootstrap are known to be too narrow
NO_WIDTH = 1e-12  # of an interval between scores of order one
MOST_SEEDS = 1_000  # beyond which no number of seeds is advised

Statistic = Callable[[np.ndarray], np.ndarray]


class Interval(NamedTuple):
    """An estimate between the ends of its interval. With fewer than two seeds in some task there is
    no spread to tell of, and no interval.
    """

    estimate: float
    low: float
    high: float
    defined: bool


UNDEFINED = Interval(np.nan, np.nan, np.nan, False)


def iqm(scores: np.ndarray) -> np.ndarray:
    """Interquartile mean: the mean of the middle half of all scores, tasks and seeds together."""
    flat = np.sort(scores.reshape(*scores.shape[:-2], -1), axis=-1)  # NaN comes last
    count = np.isfinite(flat).sum(axis=-1)
    cut = (TRIMMED * count).astype(int)
    place = np.arange(flat.shape[-1])
    middle = (place >= cut[..., None]) & (place < (count - cut)[..., None])
    return _ratio(np.where(middle, flat, 0.0).sum(axis=-1), count - 2 * cut)


def mean(scores: np.ndarray) -> np.ndarray:
    """Mean over tasks of the mean over seeds."""
    return _mean_of_tasks(task_means(scores))


def median(scores: np.ndarray) -> np.ndarray:
    """Median over tasks of the mean over seeds."""
    means = np.sort(task_means(scores), axis=-1)
    count = np.isfinite(means).sum(axis=-1)
    ends = [
        np.take_along_axis(means, np.maximum(place, 0)[..., None], axis=-1)[..., 0]
        for place in ((count - 1) // 2, count // 2)
    ]
    return np.where(count > 0, (ends[0] + ends[1]) / 2, np.nan)


def optimality_gap(scores: np.ndarray, ceiling: float = 1.0) -> np.ndarray:
    """How far, on average, scores fall short of the ceiling; what is above it does not make up for
    what is below.
    """
    return ceiling - mean(np.minimum(scores, ceiling))


def task_means(scores: np.ndarray) -> np.ndarray:
    there = np.isfinite(scores)
    return _ratio(np.where(there, scores, 0.0).sum(axis=-2), there.sum(axis=-2))


AGGREGATES: dict[str, Statistic] = {
    "IQM": iqm,
    "median": median,
    "mean": mean,
    "optimality gap": optimality_gap,
}


def interval(
    scores: np.ndarray,
    statistic: Statistic,
    rng: np.random.Generator,
    replications: int = REPLICATIONS,
) -> Interval:
    """A percentile interval from the stratified bootstrap: within each task, as many seeds as there
    are, drawn with replacement.
    """
    estimate = float(statistic(scores))
    if not np.isfinite(estimate):
        return UNDEFINED
    return _between(
        estimate, _replicates(scores, statistic, rng, replications), _has_spread(scores)
    )


def improvement_probability(
    ours: np.ndarray, theirs: np.ndarray, rng: np.random.Generator, replications: int = REPLICATIONS
) -> Interval:
    """Probability that a run of ours beats one of theirs on the same task, averaged over tasks; a
    tie counts half.
    """
    both = _in_both(ours, theirs)
    if not both.any():
        return UNDEFINED
    estimates, replicates = [], []
    for task in np.flatnonzero(both):
        mine, others = (
            ours[np.isfinite(ours[:, task]), task],
            theirs[np.isfinite(theirs[:, task]), task],
        )
        beats = (mine[:, None] > others) + 0.5 * (mine[:, None] == others)
        estimates.append(beats.mean())
        drawn = [
            rng.multinomial(len(side), np.full(len(side), 1 / len(side)), replications) / len(side)
            for side in (mine, others)
        ]
        replicates.append(np.einsum("ri,ij,rj->r", drawn[0], beats, drawn[1], optimize=True))
    spread = _has_spread(ours[:, both]) and _has_spread(theirs[:, both])
    return _between(float(np.mean(estimates)), np.mean(replicates, axis=0), spread)


class Difference(NamedTuple):
    """How much higher our IQM is than theirs on the tasks that both have, and what it would take to
    be sure.
    """

    interval: Interval
    paired: bool
    seeds: float
    """of each algorithm and task, on average"""
    more_seeds: float
    """of each algorithm and task, to separate the two at the observed spread; 0 where they are
    apart, NaN where one seed shows no spread
    """

    flat: bool = False
    """whether so few seeds show no spread at all: successes of ten episodes are often equal by
    chance, and that is no certainty
    """

    @property
    def separable(self) -> bool:
        return (
            self.interval.defined
            and not self.flat
            and (self.interval.low > 0 or self.interval.high < 0)
        )


def difference(
    ours: np.ndarray, theirs: np.ndarray, rng: np.random.Generator, *, paired: bool = False
) -> Difference:
    """With `paired`, seed i of ours is drawn together with seed i of theirs: they began alike, and
    what they share cancels.

    Percentiles of a bootstrap of two seeds call any two pairs apart that do not overlap, as a third
    of all equal pairs do not. So the interval is Student's, on the bootstrap's standard errors,
    each mended for its number of seeds.
    """
    both = _in_both(ours, theirs)
    mine, others = ours[:, both], theirs[:, both]
    if not both.any():
        return Difference(UNDEFINED, paired, 0.0, np.nan)
    if paired:
        there = np.isfinite(mine) & np.isfinite(others)
        mine, others = np.where(there, mine, np.nan), np.where(there, others, np.nan)
        replicates = np.concatenate(
            [iqm(draw.of(mine)) - iqm(draw.of(others)) for draw in draws(there, rng, REPLICATIONS)]
        )
        errors = [_error(mine, replicates)]
    else:
        errors = [
            _error(side, _replicates(side, iqm, rng, REPLICATIONS)) for side in (mine, others)
        ]
    estimate = float(iqm(mine) - iqm(others))
    seeds = float(np.mean([np.isfinite(side).sum(axis=0).mean() for side in (mine, others)]))
    if not (_has_spread(mine) and _has_spread(others)):
        return Difference(UNDEFINED._replace(estimate=estimate), paired, seeds, np.nan)
    variance = sum(error.variance for error in errors)
    freedom = variance**2 / max(
        sum(error.variance**2 / error.freedom for error in errors), np.finfo(float).tiny
    )
    half = float(stdtrit(max(freedom, 1.0), (1 + LEVEL) / 2) * np.sqrt(variance))
    fewest = int(min(np.isfinite(side).sum(axis=0).min() for side in (mine, others)))
    told = Difference(
        Interval(estimate, estimate - half, estimate + half, True),
        paired,
        seeds,
        0.0,
        fewest < FEW_SEEDS and half < NO_WIDTH,
    )
    if told.flat and abs(estimate) > NO_WIDTH:
        return told._replace(more_seeds=float(FEW_SEEDS - fewest))
    return (
        told
        if told.separable
        else told._replace(
            more_seeds=_more_seeds(
                estimate, variance * seeds, seeds, sum(e.freedom for e in errors)
            )
        )
    )


def ratio(
    ours: np.ndarray, theirs: np.ndarray, rng: np.random.Generator, replications: int = REPLICATIONS
) -> Interval:
    """Our IQM over theirs, on the tasks that both have."""
    both = _in_both(ours, theirs)
    below = float(iqm(theirs[:, both])) if both.any() else 0.0
    if not below > 0:
        return UNDEFINED
    above, divisors = (
        _replicates(side[:, both], iqm, rng, replications) for side in (ours, theirs)
    )
    shares = np.divide(above, divisors, out=np.full_like(above, np.inf), where=divisors > 0)
    ends = np.quantile(shares, [(1 - LEVEL) / 2, (1 + LEVEL) / 2], method="inverted_cdf")
    return Interval(
        float(iqm(ours[:, both])) / below,
        float(ends[0]),
        float(ends[1]),
        _has_spread(ours[:, both]) and _has_spread(theirs[:, both]),
    )


class _Error(NamedTuple):
    variance: float
    freedom: float


def _error(scores: np.ndarray, replicates: np.ndarray) -> _Error:
    """A bootstrap of n seeds varies (n - 1) / n of what it should."""
    counts = np.isfinite(scores).sum(axis=0)
    freedom = float(np.maximum(counts - 1, 0).sum())
    return _Error(float(np.var(replicates)) * counts.sum() / max(freedom, 1.0), max(freedom, 1.0))


def _more_seeds(estimate: float, variance_of_one: float, seeds: float, freedom: float) -> float:
    counts = np.arange(np.floor(seeds) + 1, MOST_SEEDS + 1)
    quantiles = stdtrit(freedom * (counts - 1) / max(seeds - 1, 1e-9), (1 + LEVEL) / 2) + ndtri(
        POWER
    )
    enough = quantiles * np.sqrt(variance_of_one / counts) <= abs(estimate)
    return float(np.ceil(counts[enough.argmax()] - seeds)) if estimate and enough.any() else np.inf


def profile(scores: np.ndarray, thresholds: np.ndarray) -> np.ndarray:
    """Performance profile: the share of runs with a score above each threshold."""
    flat = scores[np.isfinite(scores)]
    return (
        (flat[:, None] > thresholds).mean(axis=0) if flat.size else np.full(len(thresholds), np.nan)
    )


class Band(NamedTuple):
    """A line between two others."""

    estimate: np.ndarray
    low: np.ndarray
    high: np.ndarray


def profile_band(
    scores: np.ndarray, thresholds: np.ndarray, rng: np.random.Generator, replications: int = 1_000
) -> Band:
    def above(samples: np.ndarray) -> np.ndarray:
        flat = np.sort(samples.reshape(samples.shape[0], -1), axis=-1)
        count = np.isfinite(flat).sum(axis=-1)[:, None]
        below = np.array([np.searchsorted(row, thresholds, side="right") for row in flat])
        return _ratio(count - np.minimum(below, count), count)

    return Band(profile(scores, thresholds), *_ends(_replicates(scores, above, rng, replications)))


def curve_replicates(
    curves: np.ndarray, rng: np.random.Generator, replications: int = 1_000
) -> np.ndarray:
    """(replications, steps) of the IQM of curves (steps, seeds, tasks). A replicate draws whole
    runs, so that its steps belong together.
    """
    blocks = draws(np.logical_or.reduce(np.isfinite(curves)), rng, replications)
    return np.concatenate(
        [np.stack([iqm(draw.of(curve)) for curve in curves], axis=1) for draw in blocks]
    )


def curve_band(curves: np.ndarray, replicates: np.ndarray) -> Band:
    return Band(iqm(curves), *_ends(replicates))


def first_reached(values: np.ndarray, steps: np.ndarray, target: float) -> np.ndarray:
    """The first step at which a curve (..., steps) is at the target; infinite where it never is."""
    reached = values >= target
    return np.where(reached.any(axis=-1), steps[reached.argmax(axis=-1)], np.inf)


def steps_to_reach(
    curves: np.ndarray, replicates: np.ndarray, steps: np.ndarray, target: float
) -> Interval:
    """The step at which the IQM first reaches a score, with the interval that the replicates give;
    an infinite end is `not within these steps`.
    """
    estimate = float(first_reached(iqm(curves), steps, target))
    ends = np.quantile(
        first_reached(replicates, steps, target),
        [(1 - LEVEL) / 2, (1 + LEVEL) / 2],
        method="inverted_cdf",
    )
    return Interval(estimate, float(ends[0]), float(ends[1]), _has_spread(curves[-1]))


def area(curves: np.ndarray, steps: np.ndarray) -> np.ndarray:
    """Area under each curve (steps, ...) over the width of its axis: the mean score on the way. NaN
    where a curve is not whole.
    """
    if len(steps) < 2:
        return curves[-1]
    return np.trapezoid(curves, steps, axis=0) / (steps[-1] - steps[0])


class Draw(NamedTuple):
    """Which seeds were drawn, (replications, seeds, tasks), and where there was none to draw."""

    seeds: np.ndarray
    gone: np.ndarray

    def of(self, scores: np.ndarray) -> np.ndarray:
        return np.where(self.gone, np.nan, scores[self.seeds, np.arange(scores.shape[1])])


def draws(there: np.ndarray, rng: np.random.Generator, replications: int) -> Iterator[Draw]:
    """In each task as many seeds as are there, drawn among them with replacement, a block of
    replications at a time.
    """
    order = np.argsort(~there, axis=0, kind="stable")
    counts = there.sum(axis=0)
    gone = np.arange(there.shape[0])[:, None] >= counts
    size = max(1, BLOCK // max(1, there.size))
    for start in range(0, replications, size):
        chosen = (rng.random((min(size, replications - start), *there.shape)) * counts).astype(int)
        yield Draw(order[chosen, np.arange(there.shape[1])], gone)


def _replicates(
    scores: np.ndarray, statistic: Statistic, rng: np.random.Generator, replications: int
) -> np.ndarray:
    return np.concatenate(
        [statistic(draw.of(scores)) for draw in draws(np.isfinite(scores), rng, replications)]
    )


def _between(estimate: float, replicates: np.ndarray, defined: bool) -> Interval:
    low, high = _ends(replicates)
    return Interval(estimate, float(low), float(high), defined)


def _ends(replicates: np.ndarray) -> np.ndarray:
    return np.quantile(replicates, [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=0)


def _has_spread(scores: np.ndarray) -> bool:
    counts = np.isfinite(scores).sum(axis=0)
    return bool(counts.any()) and bool((counts[counts > 0] >= 2).all())


def _in_both(ours: np.ndarray, theirs: np.ndarray) -> np.ndarray:
    return np.logical_and(np.isfinite(ours).any(axis=0), np.isfinite(theirs).any(axis=0))


def _mean_of_tasks(means: np.ndarray) -> np.ndarray:
    there = np.isfinite(means)
    return _ratio(np.where(there, means, 0.0).sum(axis=-1), there.sum(axis=-1))


def _ratio(above: np.ndarray, below: np.ndarray) -> np.ndarray:
    """NaN where nothing is divided by nothing."""
    return np.where(below > 0, above / np.maximum(below, 1), np.nan)
