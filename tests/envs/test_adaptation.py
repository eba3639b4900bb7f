"""What every environment has in common once it is made: spaces, scaling, limits, seeds."""

import math
import signal
import subprocess
import sys

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.error import ResetNeeded
from hypothesis import given
from hypothesis import strategies as st
from tests.support import env_toys

from dualac.envs import Protocol, canonical, make
from dualac.envs.actions import Scaling
from dualac.envs.faults.guarded import Guarded
from dualac.envs.observations import Layout
from dualac.errors import BrokenEpisodeError, DataError, LostEnvironmentError, UsageError
from dualac.machine.signals import raise_ctrl_c

ZERO = np.zeros(2, np.float32)
BOUND = st.floats(-(2.0**100), 2.0**100, width=32)


@st.composite
def boxes(draw):
    """Bounded boxes of any rank and float dtype, as asymmetric as they come."""
    dtype = draw(st.sampled_from([np.float32, np.float64]))
    shape = draw(st.sampled_from([(), (1,), (3,), (2, 2)]))
    pairs = [
        sorted(draw(st.tuples(BOUND, BOUND).filter(lambda pair: pair[0] != pair[1])))
        for _ in range(math.prod(shape))
    ]
    low, high = (np.array([pair[end] for pair in pairs], dtype).reshape(shape) for end in (0, 1))
    return spaces.Box(low, high, shape, dtype)


@given(boxes())
def test_scaling_is_exact_at_both_ends(box):
    scaling = Scaling(box, "toy")
    assert np.array_equal(scaling(np.full(scaling.size, -1.0)), box.low)
    assert np.array_equal(scaling(np.full(scaling.size, 1.0)), box.high)


@given(boxes(), st.floats(allow_nan=False, width=32), st.floats(allow_nan=False, width=32))
def test_scaling_stays_inside_and_keeps_order(box, one, other):
    scaling = Scaling(box, "toy")
    below, above = (
        scaling(np.full(scaling.size, value, np.float32)) for value in sorted((one, other))
    )
    assert box.contains(below)
    assert box.contains(above)
    assert (below <= above).all()


@given(boxes(), st.floats(-1, 1, width=32))
def test_scaling_is_the_affine_map(box, value):
    scaling = Scaling(box, "toy")
    low, high = box.low.astype(np.float64), box.high.astype(np.float64)
    close = 1e-6 * np.maximum(np.abs(low), np.abs(high))
    assert (
        np.abs(scaling(np.full(scaling.size, value)) - (low + (value + 1) / 2 * (high - low)))
        <= close
    ).all()


@given(st.lists(st.floats(-1, 1, width=32), min_size=2, max_size=2))
def test_a_unit_box_is_passed_through_bit_for_bit(action):
    given_action = np.array(action, np.float32)
    for dtype in (np.float32, np.float64):
        assert np.array_equal(
            Scaling(spaces.Box(-1, 1, (2,), dtype), "toy")(given_action), given_action
        )


def test_the_callers_action_is_left_alone():
    action = np.array([3.0, -3.0], np.float32)
    env = make("gym/toys/Toy-v0")
    env.reset(seed=0)
    env.step(action)
    assert action.tolist() == [3.0, -3.0]
    assert env.unwrapped.action.tolist() == [1.0, -1.0]


def test_an_action_of_another_shape_is_refused():
    env = make("gym/toys/Toy-v0")
    env.reset(seed=0)
    with pytest.raises(UsageError, match=r"shape \(2,\), not \(1,\)"):
        env.step(np.zeros(1))


@pytest.mark.parametrize(
    "task", ["gym/toys/Toy-v0", "gym/toys/Nested-v0", "gym/Pendulum-v1", "dmc/quadruped-run"]
)
def test_every_environment_has_the_same_kind_of_spaces(task):
    env = make(task, seed=0)
    assert env.action_space == spaces.Box(-1.0, 1.0, env.action_space.shape, np.float32)
    observation, _ = env.reset()
    assert observation.dtype == np.float32
    assert observation.shape == env.observation_space.shape
    observation, reward, terminated, truncated, info = env.step(env.action_space.sample())
    assert env.observation_space.contains(observation)
    assert [type(one) for one in (reward, terminated, truncated, info)] == [float, bool, bool, dict]
    env.close()


def test_parts_are_laid_out_in_the_spaces_own_order():
    env = make("gym/toys/Nested-v0")
    observation, _ = env.reset(seed=0)
    assert observation.tolist() == [-1, 1, 2, 3, 4, 5]
    inner = env.unwrapped
    assert np.array_equal(observation, spaces.flatten(inner.observation_space, inner.observe()))


def test_the_order_of_the_parts_and_the_box_of_the_actions_can_be_read():
    box = spaces.Box(np.array([-2, 0], np.float32), np.array([0.5, 3], np.float32))
    env = make(env_toys.register("Described-v0", env_toys.Nested, cap=9, action_space=box))
    assert env.describe() == {
        "task": "gym/toys/Described-v0",
        "observation": [["z", 0, 1], ["a.0", 1, 5], ["a.1", 5, 6]],
        "action": {"low": [-2.0, 0.0], "high": [0.5, 3.0]},
        "cap": 9,
    }
    assert make("gym/toys/Toy-v0").describe()["observation"] == [["", 0, 2]]


def test_spaces_that_change_in_a_reset_are_refused_in_one_line():
    declared = (
        r"observes Box\(-inf, inf, \(3,\), float64\) after reset and declared Box\(-inf, inf, "
        r"\(2,\), float64\) when it was made"
    )
    with pytest.raises(
        DataError, match=rf"^gym/toys/Settling-v0 {declared}: set its spaces in __init__ for good$"
    ):
        make("gym/toys/Settling-v0").reset(seed=0)


def test_spaces_that_are_declared_anew_and_alike_are_no_change():
    make("gym/toys/Equal-v0").reset(seed=0)


def test_a_kept_observation_does_not_change():
    env = make("gym/toys/Reusing-v0")
    first, _ = env.reset(seed=0)
    second = env.step(ZERO)[0]
    assert (first.tolist(), second.tolist()) == ([0, 0], [1, 1])


@pytest.mark.parametrize(("limit", "length"), [(0, 5), (3, 3), (5, 5)])
def test_the_time_limit_shortens(limit, length):
    env = make("gym/toys/Capped-v0", protocol=Protocol(time_limit=limit))
    for _ in range(2):  # the second episode counts from nought
        env.reset(seed=0)
        truncations = [env.step(ZERO)[3] for _ in range(length)]
        assert truncations == [False] * (length - 1) + [True]


def length_of_an_episode(env):
    env.reset(seed=0)
    for step in range(1, 20_000):
        terminated, truncated = env.step(ZERO)[2:4]
        if terminated or truncated:
            return step, terminated, truncated
    return None


@pytest.mark.parametrize(
    ("task", "limit", "length"),
    [("Toy", 0, 10_000), ("Toy", 10_001, 10_001), ("Limited", 0, 12_000), ("Capped", 0, 5)],
)
def test_an_episode_without_an_end_is_cut_where_nothing_names_a_limit(task, limit, length):
    env = make(f"gym/toys/{task}-v0", protocol=Protocol(time_limit=limit))
    assert [length_of_an_episode(env) for _ in range(2)] == [(length, False, True)] * 2


@pytest.mark.parametrize(("task", "limit"), [("Toy", 50), ("Limited", 0), ("Capped", 0)])
def test_a_user_hears_of_a_limit_that_nobody_named(task, limit):
    unlimited = Guarded("gym/toys/Toy-v0", Protocol()).warning()
    assert "cut after 10000 steps" in unlimited
    assert "--time-limit N" in unlimited
    assert not Guarded(f"gym/toys/{task}-v0", Protocol(time_limit=limit)).warning()


def test_a_time_limit_beyond_the_task_s_own_cap_is_refused():
    with pytest.raises(
        UsageError,
        match="a time limit of 9 contradicts the task's own cap of 5: a time limit only shortens",
    ):
        make("gym/toys/Capped-v0", protocol=Protocol(time_limit=9))


def test_the_time_limit_truncates_and_does_not_terminate():
    env = make("dmc/pendulum-swingup", protocol=Protocol(time_limit=2))
    env.reset(seed=0)
    assert env.step(np.zeros(1))[2:4] == (False, False)
    assert env.step(np.zeros(1))[2:4] == (False, True)


@pytest.mark.parametrize("limit", [-1, 1.5, True])
def test_a_time_limit_that_is_no_number_of_steps_is_refused(limit):
    with pytest.raises(UsageError, match="time limit"):
        Protocol(time_limit=limit)


def test_a_step_outside_an_episode_is_refused():
    env = make("gym/toys/Ending-v0")
    with pytest.raises(ResetNeeded):
        env.step(ZERO)
    env.reset(seed=0)
    assert [env.step(ZERO)[2] for _ in range(3)] == [False, False, True]
    with pytest.raises(ResetNeeded):
        env.step(ZERO)


def test_the_first_reset_without_a_seed_uses_the_one_given_to_make():
    env = make("gym/toys/Toy-v0", seed=7)
    assert [env.reset()[1]["seed"] for _ in range(2)] == [7, None]
    env = make("gym/toys/Toy-v0", seed=7)
    assert [env.reset(seed=seed)[1]["seed"] for seed in (3, None)] == [3, None]


@pytest.mark.parametrize("seed", [-1, 2**32])
def test_a_seed_no_simulator_takes_is_refused(seed):
    with pytest.raises(UsageError, match="seed"):
        make("gym/toys/Toy-v0", seed=seed)
    with pytest.raises(UsageError, match="seed"):
        make("gym/toys/Toy-v0").reset(seed=seed)


@pytest.mark.parametrize(("task", "success"), [("Solved", True), ("Failed", False)])
def test_success_has_one_name_and_is_a_bool(task, success):
    env = make(f"gym/toys/{task}-v0")
    env.reset(seed=0)
    assert env.step(ZERO)[4]["success"] is success


def test_a_task_without_success_is_given_none():
    env = make("gym/toys/Toy-v0")
    env.reset(seed=0)
    assert env.step(ZERO)[4] == {}


def test_a_reward_in_an_array_is_a_number():
    env = make("gym/toys/RewardArray-v0")
    env.reset(seed=0)
    assert env.step(ZERO)[1] == 2.5


@pytest.mark.parametrize(
    "space",
    [
        spaces.Box(-1, 1, (3,), np.int32),
        spaces.Box(0, 255, (3,), np.uint8),
        spaces.Box(-1, 1, (2, 3), np.float64),
    ],
)
def test_numbers_of_any_dtype_are_observed(space):
    space.seed(0)
    value = space.sample()
    vector = Layout(space, "toy").flat(value)
    assert vector.dtype == np.float32
    assert np.array_equal(vector, value.reshape(-1).astype(np.float32))


def test_nan_passes_through_to_the_training_loop():
    assert np.isnan(Layout(env_toys.PAIR, "toy").flat(np.array([np.nan, 0.0]))).tolist() == [
        True,
        False,
    ]


ACTIONS = {
    "Discrete": spaces.Discrete(3),
    "MultiBinary": spaces.MultiBinary(3),
    "no action": spaces.Box(-1, 1, (0,)),
    "integer": spaces.Box(-3, 3, (2,), np.int32),
    "unbounded": spaces.Box(np.array([-1, -np.inf], np.float32), np.ones(2, np.float32)),
    "degenerate": spaces.Box(np.array([0, 1], np.float32), np.ones(2, np.float32)),
}
OBSERVATIONS = {
    "Discrete": spaces.Discrete(3),
    "an image": spaces.Box(0, 255, (8, 8), np.uint8),
    "an image ": spaces.Box(0, 1, (8, 8, 3), np.float32),
    "an image at camera": spaces.Dict(camera=spaces.Box(0, 255, (8, 8, 3), np.uint8)),
    "Discrete.* at 1": spaces.Tuple((env_toys.PAIR, spaces.Discrete(3))),
    "observes nothing": spaces.Box(-1, 1, (0,)),
    "observes nothing ": spaces.Dict(),
}


@pytest.mark.parametrize(("reason", "space"), ACTIONS.items(), ids=ACTIONS)
def test_actions_that_cannot_be_learned_are_refused_with_the_reason(reason, space):
    task = env_toys.register("Refused-v0", env_toys.Toy, action_space=space)
    with pytest.raises(UsageError, match=rf"^{task} acts in .*{reason}"):
        make(task)


@pytest.mark.parametrize(("reason", "space"), OBSERVATIONS.items(), ids=OBSERVATIONS)
def test_observations_that_cannot_be_learned_from_are_refused_with_the_reason(reason, space):
    task = env_toys.register("Refused-v0", env_toys.Toy, observation_space=space)
    with pytest.raises(
        UsageError, match=rf"^{task} observes.*{reason.removeprefix('observes').strip()}"
    ):
        make(task)


def test_a_reset_without_a_seed_parameter_is_refused_with_advice():
    with pytest.raises(UsageError, match="takes no seed; port it"):
        make("gym/toys/Seedless-v0")


def test_a_reset_without_info_is_refused_with_advice():
    with pytest.raises(DataError, match=r"no \(observation, info\) pair; port it"):
        make("gym/toys/OldReset-v0").reset(seed=0)


LIES = {
    "OldStep": "its step answers with 4 values; port it",
    "Lying": "observed 3 numbers where its space declares 2",
    "RewardNone": "the reward None, which is not a number",
}


@pytest.mark.parametrize(("task", "message"), LIES.items(), ids=LIES)
def test_a_step_that_is_not_what_was_declared_is_bad_data(task, message):
    env = make(f"gym/toys/{task}-v0")
    env.reset(seed=0)
    with pytest.raises(DataError, match=message):
        env.step(ZERO)


@pytest.mark.parametrize(
    ("task", "message"),
    [
        ("LyingParts", "2 numbers at z where its space declares 1"),
        ("Keyless", "does not declare: KeyError: 'a'"),
    ],
)
def test_a_first_observation_that_is_not_what_was_declared_is_bad_data(task, message):
    with pytest.raises(DataError, match=message):
        make(f"gym/toys/{task}-v0").reset(seed=0)


def test_a_task_that_cannot_be_made_is_named_in_one_line():
    with pytest.raises(
        UsageError,
        match=r"^gym/toys/Raising-v0 cannot be made: no licence for this \(ValueError\)$",
    ):
        make("gym/toys/Raising-v0")


def test_an_environment_that_cannot_draw_is_refused_where_frames_are_asked_for():
    class Blind(env_toys.Toy):
        metadata = {"render_modes": ["rgb_array"]}  # noqa: RUF012  what it promises and does not do

        def __init__(self, render_mode: str | None = None) -> None:
            super().__init__()

    with pytest.raises(UsageError, match="cannot be drawn"):
        make(env_toys.register("Blind-v0", Blind), render=True)


def test_a_refused_environment_is_closed():
    closed = []

    class Closing(env_toys.Toy):
        action_space = spaces.Discrete(2)

        def close(self) -> None:
            closed.append(True)

    with pytest.raises(UsageError):
        make(env_toys.register("Closing-v0", Closing))
    assert closed == [True]


def test_a_made_environment_is_a_gymnasium_environment():
    assert isinstance(make("gym/toys/Toy-v0"), gymnasium.Env)


def test_what_float32_cannot_hold_is_infinite_and_no_warning():
    layout, huge = Layout(env_toys.PAIR, "toy"), np.array([1e300, 1.0])
    assert layout.flat(huge).tolist() == [np.inf, 1.0]  # pytest raises warnings
    code = f"""
import numpy as np
from gymnasium import spaces
from dualac.envs.observations import Layout
print(Layout(spaces.Box(-np.inf, np.inf, (2,)), "toy").flat(np.array({huge.tolist()})))
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        env={"PYTHONPATH": ":".join(sys.path)},
    )
    assert (done.stdout, done.stderr) == ("[inf  1.]\n", "")


def test_bounds_that_change_in_place_are_noticed():
    with pytest.raises(DataError, match="after reset and declared"):
        make("gym/toys/InPlace-v0").reset(seed=0)


def test_parts_that_exchange_their_sizes_amid_an_episode_break_it():
    env = make("gym/toys/Exchanging-v0")
    env.reset(seed=0)
    with pytest.raises(BrokenEpisodeError, match="where its space declares"):
        env.step(ZERO)


@pytest.mark.parametrize("trouble", ["nan", "huge"])
def test_a_simulation_of_gymnasium_s_that_blows_up_breaks_its_episode(trouble):
    env = make("gym/HalfCheetah-v5")
    env.reset(seed=0)
    env.unwrapped.data.qvel[:] = math.nan if trouble == "nan" else 1e12
    with pytest.raises(BrokenEpisodeError, match="the simulation diverged"):
        env.step(np.zeros(6, np.float32))
    env.reset(seed=0)
    env.step(np.zeros(6, np.float32))


def test_an_old_gym_class_is_refused_with_how_to_port_it():
    gymnasium.register("toys/NoEnv-v0", lambda **kwargs: object())
    with pytest.raises(UsageError, match=r"port it to Gymnasium's API"):
        make("gym/toys/NoEnv-v0")


def test_an_environment_that_ends_python_when_it_is_made_is_one_line():
    gymnasium.register("toys/Leaving-v0", lambda **kwargs: sys.exit(3))
    with pytest.raises(UsageError, match=r"cannot be made: 3 \(SystemExit\)"):
        make("gym/toys/Leaving-v0")


def test_a_task_of_gymnasium_s_own_has_one_name():
    assert (
        canonical("gym/gymnasium:HalfCheetah-v5")
        == canonical("gym/HalfCheetah-v5")
        == "gym/HalfCheetah-v5"
    )


def fourth_step(task, handler):
    """Take four steps of a task while a handler listens to SIGINT."""
    before = signal.signal(signal.SIGINT, handler)
    try:
        env = Guarded(f"gym/toys/{task}-v0", Protocol())
        env.reset(seed=0)
        for _ in range(3):
            env.step(ZERO)
        with pytest.raises(BaseException) as raised:
            env.step(ZERO)
        if isinstance(raised.value, BrokenEpisodeError):
            env.reset(seed=0)
            assert env.step(ZERO)[0].tolist() == [1, 1]
    finally:
        signal.signal(signal.SIGINT, before)
    return raised.value


@pytest.mark.parametrize("task", ["Interrupts", "Exits", "EndsGenerators"])
def test_an_environment_that_interrupts_itself_costs_an_episode(task):
    error = fourth_step(task, raise_ctrl_c)
    assert isinstance(error, LostEnvironmentError)
    assert type(error.__cause__).__name__ in str(error)


@pytest.mark.parametrize("handler", [raise_ctrl_c, signal.default_int_handler])
def test_a_ctrl_c_in_a_step_is_the_users(handler):
    assert isinstance(fourth_step("PressesCtrlC", handler), KeyboardInterrupt)


def test_a_reward_that_is_a_text_breaks_the_episode():
    env = make("gym/toys/Texts-v0")
    env.reset(seed=0)
    with pytest.raises(BrokenEpisodeError, match=r"gave the reward '-0\.3', which is not a number"):
        env.step(ZERO)
