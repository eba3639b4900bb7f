"""The grammar of task names: what a user may type, and the one name it stands for.

dmc/<domain>-<task>     a task of the DeepMind control suite, e.g. dmc/ball_in_cup-catch; also
`ball-in-cup-catch`, `dm_control/ball_in_cup-catch-v0` metaworld/<name>        a task of Meta-World,
version 3, goal in sight, e.g. metaworld/hammer; also `metaworld/hammer-v3`, `hammer-v3`,
`mw-hammer` myosuite/<name>         one of the paper's ten, e.g. myosuite/reach-hard; also
`myo-reach-hard`, `myoHandReachRandom-v0` myosuite/<id>           any other task of MyoSuite by its
registered id, e.g. myosuite/myoElbowPose1D6MRandom-v0; also the bare id gym/<id>                an
id of Gymnasium's registry, as Gymnasium spells it: gym/HalfCheetah-v5. A version is never guessed:
it is part of the task gym/<module>:<id>       the same, after importing the module that registers
it; also bare `module:id`
"""

from __future__ import annotations

import re
from importlib import import_module
from importlib.util import find_spec
from typing import NamedTuple

from dualac.envs.foreign import ENDINGS
from dualac.errors import UsageError
from dualac.parts.text import nearest


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


# dm_control.suite.ALL_TASKS, written out: importing dm_control to read a name takes longer than all
# else a command does. A test holds it equal.
DMC: dict[str, tuple[str, ...]] = {
    "acrobot": ("swingup", "swingup_sparse"),
    "ball_in_cup": ("catch",),
    "cartpole": (
        "balance",
        "balance_sparse",
        "swingup",
        "swingup_sparse",
        "two_poles",
        "three_poles",
    ),
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

# metaworld.env_dict.ALL_V3_ENVIRONMENTS without its -v3, in its order. A test holds it equal.
METAWORLD = _words(
    """
    assembly basketball bin-picking box-close button-press-topdown button-press-topdown-wall
    button-press button-press-wall coffee-button coffee-pull coffee-push dial-turn disassemble
    door-close door-lock door-open door-unlock hand-insert drawer-close drawer-open faucet-open
    faucet-close hammer handle-press-side handle-press handle-pull-side handle-pull lever-pull
    pick-place-wall pick-out-of-hole pick-place plate-slide plate-slide-side plate-slide-back
    plate-slide-back-side peg-insert-side peg-unplug-side soccer stick-push stick-pull push
    push-wall push-back reach reach-wall shelf-place sweep-into sweep window-open window-close
    """
)


class Upstream(NamedTuple):
    """What MyoSuite calls a task that has a name of its own here, and the steps it caps its
    episodes at.
    """

    id: str
    cap: int


# The names the paper and its predecessors use. A test holds ids and caps equal to MyoSuite's
# registry, as it does the tables below.
MYOSUITE = {
    "reach-easy": Upstream("myoHandReachFixed-v0", 100),
    "reach-hard": Upstream("myoHandReachRandom-v0", 100),
    "pose-easy": Upstream("myoHandPoseFixed-v0", 100),
    "pose-hard": Upstream("myoHandPoseRandom-v0", 100),
    "pen-twirl-easy": Upstream("myoHandPenTwirlFixed-v0", 50),
    "pen-twirl-hard": Upstream("myoHandPenTwirlRandom-v0", 50),
    "object-hold-easy": Upstream("myoHandObjHoldFixed-v0", 75),
    "object-hold-hard": Upstream("myoHandObjHoldRandom-v0", 75),
    "key-turn-easy": Upstream("myoHandKeyTurnFixed-v0", 200),
    "key-turn-hard": Upstream("myoHandKeyTurnRandom-v0", 200),
}
# MyoSuite registers each of these for healthy muscles (no mark), weak ones (Sarc) and tiring ones
# (Fati), and a hand's for a moved tendon too (Reaf).
_MUSCLES = _words(
    """
    myoArmReachFixed-v0 myoArmReachRandom-v0 myoChallengeBaodingP1-v1 myoChallengeBaodingP2-v1
    myoChallengeBimanual-v0 myoChallengeChaseTagFBP2-v0 myoChallengeChaseTagP1-v0
    myoChallengeChaseTagP2-v0 myoChallengeChaseTagP2eval-v0 myoChallengeDieReorientDemo-v0
    myoChallengeDieReorientP1-v0 myoChallengeDieReorientP2-v0 myoChallengeOslRunFixed-v0
    myoChallengeOslRunRandom-v0 myoChallengeRelocateP1-v0 myoChallengeRelocateP2-v0
    myoChallengeRelocateP2eval-v0 myoChallengeSoccerP1-v0 myoChallengeSoccerP2-v0
    myoChallengeTableTennisP0-v0 myoChallengeTableTennisP1-v0 myoChallengeTableTennisP2-v0
    myoElbowPose1D6MExoFixed-v0 myoElbowPose1D6MExoRandom-v0 myoElbowPose1D6MFixed-v0
    myoElbowPose1D6MRandom-v0 myoElbowPoseTaskFixed-v0 myoElbowPoseTaskRandom-v0
    myoFingerPoseFixed-v0 myoFingerPoseRandom-v0 myoFingerReachFixed-v0 myoFingerReachRandom-v0
    myoHandKeyTurnFixed-v0 myoHandKeyTurnRandom-v0 myoHandObjHoldFixed-v0 myoHandObjHoldRandom-v0
    myoHandPenTwirlFixed-v0 myoHandPenTwirlRandom-v0 myoHandPose0Fixed-v0 myoHandPose1Fixed-v0
    myoHandPose2Fixed-v0 myoHandPose3Fixed-v0 myoHandPose4Fixed-v0 myoHandPose5Fixed-v0
    myoHandPose6Fixed-v0 myoHandPose7Fixed-v0 myoHandPose8Fixed-v0 myoHandPose9Fixed-v0
    myoHandPoseFixed-v0 myoHandPoseRandom-v0 myoHandReachFixed-v0 myoHandReachRandom-v0
    myoHandReorient100-v0 myoHandReorient8-v0 myoHandReorientID-v0 myoHandReorientOOD-v0
    myoLegHillyTerrainWalk-v0 myoLegRoughTerrainWalk-v0 myoLegStairTerrainWalk-v0
    myoLegStandRandom-v0 myoLegWalk-v0 myoTorsoExoPoseFixed-v0
    myoTorsoPoseFixed-v0
    """
)
_UNCONDITIONED = _words(
    """
    motorFingerPoseFixed-v0 motorFingerPoseRandom-v0 motorFingerReachFixed-v0
    motorFingerReachRandom-v0 myoChallengeChaseTagFBVs-v0 myoFullBodyDirectional-v0
    myoLegDirectionalBackward-v0 myoLegDirectionalForward-v0 myoLegDirectionalRandom-v0
    myoMimicBimanual-v0 myoMimicFullbody-v0 myoMuscleMimicBimanual-v0 myoMuscleMimicFullbody-v0
    """
)
MYOSUITE_IDS = tuple(
    sorted(
        [
            *_MUSCLES,
            *_UNCONDITIONED,
            *(
                name.replace("myo", f"myo{condition}", 1)
                for name in _MUSCLES
                for condition in ("Sarc", "Fati")
            ),
            *(name.replace("myo", "myoReaf", 1) for name in _MUSCLES if name.startswith("myoHand")),
        ]
    )
)

# The ids Gymnasium itself registers whose actions are a bounded box and whose observations are a
# vector, each in its newest version.
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
GYM_BOX2D = (
    "BipedalWalker-v3",
    "BipedalWalkerHardcore-v3",
    "LunarLanderContinuous-v3",
)  # listed where Box2D is installed


class Sizes(NamedTuple):
    obs: int
    actions: int


def _sized(suite: str, sizes: Sizes, names: str) -> dict[str, Sizes]:
    return {f"{suite}/{name}": sizes for name in _words(names)}


# Every task of the paper, with its sizes: a list must not build 32 simulators to show them. A slow
# test holds them equal to what is built.
PAPER = {
    **_sized("dmc", Sizes(6, 1), "acrobot-swingup"),
    **_sized("dmc", Sizes(17, 6), "cheetah-run"),
    **_sized("dmc", Sizes(15, 4), "hopper-hop"),
    **_sized("dmc", Sizes(67, 21), "humanoid-run humanoid-stand humanoid-walk"),
    **_sized("dmc", Sizes(25, 5), "swimmer-swimmer6"),
    **_sized("dmc", Sizes(3, 1), "pendulum-swingup"),
    **_sized("dmc", Sizes(78, 12), "quadruped-run"),
    **_sized("dmc", Sizes(24, 6), "walker-run"),
    **_sized("dmc", Sizes(223, 38), "dog-run dog-trot"),
    **_sized(
        "metaworld",
        Sizes(39, 4),
        "assembly box-close coffee-pull drawer-open hammer lever-pull push stick-pull stick-push "
        "sweep",
    ),
    **_sized("myosuite", Sizes(115, 39), "reach-easy reach-hard"),
    **_sized("myosuite", Sizes(108, 39), "pose-easy pose-hard"),
    **_sized("myosuite", Sizes(83, 39), "pen-twirl-easy pen-twirl-hard"),
    **_sized("myosuite", Sizes(91, 39), "object-hold-easy object-hold-hard"),
    **_sized("myosuite", Sizes(93, 39), "key-turn-easy key-turn-hard"),
}

# dac-30 is the paper's table; dac-15 its bold half, on which it ablates; dog-humanoid the hardest
# of the control suite.
TASK_SETS = {
    "dac-30": tuple(name for name in PAPER if not name.startswith("dmc/dog-")),
    "dac-15": (
        "dmc/acrobot-swingup", (
            "dmc/cheetah-run"
        ), "dmc/hopper-hop", "dmc/humanoid-stand", "dmc/humanoid-walk",
        "metaworld/box-close", (
            "metaworld/drawer-open"
        ), "metaworld/hammer", "metaworld/push", "metaworld/sweep",
        "myosuite/reach-easy", (
            "myosuite/pose-easy"
        ), "myosuite/pen-twirl-easy", "myosuite/object-hold-easy", "myosuite/key-turn-easy",
    ),
    "dog-humanoid": ("dmc/dog-run", "dmc/dog-trot", "dmc/humanoid-run", "dmc/humanoid-walk"),
}  # fmt: skip

NOT_LISTED = (
    "not listed, yet accepted: gym/<id> for older versions and ids that other packages register, "
    "and gym/<module>:<id> for your own"
)

_SHIMMY_VERSION = re.compile(r"-v\d+$")
_MODULE = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*")


def canonical(text: str) -> str:
    """The one name of the task a user means; a UsageError with the nearest names where there is
    none.
    """
    text = text.strip()
    suite, slash, name = text.partition("/")
    if ":" in suite:  # a bare module:id, whose id may itself hold a namespace and a slash
        return _gym(text)
    if not slash:
        return _bare(text)
    if suite.lower() not in _GRAMMARS:
        raise UsageError(
            f"no suite {suite!r} in task {text!r}: the suites are "
            f"{_SUITES}{nearest(text, all_tasks())}"
        )
    return _GRAMMARS[suite.lower()](name)


def suite_tasks(suite: str) -> list[str]:
    """The canonical names of a suite's tasks; nothing is imported or built to answer."""
    if suite not in _LISTINGS:
        raise UsageError(
            f"no suite {suite!r}: the suites are {_SUITES}{nearest(suite, list(_LISTINGS))}"
        )
    return _LISTINGS[suite]()


def all_tasks() -> list[str]:
    """The canonical names of every listed task, suite by suite; NOT_LISTED says what else is
    accepted.
    """
    return [name for suite in _LISTINGS for name in suite_tasks(suite)]


def task_set(name: str) -> tuple[str, ...]:
    """The canonical names of a set of tasks: `dac-30`, `dac-15`, `dog-humanoid`."""
    if name not in TASK_SETS:
        raise UsageError(
            f"no set of tasks {name!r}: the sets are "
            f"{_listed(list(TASK_SETS))}{nearest(name, list(TASK_SETS))}"
        )
    return TASK_SETS[name]


def _dmc(name: str) -> str:
    return _found(f"dmc/{name}", _DMC_BY_SPELLING)


def _shimmy(name: str) -> str:
    return _dmc(_SHIMMY_VERSION.sub("", name))


def _metaworld(name: str) -> str:
    return _found(f"metaworld/{name}", _METAWORLD_BY_SPELLING)


def _myosuite(name: str) -> str:
    return _found(f"myosuite/{name}", _MYOSUITE_BY_SPELLING)


def _bare(name: str) -> str:
    return _found(name, _BARE_BY_SPELLING)


def _found(typed: str, known: dict[str, str]) -> str:
    """The task that a spelling stands for, or a sentence with the tasks whose spellings are
    nearest: the suite, if one was named, is not in doubt.
    """
    name = _spelling(typed.partition("/")[2] if "/" in typed else typed)
    if name not in known:
        listed = (
            known
            if "/" in typed
            else {_spelling(task.partition("/")[2]): task for task in all_tasks()} | known
        )
        raise UsageError(f"no task {typed!r}{nearest(name, listed) or _SEE_LIST}")
    return known[name]


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
        known = [f"gym/{one}" for one in gymnasium.registry]
        raise UsageError(f"{cause} {identity!r}{nearest(f'gym/{identity}', known) or _SEE_LIST}")
    return f"gym/{name}"


def _import(module: str) -> None:
    if not _MODULE.fullmatch(module):
        raise UsageError(f"{module!r} is not a module's name: write gym/package.module:Id-v0")
    try:
        import_module(module)
    except ENDINGS:
        raise
    except (
        BaseException
    ) as error:  # the user's own code: whatever it raises, the sentence must name their module
        raise UsageError(
            f"module {module} does not import: {type(error).__name__}: {error}; is its folder on "
            "PYTHONPATH?"
        ) from error


def _spelling(name: str) -> str:
    """Names that differ only in case, or in a dash for an underscore, are one name."""
    return name.lower().replace("-", "_")


def _list_dmc() -> list[str]:
    return [f"dmc/{domain}-{task}" for domain, tasks in DMC.items() for task in tasks]


def _list_metaworld() -> list[str]:
    return [f"metaworld/{name}" for name in METAWORLD]


def _list_myosuite() -> list[str]:
    named = {task.id for task in MYOSUITE.values()}
    return [
        f"myosuite/{name}"
        for name in (*MYOSUITE, *(identity for identity in MYOSUITE_IDS if identity not in named))
    ]


def _list_gym() -> list[str]:
    return [f"gym/{name}" for name in (*GYM, *(GYM_BOX2D if find_spec("Box2D") else ()))]


def _listed(words: list[str]) -> str:
    return f"{', '.join(words[:-1])} and {words[-1]}"


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
_SUITES = _listed(list(_LISTINGS))

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
