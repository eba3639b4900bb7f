"""The theorem as stated, its known answers, and what holds of every certainty equivalent."""

import math
from statistics import NormalDist

import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings

from dualac.errors import UsageError
from dualac.theory import (
    Exponential,
    Forms,
    Linear,
    Logarithmic,
    Power,
    Prospect,
    Quadratic,
    certainty_equivalent,
    forms,
    gaussian,
    gaussian_forms,
    gaussian_gradients,
    gradient_orders,
    gradients,
    quantiles,
    risk_premium,
    series_argument,
    taylor,
)
from dualac.theory.moments import entropic_premium

forms_of, slopes = (
    jax.jit(forms),
    jax.jit(gradients),
)  # compiled: op by op, the first call would cost a second
UTILITIES = [
    Linear(),
    Exponential(-0.3),
    Exponential(0.4),
    Power(3.0),
    Power(0.5),
    Logarithmic(),
    Quadratic(0.05),
    Quadratic(-0.1),
    Prospect(),
]


@pytest.fixture
def x64():
    with jax.enable_x64(True):
        yield


# Known answers of the specification, section 14

KNOWN = [  # beta, exact, logarithmic, variance, deviation, of the values 1 and 3
    (-0.2, 1.80511629, 1.80759740, 1.8, 1.8),
    (-1.0, 1.33749863, 1.45069386, 1.0, 1.0),
    (0.5, 2.43378083, None, 2.5, 2.5),
    (-50.0, 1.00693147, None, None, None),
    (0.0, 2.0, 2.0, 2.0, 2.0),
]


@pytest.mark.parametrize("known", KNOWN)
def test_the_forms_have_the_known_values(known, x64):
    beta, *expected = known
    for found, answer in zip(forms_of(jnp.asarray([1.0, 3.0]), beta), expected, strict=True):
        assert answer is None or float(found) == pytest.approx(answer, abs=6e-9)


@pytest.mark.parametrize("known", KNOWN)
def test_the_forms_have_the_known_values_in_single_precision(known):
    beta, *expected = known
    for found, answer in zip(forms_of(jnp.asarray([1.0, 3.0]), beta), expected, strict=True):
        assert found.dtype == jnp.float32
        assert answer is None or float(found) == pytest.approx(answer, abs=3e-7)


def test_the_variance_form_may_fall_below_every_value_where_the_deviation_form_is_the_minimum():
    found = forms([10.0, 16.0], -1.0)
    assert (float(found.variance), float(found.deviation)) == (4.0, 10.0)
    assert 10 < float(found.exact) < 16


def test_the_printed_utility_ranks_a_dominated_lottery_first_and_the_certainty_equivalent_does_not(
    x64,
):
    worse, better = jnp.asarray([0.0, 1.0]), jnp.asarray([1.0, 3.0])
    printed = [float(jnp.exp(-0.4 * one).mean()) for one in (worse, better)]
    assert printed == pytest.approx([0.83516002, 0.48575713], abs=6e-9)
    assert [float(jnp.exp(-0.4 * one)) for one in (1.0, 2.0)] == pytest.approx(
        [0.67032005, 0.44932896], abs=6e-9
    )  # it falls where values rise
    assert float(certainty_equivalent(worse, Exponential(-0.2))) < float(
        certainty_equivalent(better, Exponential(-0.2))
    )
    assert float(Exponential(-0.2).value(worse).mean()) < float(
        Exponential(-0.2).value(better).mean()
    )


def test_a_geometric_a_harmonic_and_an_arithmetic_mean():
    for utility, answer in (
        (Logarithmic(), 2.0),
        (Power(1.0), 2.0),
        (Power(2.0), 1.6),
        (Power(0.0), 2.5),
        (Linear(), 2.5),
    ):
        assert float(certainty_equivalent([1.0, 4.0], utility)) == pytest.approx(answer, rel=1e-6)


def test_a_loss_weighs_more_than_a_gain_in_prospect_theory():
    assert float(certainty_equivalent([-1.0, 1.0], Prospect())) < 0
    assert float(certainty_equivalent([-1.0, 1.0], Prospect(loss_aversion=1.0))) == pytest.approx(
        0.0, abs=1e-6
    )
    assert (
        float(risk_premium([0.0, -2.0], Prospect()))
        > 0
        > float(risk_premium([0.0, 2.0], Prospect()))
    )


# Properties, over ensembles of five

values = st.lists(st.floats(-1e6, 1e6, width=32), min_size=5, max_size=5)
modest = st.lists(st.floats(-100, 100, width=32), min_size=5, max_size=5)
betas = st.floats(-1e3, 1e3, width=32)


def ce(v, beta):
    return float(forms_of(jnp.asarray(v, jnp.float32), jnp.float32(beta)).exact)


def rounding(v):
    return 1e-5 * (1e-3 + max(abs(one) for one in v))


@given(values, betas)
def test_it_lies_between_the_least_and_the_largest_value_and_is_finite(v, beta):
    assert min(v) - rounding(v) <= ce(v, beta) <= max(v) + rounding(v)


@given(values, betas, betas)
def test_more_optimism_never_sees_less(v, one, other):
    assert ce(v, min(one, other)) <= ce(v, max(one, other)) + rounding(v)


@settings(max_examples=40)
@given(modest, betas, st.floats(-1e4, 1e4, width=32))
def test_a_constant_on_top_of_every_value_comes_out_on_top(v, beta, more):
    assert ce([one + more for one in v], beta) == pytest.approx(
        ce(v, beta) + more, abs=rounding([*v, more]) + 1e-3
    )


@given(values)
def test_it_goes_to_the_mean_the_minimum_and_the_maximum(v):
    assert ce(v, 0.0) == pytest.approx(float(np.mean(v)), abs=rounding(v))
    scale = max(v) - min(v)
    close = math.log(5) / 2e3 + rounding(
        v
    )  # (1 / 2 beta) log k is the farthest it can be from an end
    assert ce(v, -1e3) == pytest.approx(min(v), abs=close)
    assert ce(v, 1e3) == pytest.approx(max(v), abs=close)
    assert abs(ce(v, 1e-7 / (1 + scale)) - np.mean(v)) <= rounding(v) + 1e-6 * scale


@settings(max_examples=40)
@given(values, betas)
def test_its_gradient_is_a_probability_over_the_values_whatever_they_are(v, beta):
    found = slopes(jnp.asarray(v, jnp.float32), jnp.float32(beta))
    assert np.isfinite(found.exact).all()
    assert (np.asarray(found.exact) >= -1e-6).all()
    assert float(found.exact.sum()) == pytest.approx(1.0, abs=1e-4)


@settings(max_examples=40)
@given(modest, st.floats(-2, 2, width=32))
def test_its_gradient_is_the_softmax(v, beta):
    found = np.asarray(slopes(jnp.asarray(v, jnp.float32), jnp.float32(beta)).exact)
    np.testing.assert_allclose(
        found, jax.nn.softmax(2 * beta * jnp.asarray(v, jnp.float32)), atol=2e-3
    )


@settings(max_examples=40)
@given(modest, betas, st.integers(0, 4))
def test_a_weight_of_zero_is_as_if_the_value_were_not_there(v, beta, absent):
    present = [one for number, one in enumerate(v) if number != absent]
    w = jnp.asarray([0.0 if number == absent else 0.25 for number in range(5)], jnp.float32)
    found = float(forms_of(jnp.asarray(v, jnp.float32), jnp.float32(beta), w).exact)
    assert found == pytest.approx(ce(present, beta), abs=rounding(v) + 1e-4)


@settings(max_examples=20)
@given(st.lists(st.floats(0.5, 9.0, width=32), min_size=5, max_size=5), st.sampled_from(UTILITIES))
def test_a_sure_amount_is_its_own_equivalent_and_none_lies_outside_the_values(v, utility):
    assert float(certainty_equivalent([v[0]] * 5, utility)) == pytest.approx(v[0], rel=2e-5)
    found = float(certainty_equivalent(v, utility))
    assert min(v) * (1 - 1e-4) <= found <= max(v) * (1 + 1e-4)
    assert float(risk_premium(v, utility)) == pytest.approx(found - float(np.mean(v)), abs=1e-4)


# The theorem

SKEWED, PAIR = [0.0, 1.0, 5.0], [1.0, 3.0]


@pytest.mark.parametrize("beta", [-1.0, -0.2, 0.5])
@pytest.mark.parametrize(("ensemble", "order"), [(SKEWED, 2), (PAIR, 3)])
def test_the_gradients_of_exact_and_variance_form_agree_to_first_order_in_the_spread(
    ensemble, order, beta, x64
):
    """Their difference vanishes as spread^2, as spread^3 for two critics: the term of first order
    is the same.
    """
    measured = gradient_orders(ensemble, beta)
    assert float(measured.variance) == pytest.approx(order, abs=0.02)
    assert float(measured.logarithmic) == pytest.approx(order, abs=0.02)


def test_the_gradient_of_the_deviation_form_does_not_come_to_the_exact_one(x64):
    assert float(gradient_orders(SKEWED, -0.2).deviation) == pytest.approx(0.0, abs=0.02)


def test_the_value_of_the_variance_form_is_right_to_second_order_in_the_spread(x64):
    errors = [
        abs(float(found.variance - found.exact))
        for found in (forms(scale * jnp.asarray(SKEWED), -0.2) for scale in (1e-2, 5e-3))
    ]
    assert math.log2(errors[0] / errors[1]) == pytest.approx(3.0, abs=0.02)


@given(st.floats(-3, 3), st.floats(0, 3), st.floats(-1, 1))
@settings(max_examples=30)
def test_of_a_gaussian_the_variance_form_is_exact(centre, deviation, beta):
    with jax.enable_x64(True):
        nodes, weights = gaussian(centre, deviation, 64)
        found = gaussian_forms(centre, deviation, beta)
        assert (
            float(found.exact)
            == float(found.variance)
            == pytest.approx(centre + beta * deviation**2)
        )
        if 2 * abs(beta) * deviation < 4:  # as far as 64 nodes reach
            sampled = forms_of(nodes, beta, weights)
            assert float(sampled.exact) == pytest.approx(float(found.exact), abs=1e-6)
            assert float(sampled.logarithmic) == pytest.approx(float(found.logarithmic), abs=1e-9)
            assert float(sampled.deviation) == pytest.approx(float(found.deviation), abs=1e-9)


def test_a_gaussian_is_climbed_by_its_mean_and_against_its_deviation():
    found = gaussian_gradients(1.0, 2.0, -0.2)
    assert [tuple(map(float, pair)) for pair in (found.exact, found.variance, found.deviation)] == [
        pytest.approx((1.0, -0.8)),
        pytest.approx((1.0, -0.8)),
        pytest.approx((1.0, -0.2)),
    ]


@pytest.mark.parametrize(("beta", "inside"), [(-0.7, True), (-0.72, False), (0.7, True)])
def test_the_series_of_the_logarithm_converges_where_its_argument_is_at_most_one(beta, inside):
    assert (float(series_argument([1.0, 3.0], beta)) <= 1.0) == inside


# Taylor


def test_the_second_order_of_an_exponential_utility_is_the_logarithmic_form(x64):
    assert float(taylor(SKEWED, Exponential(-0.2), 2).certainty) == pytest.approx(
        float(forms(SKEWED, -0.2).logarithmic), abs=1e-12
    )


@pytest.mark.parametrize(
    "utility", [Exponential(0.2), Exponential(-0.2), Logarithmic(), Power(2.0)]
)
def test_higher_orders_come_to_the_exact_equivalent_where_they_are_said_to(utility, x64):
    near = [4.0, 5.0, 6.5]
    errors = [abs(float(taylor(near, utility, order).error)) for order in (1, 2, 4, 8)]
    assert errors == sorted(errors, reverse=True)
    assert errors[-1] < 1e-4 < errors[0]
    assert bool(taylor(near, utility, 8).converges)


def test_what_an_expansion_says_is_the_exact_equivalent_and_its_error(x64):
    found = taylor([4.0, 5.0, 6.5], Logarithmic(), 3)
    assert float(found.certainty - found.error) == pytest.approx(
        float(certainty_equivalent([4.0, 5.0, 6.5], Logarithmic()))
    )
    assert float(found.premium) == pytest.approx(float(found.certainty) - 15.5 / 3)


def test_an_expansion_of_a_logarithm_converges_no_farther_than_zero():
    assert not bool(taylor([0.5, 0.5, 9.0], Logarithmic(), 2).converges)


def test_a_quadratic_utility_is_its_own_second_order():
    assert float(taylor(SKEWED, Quadratic(0.1), 2).error) == pytest.approx(0.0, abs=1e-5)


# Used inside JAX


def test_it_can_be_differentiated_by_beta_where_beta_is_zero():
    """d/dbeta at 0 is the variance: the series is taken there, not a guarded constant."""
    assert float(jax.grad(lambda beta: forms(SKEWED, beta).exact)(0.0)) == pytest.approx(
        14 / 3, rel=1e-5
    )


def test_it_can_be_mapped_over_betas_states_and_lotteries():
    found = jax.vmap(lambda beta: forms(jnp.asarray(PAIR), beta))(jnp.asarray([-1.0, 0.0, 1.0]))
    np.testing.assert_allclose(found.exact, [1.3374986, 2.0, 2.6625014], atol=1e-6)
    many = jnp.stack([jnp.asarray(SKEWED), jnp.asarray(SKEWED) + 7.0], axis=1)
    np.testing.assert_allclose(forms(many, -0.2).exact, [1.2692217, 8.2692217], atol=1e-6)
    assert jax.jit(jax.vmap(lambda v: certainty_equivalent(v, Logarithmic())))(
        jnp.ones((4, 3))
    ).shape == (4,)
    np.testing.assert_allclose(
        jax.vmap(lambda beta: certainty_equivalent(SKEWED, Exponential(beta)))(jnp.asarray([0.0])),
        [2.0],
    )


@pytest.mark.parametrize("agreed", [0.0, 5.0, -1e6])
def test_where_values_agree_every_gradient_is_finite_and_equal(agreed):
    for form in slopes(jnp.full((2, 3), agreed), -0.7):
        np.testing.assert_allclose(form, np.full((2, 3), 0.5), rtol=1e-6)


def test_small_premia_keep_their_digits():
    """Where log E e^x near 0 would lose them: beta Var is 1e-10 here."""
    small = jnp.asarray([1e-4, -1e-4], jnp.float32)
    assert float(entropic_premium(small, 0.02)) == pytest.approx(1e-10, rel=1e-4)


def test_integers_are_numbers_and_their_precision_is_jax_s(x64):
    assert certainty_equivalent([1, 3], Exponential(-1)).dtype == jnp.float64
    assert (
        certainty_equivalent(jnp.asarray([1.0, 3.0], jnp.float32), Exponential(-1)).dtype
        == jnp.float32
    )


# Quantiles


def test_a_quantile_critic_s_values_are_equally_likely():
    values, weights = quantiles([1.0, 2.0, 9.0])
    np.testing.assert_allclose(weights, [1 / 3] * 3, rtol=1e-6)
    np.testing.assert_allclose(
        forms(values, -0.3, weights).exact, forms(values, -0.3).exact, rtol=1e-6
    )


def test_a_quantile_stands_for_what_is_nearest_to_its_level():
    np.testing.assert_allclose(
        quantiles([1.0, 2.0, 3.0], [0.1, 0.5, 0.9])[1], [0.3, 0.4, 0.3], rtol=1e-5
    )


def test_quantiles_of_a_gaussian_come_to_what_is_exact_for_it():
    levels = (np.arange(2000) + 0.5) / 2000
    values, weights = quantiles([NormalDist(1.0, 2.0).inv_cdf(level) for level in levels], levels)
    for sampled, whole in zip(
        forms_of(values, -0.2, weights), gaussian_forms(1.0, 2.0, -0.2), strict=True
    ):
        assert float(sampled) == pytest.approx(float(whole), abs=5e-3)
    assert Forms._fields == ("exact", "logarithmic", "variance", "deviation")


# Bad input


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        (lambda: certainty_equivalent([], Linear()), "an empty ensemble"),
        (lambda: forms(jnp.zeros((0, 4)), -0.2), "an empty ensemble"),
        (lambda: forms(3.0, -0.2), "an empty ensemble"),
        (
            lambda: certainty_equivalent([1.0, -1.0], Logarithmic()),
            "values between 0.0 and inf only",
        ),
        (lambda: risk_premium([0.0, 1.0], Power(2.0)), "values between 0.0 and inf only"),
        (lambda: certainty_equivalent([0.0, 30.0], Quadratic(0.1)), "between -inf and 10.0"),
        (lambda: taylor([-1.0, 2.0], Logarithmic()), "values between"),
        (lambda: forms([1.0, 2.0], -0.2, [0.5, 0.4]), "must sum to one"),
        (lambda: forms([1.0, 2.0], -0.2, [1.5, -0.5]), "none may be negative"),
        (lambda: forms([1.0, 2.0], -0.2, [1.0]), "2 values need 2 weights"),
        (lambda: forms([1.0, 2.0], -0.2, [float("nan"), 1.0]), "none may be negative"),
        (lambda: forms([1.0, float("nan")], -0.2), "must be finite"),
        (lambda: forms([1.0, 2.0], float("inf")), "beta must be finite"),
        (lambda: forms([1.0, 2.0], jnp.asarray([-1.0, 1.0])), "one number, not 2"),
        (lambda: Exponential(jnp.zeros(3)), "one number, not 3"),
        (lambda: forms(["one"], -0.2), "not an array of numbers"),
        (lambda: forms([[1.0], [1.0, 2.0]], -0.2), "not an array of numbers"),
        (lambda: gradient_orders([2.0, 2.0], -0.2), "values that differ"),
        (lambda: gradient_orders([1.0, 2.0], 0.0), "beta other than 0"),
        (lambda: taylor([0.0, 1.0], Linear(), 0), "at least order 1"),
        (
            lambda: taylor([-30.0, 1.0, 1.0, 1.0], Exponential(0.5), 3),
            "leaves the range of Exponential",
        ),
        (lambda: taylor([-1.0, 1.0], Prospect()), "no derivatives at its reference"),
        (lambda: Exponential(float("nan")), "beta must be finite"),
        (lambda: Power(float("inf")), "must be finite"),
        (lambda: Prospect(exponent=2.0), "exponent must be in"),
        (lambda: Linear().derivative(1.0, 0), "at least 1"),
        (lambda: gaussian(0.0, -1.0), "not negative"),
        (lambda: gaussian(0.0, 1.0, nodes=0), "at least one node"),
        (lambda: gaussian_forms(0.0, -1.0, 0.2), "not negative"),
        (lambda: quantiles([1.0, 2.0], [0.5, 0.5]), "increase"),
        (lambda: quantiles([1.0, 2.0], [0.5]), "need 2 levels"),
        (lambda: quantiles([1.0, 2.0], [0.0, 0.5]), "between 0 and 1"),
    ],
)
def test_what_makes_no_sense_is_a_sentence_not_a_nan(asked, sentence):
    with pytest.raises(UsageError, match=sentence):
        asked()


def test_a_sentence_reaches_through_a_gradient():
    with pytest.raises(UsageError, match="values between"):
        jax.grad(lambda v: certainty_equivalent(v, Logarithmic()))(jnp.asarray([1.0, -1.0]))


# Digits: single precision, and numbers far from 1


@pytest.mark.parametrize(
    "utility", [Exponential(-0.2), Logarithmic(), Power(2.5), Prospect(), Quadratic(0.05), Linear()]
)
def test_an_expansion_has_any_order(utility):
    near = [4.0, 5.0, 6.5]
    exact = float(certainty_equivalent(near, utility))
    for order in (13, 40):
        assert float(taylor(near, utility, order).certainty) == pytest.approx(exact, rel=1e-5)


def test_an_expansion_of_a_steep_power_stays_within_what_a_float_holds():
    assert float(taylor([1000.0, 1100.0], Power(20.0), 40).certainty) == pytest.approx(
        1028.92123, rel=1e-6
    )
    assert float(Power(10.0).aversion(1e4)) == pytest.approx(1e-3)
    assert float(Power(60.0).aversion(1e6)) == pytest.approx(6e-5)


def test_an_expansion_that_overflows_is_not_said_to_leave_the_range():
    with pytest.raises(UsageError, match="overflows float32"):
        taylor([-1e6, 0.0, 1e6], Exponential(1e3), 6)


def test_a_premium_next_to_nothing_keeps_its_digits():
    found = taylor([4.0, 5.0, 6.5], Exponential(-1e-9), 2)
    assert float(found.premium) == pytest.approx(-1e-9 * float(np.var([4.0, 5.0, 6.5])), rel=1e-4)
    assert float(risk_premium([1e6, 1e6 + 1.0], Logarithmic())) == pytest.approx(-1.25e-7, rel=1e-4)
    assert float(risk_premium([1e6, 1e6 + 1.0], Power(3.0))) == pytest.approx(-3.75e-7, rel=1e-4)
    assert float(risk_premium([1e3, 1e3 + 1.0], Quadratic(1e-4))) == pytest.approx(
        -1.3889e-5, rel=1e-3
    )


@pytest.mark.parametrize("beta", [-1e3, -1.0])
def test_values_far_apart_leave_the_least_its_digits(beta):
    answer = 0.1 + math.log(2) / (2 * abs(beta))
    assert float(certainty_equivalent([0.1, 1e6], Exponential(beta))) == pytest.approx(
        answer, rel=1e-6
    )
    assert float(forms([0.1, 1e6], beta).exact) == pytest.approx(answer, rel=1e-6)
    np.testing.assert_allclose(gradients([0.1, 1e6], beta).exact, [1.0, 0.0])
    assert float(certainty_equivalent([1e-9, 1e6], Logarithmic())) == pytest.approx(
        math.sqrt(1e-3), rel=1e-5
    )


def test_what_cannot_be_does_not_count():
    """Weight 0: for the domain, the range of convergence and the value itself."""
    there, with_ghost = [4.0, 5.0, 6.5], [1 / 3, 1 / 3, 1 / 3, 0.0]
    assert float(certainty_equivalent([*there, -1.0], Logarithmic(), with_ghost)) == pytest.approx(
        130 ** (1 / 3), rel=1e-6
    )
    found = taylor([*there, 100.0], Logarithmic(), 8, with_ghost)
    assert bool(found.converges) and float(found.premium) == pytest.approx(
        float(taylor(there, Logarithmic(), 8).premium), rel=1e-5
    )
    assert float(gradient_orders([*there, 1e4], -0.2, with_ghost).variance) == pytest.approx(
        float(gradient_orders(there, -0.2).variance), abs=0.1
    )


@pytest.mark.parametrize(
    ("relative_aversion", "everywhere"),
    [(0.0, True), (-1.0, True), (-0.5, False), (1.0, False), (2.0, False)],
)
def test_the_series_of_a_polynomial_converges_everywhere(relative_aversion, everywhere):
    assert bool(taylor([0.5, 0.5, 9.0], Power(relative_aversion), 1).converges) == everywhere


@pytest.mark.parametrize("nodes", [32, 64, 128])
def test_the_tails_of_a_gaussian_are_right_in_single_precision(nodes):
    values, weights = gaussian(0.0, 1.0, nodes)
    assert [
        float(certainty_equivalent(values, Exponential(beta), weights)) for beta in (0.5, 2.0, -4.0)
    ] == pytest.approx([0.5, 2.0, -4.0], abs=1e-3)


def test_a_gaussian_may_be_asked_for_inside_a_program():
    @jax.jit
    def worth(deviation):
        values, weights = gaussian(0.0, deviation, 9)
        return certainty_equivalent(values, Exponential(-0.2), weights)

    assert float(worth(2.0)) == pytest.approx(-0.8, abs=1e-4)
    assert float(jax.grad(worth)(2.0)) == pytest.approx(-0.8, abs=1e-3)


def test_hundreds_of_nodes_are_finite():
    values, weights = gaussian(0.0, 1.0, 400)
    assert np.isfinite(values).all() and float(weights.sum()) == pytest.approx(1.0, rel=1e-5)


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        (lambda: taylor([1.0, 2.0], Linear(), 2.5), "in whole numbers, not 2.5"),
        (lambda: Linear().derivative(1.0, 1.5), "in whole numbers, not 1.5"),
        (lambda: gaussian(float("nan"), 1.0), "must be finite"),
        (lambda: gaussian(0.0, float("inf")), "must be finite"),
        (lambda: gaussian(0.0, 1.0, 2.5), "at least one node"),
        (lambda: forms([1 + 2j, 3], -0.2), "complex numbers"),
        (lambda: certainty_equivalent([1.0, 1e25], Quadratic(-1.0)), "overflows float32"),
    ],
)
def test_what_makes_no_sense_here_is_a_sentence_too(asked, sentence):
    with pytest.raises(UsageError, match=sentence):
        asked()
