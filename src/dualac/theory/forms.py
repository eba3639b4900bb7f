"""The exponential utility's certainty equivalent in four forms, side by side: the exact one, and
what the paper and its algorithms make of it.

exact         mu + log E e^(2 beta eps) / 2 beta
logarithmic   mu + log(1 + 2 beta^2 Var) / 2 beta    e^x to second order
variance      mu + beta Var                          and then log(1 + x) to first: the theorem
deviation     mu + beta sqrt(Var)                    what SAC, TD3, OAC, TOP, GPL and DAC use

The logarithm's own series converges only for 2 beta^2 Var <= 1. Only `deviation` scales with the
rewards: f(c V) = c f(V).
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from dualac.theory.moments import (
    Numbers,
    Reduced,
    Scalar,
    Values,
    Weights,
    attitude,
    deviations,
    entropic_equivalent,
    entropic_premium,
    floats,
    lottery,
    mean,
    moment,
    possible,
    refuse,
    spread,
)


class Forms(NamedTuple):
    """One thing for each form of the certainty equivalent."""

    exact: Any
    logarithmic: Any
    variance: Any
    deviation: Any


def forms(values: Numbers, beta: Scalar, weights: Numbers | None = None) -> Forms:
    """Return the certainty equivalents, over the first axis."""
    return _forms(*lottery_of(values, beta, weights))


def gradients(values: Numbers, beta: Scalar, weights: Numbers | None = None) -> Forms:
    """Return each form's gradient by each value: what an actor that climbs the form really climbs.

    Each gradient sums to one over the values. That of the exact form is the softmax of 2 beta V: it
    is never negative, so no critic is ever climbed down.
    """
    return _gradients(*lottery_of(values, beta, weights))


def series_argument(values: Numbers, beta: Scalar, weights: Numbers | None = None) -> Reduced:
    """Return x = 2 beta^2 Var in log(1 + x), whose series converges only for x <= 1."""
    values, beta, weights = lottery_of(values, beta, weights)
    return 2.0 * beta**2 * moment(values, 2, weights)


def gaussian_forms(centre: Scalar, deviation: Scalar, beta: Scalar) -> Forms:
    """Return the certainty equivalents of a Gaussian value. There the variance form is exact."""
    centre, deviation, beta = floats(centre), floats(deviation), floats(beta)
    refuse(~(deviation >= 0.0), "a standard deviation is not negative")
    finite = jnp.isfinite(centre) & jnp.isfinite(deviation) & jnp.isfinite(beta)
    refuse(~finite, "mean, deviation and beta must be finite")
    variance = deviation**2
    exact = centre + beta * variance
    return Forms(exact, centre + _log_premium(variance, beta), exact, centre + beta * deviation)


def gaussian_gradients(centre: Scalar, deviation: Scalar, beta: Scalar) -> Forms:
    """Return each form's gradients by a Gaussian value's mean and standard deviation."""

    def gradient(name: str) -> tuple[Array, Array]:
        def form(centre: Array, deviation: Array) -> Array:
            return getattr(gaussian_forms(centre, deviation, beta), name).sum()

        return jax.grad(form, (0, 1))(floats(centre), floats(deviation))

    return Forms(*(gradient(name) for name in Forms._fields))


def gradient_orders(values: Numbers, beta: Scalar, weights: Numbers | None = None) -> Forms:
    """Measure the p with which each form's gradient comes to the exact one's, as spread^p, when the
    values are drawn together about their mean.

    It is measured by halving once, from a spread that rounding allows: float64 sees farther than
    float32. It is infinite where there is no difference at all.
    """
    values, beta, weights = lottery_of(values, beta, weights)
    epsilon = deviations(possible(values, weights), weights)
    widest = jnp.abs(2.0 * beta * epsilon).max()
    refuse(
        widest == 0.0, "an order of convergence needs values that differ, and a beta other than 0"
    )
    # The cube of this, a difference of gradients, keeps half of the digits.
    near = float(jnp.finfo(values.dtype).eps) ** (1 / 6) / widest
    gaps = [
        [jnp.abs(form - at_scale.exact).max() for form in at_scale]
        for at_scale in (gradients(scale * epsilon, beta, weights) for scale in (near, near / 2.0))
    ]
    return Forms(*(_order(gap, halved) for gap, halved in zip(*gaps, strict=True)))


def _order(gap: Array, halved: Array) -> Array:
    """Return the order of convergence from a gap and that at half of the spread."""
    ratio = gap / jnp.where(gap == 0.0, 1.0, halved)
    return jnp.where(gap == 0.0, jnp.inf, jnp.log2(ratio))


def lottery_of(
    values: Numbers, beta: Scalar, weights: Numbers | None
) -> tuple[Values, Float[Array, ""], Weights]:
    """Return values, beta and weights that make sense together, in one precision."""
    values, weights = lottery(values, weights)
    return values, attitude(beta).astype(values.dtype), weights


def exact_form(values: Values, beta: Scalar, weights: Weights = None) -> Reduced:
    """Return the exact form of critics that are near each other. Runs depend on its bits."""
    return mean(values, weights) + entropic_premium(values, 2.0 * beta, weights)


def anywhere_form(values: Values, beta: Scalar, weights: Weights = None) -> Reduced:
    """Return the exact form of values however far apart."""
    return entropic_equivalent(values, 2.0 * beta, weights)


def logarithmic_form(values: Values, beta: Scalar, weights: Weights = None) -> Reduced:
    return mean(values, weights) + _log_premium(moment(values, 2, weights), beta)


def variance_form(values: Values, beta: Scalar, weights: Weights = None) -> Reduced:
    return mean(values, weights) + beta * moment(values, 2, weights)


def deviation_form(values: Values, beta: Scalar, weights: Weights = None) -> Reduced:
    return mean(values, weights) + beta * spread(values, weights)


FORMS = Forms(anywhere_form, logarithmic_form, variance_form, deviation_form)


@jax.jit
def _forms(values: Values, beta: Scalar, weights: Weights) -> Forms:
    return Forms(*(form(values, beta, weights) for form in FORMS))


@jax.jit
def _gradients(values: Values, beta: Scalar, weights: Weights) -> Forms:
    return Forms(
        *(jax.grad(lambda v, form=form: form(v, beta, weights).sum())(values) for form in FORMS)
    )


def _log_premium(variance: Array, beta: Scalar) -> Array:
    """Return log(1 + x) / 2 beta, x = 2 beta^2 Var, as beta Var log(1 + x) / x: beta may be 0."""
    x = 2.0 * beta**2 * variance
    small = x < float(jnp.finfo(variance.dtype).eps)
    share = jnp.where(small, 1.0 - x / 2.0, jnp.log1p(x) / jnp.where(small, 1.0, x))
    return beta * variance * share
