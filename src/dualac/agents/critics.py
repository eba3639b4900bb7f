"""What is learned: values of state and action, by an ensemble. Values carry an axis of atoms, of length one for a scalar critic."""

import math
from dataclasses import dataclass
from typing import NamedTuple, final

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from dualac.agents.networks import Critics, apply, sensible
from dualac.agents.risk import certainty
from dualac.agents.trained import Params, Trained, descend, polyak_average, trained
from dualac.errors import UsageError
from dualac.types import Key, Spec, Transition


class CriticState(NamedTuple):
    online: Trained
    target: Params


class Regression(NamedTuple):
    """What one step of the critic saw: its values before the step and the loss."""

    values: Float[Array, "critics batch atoms"]
    loss: Float[Array, ""]


@final
@dataclass(frozen=True)
class Scalar:
    """`k` critics regressed on one target: loss = mean over the batch of sum_i (q_i - y)^2."""

    k: int = 2
    """how many critics"""
    hidden: tuple[int, ...] = (256, 256)
    """widths of their hidden layers"""
    layer_norm: bool = False
    """normalise each hidden layer before its ReLU"""
    lr: float = 3e-4
    """Adam's learning rate"""
    polyak: float = 0.005
    """how far the target critics move to the critics at each update (the usual tau)"""

    def __post_init__(self) -> None:
        if not 1 <= self.k <= 1000 or not sensible(self.hidden) or not 0 < self.lr < math.inf or not 0 < self.polyak <= 1:
            raise UsageError(f"{self}: k must be 1 to 1000, hidden sizes 1 to 65536, lr positive, polyak in (0, 1]")

    def init(self, key: Key, spec: Spec) -> CriticState:
        params = self._network().init(key, jnp.zeros((1, spec.obs_dim)), jnp.zeros((1, spec.action_dim)))
        copy = jax.tree.map(jnp.copy, params)  # of its own: a donated state may not hold one buffer twice
        return CriticState(trained(params, self.lr), copy)

    def values(self, params: Params, obs: Array, action: Array) -> Float[Array, "critics *batch atoms"]:
        return apply(self._network(), params, obs, action)

    def upper(self, zs: Float[Array, "critics batch atoms"], optimism: Float[Array, ""]) -> Float[Array, "batch"]:
        """What an optimist sees."""
        return certainty(zs, optimism).mean(axis=-1)

    def learn(self, state: CriticState, batch: Transition, target: Float[Array, "batch atoms"]) -> tuple[CriticState, Regression]:
        def loss_of(params: Params) -> tuple[Array, Array]:
            zs = self.values(params, batch.obs, batch.action)
            return ((zs - target[None]) ** 2).mean(axis=(1, 2)).sum(), zs

        (loss, zs), grads = jax.value_and_grad(loss_of, has_aux=True)(state.online.params)
        online = descend(state.online, grads, self.lr)
        return CriticState(online, polyak_average(state.target, online.params, self.polyak)), Regression(zs, loss)

    def _network(self) -> Critics:
        return Critics(self.k, self.hidden, self.layer_norm)


Critic = Scalar
