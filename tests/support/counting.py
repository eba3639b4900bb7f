"""A toy agent that counts its steps in its memory, and acts by that count alone."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from dualac.training.learner import Learner
from dualac.types import Agent, Spec


class CountingMemory(NamedTuple):
    """What it remembers within an episode."""

    steps: Any
    start: Any  # drawn at the episode's start


def action(memory: CountingMemory, spec: Spec) -> Any:
    """Return an action that is a known function of the memory."""
    return jnp.full(spec.action_dim, jnp.sin(memory.start + memory.steps))


def counting_agent(spec: Spec) -> Agent:
    """Return an agent whose only weight grows by one with every update."""

    def begin(key: Any) -> CountingMemory:
        return CountingMemory(jnp.int32(0), jax.random.uniform(key))

    def act(state: Any, memory: CountingMemory, obs: Any) -> Any:
        # A batch axis of observations would share the memory: one episode at a time.
        chosen = action(memory, spec) + 0.0 * obs[: spec.action_dim]
        return chosen, memory._replace(steps=memory.steps + 1)

    def update(state: Any, batch: Any, noise: Any, count: Any) -> Any:
        return {"weight": state["weight"] + 1.0}, {"nonfinite": jnp.float32(0.0)}

    return Agent(
        init=lambda key: {"weight": jnp.float32(0.0)},
        noise=lambda key, size: (),
        update=update,
        begin=begin,
        explore=lambda state, memory, obs, key: act(state, memory, obs),
        exploit=act,
        value=lambda state, obs, action: obs[:, 0] * state["weight"],
        diagnose=lambda state, batch: {},
        observe_return=lambda state, value, key: state,
        reset=lambda state, key, only_explorer=False: {"weight": jnp.float32(0.0)},
    )


def counting_learner(runs: list[Any], spec: Spec) -> Learner:
    """Make a learner of counting agents."""
    return Learner(runs, spec, counting_agent(spec))
