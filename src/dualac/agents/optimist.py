"""DAC's second actor, which explores."""

import math
from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple, final

import jax
import jax.numpy as jnp
from jaxtyping import Array

from dualac.agents import networks
from dualac.agents.distributions import TanhNormal
from dualac.agents.duals import Dual, DualState, Held, Learnt
from dualac.agents.explorers import AgentView, Explorer, require_distribution
from dualac.agents.optimizer import Adam, Params, Trained, require_rates
from dualac.agents.policies import Policy
from dualac.errors import UsageError
from dualac.types import Actions, Key, Metrics, Normals, Obs, PerState, Spec

BARRIER = 0.001
KL_QUANTILES = {"kl_q10": 0.1, "kl_median": 0.5, "kl_q90": 0.9, "kl_q99": 0.99}


class OptimistState(NamedTuple):
    actor: Trained
    optimism: DualState
    kl_weight: DualState


@final
@dataclass(frozen=True)
class OptimisticActor(Explorer):
    """DAC's second actor, which explores: loss = -E[Q_mu + beta_o Q_sigma] + tau E[KL(o || p)].

    It is a perturbation of the pessimist p: mean mu_p + shift(s), standard deviation sigma_p *
    mult(s). It acts with `std_multiplier` times that deviation. The KL is taken before that
    widening, so it is the KL of what the optimist has learnt. Two duals hold the KL per action
    dimension at `target_kl`. Above it, optimism beta_o falls and the KL weight tau rises; below,
    the reverse.
    """

    uses_upper_bound: ClassVar[bool] = True
    headline: ClassVar[str | None] = "target_kl"
    form: Literal["perturbation", "simple", "deterministic", "independent"] = "perturbation"
    """shift and multiplier (the paper), shift only, shift without noise, or a second whole actor"""
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
    largest_kl_weight: float | None = None
    """the most that the KL weight counts for in the actor's loss; the public code has 20"""
    barrier: bool = False
    """push optimism up within 0.001 of the pessimist's, as the authors' public code does"""
    optimistic_entropy: bool = False
    """pay it -alpha log pi_o; only one line of the paper's derivation has it"""

    def __post_init__(self) -> None:
        super().__post_init__()
        require_rates(self, self.lr)
        self._check_numbers()
        self._check_duals()
        self._check_form()

    def _check_numbers(self) -> None:
        if not networks.sensible(self.hidden) or not 0 <= self.head_gain < math.inf:
            raise UsageError(f"{self}: hidden sizes must be 1 to 65536, head_gain not negative")
        if not (0 < self.std_multiplier < math.inf and 0 < self.target_kl < math.inf):
            raise UsageError(
                f"std_multiplier and target_kl must be positive, not {self.std_multiplier} and "
                f"{self.target_kl}"
            )
        if self.largest_kl_weight is not None and not 0 < self.largest_kl_weight < math.inf:
            raise UsageError(f"largest_kl_weight must be positive, not {self.largest_kl_weight}")

    def _check_duals(self) -> None:
        """Refuse settings of duals that are held, and so never move."""
        optimism_is_held = isinstance(self.optimism, Held)
        kl_weight_is_held = isinstance(self.kl_weight, Held)
        about_target = self.target_kl != type(self).target_kl or self.controller != "own"
        if optimism_is_held and kl_weight_is_held and about_target:
            raise UsageError(
                "target_kl is what optimism and KL weight hold the KL at: where both are held "
                "themselves, nothing does, and controller is idle"
            )
        if self.barrier and optimism_is_held:
            raise UsageError("the barrier pushes optimism up: one that is held stays where it is")
        if self.largest_kl_weight is not None and kl_weight_is_held:
            raise UsageError(
                "largest_kl_weight bounds what a KL weight may grow to: one that is held stays "
                "where it is"
            )

    def _check_form(self) -> None:
        """Refuse settings of what this form does not have."""
        if self.form == "independent" and self.head_gain != type(self).head_gain:
            raise UsageError(
                "head_gain belongs to the perturbation's heads; an independent actor has none"
            )
        about_deviation = (
            self.std_multiplier != type(self).std_multiplier
            or self.controller == "executed"
            or self.optimistic_entropy
        )
        if self.form == "deterministic" and about_deviation:
            raise UsageError(
                "a deterministic optimist has no deviation: std_multiplier, controller and "
                "optimistic_entropy say nothing about it"
            )

    def check(self, policy: Policy, floor: float) -> None:
        require_distribution(policy, "OptimisticActor departs from a distribution by a KL")
        self.optimism.check(floor)
        bounded = isinstance(self.optimism, Learnt) and self.optimism.bounded
        if self.barrier and bounded and floor < -BARRIER:
            raise UsageError(
                "a bounded optimism stays above 0, and never comes near the pessimist's "
                f"{floor:g}: the barrier is idle"
            )
        self.kl_weight.check()

    @property
    def can_be_evaluated(self) -> bool:
        return self.form != "deterministic"

    @property
    def kl_target(self) -> float | None:
        return self.target_kl

    @property
    def optimizer(self) -> Adam:
        return Adam(self.lr)

    def init(self, key: Key, spec: Spec, floor: float) -> OptimistState:
        if self.form == "independent":
            params = networks.init_gaussian_actor(key, spec, self.hidden)
        else:
            widens = self.form == "perturbation"
            params = networks.init_perturbation(
                key, spec, self.hidden, self.head_gain, widens=widens
            )
        actor = self.optimizer.init(params)
        return OptimistState(actor, self.optimism.init(floor), self.kl_weight.init())

    def act(self, state: OptimistState, view: AgentView, obs: Obs, key: Key) -> Actions:
        executed = self.distribution(state, view, obs)
        return executed.mode() if self.form == "deterministic" else executed.sample_action(key)

    def distribution(self, state: OptimistState, view: AgentView, obs: Obs) -> TanhNormal:
        """Return what it acts by."""
        return self._own(state.actor.params, view.policy(obs), obs).widened(self.std_multiplier)

    def improve(
        self, state: OptimistState, view: AgentView, obs: Obs, noise: Normals
    ) -> tuple[OptimistState, Metrics]:
        optimism = self.optimism.read(state.optimism, view.floor)
        kl_weight = self.kl_weight.read(state.kl_weight)
        price = kl_weight
        if self.largest_kl_weight is not None:
            price = jnp.minimum(kl_weight, self.largest_kl_weight)
        pessimist = jax.lax.stop_gradient(view.policy(obs))

        def loss_of(params: Params) -> tuple[Array, Array]:
            own = self._own(params, pessimist, obs)
            executed = own.widened(self.std_multiplier)
            action, log_prob = self._action(executed, noise)
            worth = view.upper(obs, action, optimism)
            if self.optimistic_entropy:
                worth = worth + view.bonus(log_prob)
            loss = -worth.mean() + price * self._divergence(own, pessimist).mean()
            return loss, self._controlled_kl(own, pessimist).mean()

        (loss, kl), grads = jax.value_and_grad(loss_of, has_aux=True)(state.actor.params)
        actor, grad_norm = self.optimizer.step(state.actor, grads)
        slack = excess = kl - self.target_kl
        if self.barrier:
            at_the_floor = optimism < view.floor + BARRIER
            slack = excess - jnp.where(at_the_floor, 1.0, 0.0)
        learnt = OptimistState(
            actor,
            self.optimism.adjust(state.optimism, slack),
            self.kl_weight.adjust(state.kl_weight, -excess),
        )
        of_actor = {"optimistic_actor_loss": loss, "optimistic_actor_grad_norm": grad_norm}
        return learnt, of_actor | {"kl": kl, "optimism": optimism, "kl_weight": kl_weight}

    def diagnose(self, state: OptimistState, view: AgentView, obs: Obs) -> Metrics:
        params, pessimist = state.actor.params, view.policy(obs)
        inputs = (obs,) if self.form == "independent" else (obs, pessimist.mean)
        own = self._own(params, pessimist, obs)
        executed = own.widened(self.std_multiplier)
        ratio = jnp.exp(executed.log_std - pessimist.log_std).mean()
        if self.form == "deterministic":
            ratio = jnp.zeros(())
        deviations = (own.mean - pessimist.mean) * jnp.exp(-pessimist.log_std)
        shift = jnp.sqrt((deviations**2).mean(axis=-1))
        # Quantiles over states beside the mean: rare states in which the pessimist is nearly
        # certain dominate the mean.
        kl = self._controlled_kl(own, pessimist)
        quantiles = {name: jnp.quantile(kl, level) for name, level in KL_QUANTILES.items()}
        return {
            "optimistic_actor_dormant": networks.dormant(params, *inputs),
            "optimist_std_ratio": ratio,
            "optimist_shift": jnp.median(shift),
            "optimist_spread_ratio": self._spread(view, obs, own.mode())
            / jnp.maximum(self._spread(view, obs, pessimist.mode()), 1e-12),
            **quantiles,
        }

    def _spread(self, view: AgentView, obs: Array, action: Array) -> Array:
        """Return what one unit of optimism adds to the upper bound, on average."""
        one = view.upper(obs, action, jnp.float32(1.0))
        zero = view.upper(obs, action, jnp.float32(0.0))
        return (one - zero).mean()

    def _controlled_kl(self, own: TanhNormal, pessimist: TanhNormal) -> PerState:
        """Return the KL per action dimension that its duals hold."""
        controlled = own if self.controller == "own" else own.widened(self.std_multiplier)
        return self._divergence(controlled, pessimist) / own.mean.shape[-1]

    def _action(self, executed: TanhNormal, noise: Normals) -> tuple[Actions, PerState]:
        """Return what it does, and the logarithm of its density."""
        if self.form == "deterministic":
            return executed.mode(), jnp.zeros(executed.mean.shape[:-1])
        return executed.sample(noise)

    def _divergence(self, optimist: TanhNormal, pessimist: TanhNormal) -> PerState:
        return optimist.kl(pessimist) if self.kl == "optimist-pessimist" else pessimist.kl(optimist)

    def _own(self, params: Params, pessimist: TanhNormal, obs: Array) -> TanhNormal:
        if self.form == "independent":
            return TanhNormal(*networks.gaussian_actor(params, obs))
        shift, log_multiplier = networks.perturbation(params, obs, pessimist.mean)
        return TanhNormal(pessimist.mean + shift, pessimist.log_std + log_multiplier)
