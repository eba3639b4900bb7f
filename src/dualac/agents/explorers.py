"""Who acts in the environment while the policy learns."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple, final

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from dualac.agents.distributions import TanhNormal
from dualac.agents.duals import Dual, DualState, Held, Learnt
from dualac.agents.networks import GaussianActor, Perturbation, action_dim, apply, sensible
from dualac.agents.trained import Params, Trained, descend, frozen, trained
from dualac.errors import UsageError
from dualac.spelling import field_hints, fitted
from dualac.types import Key, Metrics, Spec


class Surroundings(NamedTuple):
    """What an explorer may see of the rest of the agent. It is given constants: nothing it does moves the others."""

    policy: Callable[[Array], TanhNormal]
    upper: Callable[[Array, Array, Array], Float[Array, "batch"]]  # (obs, action, optimism) -> upper bound of the value
    floor: float  # the pessimist's beta


@final
@dataclass(frozen=True)
class FromPolicy:
    """The policy explores by its own randomness."""

    def check(self, floor: float) -> None:
        """Any pessimism will do."""

    def init(self, key: Key, spec: Spec, floor: float) -> tuple[()]:
        return ()

    def act(self, state: tuple[()], around: Surroundings, obs: Float[Array, "*batch obs"], key: Key) -> Float[Array, "*batch action"]:
        return around.policy(obs).sample(key)[0]

    def improve(self, state: tuple[()], around: Surroundings, obs: Float[Array, "batch obs"], key: Key) -> tuple[tuple[()], Metrics]:
        return (), {}


class OptimistState(NamedTuple):
    actor: Trained
    optimism: DualState
    kl_weight: DualState


@final
@dataclass(frozen=True)
class OptimisticActor:
    """DAC's second actor, which explores: loss = -E[Q_mu + beta_o Q_sigma] + tau E[KL(o || p)].

    It is a perturbation of the pessimist p: mean mu_p + shift(s), standard deviation sigma_p * mult(s); it acts with `std_multiplier` times that.
    The KL is taken before that widening: the optimist answers for its own deviation, not for the constant it is given.
    Two duals hold the KL per action dimension at `target_kl`. Above it, optimism beta_o falls and the KL weight tau rises; below, the reverse.

    """

    form: Literal["perturbation", "simple", "independent"] = "perturbation"
    """how it departs from the pessimist: shift and multiplier (the paper), shift only, or not tied to it: a second whole actor"""
    hidden: tuple[int, ...] = (256, 256)
    """widths of its hidden layers"""
    lr: float = 3e-4
    """Adam's learning rate of its network"""
    head_gain: float = 0.01
    """orthogonal gain of the perturbation's heads; 0 starts at KL 0 exactly"""
    std_multiplier: float = 1.25
    """standard deviation in action relative to its own (m)"""
    target_kl: float = 0.25
    """KL per action dimension that optimism and KL weight hold (KL*)"""
    optimism: Dual = Learnt(1.0)
    """weight of the critics' spread in what it climbs (beta_o), above the pessimist's"""
    kl_weight: Dual = Learnt(0.25)
    """price of departing from the pessimist (tau)"""
    kl: Literal["optimist-pessimist", "pessimist-optimist"] = "optimist-pessimist"
    """KL(o || p), the paper's printed formula and every code, or KL(p || o), its words"""
    controller: Literal["own", "executed"] = "own"
    """which deviation the KL of the two duals sees: before or after std_multiplier"""

    def __post_init__(self) -> None:
        if not sensible(self.hidden) or not 0 < self.lr < math.inf or not 0 <= self.head_gain < math.inf:
            raise UsageError(f"{self}: hidden sizes must be 1 to 65536, lr positive, head_gain not negative")
        if not (math.isfinite(self.std_multiplier) and self.std_multiplier > 0 and math.isfinite(self.target_kl) and self.target_kl > 0):
            raise UsageError(f"std_multiplier and target_kl must be positive, not {self.std_multiplier} and {self.target_kl}")
        for field, value in (("form", self.form), ("kl", self.kl), ("controller", self.controller)):
            fitted(field_hints(type(self))[field], value, field)
        if isinstance(self.optimism, Held) and isinstance(self.kl_weight, Held) and self.target_kl != type(self).target_kl:
            raise UsageError("target_kl is what optimism and KL weight hold the KL at: where both are held themselves, nothing does")
        if self.form == "independent" and self.head_gain != type(self).head_gain:
            raise UsageError("head_gain belongs to the perturbation's heads; an independent actor has none")

    def check(self, floor: float) -> None:
        self.optimism.check(floor)
        self.kl_weight.check()

    def init(self, key: Key, spec: Spec, floor: float) -> OptimistState:
        obs, mean = jnp.zeros((1, spec.obs_dim)), jnp.zeros((1, spec.action_dim))
        if self.form == "independent":
            params = GaussianActor(self.hidden, spec.action_dim).init(key, obs)
        else:
            params = self._perturbation(spec.action_dim).init(key, obs, mean)
        return OptimistState(trained(params, self.lr), self.optimism.init(floor), self.kl_weight.init())

    def act(self, state: OptimistState, around: Surroundings, obs: Float[Array, "*batch obs"], key: Key) -> Float[Array, "*batch action"]:
        return self._own(state.actor.params, around.policy(obs), obs).widened(self.std_multiplier).sample(key)[0]

    def improve(self, state: OptimistState, around: Surroundings, obs: Float[Array, "batch obs"], key: Key) -> tuple[OptimistState, Metrics]:
        optimism = self.optimism.read(state.optimism, around.floor)
        kl_weight = self.kl_weight.read(state.kl_weight)
        pessimist = frozen(around.policy(obs))

        def loss_of(params: Params) -> tuple[Array, Array]:
            own = self._own(params, pessimist, obs)
            executed = own.widened(self.std_multiplier)
            action, _ = executed.sample(key)
            loss = -around.upper(obs, action, optimism).mean() + kl_weight * self._divergence(own, pessimist).mean()
            return loss, self._divergence(own if self.controller == "own" else executed, pessimist)

        (loss, divergence), grads = jax.value_and_grad(loss_of, has_aux=True)(state.actor.params)
        per_dim = divergence / action_dim(state.actor.params)
        excess = per_dim.mean() - self.target_kl
        learnt = OptimistState(
            descend(state.actor, grads, self.lr),
            self.optimism.adjust(state.optimism, excess),
            self.kl_weight.adjust(state.kl_weight, -excess),
        )
        # The median beside the mean: rare states in which the pessimist is nearly certain dominate the mean.
        return learnt, {
            "optimistic_actor_loss": loss,
            "kl": per_dim.mean(),
            "kl_median": jnp.median(per_dim),
            "optimism": optimism,
            "kl_weight": kl_weight,
        }

    def _divergence(self, optimist: TanhNormal, pessimist: TanhNormal) -> Float[Array, "batch"]:
        return optimist.kl(pessimist) if self.kl == "optimist-pessimist" else pessimist.kl(optimist)

    def _own(self, params: Params, pessimist: TanhNormal, obs: Array) -> TanhNormal:
        """The optimist before widening."""
        if self.form == "independent":
            mean, log_std = apply(GaussianActor(self.hidden, action_dim(params)), params, obs)
            return TanhNormal(mean, log_std)
        shift, log_multiplier = apply(self._perturbation(action_dim(params)), params, obs, pessimist.mean)
        return TanhNormal(pessimist.mean + shift, pessimist.log_std + log_multiplier)

    def _perturbation(self, actions: int) -> Perturbation:
        return Perturbation(self.hidden, actions, self.head_gain, widens=self.form == "perturbation")


Explorer = FromPolicy | OptimisticActor
