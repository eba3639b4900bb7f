"""A pessimism of your own. `dualac train my_algorithm.py:cautious dmc/cheetah-run`, typed in this
folder, trains it.
"""

import math
from dataclasses import dataclass

import jax.numpy as jnp

from dualac.agents import Algorithm, OptimisticActor, Pessimism, Scalar, Soft
from dualac.errors import UsageError


@dataclass(frozen=True)
class LowerHalf(Pessimism):
    """The mean of the lowest critics: what remains of the value if the others are wrong."""

    share: float = 0.5
    """which share of the critics counts"""

    def __post_init__(self):
        super().__post_init__()  # checks the types of the fields
        if not 0 < self.share <= 1:
            raise UsageError(f"share must be in (0, 1], not {self.share}")

    def backup(self, state, zs, key):
        """Return what the TD target takes of the slow critics; zs is (critics, batch, atoms)."""
        return self.objective(state, zs)

    def objective(self, state, zs):
        """Return what the actor climbs."""
        return jnp.sort(zs, axis=0)[: math.ceil(self.share * zs.shape[0])].mean(axis=0)


cautious = Algorithm(LowerHalf(), Soft(), OptimisticActor(), Scalar(k=4))
