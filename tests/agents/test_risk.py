"""How an ensemble of critics becomes one number."""

import dataclasses
import math
from collections import deque

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.tiny import compiled

from dualac.agents.bandit import Bandit
from dualac.agents.pessimism import DualDescent, ExactCertainty, Fixed, SubsetMin, certainty, spread
from dualac.errors import UsageError

certain = compiled(certainty)
spread_of = compiled(spread)
slope = compiled(jax.grad(lambda qs: spread(qs).sum()))
values = st.floats(-1e4, 1e4, width=32)
pairs = st.tuples(values, values)
ensembles = st.integers(2, 6).flatmap(lambda k: st.lists(values, min_size=k, max_size=k))
betas = st.floats(-1, 1, width=32)
any_beta = st.floats(-4, 4, width=32)


def of(qs, beta):
    return float(certain(jnp.asarray(qs, jnp.float32), jnp.float32(beta)))


def rounding(*numbers):
    """How far float32 may be off for numbers of this size."""
    return 1e-5 * (1 + max(abs(number) for number in numbers))


def test_two_critics_at_minus_one_is_the_minimum():
    assert of((10, 12), -1) == 10


def test_two_critics_at_plus_one_is_the_maximum():
    assert of((10, 12), +1) == 12


def test_at_zero_it_is_the_mean():
    assert of((10, 12), 0) == 11


def test_the_spread_is_the_population_deviation():
    assert float(spread_of(jnp.asarray([10.0, 12.0]))) == 1.0


def test_the_spread_of_many_critics_is_the_population_deviation():
    qs = np.random.default_rng(0).normal(size=(5, 7)).astype(np.float32)
    np.testing.assert_allclose(spread_of(jnp.asarray(qs)), qs.std(axis=0, ddof=0), rtol=1e-5)


def test_the_belief_is_not_that_of_top_s_code_which_divides_by_one_less():
    """There sigma of (1, 3) is sqrt(2 + 1e-4), and the belief at beta -1 lies below both."""
    q = jnp.asarray([1.0, 3.0])
    theirs = math.sqrt(float(q.var(ddof=1)) + 1e-4)
    assert (theirs, 2 - theirs) == (
        pytest.approx(1.41424892, abs=1e-8),
        pytest.approx(0.58575108, abs=1e-8),
    )
    assert (
        float(
            Bandit((-1.0,))
            .objective(Bandit((-1.0,)).init(jax.random.key(0)), q[:, None, None])
            .item()
        )
        == 1.0
    )


def test_half_pessimism_lies_halfway_to_the_minimum():
    assert of((10, 12), -0.5) == 10.5


def test_the_spread_is_a_deviation_not_a_variance():
    """As a variance it would give 13 - 9 = 4, below both critics."""
    assert of((10, 16), -1) == 10


def test_the_variance_of_the_paper_s_theorem_is_an_option():
    zs = jnp.asarray([[[10.0]], [[16.0]]])
    part = Fixed(-0.5, ensemble_stat="var")
    assert (
        part.objective((), zs).item()
        == part.backup((), zs, jax.random.key(0)).item()
        == 13 - 0.5 * 9
    )
    with pytest.raises(UsageError, match="ensemble_stat"):
        Fixed(-0.5, ensemble_stat="variance")  # pyright: ignore[reportArgumentType]


def test_three_critics_at_minus_one_may_fall_below_all_of_them():
    assert of((0, 0, 3), -1) == pytest.approx(1 - 2**0.5, abs=1e-6)


@given(pairs)
def test_the_spread_of_two_critics_is_half_their_distance(qs):
    assert float(spread_of(jnp.asarray(qs, jnp.float32))) == pytest.approx(
        abs(qs[0] - qs[1]) / 2, abs=rounding(*qs)
    )


@given(pairs, betas)
def test_between_the_extremes_it_lies_between_two_critics(qs, beta):
    assert min(qs) - rounding(*qs) <= of(qs, beta) <= max(qs) + rounding(*qs)


@given(ensembles, any_beta, any_beta)
def test_more_optimism_never_sees_less(qs, one, other):
    assert of(qs, min(one, other)) <= of(qs, max(one, other)) + 4 * rounding(*qs)


@given(ensembles, any_beta, st.floats(0.125, 100, width=32))
def test_scaling_the_rewards_scales_it(qs, beta, scale):
    assert of([scale * q for q in qs], beta) == pytest.approx(
        scale * of(qs, beta), abs=4 * scale * rounding(*qs)
    )


@given(pairs, betas, values)
def test_a_constant_on_top_of_every_critic_comes_out_on_top(qs, beta, more):
    assert of([q + more for q in qs], beta) == pytest.approx(
        of(qs, beta) + more, abs=rounding(more, *qs)
    )


@settings(max_examples=25)
@given(st.permutations([1.0, 2.5, -3.0, 8.0]), betas)
def test_the_order_of_the_critics_does_not_matter(qs, beta):
    assert of(qs, beta) == pytest.approx(of(sorted(qs), beta), abs=1e-5)


@pytest.mark.parametrize("agreed", [0.0, 5.0, -1e6])
def test_the_gradient_is_zero_not_nan_where_critics_agree(agreed):
    gradient = slope(jnp.full((2, 3), agreed))
    np.testing.assert_array_equal(gradient, np.zeros((2, 3)))


def test_the_gradient_is_finite_where_critics_nearly_agree():
    near = jnp.asarray([1.0, 1e-18, 1e-19, 1e-20, 1e-22, 1e-30, 0.0])
    gradient = slope(jnp.stack([near, -near]))
    assert np.isfinite(gradient).all()
    assert np.abs(gradient).max() <= 0.75


def test_states_in_which_critics_agree_leave_the_gradient_of_the_others_alone():
    gradient = slope(jnp.asarray([[1.0, 4.0], [1.0, 2.0]]))
    np.testing.assert_allclose(gradient, [[0.0, 0.5], [0.0, -0.5]], atol=1e-6)


def test_one_critic_has_no_spread():
    assert float(spread_of(jnp.asarray([3.0]))) == 0.0
    assert of((3.0,), -1) == 3.0


def both(part):
    """Return what it makes of 10 and 12 in the TD target, and for the actor."""
    zs = jnp.asarray([[[10.0]], [[12.0]]])
    return tuple(
        value.item()
        for value in compiled(
            lambda: (part.backup((), zs, jax.random.key(0)), part.objective((), zs))
        )()
    )


def test_backup_and_objective_share_one_beta():
    assert both(Fixed(-0.2)) == pytest.approx((10.8, 10.8))


def test_the_backup_may_have_a_beta_of_its_own():
    part = Fixed(-0.2, backup_beta=-1.0)
    assert both(part) == pytest.approx((10.0, 10.8))
    assert part.floor() == -0.2


@pytest.mark.parametrize("beta", [0.2, 1.0, float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("where", ["beta", "backup_beta"])
def test_positive_or_endless_pessimism_is_refused_with_the_sign_convention(beta, where):
    with pytest.raises(UsageError, match="-1 is the minimum of two critics"):
        dataclasses.replace(Fixed(-0.2), **{where: beta})


def test_indifference_to_risk_is_allowed():
    assert Fixed(0.0).floor() == 0.0


def test_a_policy_that_climbs_the_first_critic_is_backed_up_by_the_minimum():
    """TD3: with |q1 - q2| lost, the target would be the second critic's 12."""
    part = Fixed(-1.0, climbs="first")
    assert both(part) == (10.0, 10.0)
    assert part.objective((), jnp.asarray([[[12.0]], [[10.0]]])).item() == 12.0


# ExactCertainty

EXACT = {
    unit: compiled(lambda zs, unit=unit: ExactCertainty(-1.0, unit).objective((), zs))
    for unit in ("spread", "value")
}
BATCH = jnp.asarray([[1.0, 10.0, 0.0, 5.0], [3.0, 16.0, 1.0, 5.0]])[
    ..., None
]  # their spreads: 1, 3, 0.5, 0; 1.125 on average


def test_in_units_of_value_it_is_the_theorem_s_certainty_equivalent():
    assert float(EXACT["value"](BATCH)[0, 0]) == pytest.approx(1.33749863, abs=1e-6)


def test_in_units_of_the_usual_spread_it_is_about_what_fixed_takes_where_the_spread_is_usual():
    """Of two critics a spread s apart it takes S log cosh(2 beta s / S) / 2 beta off the mean: beta
    s at s = S, to first order in beta.
    """
    found = np.asarray(EXACT["spread"](BATCH))[:, 0]
    sizes = np.asarray([1.0, 3.0, 0.5, 0.0])
    np.testing.assert_allclose(
        found, [2.0, 13.0, 0.5, 5.0] - 1.125 * np.log(np.cosh(2 * sizes / 1.125)) / 2, atol=1e-5
    )
    usual = jnp.asarray([[1.0], [3.0]])[..., None]
    for beta in (-0.2, -0.02):
        exact = ExactCertainty(beta).objective((), usual).item()
        assert exact - 2.0 == pytest.approx(beta, rel=3 * beta**2)
        assert exact >= Fixed(beta).objective((), usual).item()


def test_it_lies_between_the_critics_and_the_td_target_takes_what_the_actor_climbs():
    part = ExactCertainty(-30.0)
    found = part.objective((), BATCH)
    assert ((found >= BATCH.min(axis=0)) & (found <= BATCH.max(axis=0))).all()
    np.testing.assert_array_equal(part.backup((), BATCH, jax.random.key(0)), found)
    np.testing.assert_allclose(
        ExactCertainty(0.0).objective((), BATCH), BATCH.mean(axis=0), rtol=1e-6
    )


@pytest.mark.parametrize("scale", [1e-3, 7.0, 1e4])
def test_in_units_of_spread_it_scales_with_the_rewards_and_in_units_of_value_it_does_not(scale):
    np.testing.assert_allclose(
        EXACT["spread"](scale * BATCH), scale * EXACT["spread"](BATCH), rtol=1e-4
    )
    assert np.abs(EXACT["value"](scale * BATCH) / scale - EXACT["value"](BATCH)).max() > 0.01


@pytest.mark.parametrize("unit", ["spread", "value"])
@pytest.mark.parametrize(
    "zs",
    [jnp.full((2, 4, 1), 5.0), BATCH, 1e6 * BATCH, 1e-30 * BATCH],
    ids=["agree", "usual", "large", "tiny"],
)
def test_its_gradient_is_finite_and_sums_to_one_also_where_critics_agree(unit, zs):
    slope = jax.grad(lambda zs: ExactCertainty(-1.0, unit).objective((), zs).sum())(zs)
    assert np.isfinite(slope).all() and (np.asarray(slope) >= -1e-6).all()
    np.testing.assert_allclose(slope.sum(axis=0), np.ones((4, 1)), rtol=1e-5)


def test_the_usual_spread_is_a_constant_to_the_gradient():
    """Were it not, states would pull at one another's actions."""
    slope = jax.grad(lambda zs: ExactCertainty(-1.0).objective((), zs)[0, 0])(BATCH)
    assert (np.asarray(slope[:, 1:]) == 0).all()


def test_no_optimist_falls_below_what_it_sees():
    assert (ExactCertainty(-0.2).floor(), ExactCertainty(-5.0).floor()) == (-0.2, -1.0)


@pytest.mark.parametrize(
    "wrong",
    [dict(beta=0.2), dict(beta=math.nan), dict(beta=-1e9), dict(beta=-0.2, unit="variance")],
)
def test_an_exact_attitude_that_makes_no_sense_is_refused(wrong):
    with pytest.raises(UsageError):
        ExactCertainty(**wrong)


# SubsetMin: REDQ

ONE_TWO_FOUR = jnp.asarray([1.0, 2.0, 4.0])[:, None, None]


def test_the_least_of_a_random_pair_of_one_two_and_four_is_four_thirds_on_average():
    keys = jax.random.split(jax.random.key(0), 3000)
    least = np.asarray(
        compiled(jax.vmap(lambda key: SubsetMin(2).backup((), ONE_TWO_FOUR, key)[0, 0]))(keys)
    )
    assert set(least) == {1.0, 2.0}
    assert least.mean() == pytest.approx(4 / 3, abs=0.03)


def test_one_subset_is_drawn_for_the_whole_batch():
    zs = jnp.broadcast_to(ONE_TWO_FOUR, (3, 64, 1))
    for least in compiled(jax.vmap(lambda key: SubsetMin(1).backup((), zs, key)))(
        jax.random.split(jax.random.key(1), 10)
    ):
        assert least.shape == (64, 1)
        assert len(set(least[:, 0].tolist())) == 1


def test_the_least_of_all_is_the_minimum_and_the_actor_climbs_the_mean_of_all():
    part = SubsetMin(3)
    backup, objective = compiled(
        lambda: (part.backup((), ONE_TWO_FOUR, jax.random.key(0)), part.objective((), ONE_TWO_FOUR))
    )()
    assert backup.item() == 1.0
    assert objective.item() == pytest.approx(7 / 3)
    assert part.floor() == 0.0


# Bandit: TOP

BANDIT = Bandit((-1.0, -0.5, 0.0))
observe_return = compiled(BANDIT.observe_return)


class Plain:
    """The bandit once more, in plain Python, as its authors tell it."""

    def __init__(self, weights):
        self.weights, self.last, self.window = list(weights), 0.0, deque(maxlen=5)

    def observe_return(self, arm, episode_return):
        gain = episode_return - self.last
        self.last = episode_return
        self.window.append(gain)
        mean = sum(self.window) / len(self.window)
        feedback = gain - mean
        if len(self.window) > 1:
            feedback /= (
                math.sqrt(sum((one - mean) ** 2 for one in self.window) / len(self.window)) + 1e-4
            )
        decayed = 0.9 * self.weights[arm]
        self.weights[arm] = decayed + 0.1 * feedback / max(math.exp(min(decayed, 700)), 1e-4)


@settings(max_examples=15)
@given(
    st.lists(st.integers(-100, 100), min_size=1, max_size=12),
    st.sampled_from([0.0, 2.0, -1.5, -20.0]),
)
def test_the_bandit_hears_what_its_authors_say_and_moves_the_arm_it_played_alone(returns, start):
    state = BANDIT.init(jax.random.key(3))._replace(weights=jnp.full((3,), start))
    plain = Plain([start] * 3)
    for episode, value in enumerate(returns):
        before, arm = np.asarray(state.weights), int(state.arm)
        state = observe_return(state, jnp.float32(value), jax.random.key(episode))
        plain.observe_return(arm, value)
        np.testing.assert_allclose(state.weights, plain.weights, rtol=1e-3, atol=1e-4)
        assert set(np.flatnonzero(np.asarray(state.weights) != before)) <= {arm}


def test_arms_are_drawn_in_proportion_to_the_exponential_of_their_weights():
    keys = jax.random.split(jax.random.key(0), 4000)
    state = BANDIT.init(keys[0])._replace(weights=jnp.asarray([1.0, 0.0, -1.0]), arm=jnp.int32(1))
    heard = compiled(jax.vmap(BANDIT.observe_return, in_axes=(None, None, 0)))(
        state, jnp.float32(0.0), keys
    )
    weights = np.exp(np.asarray(heard.weights[0], np.float64))
    frequency = np.bincount(heard.arm, minlength=3) / len(keys)
    np.testing.assert_allclose(frequency, weights / weights.sum(), atol=0.03)
    first = compiled(jax.vmap(BANDIT.init))(keys)
    np.testing.assert_allclose(
        np.bincount(first.arm, minlength=3) / len(keys), [1 / 3] * 3, atol=0.03
    )


@pytest.mark.parametrize(("arm", "value"), [(0, 10.0), (1, 11.0)])
def test_the_arm_of_the_episode_is_the_attitude_of_target_and_actor(arm, value):
    part, zs = Bandit(), jnp.asarray([[[10.0]], [[12.0]]])
    state = part.init(jax.random.key(0))._replace(arm=jnp.int32(arm))
    assert (
        part.backup(state, zs, jax.random.key(0)).item()
        == part.objective(state, zs).item()
        == value
    )
    assert float(part.learn(state, zs, zs[0])[1]["pessimism"]) == part.arms[arm]


def test_a_better_episode_makes_its_arm_likelier_and_a_worse_one_less_likely():
    state = observe_return(BANDIT.init(jax.random.key(0)), jnp.float32(10.0), jax.random.key(0))
    arm = int(state.arm)
    better, worse = (
        observe_return(state, jnp.float32(value), jax.random.key(1)).weights[arm]
        for value in (30.0, -30.0)
    )
    assert float(better) > float(state.weights[arm]) > float(worse)


# DualDescent: GPL

moved = {
    bound: compiled(DualDescent(lr=1e-2, never_optimistic=bound).learn) for bound in (False, True)
}
TEN_TWELVE = jnp.asarray([[[10.0]], [[12.0]]])


def test_half_the_distance_of_two_critics_below_their_mean_is_the_minimum():
    """Half of the deviation, the misreading, would be 10.5."""
    part = DualDescent()
    state = part.init(jax.random.key(0))
    assert (
        part.backup(state, TEN_TWELVE, jax.random.key(0)).item()
        == part.objective(state, TEN_TWELVE).item()
        == 10.0
    )


def test_of_many_critics_it_weighs_the_mean_distance_of_two():
    part = DualDescent()
    assert part.objective(part.init(jax.random.key(0)), ONE_TWO_FOUR).item() == pytest.approx(
        7 / 3 - 0.5 * 2
    )


@pytest.mark.parametrize(("target", "direction"), [(11.5, -1), (10.5, +1), (11.0, 0)])
def test_targets_above_the_critics_make_it_more_pessimistic_and_targets_below_less(
    target, direction
):
    """Not above the lower critic, nor above their pessimistic value: above their mean."""
    state = DualDescent().init(jax.random.key(0))
    learnt, metrics = moved[False](state, TEN_TWELVE, jnp.full((1, 1), target))
    assert float(learnt.params - state.params) == pytest.approx(direction * 1e-2, rel=1e-4)
    assert float(metrics["pessimism"]) == -0.5


@pytest.mark.parametrize("bound", [False, True])
def test_only_where_it_must_never_be_optimistic_it_stops_at_indifference(bound):
    state = DualDescent().init(jax.random.key(0))._replace(params=jnp.float32(-1e-3))
    learnt, _ = moved[bound](state, TEN_TWELVE, jnp.zeros((1, 1)))
    assert float(learnt.params) == (0.0 if bound else pytest.approx(9e-3, rel=1e-3))


@pytest.mark.parametrize(
    "build",
    [
        lambda: Bandit(()),
        lambda: Bandit((-1.0, 0.5)),
        lambda: Bandit((-1.0, math.nan)),
        lambda: Bandit(lr=0.0),
        lambda: Bandit(decay=1.1),
        lambda: Bandit(window=0),
        lambda: SubsetMin(0),
        lambda: SubsetMin(-2),
        lambda: DualDescent(start=0.5),
        lambda: DualDescent(lr=0.0),
        lambda: DualDescent(b1=1.0),
        lambda: Fixed(-1.0, climbs="last"),
        lambda: Fixed(-1.0, backup_beta=-0.5, climbs="first"),
    ],
)
def test_senseless_attitudes_are_refused(build):
    with pytest.raises(UsageError):
        build()
