"""What is learned from: one way to name a task and one shape for every environment.

Whatever the suite, `make` answers with a `gymnasium.Env` whose observation is a float32 vector, whose action lies in [-1, 1] and whose episode is a
pure function of `reset(seed=s)` and the actions. Nothing here knows of JAX, and a suite is imported only when a task of it is made.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from dualac.envs.protocol import Protocol
from dualac.envs.tasks import NOT_LISTED, all_tasks, canonical, suite_tasks

if TYPE_CHECKING:
    import gymnasium

__all__ = ["NOT_LISTED", "Protocol", "all_tasks", "canonical", "make", "suite_tasks"]

THE_TASKS_OWN = Protocol()


def make(task: str, seed: int | None = None, protocol: Protocol = THE_TASKS_OWN, render: bool = False) -> gymnasium.Env:
    """The environment of a task, adapted to this library; `.task` is its canonical name.

    The first `reset()` without a seed uses `seed`; a reset with a seed never does. `render` makes `env.render()` answer with RGB frames.
    """
    from dualac.envs.adapt import Adapted, Episodes, prepare_drawing

    name = canonical(task)
    if render:
        prepare_drawing()
    suite, _, rest = name.partition("/")
    loaded = import_module(f"dualac.envs.{suite}").load(rest, render)  # canonical() lets through only suites that have a module here
    caps = [cap for cap in (loaded.cap, protocol.time_limit) if cap]
    return Adapted(loaded.env, name, Episodes(seed, min(caps, default=0)))
