"""The words every room shares: a task's sizes, a transition, an agent."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
from jaxtyping import Array, Float

State = Any  # one tree of arrays; each part of an algorithm owns one field of it
Memory = Any  # what acting remembers within an episode, arrays of numbers; () if nothing
Metrics = dict[str, Array]
Key = jax.Array
Obs = Float[Array, "*batch obs"]
Actions = Float[Array, "*batch action"]
Normals = Float[Array, "*batch action"]  # standard normals, of which an actor makes its actions
PerState = Float[Array, "*batch"]  # a number for each observation
AtomValues = Float[Array, "*batch atoms"]  # one atom where a critic is scalar
CriticValues = Float[Array, "critics *batch atoms"]


class Spec(NamedTuple):
    """The sizes of a task: flat observations, actions in [-1, 1]."""

    obs_dim: int
    action_dim: int


class Transition(NamedTuple):
    """One step of experience, or a batch of them: every leaf is (batch, ...).

    `discount` is 0 only where the task itself ended. A time limit is not an end: there it stays 1
    and the value of `next_obs` counts.
    """

    obs: Float[Array, "batch obs"]
    action: Float[Array, "batch action"]
    reward: Float[Array, "batch"]
    discount: Float[Array, "batch"]
    next_obs: Float[Array, "batch obs"]


class Agent(NamedTuple):
    """An algorithm on a task, as pure functions. They know of no seeds, files or environments."""

    init: Callable[[Key], State]
    """(key): make the state"""
    noise: Callable[[Key, int], Any]
    """(key, numbers in a batch's actions): draw all that one update leaves to chance"""
    update: Callable[[State, Transition, Any, Any], tuple[State, Metrics]]
    """(state, batch, noise, count): make one update, the first after `count` others; a metric that
    is NaN was not measured"""
    begin: Callable[[Key], Memory]
    """(key): make the memory of an episode"""
    explore: Callable[[State, Memory, Array, Key], tuple[Array, Memory]]
    """(state, memory, obs, key): return training's action, and the memory after it"""
    exploit: Callable[[State, Memory, Array], tuple[Array, Memory]]
    """(state, memory, obs): return the learned policy's action, and the memory after it"""
    value: Callable[[State, Array, Array], Float[Array, "batch"]]
    """(state, obs, action): return the critics' mean"""
    diagnose: Callable[[State, Transition], Metrics]
    """(state, batch): measure what is too expensive for every update"""
    observe_return: Callable[[State, Array, Key], State]
    """(state, episode's return, key): learn from how an episode went"""
    reset: Callable[..., State]
    """(state, key, only_explorer=False): start networks, scalars and optimisers afresh, or the
    explorer alone; what is known of the task stays"""
