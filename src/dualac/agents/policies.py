"""What the actor is and what it costs to be it."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, final

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from dualac.agents.distributions import TanhNormal
from dualac.agents.duals import Dual, DualState, Held, Learnt
from dualac.agents.networks import GaussianActor, action_dim, apply, sensible
from dualac.agents.trained import Params, Trained, descend, trained
from dualac.errors import UsageError
from dualac.types import Key, Metrics, Spec

Objective = Callable[[Array, Array], Float[Array, "batch"]]  # (obs, action) -> the value an actor climbs


class SoftState(NamedTuple):
    actor: Trained
    temperature: DualState


@final
@dataclass(frozen=True)
class Soft:
    """A tanh-Gaussian that maximises value and entropy: loss = E[alpha log pi(a|s) - Q(s, a)].

    The temperature alpha descends alpha (H - H*): it falls while the policy is more random than the target entropy H* = `entropy_per_dim` * A.
    """

    hidden: tuple[int, ...] = (256, 256)
    """widths of the actor's hidden layers"""
    lr: float = 3e-4
    """Adam's learning rate of the actor"""
    temperature: Dual = Learnt(1.0, lr=3e-4, b1=0.9)
    """price of being predictable (alpha)"""
    entropy_per_dim: float = -0.5
    """target entropy for each action dimension (H* = this times A)"""

    def __post_init__(self) -> None:
        self.temperature.check()
        if isinstance(self.temperature, Held) and self.entropy_per_dim != type(self).entropy_per_dim:
            raise UsageError("entropy_per_dim is what the temperature holds the entropy at: a held temperature holds nothing")
        if not sensible(self.hidden) or not 0 < self.lr < math.inf or not math.isfinite(self.entropy_per_dim):
            raise UsageError(f"{self}: hidden sizes must be 1 to 65536, lr positive, entropy_per_dim finite")

    def init(self, key: Key, spec: Spec) -> SoftState:
        params = GaussianActor(self.hidden, spec.action_dim).init(key, jnp.zeros((1, spec.obs_dim)))
        return SoftState(trained(params, self.lr), self.temperature.init())

    def distribution(self, state: SoftState, obs: Float[Array, "*batch obs"]) -> TanhNormal:
        return self._distribution(state.actor.params, obs)

    def exploit(self, state: SoftState, obs: Float[Array, "*batch obs"]) -> Float[Array, "*batch action"]:
        return self.distribution(state, obs).mode()

    def backup(self, state: SoftState, next_obs: Float[Array, "batch obs"], key: Key) -> tuple[Array, Float[Array, "batch"]]:
        """The next action, and what being there is worth beyond its value: -alpha log pi."""
        action, log_prob = self.distribution(state, next_obs).sample(key)
        return action, -self.temperature.read(state.temperature) * log_prob

    def improve(self, state: SoftState, objective: Objective, obs: Float[Array, "batch obs"], key: Key) -> tuple[SoftState, Metrics]:
        alpha = self.temperature.read(state.temperature)

        def loss_of(params: Params) -> tuple[Array, Array]:
            action, log_prob = self._distribution(params, obs).sample(key)
            return (alpha * log_prob - objective(obs, action)).mean(), -log_prob.mean()

        (loss, entropy), grads = jax.value_and_grad(loss_of, has_aux=True)(state.actor.params)
        excess = entropy - self.entropy_per_dim * action_dim(state.actor.params)
        learnt = SoftState(descend(state.actor, grads, self.lr), self.temperature.adjust(state.temperature, excess))
        return learnt, {"actor_loss": loss, "entropy": entropy, "ent_coef": alpha}

    def _distribution(self, params: Params, obs: Array) -> TanhNormal:
        mean, log_std = apply(GaussianActor(self.hidden, action_dim(params)), params, obs)
        return TanhNormal(mean, log_std)


Policy = Soft
