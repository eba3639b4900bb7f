"""Utilities: what a value is worth to someone. Each is a small final class with its value, inverse and derivatives.

All increase. A certainty equivalent does not change if a utility is multiplied by a positive number or moved by a constant, so each is written in its
simplest form: with U(0) = 0 and U'(0) = 1, or U(1) = 0 and U'(1) = 1 where it knows positive values only.
"""

import math
from dataclasses import dataclass
from typing import final

import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from dualac.errors import UsageError
from dualac.theory.moments import Scalar, Values, Weights, attitude, entropic_premium, floats, mean, refuse


class Utility:
    """What every utility can be asked. One of your own says `value`, `inverse` and `derivative`, and where it is defined."""

    def value(self, x: ArrayLike) -> Array:
        """U(x)."""
        raise NotImplementedError

    def inverse(self, u: ArrayLike) -> Array:
        """I(u), the x with U(x) = u."""
        raise NotImplementedError

    def derivative(self, x: ArrayLike, order: int = 1) -> Array:
        """The derivative of U of this order, at x."""
        raise NotImplementedError

    def domain(self) -> tuple[ArrayLike, ArrayLike]:
        """It is defined, and increases, strictly between these."""
        return -math.inf, math.inf

    def radius(self, x: Array) -> Array:
        """How far from x its Taylor series at x converges."""
        return jnp.full_like(x, math.inf)

    def check(self, x: Array) -> None:
        low, high = self.domain()
        refuse(~((x > low) & (x < high)), f"{self} is defined, and increases, for values between {low} and {high} only")

    def aversion(self, x: ArrayLike) -> Array:
        """Arrow and Pratt's absolute risk aversion -U''/U': positive where it shuns risk. The premium is about -aversion Var / 2."""
        return -self.curvature(floats(x), 2)

    def equivalent(self, values: Values, weights: Weights = None) -> Float[Array, "*rest"]:
        """I(E U(V))."""
        return self.inverse(mean(self.value(values), weights))

    def premium(self, values: Values, weights: Weights = None) -> Float[Array, "*rest"]:
        """I(E U(V)) - E V."""
        return self.equivalent(values, weights) - mean(values, weights)

    def curvature(self, x: Array, order: int) -> Array:
        """U^(n)(x) / U'(x), which is the same for all utilities that rank alike."""
        return self.derivative(x, order) / self.derivative(x, 1)

    def beyond(self, x: Array, gain: Array) -> Array:
        """The value that is worth U(x) + U'(x) gain."""
        return self.inverse(self.value(x) + self.derivative(x, 1) * gain)


@final
@dataclass(frozen=True)
class Linear(Utility):
    """U(x) = x: indifferent to risk, as DDPG is."""

    def value(self, x: ArrayLike) -> Array:
        return floats(x)

    def inverse(self, u: ArrayLike) -> Array:
        return floats(u)

    def derivative(self, x: ArrayLike, order: int = 1) -> Array:
        return jnp.full_like(floats(x), 1.0 if _order(order) == 1 else 0.0)


@final
@dataclass(frozen=True)
class Exponential(Utility):
    """U(x) = (e^(2 beta x) - 1) / (2 beta), and x at beta = 0. The paper's e^(2 beta x), made to increase for a pessimist (beta < 0) too.

    Its certainty equivalent is (1 / 2 beta) log E e^(2 beta V), about E V + beta Var V, and just that for a Gaussian. It is the only utility whose
    premium does not change with wealth: CE(V + c) = CE(V) + c.
    """

    beta: Scalar
    """attitude to risk: negative shuns it, positive seeks it; its unit is one over a value's"""

    def __post_init__(self) -> None:
        attitude(self.beta)

    def value(self, x: ArrayLike) -> Array:
        return _exponential(floats(x), self._slope())

    def inverse(self, u: ArrayLike) -> Array:
        return _logarithm(floats(u), self._slope())

    def derivative(self, x: ArrayLike, order: int = 1) -> Array:
        return self.curvature(floats(x), order) * jnp.exp(self._slope() * floats(x))

    def equivalent(self, values: Values, weights: Weights = None) -> Float[Array, "*rest"]:
        return mean(values, weights) + self.premium(values, weights)

    def premium(self, values: Values, weights: Weights = None) -> Float[Array, "*rest"]:
        return entropic_premium(values, self._slope(), weights)

    def curvature(self, x: Array, order: int) -> Array:
        return jnp.broadcast_to(jnp.asarray(self._slope(), x.dtype) ** (_order(order) - 1), x.shape)

    def beyond(self, x: Array, gain: Array) -> Array:
        return x + _logarithm(gain, self._slope())

    def _slope(self) -> Scalar:
        return 2.0 * self.beta


@final
@dataclass(frozen=True)
class Power(Utility):
    """U(x) = (x^(1 - a) - 1) / (1 - a) for x > 0, log x at a = 1: constant relative risk aversion a (CRRA). An exponential utility of log x."""

    relative_aversion: float
    """relative risk aversion a: 0 is indifferent, 1 the logarithm, negative seeks risk"""

    def __post_init__(self) -> None:
        _finite(self, self.relative_aversion)

    def value(self, x: ArrayLike) -> Array:
        return _exponential(jnp.log(floats(x)), 1.0 - self.relative_aversion)

    def inverse(self, u: ArrayLike) -> Array:
        return jnp.exp(_logarithm(floats(u), 1.0 - self.relative_aversion))

    def derivative(self, x: ArrayLike, order: int = 1) -> Array:
        factor = math.prod(-self.relative_aversion - j for j in range(_order(order) - 1))
        return factor * floats(x) ** (1.0 - self.relative_aversion - order)

    def domain(self) -> tuple[float, float]:
        return 0.0, math.inf

    def radius(self, x: Array) -> Array:
        return x

    def equivalent(self, values: Values, weights: Weights = None) -> Float[Array, "*rest"]:
        logs = jnp.log(values)
        return jnp.exp(mean(logs, weights) + entropic_premium(logs, 1.0 - self.relative_aversion, weights))


@final
@dataclass(frozen=True)
class Logarithmic(Utility):
    """U(x) = log x for x > 0: its certainty equivalent is the geometric mean."""

    def value(self, x: ArrayLike) -> Array:
        return jnp.log(floats(x))

    def inverse(self, u: ArrayLike) -> Array:
        return jnp.exp(floats(u))

    def derivative(self, x: ArrayLike, order: int = 1) -> Array:
        return Power(1.0).derivative(x, order)

    def domain(self) -> tuple[float, float]:
        return 0.0, math.inf

    def radius(self, x: Array) -> Array:
        return x


@final
@dataclass(frozen=True)
class Quadratic(Utility):
    """U(x) = x - b x^2 / 2, where b x < 1: beyond that it would fall. Only mean and variance count for it."""

    bend: float
    """b: positive shuns risk, negative seeks it"""

    def __post_init__(self) -> None:
        _finite(self, self.bend)

    def value(self, x: ArrayLike) -> Array:
        x = floats(x)
        return x - self.bend * x**2 / 2.0

    def inverse(self, u: ArrayLike) -> Array:
        u = floats(u)
        return 2.0 * u / (1.0 + jnp.sqrt(1.0 - 2.0 * self.bend * u))

    def derivative(self, x: ArrayLike, order: int = 1) -> Array:
        x = floats(x)
        return 1.0 - self.bend * x if _order(order) == 1 else jnp.full_like(x, -self.bend if order == 2 else 0.0)

    def domain(self) -> tuple[float, float]:
        turn = 1.0 / self.bend if self.bend else math.inf
        return (turn, math.inf) if self.bend < 0 else (-math.inf, turn)


@final
@dataclass(frozen=True)
class Prospect(Utility):
    """Kahneman and Tversky's value: (x - r)^a for gains over the reference r, -loss_aversion (r - x)^a for losses. Probabilities stay as they are.

    It shuns risk among gains and seeks it among losses, and a loss weighs more than the same gain.
    """

    exponent: float = 0.88
    """a, in (0, 1]; Tversky and Kahneman's estimate is 0.88"""
    loss_aversion: float = 2.25
    """how much more a loss weighs than a gain; their estimate is 2.25"""
    reference: float = 0.0
    """r: what counts as neither gain nor loss"""

    def __post_init__(self) -> None:
        _finite(self, self.reference)
        if not (0 < self.exponent <= 1 and 0 < self.loss_aversion < math.inf):
            raise UsageError(f"{self}: exponent must be in (0, 1], loss_aversion positive")

    def value(self, x: ArrayLike) -> Array:
        y = floats(x) - self.reference
        return jnp.where(y < 0.0, -self.loss_aversion, 1.0) * _root(y, self.exponent)

    def inverse(self, u: ArrayLike) -> Array:
        u = floats(u)
        y = jnp.where(u < 0.0, u / self.loss_aversion, u)
        return self.reference + jnp.sign(u) * _root(y, 1.0 / self.exponent)

    def derivative(self, x: ArrayLike, order: int = 1) -> Array:
        y = floats(x) - self.reference
        refuse(y == 0.0, f"{self} has no derivatives at its reference {self.reference}")
        factor = math.prod(self.exponent - j for j in range(_order(order)))
        side = jnp.where(y < 0.0, -self.loss_aversion * (-1.0) ** order, 1.0)
        return factor * side * jnp.abs(y) ** (self.exponent - order)

    def radius(self, x: Array) -> Array:
        return jnp.abs(x - self.reference)


def _exponential(x: Array, t: Scalar) -> Array:
    """(e^(t x) - 1) / t, and x at t = 0."""
    t = jnp.asarray(t, x.dtype)
    return jnp.where(t == 0.0, x, jnp.expm1(t * x) / jnp.where(t == 0.0, 1.0, t))


def _logarithm(u: Array, t: Scalar) -> Array:
    """log(1 + t u) / t, and u at t = 0."""
    t = jnp.asarray(t, u.dtype)
    return jnp.where(t == 0.0, u, jnp.log1p(t * u) / jnp.where(t == 0.0, 1.0, t))


def _root(y: Array, exponent: float) -> Array:
    """|y|^exponent, with gradient 0, not infinity, at 0."""
    return jnp.where(y == 0.0, 0.0, jnp.abs(jnp.where(y == 0.0, 1.0, y)) ** exponent)


def _order(order: int) -> int:
    if order < 1:
        raise UsageError(f"the order of a derivative is at least 1, not {order}")
    return order


def _finite(utility: Utility, number: float) -> None:
    if not math.isfinite(number):
        raise UsageError(f"{utility}: its numbers must be finite")
