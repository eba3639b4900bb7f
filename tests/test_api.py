"""The library as Python sees it."""

import json
from pathlib import Path

import numpy as np
import pytest
from tests.support import toys
from tests.support.runs import rows, tiny

import dualac
from dualac.agents.algorithms import ALGORITHMS
from dualac.envs import Protocol
from dualac.errors import DataError, UsageError
from dualac.runs.state import mark_done
from dualac.training.run import Run, prepare

SMALL = {
    "seed": 3,
    "steps": 30,
    "warmup": 10,
    "batch_size": 8,
    "capacity": 100,
    "eval_every": 10,
    "eval_episodes": 2,
    "log_every": 10,
    "checkpoint_every": 10,
    "quiet": True,
}


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """Train a row of one's own."""
    return dualac.train(
        tiny("dac"), toys.task("Drift"), name="tiny", out=tmp_path_factory.mktemp("api"), **SMALL
    )


def test_training_returns_where_the_run_is_and_how_it_went(finished):
    assert (finished.path / "DONE").exists()
    assert finished.path.name == "seed3"
    assert finished.path.parts[-4] == "tiny"
    scores = [row["return"] for row in rows(finished.path, "eval.jsonl") if row["step"] == 30]
    assert finished.score == np.mean(scores)
    assert finished.run.algorithm == tiny("dac")


def test_training_a_second_time_does_nothing_a_second_time(finished):
    def snapshot():
        """Read what a run computes, and when it was written."""
        checkpoints = (finished.path / "checkpoints").rglob("*")
        paths = [path for path in checkpoints if path.is_file()]
        written = {path: path.stat().st_mtime_ns for path in paths}
        logs = [finished.path / name for name in ("train.jsonl", "eval.jsonl")]
        return written, [path.read_bytes() for path in (*paths, *logs)]

    before = snapshot()
    again = dualac.train(
        tiny("dac"), toys.task("Drift"), name="tiny", out=finished.path.parents[3], **SMALL
    )
    assert again.path == finished.path
    assert again.score == finished.score
    assert snapshot() == before
    assert (finished.path / "DONE").exists()


def test_training_another_run_in_the_same_place_is_refused_with_the_difference(finished):
    with pytest.raises(DataError, match="batch_size: 8 there, 9 here"):
        dualac.train(
            tiny("dac"),
            toys.task("Drift"),
            name="tiny",
            out=finished.path.parents[3],
            **(SMALL | {"batch_size": 9}),
        )


def test_a_run_says_what_its_observations_and_actions_were(finished):
    described = json.loads((finished.path / "task.json").read_text())
    assert described == {
        "task": toys.task("Drift"),
        "observation": [["", 0, 3]],
        "action": {"low": [-1.0, -1.0], "high": [1.0, 1.0]},
        "cap": 0,
    }


def test_a_policy_acts_on_one_observation_and_on_many(finished):
    policy = dualac.load_policy(finished.path)
    obs = np.random.default_rng(0).normal(size=(5, 3))
    many = policy(obs)
    assert many.shape == (5, 2)
    assert np.abs(many).max() <= 1.0
    for one, action in zip(obs, many, strict=True):
        assert policy(one).shape == (2,)
        np.testing.assert_allclose(policy(one), action, rtol=1e-5, atol=1e-6)
    assert np.array_equal(policy(obs), many)
    assert policy([0, 0, 0]).dtype == np.float32


@pytest.mark.parametrize("shape", [(), (2,), (4,), (5, 4), (1, 5, 3), (0,)])
def test_a_policy_refuses_observations_of_another_shape(finished, shape):
    with pytest.raises(
        UsageError, match=r"takes observations of shape \(3,\) or \(batch, 3\), not "
    ):
        dualac.load_policy(finished.path)(np.zeros(shape))


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_policy_refuses_observations_that_are_not_finite(finished, value):
    with pytest.raises(DataError, match="NaN or infinity"):
        dualac.load_policy(finished.path)(np.array([0.0, value, 0.0]))


def test_a_policy_is_the_learners_own_exploit(finished):
    from dualac.training.checkpoint import Checkpoints
    from dualac.training.learner import Learner
    from dualac.types import Spec

    learner = Learner([finished.run], Spec(3, 2))
    learner.restore([Checkpoints(finished.path, finished.run.identity()).peek()[0]])
    policy = dualac.load_policy(finished.path)
    for obs in np.random.default_rng(1).normal(size=(5, 3)).astype(np.float32):
        assert np.array_equal(policy(obs), learner.exploit(0)(0)(obs))


def test_a_policy_scores_what_its_last_evaluation_did(finished):
    """Loaded from disk it plays the very episodes of the row, to the bit."""
    policy = dualac.load_policy(str(finished.path))
    assert policy.step == 30
    row = rows(finished.path, "eval.jsonl")[-1]
    env = dualac.make_env(policy.run.task)
    obs, _ = env.reset(seed=row["seed"])
    total, over = 0.0, False
    while not over:
        obs, reward, terminated, truncated, _ = env.step(policy(obs))
        total, over = total + reward, terminated or truncated
    env.close()
    assert total == row["return"]


def test_a_policy_of_an_earlier_checkpoint_can_be_asked_for(finished):
    assert dualac.load_policy(finished.path, step=20).step == 20
    with pytest.raises(DataError):
        dualac.load_policy(finished.path, step=10)


def test_a_policy_of_what_is_no_run_is_refused(tmp_path):
    with pytest.raises(DataError, match=r"is not a run: it has no run\.json"):
        dualac.load_policy(tmp_path)


def test_an_unknown_algorithm_is_answered_with_the_nearest(tmp_path):
    with pytest.raises(
        UsageError, match=r"no algorithm is called 'dca'; did you mean dac"
    ) as refusal:
        dualac.train("dca", toys.task("Drift"), out=tmp_path, **SMALL)
    assert refusal.value.code == 64
    assert not list(tmp_path.iterdir())


def test_an_unknown_task_is_refused_before_anything_is_written(tmp_path):
    with pytest.raises(UsageError, match="cartpole-swingup"):
        dualac.train("dac", "dmc/cartpole-swingpu", out=tmp_path, **SMALL)
    assert not list(tmp_path.iterdir())


def test_a_protocol_that_contradicts_the_suite_is_refused_before_anything_is_written(tmp_path):
    with pytest.raises(
        UsageError, match="a time limit of 300 contradicts the metaworld cap of 200"
    ):
        dualac.train(
            "dac",
            "metaworld/push",
            out=tmp_path,
            protocol=dualac.envs.Protocol(time_limit=300),
            **SMALL,
        )
    assert not list(tmp_path.iterdir())


def test_an_environment_is_gymnasiums_with_actions_from_minus_one_to_one():
    import gymnasium

    env = dualac.make_env(toys.task("Drift"), seed=0)
    assert isinstance(env, gymnasium.Env)
    first = env.reset()[0]
    assert first.dtype == np.float32
    assert (env.action_space.low == -1).all() and (env.action_space.high == 1).all()
    assert np.array_equal(first, env.reset(seed=0)[0])
    env.close()


@pytest.mark.parametrize("row", ["dac", "sac", tiny("dac")], ids=["dac", "sac", "own"])
def test_an_agent_is_functions_that_can_be_traced(row):
    import jax

    agent = dualac.make_agent(row, obs_dim=3, action_dim=2)
    assert agent._fields == (
        *("init", "noise", "update", "begin", "explore", "exploit"),
        *("value", "diagnose", "observe_return", "reset"),
    )
    state = jax.eval_shape(agent.init, jax.random.key(0))
    action, memory = jax.eval_shape(
        lambda state: agent.exploit(state, agent.begin(jax.random.key(0)), np.zeros(3, np.float32)),
        state,
    )
    assert action.shape == (2,)
    assert memory == ()


@pytest.mark.parametrize("sizes", [(0, 1), (1, 0), (-1, 2)])
def test_an_agent_without_observations_or_actions_is_refused(sizes):
    with pytest.raises(UsageError, match="at least one observation and one action"):
        dualac.make_agent("dac", *sizes)


def test_the_library_offers_what_it_names_and_nothing_by_accident():
    assert all(hasattr(dualac, name) for name in dualac.__all__)
    with pytest.raises(AttributeError, match="has no attribute 'trian'"):
        dualac.trian  # noqa: B018


def finish(run: Run, out: Path) -> None:
    """Leave a run on disk as if it had been trained."""
    path = prepare(run, out)
    (path / "eval.jsonl").write_text(f'{{"step": {run.steps}, "return": 1.0}}\n')
    mark_done(path, run.steps, run.identity())


@pytest.mark.parametrize(
    "values", [{}, {"replay_ratio": 4}, {"resets": (7_000,), "eval_episodes": 3}]
)
def test_a_preset_gives_the_defaults_of_a_run_and_arguments_override_them(values, tmp_path):
    of_preset = {"replay_ratio": 16, "resets": (160_000, 320_000, 480_000, 640_000, 800_000)}
    of_run = {**of_preset, **values}
    protocol = Protocol(eval_episodes=of_run.pop("eval_episodes", 10))
    task = toys.task("Drift")
    expected = Run("sr-sac", ALGORITHMS["sac"], task, steps=20_000, protocol=protocol, **of_run)
    finish(expected, tmp_path)
    run = dualac.train("sr-sac", task, steps=20_000, out=tmp_path, quiet=True, **values)
    assert run.run == expected
    assert run.score == 1.0
