"""Environments that break and losses that explode: counted, said, survived where that makes sense;
and never averaged over unaware.
"""

import json
import signal
from pathlib import Path

import numpy as np
import pytest
from tests.support import toys
from tests.support.runs import (
    a_run,
    agent_of,
    arrays,
    assert_same_run,
    checkpoint_steps,
    events,
    go_on,
    last,
    manifest,
    noting,
    replay_of,
    rows,
    signalling,
    tiny,
    trained,
)  # fmt: skip

from dualac.analysis.data.curves import evaluation_curve
from dualac.analysis.data.frame import read_run
from dualac.analysis.data.scores import by_step
from dualac.envs import Protocol, make
from dualac.envs.faults.guarded import Guarded
from dualac.errors import BrokenEpisodeError, DataError, LostEnvironmentError, RunFailedError
from dualac.machine.messages import Progress, RunWarning
from dualac.parts.paths import replaced
from dualac.runs.state import require_resumable
from dualac.training.checkpoint import Checkpoints
from dualac.training.evaluation import count_broken, summary
from dualac.training.loop import Interrupted
from dualac.training.rollout import BAD_LIMIT
from dualac.training.run import load, prepare


def stopped(path: Path, step: int) -> None:
    """Train on until it is asked to stop, at a step."""
    with pytest.raises(Interrupted):
        go_on(path, make_rollout=signalling(signal.SIGTERM, step))


def finite(tree: dict[str, np.ndarray]) -> bool:
    return all(np.isfinite(array).all() for array in tree.values())


def failure(path: Path) -> dict:
    return json.loads((path / "FAILED").read_text())


def assert_the_last_checkpoint_is_good(path: Path) -> None:
    snapshot = Checkpoints(path, load(path).identity()).peek()[0]
    assert finite(snapshot.arrays)
    assert snapshot.step == checkpoint_steps(path)[-1]


def assert_it_is_not_resumed(path: Path, reason: str) -> None:
    with pytest.raises(DataError, match=reason):
        require_resumable(path)


@pytest.mark.parametrize("fault", toys.FAULTS)
def test_a_broken_answer_is_not_stored_but_counted_and_the_run_goes_on(fault, tmp_path):
    path = trained(a_run(task=toys.task(f"{fault}Once"), capacity=100), tmp_path)
    saved, kept = manifest(last(path)), replay_of(last(path), 100)
    assert saved["added"] == len(kept["reward"]) == 39
    assert finite(kept)
    assert finite(agent_of(last(path)))
    assert saved["facts"]["bad_total"] == 1
    assert [(event["step"], event["where"]) for event in events(path, "bad_transition")] == [
        (15, "step")
    ]
    assert rows(path, "train.jsonl")[-1]["rollout/bad_transitions"] == 1


def test_a_broken_answer_cuts_its_episode_like_a_time_limit(tmp_path):
    path = trained(a_run(task=toys.task("NanRewardOnce"), capacity=100), tmp_path)
    kept = replay_of(last(path), 100)
    before = 13  # the transition of step 14, the last good one: number 13
    assert kept["discount"][before] == 1.0
    assert not np.array_equal(kept["next_obs"][before], kept["obs"][before + 1])


def test_an_agent_hears_of_whole_episodes_after_it_has_learned_from_their_last_step(tmp_path):
    """Of one that broke there is no return to be judged by."""
    calls = []
    path = trained(
        a_run("top", task=toys.task("NanRewardOnce"), capacity=100),
        tmp_path,
        make_learner=noting(calls, "learn", "observe_return"),
    )
    order = [(args[-1], name) for name, args, _ in calls]
    ends = [step for step, name in order if name == "observe_return"]
    assert events(path, "bad_transition")[0]["step"] not in ends and len(ends) > 2
    assert all(
        (step, "learn") not in order[order.index((step, "observe_return")) :] for step in ends
    )
    assert any((step, "learn") in order for step in ends)


def test_an_evaluation_survives_a_broken_answer_does_not_count_it_and_says_so(tmp_path):
    """Its environment breaks once in its life, too."""
    path = prepare(a_run(task=toys.task("NanRewardOnce")), tmp_path)
    heard = go_on(path)
    bad = [row for row in rows(path, "eval.jsonl") if row.get("bad")]
    assert len(bad) == 1
    assert np.isfinite(bad[0]["return"])
    step = bad[0]["step"]
    (other,) = [
        row for row in rows(path, "eval.jsonl") if row["step"] == step and not row.get("bad")
    ]
    warned = [message.text for message in heard if isinstance(message, RunWarning)]
    said = f"1 of 2 episodes of the evaluation at step {step} broke; the mean is of the other 1"
    assert warned.count(said) == 1
    shown = next(
        message.metrics["eval/mean_reward"]
        for message in heard[heard.index(RunWarning(3, said)) :]
        if isinstance(message, Progress)
    )
    assert shown == other["return"]
    assert other["return"] in evaluation_curve(path).returns


def test_where_all_episodes_of_an_evaluation_broke_there_is_no_mean():
    broken = [{"return": 1.0, "length": 3, "bad": True}] * 2
    assert summary(broken) == {}
    assert count_broken(broken, 7) == (
        "2 of 2 episodes of the evaluation at step 7 broke; there is no mean"
    )


def test_a_report_counts_no_broken_episode(tmp_path):
    path = prepare(a_run(), tmp_path)
    rows = [
        {"step": 10, "episode": 0, "return": 5.0, "length": 9, "success": True},
        {"step": 10, "episode": 1, "return": -1.0, "length": 2, "success": False, "bad": True},
        {"step": 20, "episode": 0, "return": -1.0, "length": 2, "success": False, "bad": True},
    ]
    (path / "eval.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    record = read_run(path)
    for column, mean in (("return", 5.0), ("success", 1.0)):
        curve = by_step(record.evaluations, column)
        assert curve.steps.tolist() == [10, 20]
        assert curve.returns[0] == mean
        assert np.isnan(curve.returns[1])
    assert evaluation_curve(path).returns.tolist() == [5.0]


@pytest.mark.parametrize("fault", ["NanReward", "InfObs"])
def test_an_environment_that_breaks_too_often_fails_the_run(fault, tmp_path):
    path = prepare(a_run(task=toys.task(f"{fault}Often")), tmp_path)
    with pytest.raises(
        RunFailedError,
        match=(
            r"environment broken: .* broke 11 times within 10000 steps, last at step 22: gave NaN "
            r"or infinity"
        ),
    ) as raised:
        go_on(path)
    assert raised.value.code == 65
    assert failure(path)["reason"] == str(raised.value)
    assert failure(path)["step"] == 21
    assert len(events(path, "bad_transition")) == BAD_LIMIT + 1
    assert not (path / "DONE").exists()
    assert_the_last_checkpoint_is_good(path)
    assert_it_is_not_resumed(path, "environment broken")


def test_an_episode_broken_from_its_first_observation_is_passed_over(tmp_path):
    path = trained(a_run(task=toys.task("FaultyStart"), capacity=100), tmp_path)
    assert [event["where"] for event in events(path, "bad_transition")] == ["reset", "reset"]
    saved = manifest(last(path))
    assert saved["added"] == 40
    assert saved["facts"]["bad_total"] == 2
    assert saved["facts"]["episodes"] == len(saved["facts"]["recent"]) + 2
    assert finite(replay_of(last(path), 100))
    assert any(row.get("bad") for row in rows(path, "eval.jsonl"))


def test_an_environment_that_never_starts_fails_the_run(tmp_path):
    path = prepare(a_run(task=toys.task("NeverStarts")), tmp_path)
    with pytest.raises(RunFailedError, match="environment broken"):
        go_on(path)
    assert "environment broken" in failure(path)["reason"]


@pytest.mark.parametrize(
    ("toy", "where", "reason"),
    [
        ("RaiseInStepSometimes", "step", "raised ZeroDivisionError: of the environment's own"),
        ("RaiseInResetSometimes", "reset", "raised ZeroDivisionError: of the environment's own"),
        ("ExitSometimes", "step", "raised SystemExit: enough"),
        ("ShapeSometimes", "step", "observed 4 numbers where its space declares 3"),
        ("StructureSometimes", "step", "observed what its space does not declare"),
        ("WordSometimes", "step", "gave the reward 'a lot', which is not a number"),
    ],
)
def test_an_episode_that_breaks_is_cut_and_counted_with_its_reason_in_training_and_in_evaluation(
    toy, where, reason, tmp_path
):
    path = trained(a_run(task=toys.task(toy), capacity=100), tmp_path)
    saved, kept = manifest(last(path)), replay_of(last(path), 100)
    bad = events(path, "bad_transition")
    assert {event["where"] for event in bad} == {where}
    assert all(reason in event["reason"] for event in bad)
    assert saved["facts"]["bad_total"] == len(saved["facts"]["bad_steps"]) == len(bad) > 0
    assert saved["added"] == 40 - len(bad) * (where == "step")
    assert finite(kept)
    broken = [row for row in rows(path, "eval.jsonl") if row.get("bad")]
    assert [
        (event["where"], event["step"], event["seed"], event["reason"])
        for event in events(path, "bad_evaluation")
    ] == [("evaluation", row["step"], row["seed"], row["reason"]) for row in broken]
    assert broken and all(reason in row["reason"] for row in broken)
    assert not (path / "traceback.txt").exists()


@pytest.mark.parametrize("toy", ["RaiseInStepSometimes", "RaiseInResetSometimes"])
def test_a_run_stopped_among_broken_episodes_goes_on_to_the_same_bits(toy, tmp_path, golden):
    run = a_run(task=toys.task(toy))
    path = prepare(run, tmp_path)
    bad = [event["step"] for event in events(golden(run), "bad_transition")]
    for step in (bad[0], bad[0] + 2):
        stopped(path, step)
    go_on(path)
    assert_same_run(path, golden(run))


def test_an_environment_that_always_raises_fails_the_run_with_its_traceback_even_if_resumed(
    tmp_path,
):
    path = prepare(
        a_run(task=toys.task("RaiseInStepAlways"), eval_every=40, eval_episodes=1), tmp_path
    )
    stopped(path, 20)
    with pytest.raises(
        RunFailedError,
        match=(
            r"broke 11 times within 10000 steps, last at step 33: raised ZeroDivisionError: of the "
            r"environment's own$"
        ),
    ):
        go_on(path)
    assert (failure(path)["step"], failure(path)["error"]) == (32, "RunFailedError")
    trace = (path / "traceback.txt").read_text()
    assert "ZeroDivisionError: of the environment's\nown" in trace
    assert "toys.py" in trace
    assert checkpoint_steps(path)[-1] == 32
    assert_the_last_checkpoint_is_good(path)
    assert_it_is_not_resumed(path, "ZeroDivisionError")


def test_an_environment_whose_reset_always_raises_fails_the_run_before_its_first_step(tmp_path):
    path = prepare(a_run(task=toys.task("RaiseInResetAlways")), tmp_path)
    with pytest.raises(
        RunFailedError, match=r"broke 11 times .* last at step 0: raised ZeroDivisionError"
    ):
        go_on(path)
    assert "ZeroDivisionError" in (path / "traceback.txt").read_text()


def test_evaluations_that_break_too_often_fail_the_run(tmp_path):
    path = prepare(
        a_run(task=toys.task("RaiseInStepAlways"), eval_episodes=BAD_LIMIT + 1), tmp_path
    )
    with pytest.raises(
        RunFailedError, match=r"broke 11 times .* last at step 0: raised ZeroDivisionError"
    ):
        go_on(path)
    assert (
        len(events(path, "bad_evaluation")) == BAD_LIMIT + 2
    )  # one of them is the self-test's, which does not count


def test_an_environment_that_never_observed_what_it_declares_is_refused_at_once(tmp_path):
    path = prepare(a_run(task=toys.task("ShapeInResetAlways")), tmp_path)
    with pytest.raises(DataError, match="observed 4 numbers where its space declares 3") as raised:
        go_on(path)
    assert type(raised.value) is DataError
    assert not (path / "FAILED").exists()


def test_an_environment_that_raised_is_made_anew_once_and_one_that_answered_nonsense_is_kept():
    for toy, anew in (("RaiseInStepAlways", True), ("NanRewardOften", False)):
        env = Guarded(toys.task(toy), Protocol())
        first = env.unwrapped
        env.reset(seed=0)
        with pytest.raises(BrokenEpisodeError):
            for _ in range(3):
                env.step(np.zeros(2))
        env.reset(seed=1)
        assert (env.unwrapped is not first) == anew


def test_an_environment_that_comes_back_with_other_spaces_is_as_broken_as_before(monkeypatch):
    env = Guarded(toys.task("RaiseInStepAlways"), Protocol())
    env.reset(seed=0)
    with pytest.raises(LostEnvironmentError):
        for _ in range(3):
            env.step(np.zeros(2))
    monkeypatch.setattr(env, "_make", lambda: make(toys.task("Growing")))
    monkeypatch.setenv("DUALAC_TEST_GROWN", "5")
    with pytest.raises(LostEnvironmentError, match="other spaces"):
        env.reset(seed=1)


@pytest.mark.parametrize(
    ("how", "discount"), [("Terminated", 0.0), ("Truncated", 1.0), ("Both", 0.0)]
)
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
    np.testing.assert_allclose(
        kept["reward"], -np.square(kept["next_obs"].astype(np.float64)).sum(axis=1), rtol=1e-5
    )


def test_absurd_rewards_end_the_run_as_diverged(tmp_path):
    """Each is finite in float32, their losses are not."""
    path = prepare(a_run(task=toys.task("Absurd")), tmp_path)
    with pytest.raises(RunFailedError, match=r"diverged: .* at step 10") as raised:
        go_on(path)
    assert failure(path)["reason"] == str(raised.value)
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
    (path / "FAILED").write_text(
        json.dumps({"step": 3, "reason": "x", "error": "ZeroDivisionError"})
    )
    go_on(path)
    assert not (path / "FAILED").exists()
    assert (path / "DONE").exists()


def test_an_environment_that_changes_its_spaces_amid_a_run_fails_it_on_disk(tmp_path):
    path = prepare(a_run(task=toys.task("SpacesLater")), tmp_path)
    with pytest.raises(DataError, match="after reset and declared"):
        go_on(path)
    assert "after reset and declared" in json.loads((path / "FAILED").read_text())["reason"]
    assert "DataError" in (path / "traceback.txt").read_text()


def test_a_run_whose_task_names_no_limit_says_so_once(tmp_path):
    run = a_run()
    path = prepare(run, tmp_path)
    warnings = [message.text for message in go_on(path) if isinstance(message, RunWarning)]
    assert warnings == [event["reason"] for event in events(path, "no_time_limit")]
    assert "cut after 10000 steps" in warnings[0] and "--time-limit" in warnings[0]
    limited = prepare(a_run(protocol=Protocol(time_limit=50)), tmp_path / "limited")
    assert not [message for message in go_on(limited) if isinstance(message, RunWarning)]
