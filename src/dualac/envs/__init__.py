"""What is learned from: one way to name a task and one shape for every environment.

Whatever the suite, `make` answers with a `gymnasium.Env` whose observation is a float32 vector,
whose action lies in [-1, 1] and whose episode is a pure function of `reset(seed=s)` and the
actions. Nothing here knows of JAX, and a suite is imported only when a task of it is made.
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
    "NOT_LISTED", "PAPER", (
        "PROTOCOLS"
    ), "TASK_SETS", "About", "Protocol", "about", "all_tasks", "canonical", "find_protocol", "make",
    "require_effect", "suite_tasks", "task_set",
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
    """The environment of a task, adapted to this library; `.task` is its canonical name.

    The first `reset()` without a seed uses `seed`; a reset with a seed never does. `render` makes
    `env.render()` answer with RGB frames. `isolated` puts it into a process of its own, which has
    so many seconds for each answer; such an environment is not drawn.
    """
    if isolated is not None:
        from dualac.envs.faults.isolated import Isolated

        return Isolated(task, seed, protocol, isolated)
    from dualac.envs.adapter import Adapted, Episodes, prepare_drawing
    from dualac.envs.suites.packages import let_go
    from dualac.machine.memory import give_back

    name = canonical(task)
    if render:
        prepare_drawing()
    suite, _, rest = name.partition("/")
    large = suite != "gym"  # whose models are small, and whose environments may be a user's own
    if large:
        give_back()
    loaded = import_module(f"dualac.envs.suites.{suite}").load(
        rest, protocol, render
    )  # canonical() lets through only suites that have a module here
    if large:
        let_go()
    return Adapted(
        loaded.env, name, Episodes(seed, protocol.cap(suite, loaded.cap), protocol.action_repeat)
    )


class About(NamedTuple):
    """What is known of a task without building it: its sizes and the steps of an episode (None
    where only its suite knows), and what its score is.
    """

    sizes: Sizes | None
    cap: int | None
    score: str
    sets: tuple[str, ...]


def about(task: str, protocol: Protocol = THE_PAPERS) -> About:
    name = canonical(task)
    suite, _, rest = name.partition("/")
    own = {"dmc": 1000, "myosuite": MYOSUITE[rest].cap if rest in MYOSUITE else 0}.get(suite, 0)
    sizes = Sizes(39, 4) if suite == "metaworld" else PAPER.get(name)
    score = "success" if suite in ("metaworld", "myosuite") else "return"
    return About(
        sizes,
        protocol.cap(suite, own) or None,
        score,
        tuple(word for word, names in TASK_SETS.items() if name in names),
    )
