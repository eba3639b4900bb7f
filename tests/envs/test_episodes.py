"""Episodes of the real suites: pure functions of a seed and the actions, ended as the suite ends
them.
"""

import sys

import numpy as np
import pytest

from dualac.envs import Protocol, make, suite_tasks
from dualac.envs.suites.dmc import _suite
from dualac.errors import DataError, UsageError

_suite()  # once, quietly: on a machine without a display its import warns


def play(env, seed, steps):
    """Play an episode; return all it shows as one vector of float64."""
    actions = (
        np.random.default_rng(seed)
        .uniform(-1, 1, (steps, env.action_space.shape[0]))
        .astype(np.float32)
    )
    shown = [env.reset(seed=seed)[0]]
    for action in actions:
        observation, reward, terminated, truncated, _ = env.step(action)
        shown += [observation, [reward, terminated, truncated]]
        if terminated or truncated:
            break
    return np.concatenate(shown, dtype=np.float64)


def a_used_and_a_fresh_one_agree(task, steps):
    used, fresh = make(task, seed=11), make(task, protocol=Protocol(time_limit=steps + 1))
    for seed in (0, 1):
        play(used, seed, steps)
    same = np.array_equal(play(used, 2, steps), play(fresh, 2, steps))
    different = not np.array_equal(play(used, 3, steps), play(fresh, 2, steps))
    used.close()
    fresh.close()
    return same and different


@pytest.mark.parametrize(
    "task",
    [
        "dmc/cheetah-run",
        "dmc/humanoid-walk",
        "dmc/finger-turn_hard",
        "dmc/lqr-lqr_2_1",
        "gym/HalfCheetah-v5",
        "gym/Pendulum-v1",
    ],
)
def test_an_episode_depends_on_nothing_but_its_seed_and_its_actions(task):
    assert a_used_and_a_fresh_one_agree(task, 60)


@pytest.mark.suite
@pytest.mark.parametrize("task", suite_tasks("dmc") + suite_tasks("gym"))
def test_every_task_resets_and_steps_and_is_pure(task):
    assert a_used_and_a_fresh_one_agree(task, 8)


def test_resets_without_a_seed_draw_on_reproducibly():
    first, again = (make("dmc/reacher-easy", seed=5) for _ in range(2))
    episodes = [[env.reset()[0].tolist() for _ in range(3)] for env in (first, again)]
    assert episodes[0] == episodes[1]
    assert episodes[0][0] != episodes[0][1]


def test_environments_without_a_seed_differ():
    assert (
        make("dmc/reacher-easy").reset()[0].tolist() != make("dmc/reacher-easy").reset()[0].tolist()
    )


@pytest.mark.parametrize(
    ("domain", "task"),
    [("cheetah", "run"), ("fish", "swim"), ("manipulator", "bring_ball"), ("quadruped", "run")],
)
def test_the_numbers_are_dm_controls_own_in_the_declared_order(domain, task):
    original, env = _suite()[0].load(domain, task), make(f"dmc/{domain}-{task}")
    original.task._random = np.random.RandomState(4)
    spec = original.action_spec()
    step, (observation, _) = original.reset(), env.reset(seed=4)
    for end in (-1.0, 1.0):
        assert np.array_equal(
            observation,
            np.concatenate([np.ravel(part) for part in step.observation.values()]).astype(
                np.float32
            ),
        )
        step = original.step(spec.minimum if end < 0 else spec.maximum)
        observation, reward, *_ = env.step(np.full(spec.shape, end))
        assert reward == step.reward


def test_a_suite_episode_is_truncated_after_a_thousand_steps():
    env = make("dmc/pendulum-swingup")
    env.reset(seed=0)
    ends = [env.step(np.zeros(1))[2:4] for _ in range(1000)]
    assert ends == [(False, False)] * 999 + [(False, True)]


def test_lqr_has_an_end_and_a_box_though_the_suite_gives_it_none():
    env = make("dmc/lqr-lqr_2_1")
    env.reset(seed=0)
    ends = [env.step(np.ones(1))[2:4] for _ in range(1000)]
    assert ends[-1] == (False, True)
    assert env.unwrapped.action_space.high.tolist() == [1.0]


def test_a_discount_of_nought_terminates(monkeypatch):
    env = make("dmc/pendulum-swingup")
    monkeypatch.setattr(env.unwrapped._env.task, "get_termination", lambda physics: 0.0)
    env.reset(seed=0)
    assert env.step(np.zeros(1))[2:4] == (True, False)


def test_a_diverged_simulation_is_bad_data():
    env = make("dmc/cheetah-run")
    env.reset(seed=0)
    with pytest.raises(DataError, match="dmc/cheetah-run: the simulation diverged"):
        env.step(np.full(6, np.nan))


def test_training_needs_no_opengl():
    env = make(
        "dmc/quadruped-escape"
    )  # whose reset asks dm_control for a context, to upload its terrain
    env.reset(seed=0)
    assert env.unwrapped._env.physics.contexts is None
    env.close()


@pytest.fixture
def can_draw(monkeypatch):
    """Draw as this process chose when dm_control was imported."""
    from dm_control import _render

    monkeypatch.setenv("MUJOCO_GL", str(_render.BACKEND))


def test_drawing_otherwise_than_dm_control_was_imported_for_is_refused_before_it_aborts(
    monkeypatch,
):
    monkeypatch.setenv("MUJOCO_GL", "another")
    with pytest.raises(UsageError, match="set MUJOCO_GL=another before starting"):
        make("dmc/cheetah-run", render=True)


def test_frames_are_what_the_suite_draws(monkeypatch, can_draw):
    env = make("dmc/cheetah-run", render=True)
    options = {}

    def draw(**frame):
        options.update(frame)
        return np.zeros((frame["height"], frame["width"], 3), np.uint8)

    monkeypatch.setattr(env.unwrapped._env.physics, "render", draw)
    env.reset(seed=0)
    assert env.render().shape == (480, 640, 3)
    assert options["camera_id"] == 0


@pytest.mark.parametrize(
    ("task", "shape"),
    [("metaworld/push", (480, 480, 3)), ("myosuite/key-turn-easy", (480, 640, 3))],
)
def test_frames_of_the_other_suites_are_passed_on(task, shape, monkeypatch):
    env = make(task, render=True)
    drawn = np.arange(np.prod(shape)).reshape(shape)
    monkeypatch.setattr(env.unwrapped, "render", lambda: drawn)
    env.reset(seed=0)
    shown = env.render()
    assert shown.shape == shape
    assert (
        shown[0, 0].tolist()
        == (drawn[-1, -1] if task.startswith("metaworld") else drawn[0, 0]).tolist()
    )


def test_where_nothing_can_be_drawn_the_error_says_what_to_set(monkeypatch, can_draw):
    def fail(**frame):
        raise RuntimeError("no OpenGL")

    env = make("dmc/cheetah-run", render=True)
    monkeypatch.setattr(env.unwrapped._env.physics, "render", fail)
    with pytest.raises(UsageError, match=r"cannot draw dmc/cheetah-run: no OpenGL.*MUJOCO_GL"):
        env.render()


def test_closing_twice_is_closing_once():
    env = make("dmc/cheetah-run")
    env.close()
    env.close()


def test_a_missing_dm_control_is_answered_with_the_command(monkeypatch):
    monkeypatch.setitem(sys.modules, "dm_control", None)
    with pytest.raises(UsageError, match=r"pip install 'dualac\[dmc\]'$"):
        make("dmc/cheetah-run")


def test_a_missing_mujoco_is_answered_with_the_command(monkeypatch):
    monkeypatch.setitem(sys.modules, "mujoco", None)
    with pytest.raises(UsageError, match=r"pip install 'dualac\[mujoco\]'$"):
        make("gym/HalfCheetah-v5")


def test_mujoco_leaves_no_log_behind(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    make("gym/HalfCheetah-v5").close()
    make("dmc/cheetah-run").close()
    assert list(tmp_path.iterdir()) == []


def test_options_the_control_suite_would_ignore_are_refused():
    with pytest.raises(UsageError, match="no options"):
        make("dmc/cheetah-run").reset(seed=0, options={"easy": True})
