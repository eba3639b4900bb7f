"""Certainty equivalents: the sure amount worth as much as a lottery, exact and by Taylor."""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool

from dualac.theory.moments import (
    Numbers,
    Reduced,
    Values,
    Weights,
    deviations,
    lottery,
    mean,
    possible,
    refuse,
    require_count,
)
from dualac.theory.utility import Utility


def certainty_equivalent(
    values: Numbers, utility: Utility, weights: Numbers | None = None
) -> Reduced:
    """Return V^c = I(E U(V)), over the first axis of `values`, which are equally likely without
    `weights`.

    It is exact. For an exponential or power utility it is a log-mean-exp, so that it neither
    over- nor underflows where U itself would.
    """
    return _finite(utility.equivalent(*_lottery_for(utility, values, weights)))


def risk_premium(values: Numbers, utility: Utility, weights: Numbers | None = None) -> Reduced:
    """Return Upsilon = V^c - E V, negative for who shuns risk: the paper's sign."""
    return _finite(utility.premium(*_lottery_for(utility, values, weights)))


class Expansion(NamedTuple):
    """A certainty equivalent by Taylor's expansion of the utility, and how near it is."""

    certainty: Reduced
    premium: Reduced
    error: Reduced  # certainty less the exact one
    converges: Bool[Array, "*rest"]  # whether higher orders come ever nearer to the exact one


def taylor(
    values: Numbers, utility: Utility, order: int = 2, weights: Numbers | None = None
) -> Expansion:
    """Return V^c with U replaced by its Taylor polynomial at the mean: I(U(mu) + sum over n =
    2..order of U^(n)(mu) / n! E(V - mu)^n).

    The paper prints the sum from n = 1 without U(mu) and without taking mu off again; this is what
    it means. For an exponential utility, order 2 is the logarithmic form mu + log(1 + 2 beta^2 Var)
    / 2 beta.
    """
    order = require_count(order, "an expansion has at least order 1")
    values, weights = _lottery_for(utility, values, weights)
    centre, epsilon = mean(values, weights), deviations(values, weights)
    gain = mean(utility.series(centre, epsilon, order), weights)
    refuse(
        ~jnp.isfinite(gain),
        f"the expansion of order {order} overflows {values.dtype}: its terms are larger than that "
        "can hold",
    )
    premium = utility.further(centre, gain)
    refuse(
        jnp.isnan(premium),
        f"the expansion of order {order} leaves the range of {utility}: it has no certainty "
        "equivalent there",
    )
    refuse(
        jnp.isinf(premium),
        f"the certainty equivalent of the expansion of order {order} overflows {values.dtype}",
    )
    reach = jnp.abs(epsilon).max(axis=0)
    return Expansion(
        centre + premium,
        premium,
        premium - utility.premium(values, weights),
        reach < utility.radius(centre),
    )


def _finite(result: Array) -> Array:
    refuse(~jnp.isfinite(result), f"the utility of these values overflows {result.dtype}")
    return result


def _lottery_for(
    utility: Utility, values: Numbers, weights: Numbers | None
) -> tuple[Values, Weights]:
    """Return values and weights; refuse weighted values that this utility does not know."""
    outcomes, probabilities = lottery(values, weights)
    outcomes = possible(outcomes, probabilities)
    utility.check(outcomes)
    return outcomes, probabilities
