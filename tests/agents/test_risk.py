"""How an ensemble of critics becomes one number."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny import compiled

from dualac.agents.risk import Fixed, certainty, spread
from dualac.errors import UsageError

certain = compiled(certainty)
spread_of = compiled(spread)
slope = compiled(jax.grad(lambda qs: spread(qs).sum()))
values = st.floats(-1e4, 1e4, width=32)
pairs = st.tuples(values, values)
betas = st.floats(-1, 1, width=32)


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


def test_half_pessimism_lies_halfway_to_the_minimum():
    assert of((10, 12), -0.5) == 10.5


def test_the_spread_is_a_deviation_not_a_variance():
    """As a variance it would give 13 - 9 = 4, below both critics."""
    assert of((10, 16), -1) == 10


def test_three_critics_at_minus_one_may_fall_below_all_of_them():
    assert of((0, 0, 3), -1) == pytest.approx(1 - 2**0.5, abs=1e-6)


@given(pairs)
def test_the_spread_of_two_critics_is_half_their_distance(qs):
    assert float(spread_of(jnp.asarray(qs, jnp.float32))) == pytest.approx(abs(qs[0] - qs[1]) / 2, abs=rounding(*qs))


@given(pairs, betas)
def test_between_the_extremes_it_lies_between_two_critics(qs, beta):
    assert min(qs) - rounding(*qs) <= of(qs, beta) <= max(qs) + rounding(*qs)


@given(pairs, betas, betas)
def test_more_optimism_never_sees_less(qs, one, other):
    assert of(qs, min(one, other)) <= of(qs, max(one, other)) + rounding(*qs)


@given(pairs, betas, st.floats(0.125, 100, width=32))
def test_scaling_the_rewards_scales_it(qs, beta, scale):
    assert of([scale * q for q in qs], beta) == pytest.approx(scale * of(qs, beta), abs=scale * rounding(*qs))


@given(pairs, betas, values)
def test_a_constant_on_top_of_every_critic_comes_out_on_top(qs, beta, more):
    assert of([q + more for q in qs], beta) == pytest.approx(of(qs, beta) + more, abs=rounding(more, *qs))


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
    """What it makes of 10 and 12 in the TD target, and for the actor."""
    zs = jnp.asarray([[[10.0]], [[12.0]]])
    return tuple(value.item() for value in compiled(lambda: (part.backup((), zs, jax.random.key(0)), part.objective((), zs)))())


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
