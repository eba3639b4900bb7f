"""Estimates are rliable's, intervals cover as often as they say, and what seeds cannot separate is
not called apart.
"""

import json
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from dualac.analysis.statistics import (
    AGGREGATES,
    area,
    bootstrap_draws,
    curve_band,
    curve_replicates,
    difference,
    first_reached,
    improvement_probability,
    interval,
    iqm,
    median,
    optimality_gap,
    profile,
    profile_band,
    steps_to_reach,
)

draw = np.random.default_rng(7)
SETS = {
    "ten seeds of thirty tasks": draw.beta(2, 3, (10, 30)),
    "ties": np.round(draw.beta(2, 2, (5, 8)), 1),
    "one seed": draw.random((1, 12)),
    "one task": draw.normal(0.5, 0.1, (10, 1)),
    "all equal": np.full((4, 6), 0.3),
    "beyond the bounds": draw.normal(0.9, 0.15, (7, 5)),
    "successes": (draw.random((6, 10)) < 0.4).astype(float),
}
NAMES = {
    "IQM": "aggregate_iqm",
    "median": "aggregate_median",
    "mean": "aggregate_mean",
    "optimality gap": "aggregate_optimality_gap",
}
NOISE = 0.005
PRINTED = json.loads(
    (Path(__file__).parent / "rliable.json").read_text()
)  # rliable 1.2.0, by the functions in NAMES


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


@pytest.fixture(scope="module")
def oracle() -> tuple[ModuleType, ModuleType]:
    """Import rliable 1.2.0, which is archived and warns of what it uses."""
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        library = pytest.importorskip(
            "rliable.library",
            reason="rliable is not installed: pip install 'dualac[test]'",
            exc_type=ImportError,
        )
        metrics = pytest.importorskip("rliable.metrics")
    return library, metrics


def estimates(scores: np.ndarray) -> dict[str, float]:
    other = scores[::-1] * 0.9 + 0.02
    estimates = {name: float(statistic(scores)) for name, statistic in AGGREGATES.items()}
    return {**estimates, "improvement": improvement_probability(scores, other, rng(), 10).estimate}


@pytest.mark.parametrize("name", SETS)
def test_point_estimates_are_what_rliable_printed(name: str):
    """To import rliable takes seconds: here is what it said of these sets, and the next test asks
    it again.
    """
    for statistic, estimate in estimates(SETS[name]).items():
        assert estimate == pytest.approx(PRINTED[name][statistic], rel=0, abs=1e-12)


@pytest.mark.statistics
@pytest.mark.parametrize("name", SETS)
def test_rliable_still_says_so(name: str, oracle: tuple[ModuleType, ModuleType]):
    metrics, scores = oracle[1], SETS[name]
    said = {statistic: getattr(metrics, function)(scores) for statistic, function in NAMES.items()}
    said["improvement"] = metrics.probability_of_improvement(scores, scores[::-1] * 0.9 + 0.02)
    for statistic, estimate in said.items():
        assert PRINTED[name][statistic] == pytest.approx(estimate, rel=0, abs=1e-12)


@pytest.mark.statistics
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "name", [name for name in SETS if name != "successes"]
)  # whose ends can only be thirtieths, and jump by one
def test_interval_ends_are_rliables_but_for_the_noise_of_two_generators(
    name: str, oracle: tuple[ModuleType, ModuleType]
):
    library, metrics = oracle
    scores = SETS[name]
    functions = [getattr(metrics, name) for name in NAMES.values()]
    _, ends = library.get_interval_estimates(
        {"": scores},
        lambda s: np.array([f(s) for f in functions]),
        reps=10_000,
        random_state=np.random.RandomState(0),
    )
    for statistic, (low, high) in zip(AGGREGATES.values(), ends[""].T, strict=True):
        ours = interval(scores, statistic, rng(), 10_000)
        np.testing.assert_allclose([ours.low, ours.high], [low, high], rtol=0, atol=NOISE)


@pytest.mark.statistics
@pytest.mark.filterwarnings("ignore")
def test_profiles_and_probabilities_of_improvement_are_rliables(
    oracle: tuple[ModuleType, ModuleType],
):
    library, metrics = oracle
    ours, theirs, thresholds = (
        SETS["ten seeds of thirty tasks"],
        SETS["ten seeds of thirty tasks"][::-1] ** 1.3,
        np.linspace(0, 1, 11),
    )
    seeded = {"random_state": np.random.RandomState(0)}
    shares, bands = library.get_interval_estimates(
        {"": ours},
        lambda scores: library.score_distributions(scores, thresholds),
        reps=5_000,
        **seeded,
    )
    np.testing.assert_allclose(profile(ours, thresholds), shares[""], rtol=0, atol=1e-12)
    band = profile_band(ours, thresholds, rng(), 5_000)
    np.testing.assert_allclose(
        [band.low, band.high], bands[""], rtol=0, atol=NOISE + 1 / ours.size
    )  # shares are whole runs
    few, others = (
        ours[:, :3],
        theirs[:, :3],
    )  # rliable takes a millisecond for a task and replication
    _, ends = library.get_interval_estimates(
        {"": (few, others)},
        metrics.probability_of_improvement,
        reps=3_000,
        random_state=np.random.RandomState(0),
    )
    ours = improvement_probability(few, others, rng())
    np.testing.assert_allclose([ours.low, ours.high], ends[""][:, 0], rtol=0, atol=2 * NOISE)


@pytest.mark.statistics
@pytest.mark.parametrize(("seeds", "tasks"), [(10, 10), (10, 30), (20, 5)])
def test_the_interval_covers_the_truth_as_often_as_it_says(seeds: int, tasks: int):
    worlds, simulate = 2_000, rng(seeds)
    shapes = np.linspace(1.5, 6, tasks)
    truth = float(iqm(simulate.beta(shapes, 3.0, (100_000, tasks))))
    intervals = [
        interval(simulate.beta(shapes, 3.0, (seeds, tasks)), iqm, simulate, 1_000)
        for _ in range(worlds)
    ]
    assert 0.92 <= np.mean([one.low <= truth <= one.high for one in intervals]) <= 0.97


@pytest.mark.parametrize(("seeds", "tasks"), [(2, 1), (3, 1), (3, 4)])
def test_equal_algorithms_are_rarely_called_apart(seeds: int, tasks: int):
    """Of two seeds each, a third of all pairs do not overlap: percentiles would call every one of
    them apart.
    """
    simulate = rng(seeds)
    wrong = 0
    for _ in range(300):
        ours, theirs = (simulate.normal(size=(seeds, tasks)) for _ in range(2))
        wrong += difference(ours, theirs, simulate, replications=200).separable
    assert wrong / 300 <= 0.08


def test_a_missing_seed_is_left_out_and_nothing_else_changes():
    scores = SETS["one task"]
    holed = np.concatenate([scores, np.full((3, 1), np.nan)])[rng(1).permutation(13)]
    for statistic in AGGREGATES.values():
        np.testing.assert_allclose(statistic(holed), statistic(scores), atol=1e-15)
    whole, ragged = interval(scores, iqm, rng()), interval(holed, iqm, rng())
    np.testing.assert_allclose([ragged.low, ragged.high], [whole.low, whole.high], atol=0.02)


def test_no_seed_at_all_is_no_number():
    empty = np.full((3, 2), np.nan)
    assert np.isnan([statistic(empty) for statistic in AGGREGATES.values()]).all()
    assert not interval(empty, iqm, rng()).defined
    assert not difference(empty, empty, rng()).separable
    assert np.isnan(improvement_probability(empty, empty, rng()).estimate)
    assert np.isnan(profile(empty, np.array([0.5]))).all()


def test_one_seed_has_an_estimate_and_no_interval():
    single = interval(SETS["one seed"], iqm, rng())
    assert single.estimate == single.low == single.high
    assert not single.defined
    gap = difference(SETS["one seed"], SETS["one seed"] + 1, rng())
    assert gap.interval.estimate == pytest.approx(-1)
    assert not gap.separable
    assert np.isnan(gap.more_seeds)


def test_equal_scores_have_an_interval_without_width():
    equal = interval(SETS["all equal"], iqm, rng())
    assert equal.defined
    np.testing.assert_allclose([equal.estimate, equal.low, equal.high], 0.3, atol=1e-15)
    assert difference(SETS["all equal"], SETS["all equal"], rng()).more_seeds == np.inf


def test_the_same_generator_gives_the_same_interval():
    scores = SETS["one task"]
    assert (
        interval(scores, iqm, rng(3))
        == interval(scores, iqm, rng(3))
        != interval(scores, iqm, rng(4))
    )


def test_the_size_of_blocks_changes_no_draw():
    present = np.isfinite(SETS["ten seeds of thirty tasks"])
    whole = list(bootstrap_draws(present, rng(), 25))
    small = list(bootstrap_draws(present, rng(), 25, block=3_000))
    assert [len(draw.seeds) for draw in small] == [10, 10, 5]
    np.testing.assert_array_equal(
        np.concatenate([draw.seeds for draw in small]), np.concatenate([d.seeds for d in whole])
    )


def test_the_seeds_that_are_advised_do_separate():
    simulate = rng(5)
    ours, theirs = simulate.normal(0.55, 0.1, (3, 4)), simulate.normal(0.5, 0.1, (3, 4))
    gap = difference(ours, theirs, rng())
    assert not gap.separable
    assert 1 <= gap.more_seeds < 200
    seeds = int(gap.seeds + gap.more_seeds)
    shift, spread = (
        gap.interval.estimate,
        np.sqrt((ours.var(axis=0, ddof=1).mean() + theirs.var(axis=0, ddof=1).mean()) / 2),
    )
    apart = [
        difference(
            simulate.normal(shift, spread, (seeds, 4)),
            simulate.normal(0, spread, (seeds, 4)),
            simulate,
        ).separable
        for _ in range(30)
    ]
    assert 0.5 < np.mean(apart) <= 1.0


def test_what_two_algorithms_share_cancels_when_they_are_paired():
    shared = rng(1).normal(size=(10, 3))
    ours, theirs = (
        shared + 0.1 + rng(2).normal(0, 0.05, shared.shape),
        shared + rng(3).normal(0, 0.05, shared.shape),
    )
    assert not difference(ours, theirs, rng()).separable
    assert difference(ours, theirs, rng(), paired=True).separable


def test_a_pair_with_one_half_missing_is_no_pair():
    ours, theirs = SETS["ties"].copy(), SETS["ties"] + 0.5
    ours[0, 0] = theirs[1, 0] = np.nan
    assert difference(ours, theirs, rng(), paired=True).interval.estimate == pytest.approx(-0.5)


def test_only_tasks_that_both_have_are_compared():
    ours, theirs = SETS["ties"].copy(), SETS["ties"] + 0.5
    ours[:, 3:], theirs[:, 3:] = np.nan, 9.0
    assert difference(ours, theirs, rng()).interval.estimate == pytest.approx(
        float(iqm(ours[:, :3]) - iqm(theirs[:, :3]))
    )
    assert improvement_probability(ours[:, :3], theirs[:, :3], rng()) == improvement_probability(
        ours, theirs, rng()
    )


def test_a_curve_band_holds_its_estimate_and_a_replicate_keeps_whole_runs():
    runs = rng(0).random((8, 3))
    curves = (
        np.linspace(0, 1, 6)[:, None, None] * runs
    )  # every run is a straight line, so every replicate is one
    replicates = curve_replicates(curves, rng(), 200)
    np.testing.assert_allclose(replicates, replicates[:, -1:] * np.linspace(0, 1, 6), atol=1e-12)
    band = curve_band(curves, replicates)
    assert ((band.low <= band.estimate) & (band.estimate <= band.high)).all()


def test_the_step_at_which_a_score_is_reached():
    steps = np.array([0, 10, 20, 30])
    assert first_reached(np.array([0.0, 0.2, 0.6, 0.5]), steps, 0.5) == 20
    assert first_reached(np.array([0.0, 0.2, np.nan, 0.3]), steps, 0.5) == np.inf
    curves = np.array([0.0, 0.2, 0.6, 0.8])[:, None, None] * np.ones((4, 2))
    reached = steps_to_reach(curves, curve_replicates(curves, rng(), 50), steps, 0.5)
    assert reached == (20, 20, 20, True)
    never = steps_to_reach(curves, curve_replicates(curves, rng(), 50), steps, 0.9)
    assert never.estimate == never.high == np.inf


def test_the_area_under_a_line_is_its_middle():
    steps = np.array([0, 10, 30])
    np.testing.assert_allclose(area(steps[:, None, None] * np.ones((2, 3)), steps), 15.0)
    np.testing.assert_allclose(area(np.ones((1, 2, 3)) * 4, np.array([5])), 4.0)


def test_what_is_above_the_ceiling_makes_up_for_nothing():
    assert optimality_gap(np.array([[0.5], [2.0]])) == pytest.approx(0.25)
    assert median(np.array([[1.0, 2.0, 9.0]])) == 2.0
