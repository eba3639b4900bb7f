"""Moments of a lottery: values along the first axis, with weights or equally likely. The first axis
is the critics' in an agent.

Whatever is wrong with the numbers is said in a sentence as soon as they are known. Inside `jax.jit`
and `jax.vmap` they are not, and are not judged.
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

# |t epsilon| from which a certainty equivalent is counted from an end of the values, not from their
# mean
FAR = 64.0
TOLERANCE = 1e-4  # of the sum of weights: float32, and decimals typed by hand

Numbers = ArrayLike | Sequence[float]
Values = Float[Array, "k *rest"]
Weights = Float[Array, "k"] | None
Scalar = float | Array


def refuse(wrong: ArrayLike, sentence: str) -> None:
    """Raise if any of it is true."""
    with contextlib.suppress(jax.errors.ConcretizationTypeError):
        if bool(jnp.any(wrong)):
            raise UsageError(sentence)


def floats(numbers: Any) -> Array:
    """As an array of real numbers, in the precision they have, or in the one JAX is set to."""
    try:
        given = jnp.asarray(numbers)
    except (TypeError, ValueError):
        raise UsageError(f"{numbers!r} is not an array of numbers") from None
    if jnp.issubdtype(given.dtype, jnp.complexfloating):
        raise UsageError("complex numbers are not ordered: values, weights and betas are real")
    return given if jnp.issubdtype(given.dtype, jnp.floating) else given.astype(float)


def counted(number: Any, sentence: str) -> int:
    """A whole number of at least 1."""
    try:
        given = operator.index(number)
    except TypeError:
        given = 0
    if given < 1:
        raise UsageError(f"{sentence}, in whole numbers, not {number}")
    return given


def lottery(values: Numbers, weights: Numbers | None = None) -> tuple[Values, Weights]:
    """Values and weights that make sense together; the weights then sum to one exactly."""
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
    """The values, with the likeliest in place of each of weight 0, which is then as if it were not
    there.
    """
    return (
        values
        if weights is None
        else jnp.where(column(weights, values) > 0.0, values, values[jnp.argmax(weights)][None])
    )


def attitude(beta: Any) -> Float[Array, ""]:
    """A beta that makes sense: one finite number."""
    given = floats(beta)
    if given.ndim:
        raise UsageError(f"beta is one number, not {given.size}: jax.vmap takes it to many")
    refuse(~jnp.isfinite(given), f"beta must be finite, not {beta}")
    return given


def mean(values: Values, weights: Weights = None) -> Float[Array, "*rest"]:
    return (
        values.mean(axis=0) if weights is None else (column(weights, values) * values).sum(axis=0)
    )


def deviations(values: Values, weights: Weights = None) -> Values:
    """epsilon_i = V_i - V_mu."""
    centre = values.mean(axis=0, keepdims=True) if weights is None else mean(values, weights)[None]
    return values - centre


def moment(values: Values, order: int, weights: Weights = None) -> Float[Array, "*rest"]:
    """E epsilon^order: the variance at order 2."""
    return mean(deviations(values, weights) ** order, weights)


def spread(values: Values, weights: Weights = None) -> Float[Array, "*rest"]:
    """Population standard deviation, with gradient 0, not NaN, where the values agree."""
    variance = moment(values, 2, weights)
    agree = variance <= 0.0
    return jnp.where(agree, 0.0, jnp.sqrt(jnp.where(agree, 1.0, variance)))


@functools.partial(jax.jit, inline=True)  # one program where it is asked outside of one
def entropic_premium(values: Values, t: Scalar, weights: Weights = None) -> Float[Array, "*rest"]:
    """(1/t) log E e^(t epsilon): what an exponential utility of slope t adds to the mean. Finite,
    as are its gradients, whatever t and values are.

    Below |t epsilon| = eps^(1/4) it is its own series, E eps^2 t/2 + E eps^3 t^2/6 + (E eps^4 - 3
    (E eps^2)^2) t^3/24, exact to rounding there: t = 0 is no exception and has its derivative.
    """
    epsilon = deviations(values, weights)
    t = jnp.asarray(t, values.dtype)
    small = jnp.abs(t * epsilon).max(axis=0) < float(jnp.finfo(values.dtype).eps) ** 0.25

    near = jnp.where(
        small[None], epsilon, 0.0
    )  # elsewhere its powers might overflow, and spoil the gradient of what is not chosen
    x = t * near
    second = mean(near * x, weights)
    series = (
        second / 2.0
        + mean(near * x**2, weights) / 6.0
        + (mean(near * x**3, weights) - 3.0 * second * mean(x**2, weights)) / 24.0
    )

    there = _there(values, weights)
    x = t * epsilon
    top = jax.lax.stop_gradient(jnp.where(there, x, -math.inf).max(axis=0))
    log = _log_mean_exp(jnp.where(there, x - top[None], 0.0), weights)
    return jnp.where(small, series, (top + log) / jnp.where(t == 0.0, 1.0, t))


@functools.partial(jax.jit, inline=True)
def entropic_equivalent(
    values: Values, t: Scalar, weights: Weights = None, centre: Array | None = None
) -> Float[Array, "*rest"]:
    """(1/t) log E e^(t V): the mean (`centre`, if it is known better) and the premium, as long as
    they are not far apart.

    Beyond |t epsilon| = FAR, where the one would take nearly all digits of the other, it is counted
    from the value that weighs most.
    """
    t = jnp.asarray(t, values.dtype)
    near = (mean(values, weights) if centre is None else centre) + entropic_premium(
        values, t, weights
    )
    far = jnp.abs(t * deviations(values, weights)).max(axis=0) > FAR
    there = _there(values, weights)
    end = jnp.where(
        t > 0.0,
        jnp.where(there, values, -math.inf).max(axis=0),
        jnp.where(there, values, math.inf).min(axis=0),
    )
    end = jax.lax.stop_gradient(end)
    log = _log_mean_exp(jnp.where(there & far[None], t * (values - end[None]), 0.0), weights)
    return jnp.where(far, end + log / jnp.where(t == 0.0, 1.0, t), near)


def _there(values: Values, weights: Weights) -> Array:
    return (
        jnp.ones_like(values, bool)
        if weights is None
        else jnp.broadcast_to(column(weights, values) > 0.0, values.shape)
    )


def _log_mean_exp(below: Values, weights: Weights) -> Float[Array, "*rest"]:
    """log E e^x of what is at most, and somewhere, 0."""
    lack = mean(jnp.expm1(below), weights)  # in (-1, 0]
    slight = lack > -0.5  # here log1p keeps digits that a logarithm near 1 would lose
    return jnp.where(
        slight,
        jnp.log1p(jnp.where(slight, lack, 0.0)),
        jnp.log(jnp.where(slight, 1.0, mean(jnp.exp(below), weights))),
    )


def column(weights: Float[Array, "k"], values: Values) -> Float[Array, "k ..."]:
    """The weights with an axis for each of the values'."""
    return weights.reshape((-1,) + (1,) * (values.ndim - 1))
