"""Environments that break and losses that explode: counted, said, survived where that makes sense; and never averaged over unaware."""

import json
from pathlib import Path

import numpy as np
import pytest
from tests.training import toys
from tests.training.runs import a_run, agent_of, arrays, checkpoint_steps, events, go_on, last, manifest, replay_of, rows, tiny, trained

from dualac.errors import DataError, RunFailedError
from dualac.spelling import replaced
from dualac.training.checkpoint import Checkpoints
from dualac.training.member import BAD_LIMIT
from dualac.training.run import load, prepare, require_resumable


def finite(tree: dict[str, np.ndarray]) -> bool:
    return all(np.isfinite(array).all() for array in tree.values())


def failure(path: Path) -> dict:
    return json.loads((path / "FAILED").read_text())


def assert_the_last_checkpoint_is_good(path: Path) -> None:
    snapshot = Checkpoints(path, load(path).identity()).peek()
    assert finite(snapshot.arrays)
    assert snapshot.step == checkpoint_steps(path)[-1]


def assert_it_is_not_resumed(path: Path, reason: str) -> None:
    with pytest.raises(DataError, match=reason):
        require_resumable(path)


@pytest.mark.parametrize("fault", toys.FAULTS)
def test_a_broken_answer_is_not_stored_but_counted_and_the_run_goes_on(fault, tmp_path):
    path = trained(a_run(task=toys.task(f"{fault}Once"), capacity=100), tmp_path)
    told, kept = manifest(last(path)), replay_of(last(path), 100)
    assert told["added"] == len(kept["reward"]) == 39
    assert finite(kept)
    assert finite(agent_of(last(path)))
    assert told["facts"]["bad_total"] == 1
    assert [(event["step"], event["where"]) for event in events(path, "bad_transition")] == [(15, "step")]
    assert rows(path, "train.jsonl")[-1]["rollout/bad_transitions"] == 1


def test_a_broken_answer_cuts_its_episode_like_a_time_limit(tmp_path):
    path = trained(a_run(task=toys.task("NanRewardOnce"), capacity=100), tmp_path)
    kept = replay_of(last(path), 100)
    before = 13  # the transition of step 14, the last good one: number 13
    assert kept["discount"][before] == 1.0
    assert not np.array_equal(kept["next_obs"][before], kept["obs"][before + 1])


def test_an_evaluation_survives_a_broken_answer_and_its_row_says_so(tmp_path):
    """Its environment breaks once in its life, too."""
    path = trained(a_run(task=toys.task("NanRewardOnce")), tmp_path)
    bad = [row for row in rows(path, "eval.jsonl") if row.get("bad")]
    assert len(bad) == 1
    assert np.isfinite(bad[0]["return"])


@pytest.mark.parametrize("fault", ["NanReward", "InfObs"])
def test_an_environment_that_breaks_too_often_fails_the_run(fault, tmp_path):
    path = prepare(a_run(task=toys.task(f"{fault}Often")), tmp_path)
    with pytest.raises(RunFailedError, match=r"environment broken: .* gave NaN or infinity 11 times within 10000 steps, last at step 22") as told:
        go_on(path)
    assert told.value.code == 65
    assert failure(path)["reason"] == str(told.value)
    assert failure(path)["step"] == 21
    assert len(events(path, "bad_transition")) == BAD_LIMIT + 1
    assert not (path / "DONE").exists()
    assert_the_last_checkpoint_is_good(path)
    assert_it_is_not_resumed(path, "environment broken")


def test_an_episode_broken_from_its_first_observation_is_passed_over(tmp_path):
    path = trained(a_run(task=toys.task("FaultyStart"), capacity=100), tmp_path)
    assert [event["where"] for event in events(path, "bad_transition")] == ["reset", "reset"]
    told = manifest(last(path))
    assert told["added"] == 40
    assert told["facts"]["bad_total"] == 2
    assert told["facts"]["episodes"] == len(told["facts"]["recent"]) + 2
    assert finite(replay_of(last(path), 100))
    assert any(row.get("bad") for row in rows(path, "eval.jsonl"))


def test_an_environment_that_never_starts_fails_the_run(tmp_path):
    path = prepare(a_run(task=toys.task("NeverStarts")), tmp_path)
    with pytest.raises(RunFailedError, match="environment broken"):
        go_on(path)
    assert "environment broken" in failure(path)["reason"]


@pytest.mark.parametrize("when", ["Early", "Late"])
def test_an_environment_that_raises_leaves_its_traceback_in_the_run(when, tmp_path):
    """Early is the first evaluation, before there is a checkpoint; late the training itself."""
    path = prepare(a_run(task=toys.task(f"Raising{when}"), eval_every=40, eval_episodes=1), tmp_path)
    with pytest.raises(ZeroDivisionError):
        go_on(path)
    assert failure(path)["error"] == "ZeroDivisionError"
    assert "of the environment's own" in (path / "traceback.txt").read_text()
    require_resumable(path)  # foreign code may have been mended
    if when == "Late":
        assert_the_last_checkpoint_is_good(path)


@pytest.mark.parametrize(("how", "discount"), [("Terminated", 0.0), ("Truncated", 1.0), ("Both", 0.0)])
def test_only_the_tasks_own_end_ends_the_future(how, discount, tmp_path):
    path = trained(a_run(task=toys.task(how), capacity=100), tmp_path)
    kept = replay_of(last(path), 100)
    third = np.arange(40) % 3 == 2
    assert (kept["discount"][third] == discount).all()
    assert (kept["discount"][~third] == 1.0).all()


def test_a_transition_is_what_was_seen_what_was_done_and_what_was_seen_next(tmp_path):
    path = trained(a_run(task=toys.task("Truncated"), capacity=100), tmp_path)
    kept = replay_of(last(path), 100)
    within = np.flatnonzero(np.arange(39) % 3 != 2)
    assert np.array_equal(kept["next_obs"][within], kept["obs"][within + 1])
    assert np.abs(kept["action"]).max() <= 1.0
    np.testing.assert_allclose(kept["reward"], -np.square(kept["next_obs"].astype(np.float64)).sum(axis=1), rtol=1e-5)


def test_absurd_rewards_end_the_run_as_diverged(tmp_path):
    """Each is finite in float32, their losses are not."""
    path = prepare(a_run(task=toys.task("Absurd")), tmp_path)
    with pytest.raises(RunFailedError, match=r"diverged: .* at step 10") as told:
        go_on(path)
    assert failure(path)["reason"] == str(told.value)
    assert_the_last_checkpoint_is_good(path)
    assert checkpoint_steps(path) == [8]
    assert_it_is_not_resumed(path, "diverged")
    assert not (path / "DONE").exists()


@pytest.mark.parametrize("name", ["dac", "sac"])
def test_an_absurd_learning_rate_ends_the_run_as_diverged(name, tmp_path):
    run = a_run(name, resets=())
    wild = type(run)(**(run.__dict__ | {"algorithm": replaced(tiny(name), {"critic.lr": 1e20})}))
    path = prepare(wild, tmp_path)
    with pytest.raises(RunFailedError, match="diverged"):
        go_on(path)
    assert failure(path)["error"] == "RunFailedError"
    assert_the_last_checkpoint_is_good(path)
    assert_it_is_not_resumed(path, "diverged")


def test_a_run_that_failed_and_is_tried_all_the_same_fails_again_at_the_same_step(tmp_path):
    path = prepare(a_run(task=toys.task("NanRewardOften")), tmp_path)
    with pytest.raises(RunFailedError) as first:
        go_on(path)
    (path / "FAILED").unlink()
    with pytest.raises(RunFailedError) as second:
        go_on(path)
    assert "environment broken" in str(first.value) and "environment broken" in str(second.value)
    assert finite(arrays(last(path)))


def test_a_run_that_went_on_after_a_failure_is_no_longer_called_failed(tmp_path):
    run = a_run()
    path = prepare(run, tmp_path)
    (path / "FAILED").write_text(json.dumps({"step": 3, "reason": "x", "error": "ZeroDivisionError"}))
    go_on(path)
    assert not (path / "FAILED").exists()
    assert (path / "DONE").exists()
