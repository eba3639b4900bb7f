"""The one update of all model-free algorithms."""

from dataclasses import dataclass
from typing import Any, NamedTuple, final

import jax
import jax.numpy as jnp
from jaxtyping import Array

from dualac.agents.critics import Critic, CriticState
from dualac.agents.explorers import Explorer, Surroundings
from dualac.agents.policies import Policy
from dualac.agents.risk import Pessimism, spread
from dualac.agents.trained import all_finite
from dualac.errors import UsageError
from dualac.types import Agent, Key, Metrics, Spec, Transition


@final
@dataclass(frozen=True)
class Algorithm:
    """A row of choices: how it feels about risk, what acts, who explores, what is learned."""

    pessimism: Pessimism
    """how an ensemble of critics becomes one number"""
    policy: Policy
    """what the actor is and what it costs"""
    explorer: Explorer
    """who acts in the environment"""
    critic: Critic
    """what is learned"""
    gamma: float = 0.99
    """discount of future rewards (gamma)"""

    def __post_init__(self) -> None:
        if not 0 <= self.gamma < 1:
            raise UsageError(f"gamma must be in [0, 1), not {self.gamma}")
        self.explorer.check(self.pessimism.floor())  # parts that do not fit are refused when the row is built, not when it trains


class State(NamedTuple):
    """Everything that learns; one field a part, () where it has nothing to remember."""

    pessimism: Any
    policy: Any
    explorer: Any
    critic: CriticState


def judged(state: State) -> Any:
    """The part that `exploit` reads. Given the whole state, half of the time of an action would go into passing what it does not look at."""
    return State((), state.policy, (), ())  # pyright: ignore[reportArgumentType]


def make_agent(row: Algorithm, spec: Spec) -> Agent:
    """The pure functions of an algorithm on a task of these sizes."""

    def init(key: Key) -> State:
        k_policy, k_explorer, k_critic = jax.random.split(key, 3)
        return State(
            row.pessimism.init(),
            row.policy.init(k_policy, spec),
            row.explorer.init(k_explorer, spec, row.pessimism.floor()),
            row.critic.init(k_critic, spec),
        )

    def surroundings(state: State) -> Surroundings:
        def upper(obs: Array, action: Array, optimism: Array) -> Array:
            return row.critic.upper(row.critic.values(state.critic.online.params, obs, action), optimism)

        return Surroundings(lambda obs: row.policy.distribution(state.policy, obs), upper, row.pessimism.floor())

    def learn_values(state: State, batch: Transition, key: Key) -> tuple[State, Metrics]:
        """y = r + gamma (certainty of the target critics at a' ~ pi(s') + what the policy is paid for being there)."""
        k_action, k_backup = jax.random.split(key)
        action, bonus = row.policy.backup(state.policy, batch.next_obs, k_action)
        next_zs = row.critic.values(state.critic.target, batch.next_obs, action)
        future = row.pessimism.backup(state.pessimism, next_zs, k_backup) + bonus[:, None]
        target = jax.lax.stop_gradient(batch.reward[:, None] + row.gamma * batch.discount[:, None] * future)

        critic, seen = row.critic.learn(state.critic, batch, target)
        pessimism = row.pessimism.learn(state.pessimism, seen.values, target)
        qs = seen.values.mean(axis=-1)
        metrics = {"critic_loss": seen.loss, "q_mean": qs.mean(), "q_std": spread(qs).mean()}
        # The critics' own values are tested, before any aggregate could swallow a NaN.
        return state._replace(critic=critic, pessimism=pessimism), metrics | {"finite": all_finite((seen, next_zs))}

    def improve_policy(state: State, obs: Array, key: Key) -> tuple[State, Metrics]:
        def objective(obs: Array, action: Array) -> Array:
            return row.pessimism.objective(state.pessimism, row.critic.values(state.critic.online.params, obs, action)).mean(axis=-1)

        policy, metrics = row.policy.improve(state.policy, objective, obs, key)
        return state._replace(policy=policy), metrics

    def improve_explorer(state: State, obs: Array, key: Key) -> tuple[State, Metrics]:
        explorer, metrics = row.explorer.improve(state.explorer, surroundings(state), obs, key)
        return state._replace(explorer=explorer), metrics

    def update(state: State, batch: Transition, key: Key) -> tuple[State, Metrics]:
        """Critics, their targets, then the policy on the new critics, then the explorer on the new policy."""
        k_critic, k_policy, k_explorer = jax.random.split(key, 3)
        state, of_critic = learn_values(state, batch, k_critic)
        state, of_policy = improve_policy(state, batch.obs, k_policy)
        state, of_explorer = improve_explorer(state, batch.obs, k_explorer)
        metrics = of_critic | of_policy | of_explorer
        finite = metrics.pop("finite") & all_finite(metrics)
        return state, metrics | {"nonfinite": jnp.where(finite, 0.0, 1.0)}

    def explore(state: State, memory: tuple[()], obs: Array, key: Key) -> tuple[Array, tuple[()]]:
        return row.explorer.act(state.explorer, surroundings(state), obs, key), memory

    def exploit(state: State, memory: tuple[()], obs: Array) -> tuple[Array, tuple[()]]:
        return row.policy.exploit(state.policy, obs), memory

    def hear(state: State, episode_return: Array, key: Key) -> State:
        return state._replace(pessimism=row.pessimism.hear(state.pessimism, episode_return, key))

    return Agent(init, update, explore, exploit, hear)
