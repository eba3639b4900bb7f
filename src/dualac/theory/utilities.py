"""Utilities: what a value is worth to someone. Each is a small final class with its value, inverse
and derivatives.

All increase. A certainty equivalent does not change if a utility is multiplied by a positive number
or moved by a constant, so each is written in its simplest form: with U(0) = 0 and U'(0) = 1, or
U(1) = 0 and U'(1) = 1 where it knows positive values only. Near a bound of U no digits of x are
left in U(x), so certainty equivalents and premia are not computed through it, but relative to the
mean.

A utility is hashable, so `jax.jit` takes it as a static argument; to differentiate or map over its
numbers, build it inside the function.
"""

import math
from dataclasses import dataclass
from typing import final

import jax.numpy as jnp
from jax.core import Tracer
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from dualac.errors import UsageError
from dualac.theory.elementary import exponential, log_ratio, logarithm, root, side
from dualac.theory.moments import (
    Scalar,
    Values,
    Weights,
    attitude,
    counted,
    entropic_equivalent,
    entropic_premium,
    floats,
    mean,
    moment,
    refuse,
)


class Utility:
    """What every utility can be asked. One of your own says `value`, `inverse` and `derivative`,
    and where it is defined.
    """

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

    def image(self) -> tuple[ArrayLike, ArrayLike]:
        """U lies strictly between these."""
        return -math.inf, math.inf

    def radius(self, x: Array) -> Array:
        """How far from x its Taylor series at x converges."""
        return jnp.full_like(x, math.inf)

    def check(self, x: Array) -> None:
        low, high = self.domain()
        refuse(
            ~((x > low) & (x < high)),
            f"{self} is defined, and increases, for values between {low} and {high} only",
        )

    def inside(self, x: ArrayLike) -> Array:
        """x as an array, refused outside of the domain."""
        given = floats(x)
        self.check(given)
        return given

    def reached(self, u: ArrayLike) -> Array:
        """u as an array, refused where no x is worth that much, or that little."""
        given, (low, high) = floats(u), self.image()
        refuse(
            ~((given > low) & (given < high)),
            f"{self} lies between {low} and {high} only, to rounding: no value is worth more or "
            "less",
        )
        return given

    def aversion(self, x: ArrayLike) -> Array:
        """Arrow and Pratt's absolute risk aversion -U''/U': positive where it shuns risk. The
        premium is about -aversion Var / 2.
        """
        return -self.curvature(self.inside(x), 2)

    def equivalent(self, values: Values, weights: Weights = None) -> Float[Array, "*rest"]:
        """I(E U(V))."""
        return self.inverse(mean(self.value(values), weights))

    def premium(self, values: Values, weights: Weights = None) -> Float[Array, "*rest"]:
        """I(E U(V)) - E V."""
        return self.equivalent(values, weights) - mean(values, weights)

    def curvature(self, x: Array, order: int) -> Array:
        """U^(n)(x) / U'(x), which is the same for all utilities that rank alike."""
        return self.derivative(x, order) / self.derivative(x, 1)

    def series(self, x: Array, epsilon: Array, order: int) -> Array:
        """Taylor's polynomial for (U(x + epsilon) - U(x)) / U'(x) - epsilon: the sum over n =
        2..order of curvature epsilon^n / n!.
        """
        total, power = jnp.zeros_like(epsilon), epsilon
        for n in range(2, order + 1):
            power, curvature = power * epsilon / n, self.curvature(x, n)
            total = total + jnp.where(curvature == 0.0, 0.0, curvature * power)
        return total

    def further(self, x: Array, gain: Array) -> Array:
        """How much more than x is worth U(x) + U'(x) gain."""
        return self.inverse(self.value(x) + self.derivative(x, 1) * gain) - x

    def beyond(self, x: Array, gain: Array) -> Array:
        """The value that is worth U(x) + U'(x) gain."""
        return x + self.further(x, gain)


class Stepped(Utility):
    """A utility whose derivatives are known multiples of one another, so that ratios of them
    neither over- nor underflow where they do.
    """

    def step(self, x: Array, order: int) -> Array:
        """U^(n+1)(x) / U^(n)(x)."""
        raise NotImplementedError

    def curvature(self, x: Array, order: int) -> Array:
        return math.prod((self.step(x, n) for n in range(1, _order(order))), start=jnp.ones_like(x))

    def series(self, x: Array, epsilon: Array, order: int) -> Array:
        total, term = jnp.zeros_like(epsilon), epsilon
        for n in range(2, order + 1):
            term = term * (self.step(x, n - 1) * epsilon / n)
            total = total + term
        return total


@final
@dataclass(frozen=True)
class Linear(Utility):
    """U(x) = x: indifferent to risk, as DDPG is."""

    def value(self, x: ArrayLike) -> Array:
        return self.inside(x)

    def inverse(self, u: ArrayLike) -> Array:
        return self.reached(u)

    def derivative(self, x: ArrayLike, order: int = 1) -> Array:
        return jnp.full_like(self.inside(x), 1.0 if _order(order) == 1 else 0.0)

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

    def equivalent(self, values: Values, weights: Weights = None) -> Float[Array, "*rest"]:
        return entropic_equivalent(values, self._slope(), weights)

    def premium(self, values: Values, weights: Weights = None) -> Float[Array, "*rest"]:
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
    """U(x) = (x^(1 - a) - 1) / (1 - a) for x > 0, log x at a = 1: constant relative risk aversion a
    (CRRA). An exponential utility of log x.
    """

    relative_aversion: Scalar
    """relative risk aversion a: 0 is indifferent, 1 the logarithm, negative seeks risk"""

    def __post_init__(self) -> None:
        _finite(self, self.relative_aversion)

    def value(self, x: ArrayLike) -> Array:
        return exponential(jnp.log(self.inside(x)), self._slope())

    def inverse(self, u: ArrayLike) -> Array:
        return jnp.exp(logarithm(self.reached(u), self._slope()))

    def derivative(self, x: ArrayLike, order: int = 1) -> Array:
        factor = math.prod(-self.relative_aversion - j for j in range(_order(order) - 1))
        return factor * self.inside(x) ** (self._slope() - order)

    def domain(self) -> tuple[float, float]:
        return 0.0, math.inf

    def image(self) -> tuple[Array, Array]:
        return side(self._slope())

    def radius(self, x: Array) -> Array:
        polynomial = (self._slope() > 0.0) & (self._slope() == jnp.round(self._slope()))
        return jnp.where(polynomial, math.inf, x)

    def equivalent(self, values: Values, weights: Weights = None) -> Float[Array, "*rest"]:
        return mean(values, weights) * jnp.exp(self._log_gain(values, weights))

    def premium(self, values: Values, weights: Weights = None) -> Float[Array, "*rest"]:
        return mean(values, weights) * jnp.expm1(self._log_gain(values, weights))

    def step(self, x: Array, order: int) -> Array:
        return (1.0 - order - self.relative_aversion) / x

    def further(self, x: Array, gain: Array) -> Array:
        return x * jnp.expm1(logarithm(gain / x, self._slope()))

    def _slope(self) -> Scalar:
        return 1.0 - self.relative_aversion

    def _log_gain(self, values: Values, weights: Weights) -> Float[Array, "*rest"]:
        """log(V^c / E V): an exponential utility's certainty equivalent of log(V / E V), whose mean
        is as far below 0 as log x is below x - 1.
        """
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

    def equivalent(self, values: Values, weights: Weights = None) -> Float[Array, "*rest"]:
        return Power(1.0).equivalent(values, weights)

    def premium(self, values: Values, weights: Weights = None) -> Float[Array, "*rest"]:
        return Power(1.0).premium(values, weights)

    def step(self, x: Array, order: int) -> Array:
        return Power(1.0).step(x, order)

    def further(self, x: Array, gain: Array) -> Array:
        return Power(1.0).further(x, gain)


@final
@dataclass(frozen=True)
class Quadratic(Utility):
    """U(x) = x - b x^2 / 2, where b x < 1: beyond that it would fall. Only mean and variance count
    for it.
    """

    bend: Scalar
    """b: positive shuns risk, negative seeks it"""

    def __post_init__(self) -> None:
        _finite(self, self.bend)

    def value(self, x: ArrayLike) -> Array:
        x = self.inside(x)
        return x - self.bend * x**2 / 2.0

    def inverse(self, u: ArrayLike) -> Array:
        u = self.reached(u)
        return 2.0 * u / (1.0 + jnp.sqrt(1.0 - 2.0 * self.bend * u))

    def derivative(self, x: ArrayLike, order: int = 1) -> Array:
        x = self.inside(x)
        return (
            1.0 - self.bend * x
            if _order(order) == 1
            else jnp.full_like(x, -self.bend if order == 2 else 0.0)
        )

    def domain(self) -> tuple[Array, Array]:
        return side(-self.bend)

    def image(self) -> tuple[Array, Array]:
        return side(-2.0 * self.bend)

    def equivalent(self, values: Values, weights: Weights = None) -> Float[Array, "*rest"]:
        return mean(values, weights) + self.premium(values, weights)

    def premium(self, values: Values, weights: Weights = None) -> Float[Array, "*rest"]:
        centre = mean(values, weights)
        return self.further(
            centre, -self.bend / self.derivative(centre) * moment(values, 2, weights) / 2.0
        )

    def further(self, x: Array, gain: Array) -> Array:
        return 2.0 * gain / (1.0 + jnp.sqrt(1.0 - 2.0 * self.bend * gain / self.derivative(x)))


@final
@dataclass(frozen=True)
class Prospect(Stepped):
    """Kahneman and Tversky's value: (x - r)^a for gains over the reference r, -loss_aversion (r -
    x)^a for losses. Probabilities stay as they are.

    It shuns risk among gains and seeks it among losses, and a loss weighs more than the same gain.
    """

    exponent: Scalar = 0.88
    """a, in (0, 1]; Tversky and Kahneman's estimate is 0.88"""
    loss_aversion: Scalar = 2.25
    """how much more a loss weighs than a gain; their estimate is 2.25"""
    reference: Scalar = 0.0
    """r: what counts as neither gain nor loss"""

    def __post_init__(self) -> None:
        _finite(self, self.reference, self.exponent, self.loss_aversion)
        if (_known(self.exponent) and not 0 < self.exponent <= 1) or (
            _known(self.loss_aversion) and not self.loss_aversion > 0
        ):
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
        factor = math.prod(self.exponent - j for j in range(_order(order)))
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


def _order(order: int) -> int:
    return counted(order, "the order of a derivative is at least 1")


def _known(number: Scalar) -> bool:
    return not isinstance(number, Tracer)


def _finite(utility: Utility, *numbers: Scalar) -> None:
    if not all(math.isfinite(number) for number in numbers if _known(number)):
        raise UsageError(f"{utility}: its numbers must be finite")
