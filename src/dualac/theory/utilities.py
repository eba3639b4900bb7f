"""Utilities: what a value is worth to someone. Each is a small final class with its value, inverse
and derivatives.

All increase. A certainty equivalent does not change if a utility is multiplied by a positive number
or moved by a constant, so each is written in its simplest form: with U(0) = 0 and U'(0) = 1, or
U(1) = 0 and U'(1) = 1 where it knows positive values only.

A utility is hashable, so `jax.jit` takes it as a static argument; to differentiate or map over its
numbers, build it inside the function.
"""

import math
from dataclasses import dataclass
from typing import final

import jax.numpy as jnp
from jax.core import Tracer
from jax.typing import ArrayLike
from jaxtyping import Array

from dualac.errors import UsageError
from dualac.theory.elementary import exponential, log_ratio, logarithm, root, side
from dualac.theory.moments import (
    Reduced,
    Scalar,
    Values,
    Weights,
    attitude,
    entropic_equivalent,
    entropic_premium,
    mean,
    moment,
    refuse,
)
from dualac.theory.utility import Stepped, Utility, require_order


@final
@dataclass(frozen=True)
class Linear(Utility):
    """U(x) = x: indifferent to risk, as DDPG is."""

    def value(self, x: ArrayLike) -> Array:
        return self.inside(x)

    def inverse(self, u: ArrayLike) -> Array:
        return self.reached(u)

    def derivative(self, x: ArrayLike, order: int = 1) -> Array:
        return jnp.full_like(self.inside(x), 1.0 if require_order(order) == 1 else 0.0)

    def further(self, x: Array, gain: Array) -> Array:
        return gain


@final
@dataclass(frozen=True)
class Exponential(Stepped):
    """U(x) = (e^(2 beta x) - 1) / (2 beta), and x at beta = 0. The paper's e^(2 beta x), made to
    increase for a pessimist (beta < 0) too.

    Its certainty equivalent is (1 / 2 beta) log E e^(2 beta V), about E V + beta Var V, and just
    that for a Gaussian. It is the only utility whose premium does not change with wealth: CE(V + c)
    = CE(V) + c.
    """

    beta: Scalar
    """attitude to risk: negative shuns it, positive seeks it; its unit is one over a value's"""

    def __post_init__(self) -> None:
        attitude(self.beta)

    def value(self, x: ArrayLike) -> Array:
        return exponential(self.inside(x), self._slope())

    def inverse(self, u: ArrayLike) -> Array:
        return logarithm(self.reached(u), self._slope())

    def derivative(self, x: ArrayLike, order: int = 1) -> Array:
        x = self.inside(x)
        return self.curvature(x, order) * jnp.exp(self._slope() * x)

    def image(self) -> tuple[Array, Array]:
        return side(self._slope())

    def equivalent(self, values: Values, weights: Weights = None) -> Reduced:
        return entropic_equivalent(values, self._slope(), weights)

    def premium(self, values: Values, weights: Weights = None) -> Reduced:
        return entropic_premium(values, self._slope(), weights)

    def step(self, x: Array, order: int) -> Array:
        return jnp.broadcast_to(jnp.asarray(self._slope(), x.dtype), x.shape)

    def further(self, x: Array, gain: Array) -> Array:
        return logarithm(gain, self._slope())

    def _slope(self) -> Scalar:
        return 2.0 * self.beta


@final
@dataclass(frozen=True)
class Power(Stepped):
    """CRRA: U(x) = (x^(1 - a) - 1) / (1 - a) for x > 0, log x at a = 1."""

    relative_aversion: Scalar
    """relative risk aversion a: 0 is indifferent, 1 the logarithm, negative seeks risk"""

    def __post_init__(self) -> None:
        _require_finite(self, self.relative_aversion)

    def value(self, x: ArrayLike) -> Array:
        return exponential(jnp.log(self.inside(x)), self._slope())

    def inverse(self, u: ArrayLike) -> Array:
        return jnp.exp(logarithm(self.reached(u), self._slope()))

    def derivative(self, x: ArrayLike, order: int = 1) -> Array:
        factor = math.prod(-self.relative_aversion - j for j in range(require_order(order) - 1))
        return factor * self.inside(x) ** (self._slope() - order)

    def domain(self) -> tuple[float, float]:
        return 0.0, math.inf

    def image(self) -> tuple[Array, Array]:
        return side(self._slope())

    def radius(self, x: Array) -> Array:
        polynomial = (self._slope() > 0.0) & (self._slope() == jnp.round(self._slope()))
        return jnp.where(polynomial, math.inf, x)

    def equivalent(self, values: Values, weights: Weights = None) -> Reduced:
        return mean(values, weights) * jnp.exp(self._log_gain(values, weights))

    def premium(self, values: Values, weights: Weights = None) -> Reduced:
        return mean(values, weights) * jnp.expm1(self._log_gain(values, weights))

    def step(self, x: Array, order: int) -> Array:
        return (1.0 - order - self.relative_aversion) / x

    def further(self, x: Array, gain: Array) -> Array:
        return x * jnp.expm1(logarithm(gain / x, self._slope()))

    def _slope(self) -> Scalar:
        return 1.0 - self.relative_aversion

    def _log_gain(self, values: Values, weights: Weights) -> Reduced:
        """Return log(V^c / E V): the exponential utility's equivalent of log(V / E V)."""
        logs, rest = log_ratio(values, mean(values, weights)[None])
        return entropic_equivalent(logs, self._slope(), weights, mean(rest, weights))


@final
@dataclass(frozen=True)
class Logarithmic(Stepped):
    """U(x) = log x for x > 0: its certainty equivalent is the geometric mean."""

    def value(self, x: ArrayLike) -> Array:
        return jnp.log(self.inside(x))

    def inverse(self, u: ArrayLike) -> Array:
        return jnp.exp(self.reached(u))

    def derivative(self, x: ArrayLike, order: int = 1) -> Array:
        return Power(1.0).derivative(self.inside(x), order)

    def domain(self) -> tuple[float, float]:
        return 0.0, math.inf

    def radius(self, x: Array) -> Array:
        return x

    def equivalent(self, values: Values, weights: Weights = None) -> Reduced:
        return Power(1.0).equivalent(values, weights)

    def premium(self, values: Values, weights: Weights = None) -> Reduced:
        return Power(1.0).premium(values, weights)

    def step(self, x: Array, order: int) -> Array:
        return Power(1.0).step(x, order)

    def further(self, x: Array, gain: Array) -> Array:
        return Power(1.0).further(x, gain)


@final
@dataclass(frozen=True)
class Quadratic(Utility):
    """U(x) = x - b x^2 / 2, where b x < 1 (beyond it falls): mean and variance alone count."""

    bend: Scalar
    """b: positive shuns risk, negative seeks it"""

    def __post_init__(self) -> None:
        _require_finite(self, self.bend)

    def value(self, x: ArrayLike) -> Array:
        x = self.inside(x)
        return x - self.bend * x**2 / 2.0

    def inverse(self, u: ArrayLike) -> Array:
        u = self.reached(u)
        return 2.0 * u / (1.0 + jnp.sqrt(1.0 - 2.0 * self.bend * u))

    def derivative(self, x: ArrayLike, order: int = 1) -> Array:
        x = self.inside(x)
        if require_order(order) == 1:
            return 1.0 - self.bend * x
        return jnp.full_like(x, -self.bend if order == 2 else 0.0)

    def domain(self) -> tuple[Array, Array]:
        return side(-self.bend)

    def image(self) -> tuple[Array, Array]:
        return side(-2.0 * self.bend)

    def equivalent(self, values: Values, weights: Weights = None) -> Reduced:
        return mean(values, weights) + self.premium(values, weights)

    def premium(self, values: Values, weights: Weights = None) -> Reduced:
        centre = mean(values, weights)
        gain = -self.bend / self.derivative(centre) * moment(values, 2, weights) / 2.0
        return self.further(centre, gain)

    def further(self, x: Array, gain: Array) -> Array:
        return 2.0 * gain / (1.0 + jnp.sqrt(1.0 - 2.0 * self.bend * gain / self.derivative(x)))


@final
@dataclass(frozen=True)
class Prospect(Stepped):
    """Kahneman and Tversky's value: U(x) = (x - r)^a for gains over the reference r, -loss_aversion
    (r - x)^a for losses. Probabilities stay as they are.

    It shuns risk among gains and seeks it among losses, and a loss weighs more than the same gain.
    """

    exponent: Scalar = 0.88
    """a, in (0, 1]; Tversky and Kahneman's estimate is 0.88"""
    loss_aversion: Scalar = 2.25
    """how much more a loss weighs than a gain; their estimate is 2.25"""
    reference: Scalar = 0.0
    """r: what counts as neither gain nor loss"""

    def __post_init__(self) -> None:
        _require_finite(self, self.reference, self.exponent, self.loss_aversion)
        bad_exponent = _known(self.exponent) and not 0 < self.exponent <= 1
        bad_aversion = _known(self.loss_aversion) and not self.loss_aversion > 0
        if bad_exponent or bad_aversion:
            raise UsageError(f"{self}: exponent must be in (0, 1], loss_aversion positive")

    def value(self, x: ArrayLike) -> Array:
        y = self.inside(x) - self.reference
        return jnp.where(y < 0.0, -self.loss_aversion, 1.0) * root(y, self.exponent)

    def inverse(self, u: ArrayLike) -> Array:
        u = self.reached(u)
        y = jnp.where(u < 0.0, u / self.loss_aversion, u)
        return self.reference + jnp.sign(u) * root(y, 1.0 / self.exponent)

    def derivative(self, x: ArrayLike, order: int = 1) -> Array:
        y = self._apart(self.inside(x))
        factor = math.prod(self.exponent - j for j in range(require_order(order)))
        side = jnp.where(y < 0.0, -self.loss_aversion * (-1.0) ** order, 1.0)
        return factor * side * jnp.abs(y) ** (self.exponent - order)

    def radius(self, x: Array) -> Array:
        return jnp.abs(x - self.reference)

    def step(self, x: Array, order: int) -> Array:
        return (self.exponent - order) / self._apart(x)

    def _apart(self, x: Array) -> Array:
        y = x - self.reference
        refuse(y == 0.0, f"{self} has no derivatives at its reference {self.reference}")
        return y


def _known(number: Scalar) -> bool:
    """Tell whether a number has a value now: inside `jax.jit` it has none."""
    return not isinstance(number, Tracer)


def _require_finite(utility: Utility, *numbers: Scalar) -> None:
    if not all(math.isfinite(number) for number in numbers if _known(number)):
        raise UsageError(f"{utility}: its numbers must be finite")
