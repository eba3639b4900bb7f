"""The rows of the table with networks small enough to train inside a test, and the data to do it
with.
"""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from dualac.agents.agent import make_agent
from dualac.agents.algorithm import Algorithm
from dualac.agents.explorers import AgentView
from dualac.agents.optimizer import Trained
from dualac.agents.update import State
from dualac.parts.paths import options, replaced
from dualac.types import Agent, Metrics, Spec, Transition

SPEC = Spec(obs_dim=3, action_dim=2)
HIDDEN = (8, 8)

# Tests compile much and run little, so XLA need not try hard: five times less to compile.
compiled = functools.partial(
    jax.jit,
    compiler_options={"xla_backend_optimization_level": 0, "xla_cpu_use_fusion_emitters": False},
)


class Learner(NamedTuple):
    """An agent, its functions compiled, and its state fresh and after a little learning."""

    row: Algorithm
    agent: Agent
    # (state, batch, key, count); without a count, one at which the actors move too
    update: Callable[..., tuple[State, Metrics]]
    explore: Callable[[State, tuple[()], jax.Array, jax.Array], tuple[jax.Array, tuple[()]]]
    exploit: Callable[[State, tuple[()], jax.Array], tuple[jax.Array, tuple[()]]]
    fresh: State
    state: State


def small(row: Algorithm, hidden: tuple[int, ...] = HIDDEN) -> Algorithm:
    """Return the row with these hidden layers, at most three critics and five quantiles."""
    row = everywhere(row, "hidden", hidden)
    return everywhere(with_part(row, "critic", k=min(row.critic.k, 3)), "n", 5)


def quick(row: Algorithm, lr: float = 1e-2) -> Algorithm:
    """Return the row with one large learning rate everywhere, so that what moves is seen."""
    return everywhere(row, "lr", lr)


def everywhere(row: Algorithm, name: str, value: Any) -> Algorithm:
    """Return the row with this value in every field of this name."""
    return replaced(
        row, {option.path: value for option in options(row) if option.path.split(".")[-1] == name}
    )


def batch_of(seed: int, size: int = 16, spec: Spec = SPEC) -> Transition:
    rng = np.random.default_rng(seed)
    return Transition(
        obs=jnp.asarray(rng.normal(size=(size, spec.obs_dim)), jnp.float32),
        action=jnp.asarray(rng.uniform(-1, 1, (size, spec.action_dim)), jnp.float32),
        reward=jnp.asarray(rng.normal(size=size), jnp.float32),
        discount=jnp.asarray(rng.random(size) < 0.8, jnp.float32),
        next_obs=jnp.asarray(rng.normal(size=(size, spec.obs_dim)), jnp.float32),
    )


def due(row: Algorithm) -> np.uint32:
    """Return the count of an update at which the actors move, however rarely they do."""
    return np.uint32(row.policy.delay - 1)


def update_by_key(agent: Agent) -> Callable[..., tuple[State, Metrics]]:
    """Make an update of (state, batch, key, count), which draws its noise by the key."""

    def update(state, batch, key, count):
        return agent.update(state, batch, agent.noise(key, batch.action.size), count)

    return update


def learner(row: Algorithm, updates: int = 20) -> Learner:
    agent = make_agent(row, SPEC)
    whole, explore, exploit = (
        compiled(update_by_key(agent)),
        compiled(agent.explore),
        compiled(agent.exploit),
    )

    def update(
        state: State, batch: Transition, key: jax.Array, count: np.uint32 | None = None
    ) -> tuple[State, Metrics]:
        return whole(state, batch, key, due(row) if count is None else count)

    fresh = state = compiled(agent.init)(jax.random.key(0))
    for step in range(updates):
        state, _ = update(state, batch_of(step), jax.random.key(step))
    return Learner(row, agent, update, explore, exploit, fresh, state)


def agent_view(some: Learner, state: State | None = None) -> AgentView:
    """Return what the row's explorer would see of this state."""
    row, state = some.row, some.state if state is None else state

    def upper(obs, action, optimism):
        return row.critic.upper(
            row.critic.values(state.critic.online.params, obs, action), optimism
        )

    policy, exploit = (
        functools.partial(act, state.policy)
        for act in (row.policy.distribution, row.policy.exploit)
    )
    return AgentView(policy, exploit, upper, row.pessimism.floor())


def trained_parts(state: Any) -> list[Trained]:
    leaves = jax.tree.leaves(state, is_leaf=lambda node: isinstance(node, Trained))
    return [leaf for leaf in leaves if isinstance(leaf, Trained)]


def same(one: Any, other: Any) -> bool:
    """Compare two trees bit for bit."""
    pairs = zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True)
    return all(np.array_equal(a, b) for a, b in pairs)


def distance(one: Any, other: Any) -> float:
    """Return the largest difference between two trees' arrays, relative to their numbers."""
    pairs = [
        (np.asarray(a, np.float64), np.asarray(b, np.float64))
        for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True)
    ]
    return max(float(np.abs(a - b).max() / max(np.abs(b).max(), 1e-30)) for a, b in pairs)


def with_part(row: Algorithm, name: str, **changes: Any) -> Algorithm:
    """Return the row with other values in one of its parts."""
    return dataclasses.replace(row, **{name: dataclasses.replace(getattr(row, name), **changes)})
