"""Certainty equivalents: the sure amount that is worth as much as an uncertain value, exactly and by Taylor's expansion."""

import math
from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from dualac.errors import UsageError
from dualac.theory.moments import Numbers, deviations, lottery, mean, moment, refuse
from dualac.theory.utilities import Utility


def certainty_equivalent(values: Numbers, utility: Utility, weights: Numbers | None = None) -> Float[Array, "*rest"]:
    """V^c = I(E U(V)), over the first axis of `values`, which are equally likely unless `weights` says otherwise.

    Exact. For an exponential or power utility it is a log-mean-exp, so that it neither over- nor underflows where U itself would.
    """
    values, weights = lottery(values, weights)
    utility.check(values)
    return utility.equivalent(values, weights)


def risk_premium(values: Numbers, utility: Utility, weights: Numbers | None = None) -> Float[Array, "*rest"]:
    """Upsilon = V^c - E V: negative for who shuns risk. The paper's sign; economists often write the opposite."""
    values, weights = lottery(values, weights)
    utility.check(values)
    return utility.premium(values, weights)


class Expansion(NamedTuple):
    """A certainty equivalent by Taylor's expansion of the utility, and what it is worth."""

    certainty: Float[Array, "*rest"]
    premium: Float[Array, "*rest"]
    error: Float[Array, "*rest"]  # certainty less the exact one
    converges: Bool[Array, "*rest"]  # whether higher orders come as near to it as one likes


def taylor(values: Numbers, utility: Utility, order: int = 2, weights: Numbers | None = None) -> Expansion:
    """V^c with U replaced by its Taylor polynomial at the mean: I(U(mu) + sum over n = 2..order of U^(n)(mu) / n! E(V - mu)^n).

    The paper prints the sum from n = 1 without U(mu) and without taking mu off again; this is what it means. For an exponential utility,
    order 2 is the logarithmic form mu + log(1 + 2 beta^2 Var) / 2 beta.
    """
    if order < 1:
        raise UsageError(f"an expansion has at least order 1, not {order}")
    values, weights = lottery(values, weights)
    utility.check(values)
    centre = mean(values, weights)
    terms = [utility.curvature(centre, n) * moment(values, n, weights) / math.factorial(n) for n in range(2, order + 1)]
    certainty = utility.beyond(centre, sum(terms, jnp.zeros_like(centre)))
    refuse(~jnp.isfinite(certainty), f"the expansion of order {order} leaves the range of {utility}: it has no certainty equivalent there")
    reach = jnp.abs(deviations(values, weights)).max(axis=0)
    premium = certainty - centre
    return Expansion(certainty, premium, premium - utility.premium(values, weights), reach < utility.radius(centre))
