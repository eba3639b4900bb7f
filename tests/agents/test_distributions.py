"""The tanh-Gaussian, against numbers known from elsewhere and against integrals."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dualac.agents.distributions import TanhNormal
from dualac.agents.networks import bounded_log_std


def normal(mean, std):
    return TanhNormal(jnp.asarray([mean]), jnp.log(jnp.asarray([std])))


def density(of, grid):
    """p(a) on a grid of actions in (-1, 1)."""
    return np.exp(np.asarray(jax.vmap(of.log_prob)(jnp.arctanh(jnp.asarray(grid))[:, None]), np.float64))


def integral(heights, grid):
    return float(np.sum((heights[1:] + heights[:-1]) / 2 * np.diff(grid)))


def actions():
    """A grid of actions, finer towards -1 and 1."""
    return np.tanh(np.linspace(-6, 6, 20_001))


def test_the_log_probability_has_its_known_value():
    with jax.enable_x64(True):
        known = normal(0.3, 0.5).log_prob(jnp.asarray([0.8]))
    assert float(known) == pytest.approx(-0.14428423, abs=1e-8)


def test_the_slope_of_tanh_is_stable_where_tanh_is_flat():
    flat = TanhNormal(jnp.zeros(1), jnp.zeros(1)).log_prob(jnp.asarray([40.0]))
    assert float(flat) == pytest.approx(-0.5 * 40**2 - 0.5 * math.log(2 * math.pi) - 2 * (math.log(2) - 40), rel=1e-6)


@pytest.mark.parametrize(("mean", "std"), [(0.0, 0.3), (0.3, 0.5), (-1.0, 0.7), (0.0, 1.0)])
def test_it_integrates_to_one_over_the_actions(mean, std):
    with jax.enable_x64(True):
        grid = actions()
        assert integral(density(normal(mean, std), grid), grid) == pytest.approx(1.0, abs=1e-6)


def test_dimensions_are_independent():
    both = TanhNormal(jnp.asarray([0.3, -1.0]), jnp.log(jnp.asarray([0.5, 0.7])))
    alone = normal(0.3, 0.5).log_prob(jnp.asarray([0.8])) + normal(-1.0, 0.7).log_prob(jnp.asarray([-0.2]))
    assert float(both.log_prob(jnp.asarray([0.8, -0.2]))) == pytest.approx(float(alone), rel=1e-6)


def test_a_sample_comes_with_its_own_log_probability():
    policy = TanhNormal(jnp.asarray([[0.1, -0.4]] * 3), jnp.full((3, 2), -1.0))
    action, log_prob = policy.sample(jax.random.key(3))
    assert action.shape == (3, 2)
    np.testing.assert_allclose(log_prob, policy.log_prob(jnp.arctanh(action)), rtol=1e-4)


def test_samples_have_the_mean_and_the_deviation_asked_for():
    policy = TanhNormal(jnp.full((20_000, 1), 0.2), jnp.full((20_000, 1), math.log(0.4)))
    x = np.arctanh(np.asarray(policy.sample(jax.random.key(0))[0]))
    assert x.mean() == pytest.approx(0.2, abs=0.02)
    assert x.std() == pytest.approx(0.4, abs=0.02)


def test_the_sample_is_reparametrised():
    key = jax.random.key(1)
    slope = jax.grad(lambda mean: jnp.arctanh(TanhNormal(mean, jnp.asarray([-1.0])).sample(key)[0]).sum())(jnp.asarray([0.2]))
    np.testing.assert_allclose(slope, 1.0, rtol=1e-4)


def test_the_mode_is_the_squashed_mean():
    assert float(normal(0.5, 0.8).mode()[0]) == pytest.approx(math.tanh(0.5))


def test_the_divergence_has_its_known_value_in_each_direction():
    with jax.enable_x64(True):
        pessimist, optimist = normal(0.0, 1.0), normal(0.5, 0.8)
        assert float(optimist.kl(pessimist)) == pytest.approx(0.16814355, abs=1e-8)
        assert float(pessimist.kl(optimist)) == pytest.approx(0.25341895, abs=1e-8)


def test_the_divergence_of_the_gaussians_is_that_of_the_squashed():
    with jax.enable_x64(True):
        grid, one, other = actions(), normal(0.5, 0.8), normal(0.0, 1.0)
        of_one, of_other = density(one, grid), density(other, grid)
        assert integral(of_one * np.log(of_one / of_other), grid) == pytest.approx(0.16814355, abs=1e-6)


@pytest.mark.parametrize(("multiplier", "divergence"), [(1.25, 0.05810645), (0.75, 0.06893207)])
def test_widening_alone_diverges_by_its_known_value_in_each_dimension(multiplier, divergence):
    with jax.enable_x64(True):
        policy = TanhNormal(jnp.asarray([0.3, -2.0, 0.0]), jnp.asarray([-4.0, 0.0, 1.0]))
        assert float(policy.widened(multiplier).kl(policy)) / 3 == pytest.approx(divergence, abs=1e-8)
        assert float(policy.widened(multiplier).widened(1 / multiplier).kl(policy)) == pytest.approx(0, abs=1e-12)


def test_widening_multiplies_the_deviation_and_leaves_the_mean():
    wide = normal(0.5, 0.8).widened(1.25)
    assert float(jnp.exp(wide.log_std)[0]) == pytest.approx(1.0)
    assert float(wide.mean[0]) == 0.5


means, stds = st.floats(-2, 2), st.floats(0.05, 5)


@given(means, stds, means, stds)
def test_the_divergence_is_never_negative(mean, std, other_mean, other_std):
    assert float(normal(mean, std).kl(normal(other_mean, other_std))) >= -1e-6


@pytest.mark.parametrize(("mean", "std"), [(0.0, 1.0), (0.7, 0.02), (-3.0, 7.0)])
def test_the_divergence_is_zero_exactly_for_equals(mean, std):
    assert float(normal(mean, std).kl(normal(mean, std))) == 0.0


@pytest.mark.parametrize("other", [(0.01, 1.0), (0.0, 1.05), (0.0, 0.95)])
def test_the_divergence_is_positive_for_any_other(other):
    assert float(normal(*other).kl(normal(0.0, 1.0))) > 1e-5


@pytest.mark.parametrize(("raw", "log_std", "std"), [(0.0, -4.0, 0.01831564), (1.0, 0.56956494, 1.76749791), (-1.0, -8.56956494, 0.00018980)])
def test_the_log_deviation_is_bounded_smoothly(raw, log_std, std):
    with jax.enable_x64(True):
        bounded = float(bounded_log_std(jnp.asarray(raw)))
    assert bounded == pytest.approx(log_std, abs=1e-8)
    assert math.exp(bounded) == pytest.approx(std, abs=1e-8)


def test_the_log_deviation_stays_between_minus_ten_and_two():
    extreme = np.asarray(bounded_log_std(jnp.asarray([-1e9, 1e9])))
    np.testing.assert_array_equal(extreme, [-10.0, 2.0])


def entropy(policy):
    grid = actions()
    heights = density(policy, grid)
    return -integral(heights * np.log(np.maximum(heights, 1e-300)), grid)


def test_half_a_nat_below_zero_is_a_target_far_from_uniform_and_half_above_is_nearly_uniform():
    """Why the target entropy is -A/2: the paper prints +A/2, which only policies close to the uniform one reach (log 2 a dimension)."""
    with jax.enable_x64(True):
        by_std = {std: entropy(normal(0.0, std)) for std in (0.1, 0.15, 0.3, 0.5, 0.87, 1.5)}
    assert max(by_std.values()) <= math.log(2)
    assert by_std[0.87] == pytest.approx(math.log(2), abs=0.01)
    assert by_std[0.15] == pytest.approx(-0.5, abs=0.03)
    assert by_std[0.5] == pytest.approx(0.5, abs=0.05)
