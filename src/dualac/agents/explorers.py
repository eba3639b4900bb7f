"""Who acts in the environment while the policy learns."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, final

import jax
import jax.numpy as jnp
from jaxtyping import Array

from dualac.agents.distributions import TanhNormal
from dualac.agents.policies import Policy
from dualac.errors import UsageError
from dualac.parts.fields import check_fields
from dualac.types import Actions, Key, Metrics, Normals, Obs, PerState, Spec


class AgentView(NamedTuple):
    """What an explorer may see of the rest of the agent, as constants: it moves none of it."""

    policy: Callable[[Array], TanhNormal]  # the policy's distribution, if it is one
    exploit: Callable[[Array], Array]  # the policy's best action
    upper: Callable[[Array, Array, Array], PerState]  # upper bound of (obs, action, optimism)
    floor: float  # the pessimist's beta
    bonus: Callable[[Array], Array] = jnp.zeros_like  # what a log-probability is paid


def require_distribution(policy: Policy, why: str) -> None:
    """Refuse a policy that is no distribution."""
    if not policy.stochastic:
        raise UsageError(
            f"{why}: {type(policy).__name__} is not a distribution; give it the explorer Noise"
        )


class Explorer(ABC):
    """Who acts in the environment while the policy learns."""

    # Whether it reads `AgentView.upper`: without, settings of the upper bound are refused.
    uses_upper_bound: ClassVar[bool] = False

    headline: ClassVar[str | None] = None  # the field that lists show even at its default

    @property
    def learns(self) -> bool:
        """Whether it has something of its own to learn, and so to start afresh."""
        return type(self).improve is not Explorer.improve

    @property
    def can_be_evaluated(self) -> bool:
        """Whether it is a distribution, which can act in evaluations and in the TD target."""
        return type(self).distribution is not Explorer.distribution

    @property
    def kl_target(self) -> float | None:
        """The KL per action dimension that it holds, where it holds one."""
        return None

    def __post_init__(self) -> None:
        check_fields(self)

    @abstractmethod
    def act(self, state: Any, view: AgentView, obs: Obs, key: Key) -> Actions:
        """Return its action."""

    def check(self, policy: Policy, floor: float) -> None:
        """Refuse what it cannot explore with."""

    def distribution(self, state: Any, view: AgentView, obs: Obs) -> TanhNormal:
        """Return the distribution it acts by, if it is one."""
        raise NotImplementedError(f"{type(self).__name__} is no distribution")

    def init(self, key: Key, spec: Spec, floor: float) -> Any:
        return ()

    def improve(self, state: Any, view: AgentView, obs: Obs, noise: Normals) -> tuple[Any, Metrics]:
        return state, {}

    def diagnose(self, state: Any, view: AgentView, obs: Obs) -> Metrics:
        return {}


@final
@dataclass(frozen=True)
class FromPolicy(Explorer):
    """The policy explores by its own randomness."""

    def check(self, policy: Policy, floor: float) -> None:
        require_distribution(policy, "FromPolicy explores by the policy's own randomness")

    def act(self, state: tuple[()], view: AgentView, obs: Obs, key: Key) -> Actions:
        return view.policy(obs).sample_action(key)


@final
@dataclass(frozen=True)
class Noise(Explorer):
    """The policy's best action with noise: clip(pi(s) + N(0, sigma^2), -1, 1)."""

    sigma: float = 0.1
    """standard deviation of the noise (sigma); TD3's authors use 0.1, the DAC paper prints 0.5"""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.sigma < math.inf:
            raise UsageError(f"the noise's sigma must not be negative, not {self.sigma}")

    def act(self, state: tuple[()], view: AgentView, obs: Obs, key: Key) -> Actions:
        action = view.exploit(obs)
        noise = jax.random.normal(key, action.shape, action.dtype)
        return jnp.clip(action + self.sigma * noise, -1.0, 1.0)


@final
@dataclass(frozen=True)
class UpperBoundShift(Explorer):
    """OAC: the policy, with its mean moved up the slope of the upper bound in each state.

    It is moved as far as a KL allows, in closed form: mu_E = mu + c Sigma g / sqrt(g' Sigma g),
    g = d/dmu (Q_mu + beta_UB Q_sigma)(s, tanh mu). Its KL from the policy is c^2 / 2 whatever g is.
    """

    uses_upper_bound: ClassVar[bool] = True
    headline: ClassVar[str | None] = "optimism"

    optimism: float = 4.36
    """weight of the critics' spread in the upper bound (beta_UB)"""
    shift: float = 3.69
    """length of the step in standard deviations (c); the paper's table calls it KL constraint"""
    kl: float | None = None
    """the KL to keep instead of the step's length (delta): c = sqrt(2 delta)"""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (
            math.isfinite(self.optimism)
            and 0 <= self.shift < math.inf
            and (self.kl is None or 0 <= self.kl < math.inf)
        ):
            raise UsageError(f"{self}: optimism must be finite, shift and kl not negative")
        if self.kl is not None and self.shift != type(self).shift:
            raise UsageError(
                "give either the step's length (shift) or the KL that decides it (kl), not both"
            )

    def check(self, policy: Policy, floor: float) -> None:
        require_distribution(policy, "UpperBoundShift moves the mean of a distribution")
        if self.optimism < floor:
            raise UsageError(
                f"the upper bound's optimism {self.optimism} lies below the pessimism {floor}"
            )

    def act(self, state: tuple[()], view: AgentView, obs: Obs, key: Key) -> Actions:
        def upper(mean: Array) -> Array:
            return view.upper(obs, jnp.tanh(mean), jnp.float32(self.optimism))

        return self.shifted(view.policy(obs), upper).sample_action(key)

    def shifted(self, policy: TanhNormal, upper: Callable[[Array], Array]) -> TanhNormal:
        """Return the policy with its mean moved. The gradient of the sum is each state's own."""
        # The slope in standard deviations.
        slope = jax.grad(lambda mean: upper(mean).sum())(policy.mean) * jnp.exp(policy.log_std)
        steepest = jnp.abs(slope).max(axis=-1, keepdims=True)
        flat = steepest == 0.0
        # Only the direction counts, and squares of tiny slopes would vanish.
        scaled = slope / jnp.where(flat, 1.0, steepest)
        length = jnp.sqrt((scaled**2).sum(axis=-1, keepdims=True))
        step = self.shift if self.kl is None else math.sqrt(2.0 * self.kl)
        shift = jnp.exp(policy.log_std) * step * scaled / jnp.where(flat, 1.0, length)
        return policy._replace(mean=policy.mean + shift)
