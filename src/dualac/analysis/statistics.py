"""Estimates with intervals, after Agarwal et al. (2021), "Deep reinforcement learning at the edge
of the statistical precipice".

Scores are an array whose last two axes are (seeds, tasks). NaN is a seed that is missing. Every
random number comes from the generator that is given: the same generator, the same interval.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from scipy.special import ndtri, stdtrit

LEVEL = 0.95  # of every interval
REPLICATIONS = 5_000  # of the bootstrap
BLOCK = 4_000_000  # numbers that are resampled at a time: this bounds the memory
# The advised number of seeds would separate two algorithms with this probability, were the observed
# difference the true one.
POWER = 0.8
TRIMMED = 0.25  # share of the scores that the IQM leaves out at either end
FEW_SEEDS = 5  # below this, bootstrap intervals are known to be too narrow
NO_WIDTH = 1e-12  # an interval narrower than this, between scores of order one, has no width
MOST_SEEDS = 1_000  # no larger number of seeds is advised

Statistic = Callable[[np.ndarray], np.ndarray]


class Interval(NamedTuple):
    """An estimate between the ends of its interval; undefined below two seeds in some task."""

    estimate: float
    low: float
    high: float
    defined: bool

    def as_dict(self) -> dict[str, float]:
        """Return the estimate and the ends, NaN where they are undefined."""
        low, high = (self.low, self.high) if self.defined else (np.nan, np.nan)
        return {"estimate": self.estimate, "low": low, "high": high}


UNDEFINED = Interval(np.nan, np.nan, np.nan, False)


def iqm(scores: np.ndarray) -> np.ndarray:
    """Return the interquartile mean: of the middle half of all scores, tasks and seeds together."""
    flat = np.sort(scores.reshape(*scores.shape[:-2], -1), axis=-1)  # NaN comes last
    count = np.isfinite(flat).sum(axis=-1)
    cut = (TRIMMED * count).astype(int)
    place = np.arange(flat.shape[-1])
    middle = (place >= cut[..., None]) & (place < (count - cut)[..., None])
    return _ratio(np.where(middle, flat, 0.0).sum(axis=-1), count - 2 * cut)


def mean(scores: np.ndarray) -> np.ndarray:
    """Return the mean over tasks of the mean over seeds."""
    return _mean_of_tasks(task_means(scores))


def median(scores: np.ndarray) -> np.ndarray:
    """Return the median over tasks of the mean over seeds."""
    means = np.sort(task_means(scores), axis=-1)
    count = np.isfinite(means).sum(axis=-1)
    lower = _at(means, (count - 1) // 2)
    upper = _at(means, count // 2)
    return np.where(count > 0, (lower + upper) / 2, np.nan)


def optimality_gap(scores: np.ndarray, ceiling: float = 1.0) -> np.ndarray:
    """Return how far scores, cut at the ceiling, fall short of it on average."""
    return ceiling - mean(np.minimum(scores, ceiling))


def task_means(scores: np.ndarray) -> np.ndarray:
    """Return the mean over seeds of each task."""
    finite = np.isfinite(scores)
    return _ratio(np.where(finite, scores, 0.0).sum(axis=-2), finite.sum(axis=-2))


def mean_over_seeds(rows: Sequence[np.ndarray]) -> np.ndarray:
    """Return the mean of rows, a seed each, over those that have a number at a place."""
    return task_means(np.array(rows).T[:, :, None])[:, 0]


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
    """Estimate a statistic with a percentile interval of the bootstrap, stratified by task."""
    estimate = float(statistic(scores))
    if not np.isfinite(estimate):
        return UNDEFINED
    replicates = _replicates(scores, statistic, rng, replications)
    return _between(estimate, replicates, _has_spread(scores))


def improvement_probability(
    ours: np.ndarray, theirs: np.ndarray, rng: np.random.Generator, replications: int = REPLICATIONS
) -> Interval:
    """Estimate P(a run of ours beats one of theirs), averaged over tasks. A tie counts half."""
    both = _in_both(ours, theirs)
    if not both.any():
        return UNDEFINED
    estimates, replicates = [], []
    for task in np.flatnonzero(both):
        mine = ours[np.isfinite(ours[:, task]), task]
        others = theirs[np.isfinite(theirs[:, task]), task]
        beats = (mine[:, None] > others) + 0.5 * (mine[:, None] == others)
        estimates.append(beats.mean())
        weights = [_bootstrap_weights(len(side), rng, replications) for side in (mine, others)]
        replicates.append(np.einsum("ri,ij,rj->r", weights[0], beats, weights[1], optimize=True))
    spread = _has_spread(ours[:, both]) and _has_spread(theirs[:, both])
    return _between(float(np.mean(estimates)), np.mean(replicates, axis=0), spread)


class Difference(NamedTuple):
    """How much higher our IQM is than theirs on common tasks, and what would separate the two."""

    interval: Interval
    paired: bool  # whether seed i of ours was drawn together with seed i of theirs
    seeds: float  # of each algorithm and task, on average
    # More seeds of each that would separate the two at the observed spread; 0 where they are apart,
    # NaN where one seed shows no spread.
    more_seeds: float
    # Whether so few seeds show no spread: successes of ten episodes are often equal by chance.
    flat: bool = False

    @property
    def separable(self) -> bool:
        if self.flat or not self.interval.defined:
            return False
        return self.interval.low > 0 or self.interval.high < 0


def difference(
    ours: np.ndarray,
    theirs: np.ndarray,
    rng: np.random.Generator,
    *,
    paired: bool = False,
    replications: int = REPLICATIONS,
) -> Difference:
    """Estimate how much higher our IQM is than theirs, with Student's interval on the bootstrap's
    standard errors, each mended for its number of seeds.

    With `paired`, seed i of ours is drawn together with seed i of theirs: they began alike, and
    what they share cancels. The interval is not one of percentiles: those of a bootstrap of two
    seeds call any two pairs apart that do not overlap, as a third of all equal pairs do not.
    """
    both = _in_both(ours, theirs)
    if not both.any():
        return Difference(UNDEFINED, paired, 0.0, np.nan)
    mine, others = ours[:, both], theirs[:, both]
    if paired:
        in_pairs = np.isfinite(mine) & np.isfinite(others)
        mine, others = np.where(in_pairs, mine, np.nan), np.where(in_pairs, others, np.nan)
        errors = [_error(mine, _paired_replicates(mine, others, rng, replications))]
    else:
        errors = [
            _error(side, _replicates(side, iqm, rng, replications)) for side in (mine, others)
        ]
    estimate = float(iqm(mine) - iqm(others))
    counts = [np.isfinite(side).sum(axis=0) for side in (mine, others)]
    seeds = float(np.mean([count.mean() for count in counts]))
    if not (_has_spread(mine) and _has_spread(others)):
        return Difference(UNDEFINED._replace(estimate=estimate), paired, seeds, np.nan)
    half = _half_width(errors)
    fewest = int(min(count.min() for count in counts))
    flat = fewest < FEW_SEEDS and half < NO_WIDTH
    ends = Interval(estimate, estimate - half, estimate + half, True)
    result = Difference(ends, paired, seeds, 0.0, flat)
    if flat and abs(estimate) > NO_WIDTH:
        return result._replace(more_seeds=float(FEW_SEEDS - fewest))
    if result.separable:
        return result
    return result._replace(more_seeds=_more_seeds(estimate, errors, seeds))


def ratio(
    ours: np.ndarray, theirs: np.ndarray, rng: np.random.Generator, replications: int = REPLICATIONS
) -> Interval:
    """Estimate our IQM over theirs, on the tasks that both have."""
    both = _in_both(ours, theirs)
    divisor = float(iqm(theirs[:, both])) if both.any() else 0.0
    if not divisor > 0:
        return UNDEFINED
    above = _replicates(ours[:, both], iqm, rng, replications)
    below = _replicates(theirs[:, both], iqm, rng, replications)
    shares = np.divide(above, below, out=np.full_like(above, np.inf), where=below > 0)
    low, high = np.quantile(shares, [(1 - LEVEL) / 2, (1 + LEVEL) / 2], method="inverted_cdf")
    spread = _has_spread(ours[:, both]) and _has_spread(theirs[:, both])
    return Interval(float(iqm(ours[:, both])) / divisor, float(low), float(high), spread)


class _Error(NamedTuple):
    """The variance of an estimate, and its degrees of freedom."""

    variance: float
    freedom: float


def _error(scores: np.ndarray, replicates: np.ndarray) -> _Error:
    """Return the error; a bootstrap of n seeds varies (n - 1) / n of what it should."""
    counts = np.isfinite(scores).sum(axis=0)
    freedom = float(np.maximum(counts - 1, 0).sum())
    return _Error(float(np.var(replicates)) * counts.sum() / max(freedom, 1.0), max(freedom, 1.0))


def _half_width(errors: list[_Error]) -> float:
    """Return half of Student's interval, with Welch and Satterthwaite's degrees of freedom."""
    variance = sum(error.variance for error in errors)
    below = sum(error.variance**2 / error.freedom for error in errors)
    freedom = variance**2 / max(below, np.finfo(float).tiny)
    return float(stdtrit(max(freedom, 1.0), (1 + LEVEL) / 2) * np.sqrt(variance))


def _more_seeds(estimate: float, errors: list[_Error], seeds: float) -> float:
    """Return how many more seeds of each would separate two algorithms, or infinity."""
    if not estimate:
        return np.inf
    variance_of_one = sum(error.variance for error in errors) * seeds
    freedom = sum(error.freedom for error in errors)
    counts = np.arange(np.floor(seeds) + 1, MOST_SEEDS + 1)
    quantiles = stdtrit(freedom * (counts - 1) / max(seeds - 1, 1e-9), (1 + LEVEL) / 2)
    enough = (quantiles + ndtri(POWER)) * np.sqrt(variance_of_one / counts) <= abs(estimate)
    return float(np.ceil(counts[enough.argmax()] - seeds)) if enough.any() else np.inf


def profile(scores: np.ndarray, thresholds: np.ndarray) -> np.ndarray:
    """Return the performance profile: the share of runs with a score above each threshold."""
    flat = scores[np.isfinite(scores)]
    if not flat.size:
        return np.full(len(thresholds), np.nan)
    return (flat[:, None] > thresholds).mean(axis=0)


class Band(NamedTuple):
    """A line between two others."""

    estimate: np.ndarray
    low: np.ndarray
    high: np.ndarray


def profile_band(
    scores: np.ndarray, thresholds: np.ndarray, rng: np.random.Generator, replications: int = 1_000
) -> Band:
    """Return the performance profile between the ends of its intervals."""

    def above(samples: np.ndarray) -> np.ndarray:
        flat = np.sort(samples.reshape(samples.shape[0], -1), axis=-1)
        count = np.isfinite(flat).sum(axis=-1)[:, None]
        below = np.array([np.searchsorted(row, thresholds, side="right") for row in flat])
        return _ratio(count - np.minimum(below, count), count)

    return Band(profile(scores, thresholds), *_ends(_replicates(scores, above, rng, replications)))


def curve_replicates(
    curves: np.ndarray, rng: np.random.Generator, replications: int = 1_000
) -> np.ndarray:
    """Resample the IQM of curves (steps, seeds, tasks) by whole runs: (replications, steps)."""
    draws = bootstrap_draws(np.logical_or.reduce(np.isfinite(curves)), rng, replications)
    blocks = [np.stack([iqm(draw.of(curve)) for curve in curves], axis=1) for draw in draws]
    return np.concatenate(blocks)


def curve_band(curves: np.ndarray, replicates: np.ndarray) -> Band:
    """Return the IQM of curves between the ends of the intervals that the replicates give."""
    return Band(iqm(curves), *_ends(replicates))


def first_reached(values: np.ndarray, steps: np.ndarray, target: float) -> np.ndarray:
    """Return the first step at which a curve (..., steps) is at the target, or infinity."""
    reached = values >= target
    return np.where(reached.any(axis=-1), steps[reached.argmax(axis=-1)], np.inf)


def steps_to_reach(
    curves: np.ndarray, replicates: np.ndarray, steps: np.ndarray, target: float
) -> Interval:
    """Estimate the step at which the IQM first reaches a score; infinity is beyond these steps."""
    estimate = float(first_reached(iqm(curves), steps, target))
    reached = first_reached(replicates, steps, target)
    low, high = np.quantile(reached, [(1 - LEVEL) / 2, (1 + LEVEL) / 2], method="inverted_cdf")
    return Interval(estimate, float(low), float(high), _has_spread(curves[-1]))


def area(curves: np.ndarray, steps: np.ndarray) -> np.ndarray:
    """Return the mean score on the way of each curve (steps, ...), NaN where one has a gap."""
    if len(steps) < 2:
        return curves[-1]
    return np.trapezoid(curves, steps, axis=0) / (steps[-1] - steps[0])


class Draw(NamedTuple):
    """The seeds of some replications, and the places that have none."""

    seeds: np.ndarray  # (replications, seeds, tasks): the seed that stands at each place
    empty: np.ndarray  # (seeds, tasks): whether a place has no seed to draw

    def of(self, scores: np.ndarray) -> np.ndarray:
        """Return the scores of the drawn seeds, NaN at empty places."""
        return np.where(self.empty, np.nan, scores[self.seeds, np.arange(scores.shape[1])])


def bootstrap_draws(
    present: np.ndarray, rng: np.random.Generator, replications: int, block: int = BLOCK
) -> Iterator[Draw]:
    """Yield draws, in blocks, of as many seeds of each task as are `present` (seeds, tasks)."""
    order = np.argsort(~present, axis=0, kind="stable")
    counts = present.sum(axis=0)
    empty = np.arange(present.shape[0])[:, None] >= counts
    size = max(1, block // max(1, present.size))
    for start in range(0, replications, size):
        shape = (min(size, replications - start), *present.shape)
        places = (rng.random(shape) * counts).astype(int)
        yield Draw(order[places, np.arange(present.shape[1])], empty)


def _replicates(
    scores: np.ndarray, statistic: Statistic, rng: np.random.Generator, replications: int
) -> np.ndarray:
    draws = bootstrap_draws(np.isfinite(scores), rng, replications)
    return np.concatenate([statistic(draw.of(scores)) for draw in draws])


def _paired_replicates(
    ours: np.ndarray, theirs: np.ndarray, rng: np.random.Generator, replications: int
) -> np.ndarray:
    """Resample the difference of two IQMs, each seed of ours with the same of theirs."""
    draws = bootstrap_draws(np.isfinite(ours), rng, replications)
    return np.concatenate([iqm(draw.of(ours)) - iqm(draw.of(theirs)) for draw in draws])


def _bootstrap_weights(count: int, rng: np.random.Generator, replications: int) -> np.ndarray:
    """Draw how often each of some seeds stands in a replication, as a share."""
    return rng.multinomial(count, np.full(count, 1 / count), replications) / count


def _at(values: np.ndarray, place: np.ndarray) -> np.ndarray:
    """Return the value at a place of the last axis; at the first, where the place is below 0."""
    return np.take_along_axis(values, np.maximum(place, 0)[..., None], axis=-1)[..., 0]


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
    finite = np.isfinite(means)
    return _ratio(np.where(finite, means, 0.0).sum(axis=-1), finite.sum(axis=-1))


def _ratio(above: np.ndarray, below: np.ndarray) -> np.ndarray:
    """Divide, with NaN where the divisor is 0."""
    return np.where(below > 0, above / np.maximum(below, 1), np.nan)
