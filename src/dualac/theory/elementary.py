"""Elementary functions that keep digits, and their derivatives', where textbooks' lose them."""

import math

import jax.numpy as jnp
from jaxtyping import Array

from dualac.theory.moments import Scalar

# Within this of 1, what log x lacks of x - 1 is a series that is exact to rounding in float64.
CLOSE = 0.1


def exponential(x: Array, t: Scalar) -> Array:
    """Return (e^(t x) - 1) / t, x at t = 0, near there a series with its derivative by t."""
    t = jnp.asarray(t, x.dtype)
    z = t * x
    small = _slight(z)
    near = jnp.where(small, z, 0.0)
    series = 1.0 + near / 2.0 * (1.0 + near / 3.0 * (1.0 + near / 4.0 * (1.0 + near / 5.0)))
    return jnp.where(small, x * series, jnp.expm1(z) / jnp.where(t == 0.0, 1.0, t))


def logarithm(u: Array, t: Scalar) -> Array:
    """Return log(1 + t u) / t, the inverse of `exponential`."""
    t = jnp.asarray(t, u.dtype)
    z = t * u
    small = _slight(z)
    near = jnp.where(small, z, 0.0)
    series = 1.0 + near * (-1.0 / 2.0 + near * (1.0 / 3.0 + near * (-1.0 / 4.0 + near / 5.0)))
    return jnp.where(small, u * series, jnp.log1p(z) / jnp.where(t == 0.0, 1.0, t))


def log_ratio(x: Array, centre: Array) -> tuple[Array, Array]:
    """Return log(x / centre), and its excess over (x - centre) / centre."""
    d = (x - centre) / centre
    within = jnp.abs(d) < 0.5
    log = jnp.where(within, jnp.log1p(jnp.where(within, d, 0.0)), jnp.log(x) - jnp.log(centre))
    near = jnp.where(jnp.abs(d) < CLOSE, d, 0.0)
    s = near / (2.0 + near)  # log(1 + d) = 2 artanh s, and 2 s - d = -d s
    tail = 1 / 3 + s**2 * (1 / 5 + s**2 * (1 / 7 + s**2 * (1 / 9 + s**2 / 11)))
    return log, jnp.where(jnp.abs(d) < CLOSE, 2.0 * s**3 * tail - near * s, log - d)


def root(y: Array, exponent: Scalar) -> Array:
    """Return |y|^exponent, with gradient 0, not infinity, at 0."""
    return jnp.where(y == 0.0, 0.0, jnp.abs(jnp.where(y == 0.0, 1.0, y)) ** exponent)


def side(t: Scalar) -> tuple[Array, Array]:
    """Return the ends between which 1 + t x > 0."""
    t = jnp.asarray(t, float) if isinstance(t, float | int) else t
    edge = -1.0 / jnp.where(t == 0.0, 1.0, t)
    return jnp.where(t > 0.0, edge, -math.inf), jnp.where(t < 0.0, edge, math.inf)


def _slight(z: Array) -> Array:
    return jnp.abs(z) < float(jnp.finfo(z.dtype).eps) ** 0.2
