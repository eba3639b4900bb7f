"""The base of utilities: what a value is worth to someone, its inverse and derivatives.

Near a bound of U no digits of x are left in U(x), so certainty equivalents and premia are not
computed through it, but relative to the mean.
"""

import math

import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array

from dualac.theory.moments import Reduced, Values, Weights, floats, mean, refuse, require_count


class Utility:
    """The base of every utility: `value`, `inverse`, `derivative`, and where it is defined."""

    def value(self, x: ArrayLike) -> Array:
        """Return U(x)."""
        raise NotImplementedError

    def inverse(self, u: ArrayLike) -> Array:
        """Return I(u), the x with U(x) = u."""
        raise NotImplementedError

    def derivative(self, x: ArrayLike, order: int = 1) -> Array:
        """Return the derivative of U of this order, at x."""
        raise NotImplementedError

    def domain(self) -> tuple[ArrayLike, ArrayLike]:
        """Return the ends between which U is defined and increases."""
        return -math.inf, math.inf

    def image(self) -> tuple[ArrayLike, ArrayLike]:
        """Return the ends between which U lies."""
        return -math.inf, math.inf

    def radius(self, x: Array) -> Array:
        """Return how far from x its Taylor series at x converges."""
        return jnp.full_like(x, math.inf)

    def check(self, x: Array) -> None:
        low, high = self.domain()
        refuse(
            ~((x > low) & (x < high)),
            f"{self} is defined, and increases, for values between {low} and {high} only",
        )

    def inside(self, x: ArrayLike) -> Array:
        """Return x as an array; refuse it outside of the domain."""
        array = floats(x)
        self.check(array)
        return array

    def reached(self, u: ArrayLike) -> Array:
        """Return u as an array; refuse it where no x is worth that much, or that little."""
        array, (low, high) = floats(u), self.image()
        refuse(
            ~((array > low) & (array < high)),
            f"{self} lies between {low} and {high} only, to rounding: no value is worth more or "
            "less",
        )
        return array

    def aversion(self, x: ArrayLike) -> Array:
        """Return Arrow and Pratt's aversion -U''/U'; the premium is about -aversion Var / 2."""
        return -self.curvature(self.inside(x), 2)

    def equivalent(self, values: Values, weights: Weights = None) -> Reduced:
        """Return the certainty equivalent I(E U(V))."""
        return self.inverse(mean(self.value(values), weights))

    def premium(self, values: Values, weights: Weights = None) -> Reduced:
        """Return the risk premium I(E U(V)) - E V."""
        return self.equivalent(values, weights) - mean(values, weights)

    def curvature(self, x: Array, order: int) -> Array:
        """Return U^(n)(x) / U'(x), which is the same for all utilities that rank alike."""
        return self.derivative(x, order) / self.derivative(x, 1)

    def series(self, x: Array, epsilon: Array, order: int) -> Array:
        """Return Taylor's polynomial for (U(x + epsilon) - U(x)) / U'(x) - epsilon: the sum over n
        = 2..order of curvature epsilon^n / n!.
        """
        total, power = jnp.zeros_like(epsilon), epsilon
        for n in range(2, order + 1):
            power, curvature = power * epsilon / n, self.curvature(x, n)
            total = total + jnp.where(curvature == 0.0, 0.0, curvature * power)
        return total

    def further(self, x: Array, gain: Array) -> Array:
        """Return how much more than x the value is that is worth U(x) + U'(x) gain."""
        return self.inverse(self.value(x) + self.derivative(x, 1) * gain) - x

    def beyond(self, x: Array, gain: Array) -> Array:
        """Return the value that is worth U(x) + U'(x) gain."""
        return x + self.further(x, gain)


class Stepped(Utility):
    """A utility whose derivatives are multiples of one another: their ratios never overflow."""

    def step(self, x: Array, order: int) -> Array:
        """Return U^(n+1)(x) / U^(n)(x)."""
        raise NotImplementedError

    def curvature(self, x: Array, order: int) -> Array:
        steps = (self.step(x, n) for n in range(1, require_order(order)))
        return math.prod(steps, start=jnp.ones_like(x))

    def series(self, x: Array, epsilon: Array, order: int) -> Array:
        total, term = jnp.zeros_like(epsilon), epsilon
        for n in range(2, order + 1):
            term = term * (self.step(x, n - 1) * epsilon / n)
            total = total + term
        return total


def require_order(order: int) -> int:
    return require_count(order, "the order of a derivative is at least 1")
