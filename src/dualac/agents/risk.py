"""Attitudes to risk: how an ensemble of critics becomes one number.

The paper's thesis is that agents differ in the certainty equivalent they climb. Its working form, used by all of them, is

    certainty(q, beta) = mean_i q_i + beta * spread_i q_i

with beta < 0 a pessimist, 0 indifferent to risk, > 0 an optimist.
For two critics spread is |q_1 - q_2| / 2, so beta = -1 *is* the minimum and +1 the maximum.
"""

import math
from dataclasses import dataclass
from typing import final

import jax.numpy as jnp
from jaxtyping import Array, Float

from dualac.errors import UsageError
from dualac.types import Key


def spread(qs: Float[Array, "critics *rest"]) -> Float[Array, "*rest"]:
    """Population standard deviation over the critics, with gradient 0, not NaN, where they agree."""
    variance = jnp.mean((qs - qs.mean(axis=0, keepdims=True)) ** 2, axis=0)
    agree = variance <= 0.0
    return jnp.where(agree, 0.0, jnp.sqrt(jnp.where(agree, 1.0, variance)))


def certainty(qs: Float[Array, "critics *rest"], beta: float | Float[Array, ""]) -> Float[Array, "*rest"]:
    """Q^beta = Q_mu + beta Q_sigma: the value of an uncertain value to one who feels `beta` about its spread."""
    return qs.mean(axis=0) + beta * spread(qs)


@final
@dataclass(frozen=True)
class Fixed:
    """One beta for the TD target and the actor; `backup_beta` gives the TD target another one (the authors' public code has -1 there)."""

    beta: float
    """weight of the critics' spread (beta_p): -1 is the minimum of two critics, 0 their mean"""
    backup_beta: float | None = None
    """another weight for the TD target only"""

    def __post_init__(self) -> None:
        for beta in (self.beta, self.beta if self.backup_beta is None else self.backup_beta):
            if not math.isfinite(beta) or beta > 0:
                raise UsageError(f"pessimism is negative or zero (-1 is the minimum of two critics), not {beta}")

    def init(self) -> tuple[()]:
        return ()

    def floor(self) -> float:
        """The beta below which no optimist may fall."""
        return self.beta

    def backup(self, state: tuple[()], zs: Float[Array, "critics batch atoms"], key: Key) -> Float[Array, "batch atoms"]:
        return certainty(zs, self.beta if self.backup_beta is None else self.backup_beta)

    def objective(self, state: tuple[()], zs: Float[Array, "critics batch atoms"]) -> Float[Array, "batch atoms"]:
        return certainty(zs, self.beta)

    def learn(self, state: tuple[()], zs: Float[Array, "critics batch atoms"], target: Float[Array, "batch atoms"]) -> tuple[()]:
        return ()

    def hear(self, state: tuple[()], episode_return: Float[Array, ""], key: Key) -> tuple[()]:
        return ()


Pessimism = Fixed
