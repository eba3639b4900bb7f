"""A run that was stopped in the middle of an episode stands there again, to the bit, in every
suite.
"""

import numpy as np
import pytest

from dualac.agents.algorithms import ALGORITHMS
from dualac.envs import PAPER
from dualac.training.rollout import Rollout
from dualac.training.run import Run, prepare

ONE_OF_EACH = (
    "dmc/humanoid-walk",
    "metaworld/push",
    "myosuite/key-turn-hard",
    "gym/HalfCheetah-v5",
)


def resumes(task, folder):
    """Sixty steps in one go, and the same with a checkpoint at the 37th that another process's
    member, as it were, takes up.
    """
    path = prepare(Run("dac", ALGORITHMS["dac"], task, steps=60, warmup=50, batch_size=8), folder)
    first = Rollout(path)
    first.episodes = 3  # not the first that its environment plays
    first.begin_episode(0)
    seen = []
    for step in range(1, 61):
        first.step(first.random_action(step), step)
        seen.append((first.obs.copy(), first.total, first.succeeded))
        if step == 37:
            first.save(step, {}, {}, 0.0)
    again = Rollout(path)
    snapshot, damaged = again.checkpoints.restore()
    assert snapshot is not None
    again.checkpoints.refill(again.replay)
    assert (snapshot.step, damaged, again.restore(snapshot)) == (37, [], None)
    for step in range(38, 61):
        again.step(again.random_action(step), step)
        obs, total, succeeded = seen[step - 1]
        assert np.array_equal(again.obs, obs)
        assert (again.total, again.succeeded) == (total, succeeded)
    first.close()
    again.close()


@pytest.mark.parametrize("task", ONE_OF_EACH)
def test_an_episode_goes_on_from_its_37th_step(task, tmp_path):
    resumes(task, tmp_path)


@pytest.mark.suite
@pytest.mark.parametrize("task", PAPER)
def test_an_episode_of_every_task_of_the_paper_goes_on_from_its_37th_step(task, tmp_path):
    resumes(task, tmp_path)
