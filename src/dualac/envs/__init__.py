"""Environments: one way to name a task and one shape for every environment.

Whatever the suite, `make` returns a `gymnasium.Env` whose observation is a float32 vector, whose
action lies in [-1, 1] and whose episode is a pure function of `reset(seed=s)` and the actions.
Nothing here knows of JAX, and a suite is imported only when a task of it is made.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple, overload

from dualac.envs.names import NOT_LISTED, all_tasks, canonical, suite_tasks, task_set
from dualac.envs.protocol import PROTOCOLS, Protocol, find_protocol, require_effect
from dualac.envs.tasks import MYOSUITE, PAPER, TASK_SETS, Sizes

if TYPE_CHECKING:
    from dualac.envs.adapter import Adapted
    from dualac.envs.faults.isolated import Isolated

__all__ = [
    "NOT_LISTED", "PAPER", "PROTOCOLS", "TASK_SETS", "About", "Protocol", "Sizes", "about",
    "all_tasks", "canonical", "find_protocol", "make", "require_effect", "suite_tasks",
    "task_set",
]  # fmt: skip

THE_PAPERS = PROTOCOLS["paper"]


@overload
def make(
    task: str,
    seed: int | None = ...,
    protocol: Protocol = ...,
    render: bool = ...,
    isolated: None = ...,
) -> Adapted: ...
@overload
def make(
    task: str,
    seed: int | None = ...,
    protocol: Protocol = ...,
    render: bool = ...,
    isolated: float | None = ...,
) -> Adapted | Isolated: ...
def make(
    task: str,
    seed: int | None = None,
    protocol: Protocol = THE_PAPERS,
    render: bool = False,
    isolated: float | None = None,
) -> Adapted | Isolated:
    """Make the environment of a task, adapted to this library; `.task` is its canonical name.

    The first `reset()` without a seed uses `seed`; a reset with a seed never does. `render` makes
    `env.render()` return RGB frames. `isolated` puts it into a process of its own, which has so
    many seconds for each answer; such an environment is not drawn.
    """
    if isolated is not None:
        from dualac.envs.faults.isolated import Isolated

        return Isolated(task, seed, protocol, isolated)
    from dualac.envs.adapter import Adapted, Episodes, prepare_drawing
    from dualac.envs.suites.packages import release_after_build
    from dualac.machine.memory import release_memory

    name = canonical(task)
    if render:
        prepare_drawing()
    suite, _, rest = name.partition("/")
    # canonical() lets through only suites that have a module here.
    with release_memory():
        loaded = import_module(f"dualac.envs.suites.{suite}").load(rest, protocol, render)
        if suite != "gym":  # whose environments may be a user's own
            release_after_build()
    cap = protocol.cap(suite, loaded.cap)
    return Adapted(loaded.env, name, Episodes(seed, cap, protocol.action_repeat))


class About(NamedTuple):
    """What is known of a task without building it."""

    sizes: Sizes | None  # None where only its suite knows
    cap: int | None  # the steps of an episode; None where only its suite knows
    score: str  # what it is judged by: return or success
    sets: tuple[str, ...]  # the sets of tasks that it is in


def about(task: str, protocol: Protocol = THE_PAPERS) -> About:
    """Return what is known of a task without building it."""
    name = canonical(task)
    suite, _, rest = name.partition("/")
    own_cap = 0
    if suite == "dmc":
        own_cap = 1000
    elif suite == "myosuite" and rest in MYOSUITE:
        own_cap = MYOSUITE[rest].cap
    return About(
        sizes=Sizes(39, 4) if suite == "metaworld" else PAPER.get(name),
        cap=protocol.cap(suite, own_cap) or None,
        score="success" if suite in ("metaworld", "myosuite") else "return",
        sets=tuple(set_name for set_name, tasks in TASK_SETS.items() if name in tasks),
    )
