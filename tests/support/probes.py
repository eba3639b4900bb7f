"""Five problems whose values are known, and one learner for all of them.

Each problem is a batch that is its whole experience.

What goes wrong in each names the fault: (a) the critics do not regress, (b) they do not see the
observation, (c) values do not travel back, (d) the policy does not climb, (e) a time limit is taken
for an end.
"""

import dataclasses
import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from tests.support import tiny

from dualac.agents.agent import make_agent
from dualac.agents.algorithms import ALGORITHMS
from dualac.agents.duals import Held
from dualac.agents.policies import Soft
from dualac.types import Transition

SIZE, GAMMA, UPDATES = 32, 0.5, 600
HERE, THERE = [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]


def batch(obs, reward, discount, next_obs) -> Transition:
    """Random actions; the rest is broadcast over the batch."""
    actions = np.random.default_rng(0).uniform(-1, 1, (SIZE, tiny.SPEC.action_dim))

    def filled(values, *shape):
        return jnp.asarray(np.broadcast_to(np.asarray(values, np.float32), (SIZE, *shape)))

    return Transition(
        filled(obs, 3),
        jnp.asarray(actions, jnp.float32),
        filled(reward),
        filled(discount),
        filled(next_obs, 3),
    )


def constant_reward() -> Transition:
    """Make problem (a): one step, always 1."""
    return batch(HERE, 1.0, 0.0, HERE)


def reward_by_observation() -> Transition:
    """Make problem (b): one step, 1 here and -1 there."""
    half = np.arange(SIZE) % 2 == 0
    obs = np.where(half[:, None], [HERE], [THERE])
    return batch(obs, np.where(half, 1.0, -1.0), 0.0, obs)


def two_steps() -> Transition:
    """Make problem (c): from here to there for nothing, then 1 and the end."""
    half = np.arange(SIZE) % 2 == 0
    return batch(
        np.where(half[:, None], [HERE], [THERE]),
        np.where(half, 0.0, 1.0),
        np.where(half, 1.0, 0.0),
        THERE,
    )


def reward_by_action(best=(0.5, -0.5)) -> Transition:
    """Make problem (d): one step, the closer to the best action the better."""
    empty = batch(HERE, 0.0, 0.0, HERE)
    return empty._replace(reward=-((empty.action - jnp.asarray(best)[None]) ** 2).sum(axis=-1))


def cut_by_a_time_limit(discount=1.0) -> Transition:
    """Make problem (e): 1 for ever, in episodes of one step that are no ends of the task.

    A discount of 0 is the mistake.
    """
    return batch(HERE, 1.0, discount, HERE)


class Learned(NamedTuple):
    """The values of each critic and the actions after all updates, and what was not finite."""

    values: Float[Array, "critics batch"]
    exploited: Float[Array, "batch action"]
    explored: Float[Array, "batch action"]
    nonfinite: Float[Array, ""]


@functools.cache
def learner(name: str):
    """Compile a row of the table, small and quick; its actors wait at most once.

    Its temperature is nearly zero: entropy would shift the values.
    """
    row = tiny.everywhere(tiny.quick(tiny.small(ALGORITHMS[name], (16, 16))), "polyak", 0.1)
    held = {"temperature": Held(1e-6)} if isinstance(row.policy, Soft) else {}
    row = tiny.with_part(row, "policy", delay=min(row.policy.delay, 2), **held)
    agent = make_agent(dataclasses.replace(row, gamma=GAMMA), tiny.SPEC)
    update = tiny.update_by_key(agent)
    # An actor finds what a single critic overestimates: that takes longer to die down.
    updates = UPDATES if row.critic.k > 1 else 2 * UPDATES

    @tiny.compiled
    def learn(problem):
        keys = jax.random.split(jax.random.key(0), updates + 1)
        steps = keys[1:], jnp.arange(updates, dtype=jnp.uint32)
        state, metrics = jax.lax.scan(
            lambda state, step: update(state, problem, *step), agent.init(keys[0]), steps
        )
        values = row.critic.values(state.critic.online.params, problem.obs, problem.action).mean(
            axis=-1
        )
        exploited, _ = agent.exploit(state, (), problem.obs)
        explored, _ = agent.explore(state, (), problem.obs, keys[0])
        return Learned(values, exploited, explored, metrics["nonfinite"].sum())

    return learn


def learned(name: str, problem: Transition) -> Learned:
    result = learner(name)(problem)
    assert result.nonfinite == 0
    return result
