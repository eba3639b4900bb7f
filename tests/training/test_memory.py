"""Memory of acting: begun with each episode, threaded through it, saved in the middle of it."""

from pathlib import Path

import jax
import numpy as np
import pytest
import safetensors.numpy
from tests.support.counting import CountingMemory, action, counting_agent, counting_learner
from tests.support.runs import (
    a_run,
    arrays,
    assert_same_run,
    checkpoint_steps,
    extended,
    go_on,
    last,
    replay_of,
    trained,
)

from dualac.errors import UsageError
from dualac.training.learner import BEGIN
from dualac.training.policy import LoadedAgent, LoadedPolicy
from dualac.training.rollout import Rollout
from dualac.training.run import prepare
from dualac.training.streams import EVALUATIONS, episode_seed
from dualac.types import Spec

SPEC = Spec(3, 2)
SEEDS = (3, 4)


class Killed(BaseException):
    """In place of the signal: nothing is written after it."""


def killing(at: int):
    """Return a kind of rollout that dies as its environment answers to a step."""

    class Dying(Rollout):
        """A rollout that dies."""

        def step(self, action, step):
            answer = super().step(action, step)
            if step == at:
                raise Killed
            return answer

    return Dying


def expected_actions(seed: int, episode: int, steps: int) -> list[np.ndarray]:
    """Return what the counting agent does in an episode of training, by hand."""
    key = jax.random.fold_in(jax.random.fold_in(jax.random.key(seed), BEGIN), episode)
    start = jax.random.uniform(key)
    return [np.asarray(action(CountingMemory(step, start), SPEC)) for step in range(steps)]


def runs(**changes):
    """Return a pack of two seeds; checkpoints fall into the middle of episodes."""
    return [a_run(seed=seed, pack=SEEDS, **changes) for seed in SEEDS]


def test_an_agent_acts_by_its_memory_of_the_episode_alone(tmp_path):
    path = trained(
        a_run(warmup=1, capacity=100, resets=()), tmp_path, make_learner=counting_learner
    )
    kept = replay_of(last(path), 100)
    ends = np.flatnonzero((kept["next_obs"][:-1] != kept["obs"][1:]).any(axis=1)) + 1
    episodes = np.split(kept["action"], ends)
    assert len(episodes) > 3
    for number, actions in enumerate(episodes):
        np.testing.assert_allclose(actions, expected_actions(3, number, len(actions)), atol=1e-6)


@pytest.mark.parametrize("at", [13, 14, 22, 33])
def test_a_run_killed_amid_an_episode_goes_on_with_its_memory_to_the_same_bits(at, tmp_path):
    run = a_run(checkpoint_every=3)
    straight = trained(run, tmp_path / "straight", make_learner=counting_learner)
    path = prepare(run, tmp_path / "killed")
    with pytest.raises(Killed):
        go_on(path, make_learner=counting_learner, make_rollout=killing(at))
    saved = arrays(last(path))
    assert saved["memory.held.steps"] > 0 or at < 14
    go_on(path, make_learner=counting_learner)
    assert_same_run(path, straight)


def test_a_pack_killed_amid_episodes_goes_on_with_its_memories_to_the_same_bits(tmp_path):
    straight = [prepare(run, tmp_path / "straight") for run in runs(checkpoint_every=3)]
    go_on(*straight, make_learner=counting_learner)
    paths = [prepare(run, tmp_path / "killed") for run in runs(checkpoint_every=3)]
    with pytest.raises(Killed):
        go_on(*paths, make_learner=counting_learner, make_rollout=killing(26))
    go_on(*paths, make_learner=counting_learner)
    for path, golden in zip(paths, straight, strict=True):
        assert_same_run(path, golden)


def test_a_seed_remembers_in_a_pack_what_it_remembers_alone(tmp_path):
    packed = [prepare(run, tmp_path / "pack") for run in runs()]
    go_on(*packed, make_learner=counting_learner)
    for path, seed in zip(packed, SEEDS, strict=True):
        alone = trained(a_run(seed=seed), tmp_path / "alone", make_learner=counting_learner)
        ours, theirs = arrays(last(path)), arrays(last(alone))
        assert ours.keys() == theirs.keys()
        for name in theirs:
            np.testing.assert_allclose(ours[name], theirs[name], rtol=1e-5, err_msg=name)


def test_each_episode_of_an_evaluation_has_a_memory_of_its_own():
    learner = counting_learner([a_run()], SPEC)
    policy, obs = learner.exploit(0), np.ones(3, np.float32)
    first, second = policy(5), policy(6)
    alternating = [act(obs) for _ in range(3) for act in (first, second)]
    again = policy(5)
    assert np.array_equal([again(obs) for _ in range(3)], alternating[::2])
    assert not np.array_equal(alternating[0], alternating[1])


def test_a_loaded_policy_remembers_within_an_episode_and_refuses_to_guess_where_one_begins():
    agent = counting_agent(SPEC)
    state, run = agent.init(jax.random.key(0)), a_run()
    policy = LoadedPolicy(LoadedAgent(run, 40, SPEC, agent, state, [], Path("run")))
    learner = counting_learner([run], SPEC)
    seed, obs = episode_seed(3, EVALUATIONS, 0, 0), np.ones(3, np.float32)
    act, other = policy.begin_episode(seed), learner.exploit(0)(seed)
    for _ in range(3):
        assert np.array_equal(act(obs), other(obs))
    with pytest.raises(UsageError, match="begin_episode"):
        policy(obs)


def test_a_row_without_memory_saves_none(tmp_path):
    path = trained(extended(a_run(), 16), tmp_path)
    assert checkpoint_steps(path) == [8, 16]
    names = safetensors.numpy.load_file(last(path) / "state.safetensors")
    assert not [name for name in names if name.startswith("memory")]
