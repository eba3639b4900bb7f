"""Every utility increases, is inverted by its inverse, and has the derivatives that JAX finds."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dualac.errors import UsageError
from dualac.theory import (
    Exponential,
    Linear,
    Logarithmic,
    Power,
    Prospect,
    Quadratic,
    certainty_equivalent,
)

POSITIVE = jnp.linspace(0.4, 4.0, 5)  # as many as SIGNED: one shape, compiled once
SIGNED = jnp.asarray([-2.0, -0.7, 0.3, 1.0, 2.5])
UTILITIES = [
    (Linear(), SIGNED),
    (Exponential(-0.4), SIGNED),
    (Exponential(0.7), SIGNED),
    (Exponential(0.0), SIGNED),
    (Power(2.5), POSITIVE),
    (Power(1.0), POSITIVE),
    (Power(-1.0), POSITIVE),
    (Logarithmic(), POSITIVE),
    (Quadratic(0.2), SIGNED),
    (Quadratic(-0.3), SIGNED),
    (Quadratic(0.0), SIGNED),
    (Prospect(), SIGNED),
    (Prospect(0.5, 1.5, reference=0.6), SIGNED),
]
each = pytest.mark.parametrize(
    ("utility", "x"), UTILITIES, ids=[str(utility) for utility, _ in UTILITIES]
)


@pytest.fixture(autouse=True)
def x64():
    with jax.enable_x64(True):
        yield


@each
def test_it_increases_and_is_inverted_by_its_inverse(utility, x):
    x = x.astype(float)
    worth = utility.value(x)
    assert (np.diff(worth) > 0).all()
    np.testing.assert_allclose(utility.inverse(worth), x, rtol=1e-9)


@each
def test_its_derivatives_are_those_that_jax_finds(utility, x):
    found = utility.value
    for order in (1, 2, 3):
        found = functools.partial(lambda f, x: jax.jvp(f, (x,), (jnp.ones_like(x),))[1], found)
        np.testing.assert_allclose(
            utility.derivative(x.astype(float), order), found(x.astype(float)), rtol=1e-8, atol=1e-9
        )


@each
def test_its_curvature_is_the_ratio_of_its_derivatives(utility, x):
    x = x.astype(float)
    for order in (1, 2, 3):
        np.testing.assert_allclose(
            utility.curvature(x, order),
            utility.derivative(x, order) / utility.derivative(x, 1),
            rtol=1e-9,
        )
    np.testing.assert_allclose(
        utility.aversion(x),
        -utility.derivative(x, 2) / utility.derivative(x, 1),
        rtol=1e-9,
        atol=1e-12,
    )


@each
def test_what_lies_beyond_a_value_is_worth_its_gain_more(utility, x):
    x = x.astype(float)
    beyond = utility.beyond(x, jnp.full_like(x, 0.05))
    np.testing.assert_allclose(
        utility.value(beyond), utility.value(x) + 0.05 * utility.derivative(x, 1), rtol=1e-9
    )


def test_the_aversion_of_an_exponential_is_constant_and_of_a_power_falls_as_one_over_x():
    np.testing.assert_allclose(Exponential(-0.4).aversion(SIGNED), np.full(5, 0.8))
    np.testing.assert_allclose(Power(3.0).aversion(POSITIVE), 3.0 / np.asarray(POSITIVE), rtol=1e-6)


def test_a_nearly_neutral_utility_is_nearly_linear():
    for utility in (Exponential(1e-12), Quadratic(1e-12)):
        np.testing.assert_allclose(utility.value(SIGNED.astype(float)), SIGNED, rtol=1e-9)
    np.testing.assert_allclose(
        Power(1.0 + 1e-12).value(POSITIVE.astype(float)),
        Logarithmic().value(POSITIVE.astype(float)),
        rtol=1e-9,
    )


def test_the_value_of_prospect_theory_has_a_finite_gradient_at_its_reference():
    assert np.isfinite(jax.grad(lambda x: Prospect().value(x))(0.0))


@pytest.mark.parametrize(
    "asked",
    [
        lambda: Logarithmic().value(-1.0),
        lambda: Logarithmic().value(0.0),
        lambda: Logarithmic().derivative(-1.0),
        lambda: Logarithmic().aversion(-1.0),
        lambda: Power(2.0).value(-1.0),
        lambda: Power(0.5).derivative(-1.0),
        lambda: Power(2.0).inverse(5.0),
        lambda: Power(0.5).inverse(-3.0),
        lambda: Exponential(-0.2).inverse(10.0),
        lambda: Exponential(0.2).inverse(-10.0),
        lambda: Quadratic(0.1).value(20.0),
        lambda: Quadratic(0.1).derivative(20.0),
        lambda: Quadratic(0.1).inverse(20.0),
        lambda: Quadratic(-0.1).inverse(-20.0),
        lambda: Linear().value(float("nan")),
    ],
)
def test_a_number_that_a_utility_does_not_know_is_a_sentence(asked):
    with pytest.raises(UsageError, match=r"between .* only"):
        asked()


def test_its_numbers_can_be_differentiated_by_and_mapped_over():
    assert float(jax.grad(lambda beta: Exponential(beta).value(3.0))(0.0)) == pytest.approx(9.0)
    assert float(jax.grad(lambda beta: Exponential(beta).inverse(3.0))(0.0)) == pytest.approx(-9.0)
    lottery = jnp.asarray([1.0, 4.0])
    for build, numbers in (
        (Power, [0.0, 1.0, 2.0]),
        (Quadratic, [-0.1, 0.0, 0.1]),
        (Prospect, [0.3, 0.5, 0.9]),
        (Exponential, [-0.2, 0.0, 0.2]),
    ):
        worth = jax.jit(lambda number, build=build: certainty_equivalent(lottery, build(number)))
        np.testing.assert_allclose(
            jax.vmap(worth)(jnp.asarray(numbers)), [worth(number) for number in numbers], rtol=1e-9
        )
        near = [float(worth(numbers[1] + step)) for step in (-1e-4, 1e-4)]
        assert float(jax.grad(worth)(numbers[1])) == pytest.approx(
            (near[1] - near[0]) / 2e-4, rel=1e-5
        )


def test_it_is_a_static_argument_of_jit():
    assert float(
        jax.jit(certainty_equivalent, static_argnums=1)(jnp.asarray([1.0, 4.0]), Power(2.0))
    ) == pytest.approx(1.6)
