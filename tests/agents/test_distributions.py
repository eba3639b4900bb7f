"""The tanh-Gaussian, in double precision, against numbers known from elsewhere and against
integrals.
"""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.tiny import compiled

from dualac.agents.distributions import TanhNormal
from dualac.agents.networks import bounded_log_std

GRID = np.tanh(np.linspace(-6, 6, 20_001))  # actions, denser towards -1 and 1

log_prob = compiled(TanhNormal.log_prob)
divergence = compiled(TanhNormal.kl)
sample = compiled(TanhNormal.sample)


@pytest.fixture(autouse=True, scope="module")
def double_precision():
    with jax.enable_x64(True):
        yield


def normal(mean, std, count=1):
    """Repeat it `count` times."""
    return TanhNormal(np.full((count, 1), mean), np.full((count, 1), math.log(std)))


def density(mean, std):
    """p(a) on the grid."""
    return np.exp(log_prob(normal(mean, std, len(GRID)), np.arctanh(GRID)[:, None]))


def integral(heights):
    return float(np.sum((heights[1:] + heights[:-1]) / 2 * np.diff(GRID)))


def kl(one, other):
    return divergence(normal(*one), normal(*other)).item()


def test_the_log_probability_has_its_known_value():
    assert log_prob(normal(0.3, 0.5), np.asarray([[0.8]])).item() == pytest.approx(
        -0.14428423, abs=1e-8
    )


def test_the_slope_of_tanh_is_stable_where_tanh_is_flat():
    """log(1 - tanh(40)^2) would be log 0."""
    flat = log_prob(normal(0.0, 1.0), np.asarray([[40.0]])).item()
    assert flat == pytest.approx(
        -0.5 * 40**2 - 0.5 * math.log(2 * math.pi) - 2 * (math.log(2) - 40)
    )


@pytest.mark.parametrize(("mean", "std"), [(0.0, 0.3), (0.3, 0.5), (-1.0, 0.7), (0.0, 1.0)])
def test_it_integrates_to_one_over_the_actions(mean, std):
    assert integral(density(mean, std)) == pytest.approx(1.0, abs=1e-6)


def test_dimensions_are_independent():
    both = TanhNormal(np.asarray([[0.3, -1.0]]), np.log([[0.5, 0.7]]))
    alone = log_prob(normal(0.3, 0.5), np.asarray([[0.8]])) + log_prob(
        normal(-1.0, 0.7), np.asarray([[-0.2]])
    )
    assert log_prob(both, np.asarray([[0.8, -0.2]])).item() == pytest.approx(alone.item())


def test_samples_have_the_mean_the_deviation_and_the_log_probability_they_are_said_to_have():
    policy = normal(0.2, 0.4, len(GRID))
    action, said = sample(policy, jax.random.normal(jax.random.key(0), policy.mean.shape))
    x = np.arctanh(np.asarray(action))
    assert x.mean() == pytest.approx(0.2, abs=0.02)
    assert x.std() == pytest.approx(0.4, abs=0.02)
    np.testing.assert_allclose(said, log_prob(policy, x), rtol=1e-8)


def test_the_sample_is_reparametrised():
    """Moving the mean moves the sample before tanh by as much; doubling the deviation, its distance
    from the mean.
    """

    def before_tanh(mean, log_std):
        return jnp.arctanh(
            TanhNormal(mean, log_std).sample(jax.random.normal(jax.random.key(1), mean.shape))[0]
        ).sum()

    mean, log_std = np.asarray([[0.2]]), np.asarray([[-1.0]])
    x, slopes = compiled(jax.value_and_grad(before_tanh, argnums=(0, 1)))(mean, log_std)
    assert slopes[0].item() == pytest.approx(1.0)
    assert slopes[1].item() == pytest.approx(float(x) - 0.2)


def test_the_mode_is_the_squashed_mean():
    assert normal(0.5, 0.8).mode().item() == pytest.approx(math.tanh(0.5))


def test_the_divergence_has_its_known_value_in_each_direction():
    assert kl((0.5, 0.8), (0.0, 1.0)) == pytest.approx(0.16814355, abs=1e-8)
    assert kl((0.0, 1.0), (0.5, 0.8)) == pytest.approx(0.25341895, abs=1e-8)


def test_the_divergence_of_the_gaussians_is_that_of_the_squashed():
    one, other = density(0.5, 0.8), density(0.0, 1.0)
    assert integral(one * np.log(one / other)) == pytest.approx(0.16814355, abs=1e-6)


@pytest.mark.parametrize(("multiplier", "known"), [(1.25, 0.05810645), (0.75, 0.06893207)])
def test_widening_alone_diverges_by_its_known_value_in_each_dimension(multiplier, known):
    policy = TanhNormal(np.asarray([[0.3, -2.0, 0.0]]), np.asarray([[-4.0, 0.0, 1.0]]))
    wide = policy.widened(multiplier)
    assert divergence(wide, policy).item() / 3 == pytest.approx(known, abs=1e-8)
    assert divergence(wide.widened(1 / multiplier), policy).item() == pytest.approx(0, abs=1e-12)


def test_widening_multiplies_the_deviation_and_leaves_the_mean():
    wide = normal(0.5, 0.8).widened(1.25)
    assert math.exp(wide.log_std.item()) == pytest.approx(1.0)
    assert wide.mean.item() == 0.5


means, stds = st.floats(-2, 2), st.floats(0.05, 5)


@given(means, stds, means, stds)
def test_the_divergence_is_never_negative(mean, std, other_mean, other_std):
    assert kl((mean, std), (other_mean, other_std)) >= -1e-12


def departures(largest):
    """None, or one that double precision can see."""
    return st.just(0.0) | st.floats(1e-4, largest) | st.floats(-largest, -1e-4)


@given(means, stds, departures(2.0), departures(1.0))
def test_the_divergence_is_zero_exactly_where_the_shift_is_zero_and_the_multiplier_one(
    mean, std, shift, log_multiplier
):
    pessimist = normal(mean, std)
    optimist = pessimist._replace(
        mean=pessimist.mean + shift, log_std=pessimist.log_std + log_multiplier
    )
    assert (divergence(optimist, pessimist).item() > 0.0) == (shift != 0.0 or log_multiplier != 0.0)


@pytest.mark.parametrize(
    ("raw", "log_std", "std"),
    [(0.0, -4.0, 0.01831564), (1.0, 0.56956494, 1.76749791), (-1.0, -8.56956494, 0.00018980)],
)
def test_the_log_deviation_is_bounded_smoothly(raw, log_std, std):
    bounded = float(bounded_log_std(jnp.asarray(raw)))
    assert bounded == pytest.approx(log_std, abs=1e-8)
    assert math.exp(bounded) == pytest.approx(std, abs=1e-8)


@pytest.mark.parametrize(("raw", "bound"), [(-1e9, -10.0), (1e9, 2.0)])
def test_the_log_deviation_stays_between_minus_ten_and_two(raw, bound):
    assert float(bounded_log_std(jnp.asarray(raw))) == bound


def entropy(std):
    heights = density(0.0, std)
    return -integral(heights * np.log(np.maximum(heights, 1e-300)))


def test_half_a_nat_below_zero_is_a_target_far_from_uniform_and_half_above_is_nearly_uniform():
    """Why the target entropy is -A/2: the paper prints +A/2, which only policies close to the
    uniform one reach (log 2 a dimension).
    """
    by_std = {std: entropy(std) for std in (0.1, 0.15, 0.3, 0.5, 0.87, 1.5)}
    assert max(by_std.values()) <= math.log(2)
    assert by_std[0.87] == pytest.approx(math.log(2), abs=0.01)
    assert by_std[0.15] == pytest.approx(-0.5, abs=0.03)
    assert by_std[0.5] == pytest.approx(0.5, abs=0.05)


def test_distance_counts_standard_deviations_from_the_mean():
    one = TanhNormal(jnp.array([0.5, -1.0]), jnp.log(jnp.array([0.5, 2.0])))
    action = jnp.tanh(one.mean + jnp.array([1.5, -0.5]) * jnp.exp(one.log_std))
    assert float(one.distance(action)) == pytest.approx(math.sqrt((2.25 + 0.25) / 2), rel=1e-3)
