"""The tasks of every suite, written out: to read or list a name imports no suite."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


# dm_control.suite.ALL_TASKS, written out: importing dm_control to read a name takes longer than all
# else a command does. A test holds it equal.
DMC: dict[str, tuple[str, ...]] = {
    "acrobot": ("swingup", "swingup_sparse"),
    "ball_in_cup": ("catch",),
    "cartpole": _words("balance balance_sparse swingup swingup_sparse two_poles three_poles"),
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
    """A task of MyoSuite that has a name of its own here."""

    id: str  # what MyoSuite calls it
    cap: int  # steps of an episode in MyoSuite


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
_HANDS = [name for name in _MUSCLES if name.startswith("myoHand")]


def _with_condition(condition: str, names: Iterable[str]) -> list[str]:
    return [name.replace("myo", f"myo{condition}", 1) for name in names]


_CONDITIONED = [
    *_with_condition("Sarc", _MUSCLES),
    *_with_condition("Fati", _MUSCLES),
    *_with_condition("Reaf", _HANDS),
]
MYOSUITE_IDS = tuple(sorted([*_MUSCLES, *_UNCONDITIONED, *_CONDITIONED]))

# The ids Gymnasium itself registers whose actions are a bounded box and whose observations are a
# vector, each in its newest version.
GYM = _words(
    """
    Ant-v5 HalfCheetah-v5 Hopper-v5 Humanoid-v5 HumanoidStandup-v5 InvertedDoublePendulum-v5
    InvertedPendulum-v5 MountainCarContinuous-v0 Pendulum-v1 Pusher-v5 Reacher-v5 Swimmer-v5
    Walker2d-v5
    """
)
# Listed where Box2D is installed.
GYM_BOX2D = ("BipedalWalker-v3", "BipedalWalkerHardcore-v3", "LunarLanderContinuous-v3")


class Sizes(NamedTuple):
    """How many numbers a task observes, and how many an action has."""

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
    **_sized("metaworld", Sizes(39, 4), "assembly box-close coffee-pull drawer-open hammer"),
    **_sized("metaworld", Sizes(39, 4), "lever-pull push stick-pull stick-push sweep"),
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
    "dac-15": _words(
        """
        dmc/acrobot-swingup dmc/cheetah-run dmc/hopper-hop dmc/humanoid-stand dmc/humanoid-walk
        metaworld/box-close metaworld/drawer-open metaworld/hammer metaworld/push metaworld/sweep
        myosuite/reach-easy myosuite/pose-easy myosuite/pen-twirl-easy myosuite/object-hold-easy
        myosuite/key-turn-easy
        """
    ),
    "dog-humanoid": _words("dmc/dog-run dmc/dog-trot dmc/humanoid-run dmc/humanoid-walk"),
}
