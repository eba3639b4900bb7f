"""The grammar of task names: what a user may type, and the one name it stands for.

dmc/<domain>-<task>     a task of the DeepMind control suite, e.g. dmc/ball_in_cup-catch; also `ball-in-cup-catch`, `dm_control/ball_in_cup-catch-v0`
gym/<id>                an id of Gymnasium's registry, as Gymnasium spells it: gym/HalfCheetah-v5. A version is never guessed: it is part of the task
gym/<module>:<id>       the same, after importing the module that registers it; also bare `module:id`
"""

from __future__ import annotations

import re
from importlib import import_module
from importlib.util import find_spec

from dualac.errors import UsageError, nearest

# dm_control.suite.ALL_TASKS, written out: importing dm_control to read a name takes longer than all else a command does. A test holds it equal.
DMC: dict[str, tuple[str, ...]] = {
    "acrobot": ("swingup", "swingup_sparse"),
    "ball_in_cup": ("catch",),
    "cartpole": ("balance", "balance_sparse", "swingup", "swingup_sparse", "two_poles", "three_poles"),
    "cheetah": ("run",),
    "dog": ("stand", "walk", "trot", "run", "fetch"),
    "finger": ("spin", "turn_easy", "turn_hard"),
    "fish": ("upright", "swim"),
    "hopper": ("stand", "hop"),
    "humanoid": ("stand", "walk", "run", "run_pure_state"),
    "humanoid_CMU": ("stand", "walk", "run"),
    "lqr": ("lqr_2_1", "lqr_6_2"),
    "manipulator": ("bring_ball", "bring_peg", "insert_ball", "insert_peg"),
    "pendulum": ("swingup",),
    "point_mass": ("easy", "hard"),
    "quadruped": ("walk", "run", "escape", "fetch"),
    "reacher": ("easy", "hard"),
    "stacker": ("stack_2", "stack_4"),
    "swimmer": ("swimmer6", "swimmer15"),
    "walker": ("stand", "walk", "run"),
}

# The ids Gymnasium itself registers whose actions are a bounded box and whose observations are a vector, each in its newest version.
GYM = (
    "Ant-v5",
    "HalfCheetah-v5",
    "Hopper-v5",
    "Humanoid-v5",
    "HumanoidStandup-v5",
    "InvertedDoublePendulum-v5",
    "InvertedPendulum-v5",
    "MountainCarContinuous-v0",
    "Pendulum-v1",
    "Pusher-v5",
    "Reacher-v5",
    "Swimmer-v5",
    "Walker2d-v5",
)
GYM_BOX2D = ("BipedalWalker-v3", "BipedalWalkerHardcore-v3", "LunarLanderContinuous-v3")  # listed where Box2D is installed

NOT_LISTED = "not listed, yet accepted: gym/<id> for older versions and ids that other packages register, and gym/<module>:<id> for your own"

_SHIMMY_VERSION = re.compile(r"-v\d+$")
_MODULE = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*")


def canonical(text: str) -> str:
    """The one name of the task a user means; a UsageError with the nearest names where there is none."""
    text = text.strip()
    suite, slash, name = text.partition("/")
    if ":" in suite:  # a bare module:id, whose id may itself hold a namespace and a slash
        return _gym(text)
    if not slash:
        return _bare(text)
    if suite.lower() not in _GRAMMARS:
        raise UsageError(f"no suite {suite!r} in task {text!r}: the suites are {' and '.join(_LISTINGS)}{nearest(text, all_tasks())}")
    return _GRAMMARS[suite.lower()](name)


def suite_tasks(suite: str) -> list[str]:
    """The canonical names of a suite's tasks; nothing is imported or built to answer."""
    if suite not in _LISTINGS:
        raise UsageError(f"no suite {suite!r}: the suites are {' and '.join(_LISTINGS)}{nearest(suite, list(_LISTINGS))}")
    return _LISTINGS[suite]()


def all_tasks() -> list[str]:
    """The canonical names of every listed task, suite by suite; NOT_LISTED says what else is accepted."""
    return [name for suite in _LISTINGS for name in suite_tasks(suite)]


def _dmc(name: str) -> str:
    known = _DMC_BY_SPELLING.get(_spelling(name))
    if known is None:
        raise UsageError(f"no task {f'dmc/{name}'!r}{nearest(f'dmc/{name.lower()}', suite_tasks('dmc')) or _SEE_LIST}")
    return known


def _shimmy(name: str) -> str:
    return _dmc(_SHIMMY_VERSION.sub("", name))


def _bare(name: str) -> str:
    known = _DMC_BY_SPELLING.get(_spelling(name))
    if known is None:
        raise UsageError(f"no task {name!r}{nearest(name, all_tasks()) or _SEE_LIST}")
    return known


def _gym(name: str) -> str:
    module, colon, identity = name.rpartition(":")
    if colon:
        _import(module)
    import gymnasium

    if identity not in gymnasium.registry:
        cause = f"module {module} registers no task" if colon else "Gymnasium has no task"
        raise UsageError(f"{cause} {identity!r}{nearest(f'gym/{identity}', [f'gym/{one}' for one in gymnasium.registry]) or _SEE_LIST}")
    return f"gym/{name}"


def _import(module: str) -> None:
    if not _MODULE.fullmatch(module):
        raise UsageError(f"{module!r} is not a module's name: write gym/package.module:Id-v0")
    try:
        import_module(module)
    except Exception as error:  # the user's own code: whatever it raises, the sentence must name their module
        raise UsageError(f"module {module} does not import: {type(error).__name__}: {error}; is its folder on PYTHONPATH?") from error


def _spelling(name: str) -> str:
    """Names that differ only in case, or in a dash for an underscore, are one name."""
    return name.lower().replace("-", "_")


def _list_dmc() -> list[str]:
    return [f"dmc/{domain}-{task}" for domain, tasks in DMC.items() for task in tasks]


def _list_gym() -> list[str]:
    return [f"gym/{name}" for name in (*GYM, *(GYM_BOX2D if find_spec("Box2D") else ()))]


_SEE_LIST = "; `dualac list tasks` names them"
_LISTINGS = {"dmc": _list_dmc, "gym": _list_gym}
_GRAMMARS = {"dmc": _dmc, "dm_control": _shimmy, "gym": _gym}
_DMC_BY_SPELLING = {_spelling(name.removeprefix("dmc/")): name for name in _list_dmc()}
