"""Moments of a lottery: values along the first axis, with weights or equally likely. The first axis
is the critics' in an agent.

Numbers that make no sense are refused in a sentence as soon as they are known. Inside `jax.jit` and
`jax.vmap` they are not known, and are not refused.
"""

import contextlib
import functools
import math
import operator
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from dualac.errors import UsageError

# From this |t epsilon| on, a certainty equivalent is counted from an end of the values, not from
# their mean.
FAR = 64.0
TOLERANCE = 1e-4  # of the sum of weights: float32, and decimals typed by hand

Numbers = ArrayLike | Sequence[float]
Values = Float[Array, "k *rest"]
Weights = Float[Array, "k"] | None
Reduced = Float[Array, "*rest"]  # over the first axis
Scalar = float | Array


def refuse(wrong: ArrayLike, sentence: str) -> None:
    """Raise an error with this sentence if any of `wrong` is true."""
    with contextlib.suppress(jax.errors.ConcretizationTypeError):
        if bool(jnp.any(wrong)):
            raise UsageError(sentence)


def floats(numbers: Any) -> Array:
    """Return numbers as a real array, in the precision they have, or in the one JAX is set to."""
    try:
        array = jnp.asarray(numbers)
    except (TypeError, ValueError):
        raise UsageError(f"{numbers!r} is not an array of numbers") from None
    if jnp.issubdtype(array.dtype, jnp.complexfloating):
        raise UsageError("complex numbers are not ordered: values, weights and betas are real")
    return array if jnp.issubdtype(array.dtype, jnp.floating) else array.astype(float)


def require_count(number: Any, sentence: str) -> int:
    """Return a whole number; refuse one below 1."""
    try:
        count = operator.index(number)
    except TypeError:
        count = 0
    if count < 1:
        raise UsageError(f"{sentence}, in whole numbers, not {number}")
    return count


def lottery(values: Numbers, weights: Numbers | None = None) -> tuple[Values, Weights]:
    """Return values and weights that make sense together; the weights then sum to one exactly."""
    values = floats(values)
    if values.ndim == 0 or values.shape[0] == 0:
        raise UsageError(
            "an empty ensemble has no certainty equivalent: give at least one value along the "
            "first axis"
        )
    refuse(~jnp.isfinite(values), "the values must be finite")
    if weights is None:
        return values, None
    weights = floats(weights).astype(values.dtype)
    if weights.shape != values.shape[:1]:
        raise UsageError(
            f"{values.shape[0]} values need {values.shape[0]} weights, not weights of shape "
            f"{weights.shape}"
        )
    refuse(~(weights >= 0.0), "weights are probabilities: none may be negative")
    total = weights.sum()
    refuse(
        ~(jnp.abs(total - 1.0) <= TOLERANCE),
        "the weights must sum to one: divide them by their sum",
    )
    return values, weights / total


def possible(values: Values, weights: Weights = None) -> Values:
    """Replace each value of weight 0 by the likeliest, so that it does not count."""
    if weights is None:
        return values
    likeliest = values[jnp.argmax(weights)][None]
    return jnp.where(column(weights, values) > 0.0, values, likeliest)


def attitude(beta: Any) -> Float[Array, ""]:
    """Return beta as an array; refuse all but one finite number."""
    array = floats(beta)
    if array.ndim:
        raise UsageError(f"beta is one number, not {array.size}: jax.vmap takes it to many")
    refuse(~jnp.isfinite(array), f"beta must be finite, not {beta}")
    return array


def mean(values: Values, weights: Weights = None) -> Reduced:
    if weights is None:
        return values.mean(axis=0)
    return (column(weights, values) * values).sum(axis=0)


def deviations(values: Values, weights: Weights = None) -> Values:
    """Return epsilon_i = V_i - V_mu."""
    centre = values.mean(axis=0, keepdims=True) if weights is None else mean(values, weights)[None]
    return values - centre


def moment(values: Values, order: int, weights: Weights = None) -> Reduced:
    """Return E epsilon^order: the variance at order 2."""
    return mean(deviations(values, weights) ** order, weights)


def spread(values: Values, weights: Weights = None) -> Reduced:
    """Return the population standard deviation; its gradient is 0, not NaN, where values agree."""
    variance = moment(values, 2, weights)
    agree = variance <= 0.0
    return jnp.where(agree, 0.0, jnp.sqrt(jnp.where(agree, 1.0, variance)))


@functools.partial(jax.jit, inline=True)  # one program where it is called outside of one
def entropic_premium(values: Values, t: Scalar, weights: Weights = None) -> Reduced:
    """Return (1/t) log E e^(t epsilon), what an exponential utility of slope t adds to the mean. It
    and its gradients are finite, whatever t and values are.

    Below |t epsilon| = eps^(1/4) it is its own series, E eps^2 t/2 + E eps^3 t^2/6 + (E eps^4 - 3
    (E eps^2)^2) t^3/24, exact to rounding there: t = 0 is no exception and has its derivative.
    """
    epsilon = deviations(values, weights)
    t = jnp.asarray(t, values.dtype)
    small = jnp.abs(t * epsilon).max(axis=0) < float(jnp.finfo(values.dtype).eps) ** 0.25

    # Elsewhere the powers might overflow, and spoil the gradient of what is not chosen.
    near = jnp.where(small[None], epsilon, 0.0)
    x = t * near
    second = mean(near * x, weights)
    series = (
        second / 2.0
        + mean(near * x**2, weights) / 6.0
        + (mean(near * x**3, weights) - 3.0 * second * mean(x**2, weights)) / 24.0
    )

    counts = _counts(values, weights)
    x = t * epsilon
    top = jax.lax.stop_gradient(jnp.where(counts, x, -math.inf).max(axis=0))
    log = _log_mean_exp(jnp.where(counts, x - top[None], 0.0), weights)
    return jnp.where(small, series, (top + log) / jnp.where(t == 0.0, 1.0, t))


@functools.partial(jax.jit, inline=True)
def entropic_equivalent(
    values: Values, t: Scalar, weights: Weights = None, centre: Array | None = None
) -> Reduced:
    """Return (1/t) log E e^(t V): the mean (`centre`, if it is known better) and the premium, as
    long as they are not far apart.

    Beyond |t epsilon| = FAR, where the one would take nearly all digits of the other, it is counted
    from the value that weighs most.
    """
    t = jnp.asarray(t, values.dtype)
    middle = mean(values, weights) if centre is None else centre
    near = middle + entropic_premium(values, t, weights)
    far = jnp.abs(t * deviations(values, weights)).max(axis=0) > FAR
    counts = _counts(values, weights)
    largest = jnp.where(counts, values, -math.inf).max(axis=0)
    least = jnp.where(counts, values, math.inf).min(axis=0)
    end = jax.lax.stop_gradient(jnp.where(t > 0.0, largest, least))
    log = _log_mean_exp(jnp.where(counts & far[None], t * (values - end[None]), 0.0), weights)
    return jnp.where(far, end + log / jnp.where(t == 0.0, 1.0, t), near)


def _counts(values: Values, weights: Weights) -> Array:
    """Tell of each value whether it has a weight."""
    if weights is None:
        return jnp.ones_like(values, bool)
    return jnp.broadcast_to(column(weights, values) > 0.0, values.shape)


def _log_mean_exp(below: Values, weights: Weights) -> Reduced:
    """Return log E e^x of values that are at most, and somewhere, 0."""
    lack = mean(jnp.expm1(below), weights)  # in (-1, 0]
    slight = lack > -0.5  # here log1p keeps digits that a logarithm near 1 would lose
    return jnp.where(
        slight,
        jnp.log1p(jnp.where(slight, lack, 0.0)),
        jnp.log(jnp.where(slight, 1.0, mean(jnp.exp(below), weights))),
    )


def column(weights: Float[Array, "k"], values: Values) -> Float[Array, "k ..."]:
    """Return the weights with an axis for each of the values'."""
    return weights.reshape((-1,) + (1,) * (values.ndim - 1))
