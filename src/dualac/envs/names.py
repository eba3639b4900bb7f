"""The grammar of task names: what a user may type, and the one name it stands for.

dmc/<domain>-<task>
    A task of the DeepMind control suite, for example dmc/ball_in_cup-catch.
    Also: ball-in-cup-catch, dm_control/ball_in_cup-catch-v0.
metaworld/<name>
    A task of Meta-World, version 3, goal in sight, for example metaworld/hammer.
    Also: metaworld/hammer-v3, hammer-v3, mw-hammer.
myosuite/<name>
    One of the paper's ten, for example myosuite/reach-hard.
    Also: myo-reach-hard, myoHandReachRandom-v0.
myosuite/<id>
    Any other task of MyoSuite by its registered id, for example
    myosuite/myoElbowPose1D6MRandom-v0. Also: the bare id.
gym/<id>
    An id of Gymnasium's registry, as Gymnasium spells it: gym/HalfCheetah-v5. The version is part
    of the task and never guessed.
gym/<module>:<id>
    The same, after importing the module that registers it. Also: <module>:<id>.
"""

from __future__ import annotations

import re
from importlib.util import find_spec

from dualac.envs.foreign import import_module, is_ctrl_c
from dualac.envs.tasks import DMC, GYM, GYM_BOX2D, METAWORLD, MYOSUITE, MYOSUITE_IDS, TASK_SETS
from dualac.errors import UsageError
from dualac.parts.text import nearest

NOT_LISTED = (
    "not listed, yet accepted: gym/<id> for older versions and ids that other packages register, "
    "and gym/<module>:<id> for your own"
)

_SHIMMY_VERSION = re.compile(r"-v\d+$")
_MODULE = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*")


def canonical(text: str) -> str:
    """Return the one name of a task, or raise a UsageError that names the nearest."""
    text = text.strip()
    suite, slash, name = text.partition("/")
    if ":" in suite:  # a bare module:id, whose id may itself hold a namespace and a slash
        return _gym(text)
    if not slash:
        return _task_of(text, _BARE_BY_SPELLING)
    if suite.lower() not in _GRAMMARS:
        raise UsageError(
            f"no suite {suite!r} in task {text!r}: the suites are {_SUITES}"
            f"{nearest(text, all_tasks())}"
        )
    return _GRAMMARS[suite.lower()](name)


def suite_tasks(suite: str) -> list[str]:
    """List the canonical names of a suite's tasks, without importing the suite."""
    if suite not in _LISTINGS:
        raise UsageError(
            f"no suite {suite!r}: the suites are {_SUITES}{nearest(suite, list(_LISTINGS))}"
        )
    return _LISTINGS[suite]()


def all_tasks() -> list[str]:
    """List the canonical names of every listed task; NOT_LISTED says what else is accepted."""
    return [name for suite in _LISTINGS for name in suite_tasks(suite)]


def task_set(name: str) -> tuple[str, ...]:
    """List the canonical names of a set of tasks: `dac-30`, `dac-15` or `dog-humanoid`."""
    if name not in TASK_SETS:
        raise UsageError(
            f"no set of tasks {name!r}: the sets are {_join(list(TASK_SETS))}"
            f"{nearest(name, list(TASK_SETS))}"
        )
    return TASK_SETS[name]


def _dmc(name: str) -> str:
    return _task_of(f"dmc/{name}", _DMC_BY_SPELLING)


def _shimmy(name: str) -> str:
    return _dmc(_SHIMMY_VERSION.sub("", name))


def _metaworld(name: str) -> str:
    return _task_of(f"metaworld/{name}", _METAWORLD_BY_SPELLING)


def _myosuite(name: str) -> str:
    return _task_of(f"myosuite/{name}", _MYOSUITE_BY_SPELLING)


def _task_of(typed: str, tasks: dict[str, str]) -> str:
    """Return the task that a spelling stands for, or refuse it with its suite's nearest ones."""
    suite_named = "/" in typed
    spelling = _spelling(typed.partition("/")[2] if suite_named else typed)
    if spelling in tasks:
        return tasks[spelling]
    if not suite_named:
        tasks = {_spelling(task.partition("/")[2]): task for task in all_tasks()} | tasks
    raise UsageError(f"no task {typed!r}{nearest(spelling, tasks) or _SEE_LIST}")


def _gym(name: str) -> str:
    module, colon, identity = name.rpartition(":")
    if identity in MYOSUITE_IDS and module in ("", "myosuite"):  # one task, one name
        return _myosuite(identity)
    if module == "gymnasium":  # one task, one name: its own tasks need no module
        name, colon = identity, ""
    if colon:
        _import(module)
    import gymnasium

    if identity not in gymnasium.registry:
        cause = f"module {module} registers no task" if colon else "Gymnasium has no task"
        tasks = [f"gym/{registered}" for registered in gymnasium.registry]
        raise UsageError(f"{cause} {identity!r}{nearest(f'gym/{identity}', tasks) or _SEE_LIST}")
    return f"gym/{name}"


def _import(module: str) -> None:
    if not _MODULE.fullmatch(module):
        raise UsageError(f"{module!r} is not a module's name: write gym/package.module:Id-v0")
    try:
        import_module(module)
    except BaseException as error:  # the user's own code may raise anything
        if is_ctrl_c(error):
            raise
        raise UsageError(
            f"module {module} does not import: {type(error).__name__}: {error}; is its folder on "
            "PYTHONPATH?"
        ) from error


def _spelling(name: str) -> str:
    """Return a name without what does not matter in it: case, and dash or underscore."""
    return name.lower().replace("-", "_")


def _list_dmc() -> list[str]:
    return [f"dmc/{domain}-{task}" for domain, tasks in DMC.items() for task in tasks]


def _list_metaworld() -> list[str]:
    return [f"metaworld/{name}" for name in METAWORLD]


def _list_myosuite() -> list[str]:
    named = {task.id for task in MYOSUITE.values()}
    others = [identity for identity in MYOSUITE_IDS if identity not in named]
    return [f"myosuite/{name}" for name in (*MYOSUITE, *others)]


def _list_gym() -> list[str]:
    box2d = GYM_BOX2D if find_spec("Box2D") else ()
    return [f"gym/{name}" for name in (*GYM, *box2d)]


def _join(names: list[str]) -> str:
    return f"{', '.join(names[:-1])} and {names[-1]}"


_SEE_LIST = "; `dualac list tasks` names them"
_LISTINGS = {
    "dmc": _list_dmc,
    "metaworld": _list_metaworld,
    "myosuite": _list_myosuite,
    "gym": _list_gym,
}
_GRAMMARS = {
    "dmc": _dmc,
    "dm_control": _shimmy,
    "metaworld": _metaworld,
    "myosuite": _myosuite,
    "gym": _gym,
}
_SUITES = _join(list(_LISTINGS))

# Every spelling of a task, first with its suite named, then without.
_DMC_BY_SPELLING = {_spelling(name.removeprefix("dmc/")): name for name in _list_dmc()}
_METAWORLD_BY_SPELLING = {
    _spelling(f"{name}{version}"): f"metaworld/{name}"
    for name in METAWORLD
    for version in ("", "-v3")
}
_MYOSUITE_BY_SPELLING = {
    _spelling(name.removeprefix("myosuite/")): name for name in _list_myosuite()
}
_MYOSUITE_BY_SPELLING |= {_spelling(task.id): f"myosuite/{name}" for name, task in MYOSUITE.items()}
_BARE_BY_SPELLING = _DMC_BY_SPELLING | {
    _spelling(identity): _myosuite(identity) for identity in MYOSUITE_IDS
}
_BARE_BY_SPELLING |= {_spelling(f"myo-{name}"): f"myosuite/{name}" for name in MYOSUITE}
_BARE_BY_SPELLING |= {
    _spelling(alias): f"metaworld/{name}"
    for name in METAWORLD
    for alias in (f"{name}-v3", f"mw-{name}", f"mw-{name}-v3")
}
