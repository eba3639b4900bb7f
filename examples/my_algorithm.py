"""An attitude of one's own: `dualac train my_algorithm.py:cautious dmc/cheetah-run`, typed in this
folder, trains it.
"""

import math
from dataclasses import dataclass

import jax.numpy as jnp

from dualac.agents.actor_critic import Algorithm
from dualac.agents.critics import Scalar
from dualac.agents.explorers import OptimisticActor
from dualac.agents.pessimism import Pessimism
from dualac.agents.policies import Soft
from dualac.errors import UsageError


@dataclass(frozen=True)
class LowerHalf(Pessimism):
    """The mean of the critics that say least: what remains of the value if the more hopeful ones
    are wrong.
    """

    share: float = 0.5
    """which share of the critics counts"""

    def __post_init__(self):
        if not 0 < self.share <= 1:
            raise UsageError(f"share must be in (0, 1], not {self.share}")

    def backup(self, state, zs, key):
        """What the TD target takes of the slow critics; zs has the axes critics, batch, atoms."""
        return self.objective(state, zs)

    def objective(self, state, zs):
        """What the actor climbs."""
        return jnp.sort(zs, axis=0)[: math.ceil(self.share * zs.shape[0])].mean(axis=0)


cautious = Algorithm(LowerHalf(), Soft(), OptimisticActor(), Scalar(k=4))
