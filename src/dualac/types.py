"""The words every room shares: a task's sizes, a transition, an agent."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
from jaxtyping import Array, Float

State = Any  # one tree of arrays; each part of an algorithm owns one field of it
Memory = Any  # what acting remembers within an episode; () for every model-free agent
Metrics = dict[str, Array]
Key = jax.Array
Normals = Float[Array, "*batch action"]  # standard normals, of which an actor makes its actions


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
    """Pure functions. Nothing here knows of seeds, files or environments."""

    init: Callable[[Key], State]
    # (key, how many numbers a batch's actions are) -> all that one update leaves to chance
    noise: Callable[[Key, int], Any]
    # (state, batch, noise, count): `count` updates came before; a NaN metric was not measured
    update: Callable[[State, Transition, Any, Any], tuple[State, Metrics]]
    explore: Callable[[State, Memory, Array, Key], tuple[Array, Memory]]
    exploit: Callable[[State, Memory, Array], tuple[Array, Memory]]
    observe_return: Callable[[State, Array, Key], State]  # what an episode returned
    reset: Callable[
        [State, Key], State
    ]  # networks, scalars and optimisers afresh; what knows only about the task stays
    restart_explorer: Callable[[State, Key], State]
    judged: Callable[
        [State], State
    ]  # the part that `exploit` reads: passing on the rest would cost half the time of an action
    exploring: Callable[[State], State]  # the part that `explore` reads
    diagnose: Callable[
        [State, Transition], Metrics
    ]  # what is too dear to be measured at every update
    value: Callable[[State, Array, Array], Float[Array, "batch"]]  # the critics' mean
    valuing: Callable[[State], State]  # the part that `value` reads
