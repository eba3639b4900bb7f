"""An episode is a function of its seed and its actions, to the bit: on this rests that a run can be
resumed in the middle of one.
"""

import os
import subprocess
import sys

import numpy as np
import pytest
from gymnasium import spaces
from tests.support.episode import RESUMED_AT, STEPS, actions, digest, go_on, play

from dualac.envs import PAPER, make, suite_tasks

ONE_OF_EACH = (
    "dmc/humanoid-walk",
    "metaworld/push",
    "myosuite/key-turn-hard",
    "gym/HalfCheetah-v5",
)
NEEDS_NETWORK = {"myosuite/myoChallengeChaseTagFBVs-v0", "myosuite/myoFullBodyDirectional-v0"}


def in_a_fresh_process(tasks, hash_seed):
    environment = {
        **os.environ,
        "PYTHONPATH": ":".join(os.path.abspath(path) for path in sys.path),
        "PYTHONHASHSEED": hash_seed,
    }
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.episode", *tasks],
        capture_output=True,
        text=True,
        check=True,
        env=environment,
    )
    return dict(line.split() for line in done.stdout.splitlines())


def check(task):
    """Play one episode in a used, a fresh and a resumed environment; return its digest."""
    used, fresh, resumed = (make(task) for _ in range(3))
    assert used.action_space == spaces.Box(-1.0, 1.0, used.action_space.shape, np.float32)
    for seed in (0, 1):
        play(used, seed, actions(used, seed))
    episode = play(used, 2, actions(used, 2))
    assert play(fresh, 2, actions(fresh, 2)) == episode
    play(resumed, 1, actions(resumed, 1)[:5])
    chosen = actions(resumed, 2)
    play(resumed, 2, chosen[:RESUMED_AT])
    assert go_on(resumed, chosen[RESUMED_AT:]) == episode[RESUMED_AT + 1 :]
    assert play(fresh, 3, actions(fresh, 3)) != episode
    for env in (used, fresh, resumed):
        env.close()
    return digest(episode)


@pytest.fixture(scope="module")
def elsewhere():
    """Play the episodes in two fresh processes."""
    first, second = (in_a_fresh_process(ONE_OF_EACH, seed) for seed in ("0", "1"))
    assert first == second
    return first


@pytest.mark.parametrize("task", ONE_OF_EACH)
def test_an_episode_is_the_same_in_every_process_used_or_fresh_and_when_resumed(task, elsewhere):
    assert check(task) == elsewhere[task]


@pytest.mark.suite
@pytest.mark.parametrize("suite", ["dmc", "metaworld", "myosuite"])
def test_every_episode_of_the_paper_is_the_same_in_every_process_used_or_fresh_and_when_resumed(
    suite,
):
    tasks = [task for task in PAPER if task.startswith(suite)]
    first, second = (in_a_fresh_process(tasks, seed) for seed in ("0", "1"))
    assert first == second == {task: check(task) for task in tasks}
    assert STEPS == 60


@pytest.mark.suite
@pytest.mark.parametrize("task", PAPER)
def test_the_sizes_of_the_paper_are_those_that_are_built(task):
    env = make(task)
    assert (*env.observation_space.shape, *env.action_space.shape) == PAPER[task]
    env.close()


@pytest.mark.suite
@pytest.mark.parametrize(
    "task",
    [
        task
        for task in suite_tasks("metaworld") + suite_tasks("myosuite")
        if task not in {*PAPER, *NEEDS_NETWORK}
    ],
)
def test_every_other_task_of_meta_world_and_myosuite_is_pure_too(task):
    used, fresh = make(task), make(task)
    play(used, 0, actions(used, 0)[:8])
    assert play(used, 2, actions(used, 2)[:8]) == play(fresh, 2, actions(fresh, 2)[:8])
    used.close()
    fresh.close()
