"""The actor: what it is, what it climbs, and how it acts in the TD target."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple, final

import jax
import jax.numpy as jnp
from jaxtyping import Array

from dualac import ops
from dualac.agents import networks
from dualac.agents.distributions import TanhNormal
from dualac.agents.duals import Dual, DualState, Held, Learnt
from dualac.agents.optimizer import Adam, Params, Trained, require_rates
from dualac.errors import UsageError
from dualac.parts.fields import check_fields
from dualac.types import Actions, Key, Metrics, Normals, Obs, PerState, Spec

# (obs, action) -> the value an actor climbs
Objective = Callable[[Array, Array], PerState]


@dataclass(frozen=True)
class Policy(ABC):
    """An actor: its state, its loss and how it acts. The field `actor` is what is trained."""

    stochastic: ClassVar[bool]  # whether it is a distribution, and so has `distribution`
    targets_wait: ClassVar[bool]  # whether the critics' slow copies move only when the actor does

    headline: ClassVar[str | None] = None  # the field that lists show even at its default

    hidden: tuple[int, ...] = (256, 256)
    """widths of the actor's hidden layers"""
    lr: float = 3e-4
    """Adam's learning rate of the actor"""
    delay: int = 1
    """updates of the critics for one of the actors (d)"""

    def __post_init__(self) -> None:
        check_fields(self)
        if not networks.sensible(self.hidden) or not 1 <= self.delay <= 10_000:
            raise UsageError(f"{self}: hidden sizes must be 1 to 65536, delay 1 to 10000")
        require_rates(self, self.lr)

    @property
    def optimizer(self) -> Adam:
        return Adam(self.lr)

    @property
    def chooses_successor(self) -> bool:
        """Whether a field of it says how it acts in the TD target."""
        return False

    @abstractmethod
    def init(self, key: Key, spec: Spec) -> Any: ...

    @abstractmethod
    def exploit(self, state: Any, obs: Obs) -> Actions:
        """Return its best action."""

    def distribution(self, state: Any, obs: Obs) -> TanhNormal:
        """Return what it draws its actions from, if it is stochastic."""
        raise NotImplementedError(
            f"{type(self).__name__} says it is stochastic and has no distribution"
        )

    def bonus(self, state: Any, log_prob: PerState) -> PerState:
        """Return what it is paid for an action of this log-probability, beyond its value."""
        return jnp.zeros_like(log_prob)

    def before_tanh(self, state: Any, obs: Obs) -> Actions:
        """Return what tanh makes its best action of: beyond 2 or so, tanh has no slope left."""
        return jnp.arctanh(jnp.clip(self.exploit(state, obs), -1.0 + 1e-6, 1.0 - 1e-6))

    @abstractmethod
    def backup(self, state: Any, next_obs: Obs, noise: Normals) -> tuple[Array, PerState]:
        """Return the next action of the TD target, and what it is worth beyond its value."""

    @abstractmethod
    def improve(
        self, state: Any, objective: Objective, obs: Obs, noise: Normals
    ) -> tuple[Any, Metrics]:
        """Make one step up what it climbs."""

    def update_targets(self, state: Any) -> Any:
        """Move the slow copy of the actor, where there is one, a little closer."""
        return state

    def diagnose(self, state: Any, obs: Obs) -> Metrics:
        return {}


class SoftState(NamedTuple):
    actor: Trained
    temperature: DualState


@final
@dataclass(frozen=True)
class Soft(Policy):
    """A tanh-Gaussian that maximises value and entropy: loss = E[alpha log pi(a|s) - Q(s, a)].

    The temperature alpha descends alpha (H - H*): it falls while the policy is more random than the
    target entropy H* = `entropy_per_dim` * A.
    """

    stochastic: ClassVar[bool] = True
    targets_wait: ClassVar[bool] = False

    temperature: Dual = Learnt(1.0, lr=3e-4, b1=0.9)
    """price of being predictable (alpha); a new Learnt(...) has the adjusters' learning rate unless
    it says another: Learnt(0.2, lr=3e-4, b1=0.9)
    """
    entropy_per_dim: float = -0.5
    """target entropy for each action dimension (H* = this times A)"""
    successor: Literal["sample", "mode"] = "sample"
    """next action of the TD target: a sample, paid for its entropy, or tanh(mu) without entropy"""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.temperature.check()
        another_target = self.entropy_per_dim != type(self).entropy_per_dim
        if isinstance(self.temperature, Held) and another_target:
            raise UsageError(
                "entropy_per_dim is what the temperature holds the entropy at: a held temperature "
                "holds nothing"
            )
        if not math.isfinite(self.entropy_per_dim):
            raise UsageError(f"{self}: entropy_per_dim must be finite")

    @property
    def chooses_successor(self) -> bool:
        return self.successor != "sample"

    def init(self, key: Key, spec: Spec) -> SoftState:
        params = networks.init_gaussian_actor(key, spec, self.hidden)
        return SoftState(self.optimizer.init(params), self.temperature.init())

    def distribution(self, state: SoftState, obs: Obs) -> TanhNormal:
        return _gaussian(state.actor.params, obs)

    def exploit(self, state: SoftState, obs: Obs) -> Actions:
        return self.distribution(state, obs).mode()

    def before_tanh(self, state: SoftState, obs: Obs) -> Actions:
        return self.distribution(state, obs).mean

    def backup(self, state: SoftState, next_obs: Obs, noise: Normals) -> tuple[Array, PerState]:
        """Return the next action, and what being there is worth beyond its value: -alpha log pi."""
        after = self.distribution(state, next_obs)
        if self.successor == "mode":
            return after.mode(), jnp.zeros(next_obs.shape[:-1], jnp.float32)
        action, log_prob = after.sample(noise)
        return action, self.bonus(state, log_prob)

    def bonus(self, state: SoftState, log_prob: PerState) -> PerState:
        return -self.temperature.read(state.temperature) * log_prob

    def improve(
        self, state: SoftState, objective: Objective, obs: Obs, noise: Normals
    ) -> tuple[SoftState, Metrics]:
        alpha = self.temperature.read(state.temperature)

        def loss_of(params: Params) -> tuple[Array, Array]:
            action, log_prob = _gaussian(params, obs).sample(noise)
            return (alpha * log_prob - objective(obs, action)).mean(), -log_prob.mean()

        (loss, entropy), grads = jax.value_and_grad(loss_of, has_aux=True)(state.actor.params)
        excess = entropy - self.entropy_per_dim * noise.shape[-1]
        actor, grad_norm = self.optimizer.step(state.actor, grads)
        learnt = SoftState(actor, self.temperature.adjust(state.temperature, excess))
        metrics = {"actor_loss": loss, "actor_grad_norm": grad_norm}
        return learnt, metrics | {"entropy": entropy, "ent_coef": alpha}

    def diagnose(self, state: SoftState, obs: Obs) -> Metrics:
        return _diagnose_network(self, state, obs)


def _diagnose_network(policy: Policy, state: Any, obs: Obs) -> Metrics:
    return {
        "saturation": jnp.abs(policy.before_tanh(state, obs)).mean(),
        "actor_dormant": networks.dormant(state.actor.params, obs),
    }


def _gaussian(params: Params, obs: Array) -> TanhNormal:
    return TanhNormal(*networks.gaussian_actor(params, obs))


class DeterministicState(NamedTuple):
    actor: Trained
    target: Params


@final
@dataclass(frozen=True)
class Deterministic(Policy):
    """tanh(mu(s)), which climbs the value itself: loss = -E[Q(s, tanh mu(s))].

    Its slow copy acts in the TD target, with clipped noise. TD3's delay: the actor, its slow copy
    and that of the critics move once in `delay` updates of the critics.
    """

    stochastic: ClassVar[bool] = False
    targets_wait: ClassVar[bool] = True
    headline: ClassVar[str | None] = "delay"

    delay: int = 2
    """updates of the critics for one of the actor and of all slow copies (d)"""
    target_noise: float = 0.2
    """standard deviation of the noise on the TD target's action (sigma~)"""
    noise_clip: float = 0.5
    """the most that this noise may be (c)"""
    polyak: float = 0.005
    """how far the target actor moves to the actor"""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (
            0 <= self.target_noise < math.inf
            and 0 < self.noise_clip < math.inf
            and 0 < self.polyak <= 1
        ):
            raise UsageError(
                f"{self}: target_noise must not be negative, noise_clip positive, polyak in (0, 1]"
            )
        if self.target_noise == 0 and self.noise_clip != type(self).noise_clip:
            raise UsageError(
                "noise_clip clips the noise of the TD target: with target_noise 0 there is none"
            )

    def init(self, key: Key, spec: Spec) -> DeterministicState:
        params = networks.init_deterministic_actor(key, spec, self.hidden)
        return DeterministicState(self.optimizer.init(params), jax.tree.map(jnp.copy, params))

    def exploit(self, state: DeterministicState, obs: Obs) -> Actions:
        return jnp.tanh(self.before_tanh(state, obs))

    def before_tanh(self, state: DeterministicState, obs: Obs) -> Actions:
        return networks.deterministic_actor(state.actor.params, obs)

    def backup(
        self, state: DeterministicState, next_obs: Obs, noise: Normals
    ) -> tuple[Array, PerState]:
        action = jnp.tanh(networks.deterministic_actor(state.target, next_obs))
        clipped = jnp.clip(self.target_noise * noise, -self.noise_clip, self.noise_clip)
        return jnp.clip(action + clipped, -1.0, 1.0), jnp.zeros(next_obs.shape[:-1], jnp.float32)

    def improve(
        self, state: DeterministicState, objective: Objective, obs: Obs, noise: Normals
    ) -> tuple[DeterministicState, Metrics]:
        def loss_of(params: Params) -> Array:
            return -objective(obs, jnp.tanh(networks.deterministic_actor(params, obs))).mean()

        loss, grads = jax.value_and_grad(loss_of)(state.actor.params)
        actor, grad_norm = self.optimizer.step(state.actor, grads)
        return state._replace(actor=actor), {"actor_loss": loss, "actor_grad_norm": grad_norm}

    def update_targets(self, state: DeterministicState) -> DeterministicState:
        target = ops.polyak_average(state.target, state.actor.params, self.polyak)
        return state._replace(target=target)

    def diagnose(self, state: DeterministicState, obs: Obs) -> Metrics:
        return _diagnose_network(self, state, obs)
