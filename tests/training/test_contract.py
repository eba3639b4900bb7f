"""The contract: a run that is killed and resumed, however often and wherever, ends with the bits of
one that never was.
"""

import dataclasses
import json
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from tests.support import toys
from tests.support.runs import (
    CARTPOLE,
    ROOT,
    a_run,
    agent_of,
    assert_same_run,
    checkpoint_steps,
    environment,
    events,
    extended,
    go_on,
    last,
    manifest,
    python,
    replay_of,
    rows,
    same,
    timeless,
    tiny,
    trained,
)  # fmt: skip

from dualac.envs import Protocol
from dualac.errors import DataError
from dualac.machine.cores import usable_cores
from dualac.machine.messages import RunWarning
from dualac.training.rollout import Rollout
from dualac.training.run import prepare

# In warm-up, in an episode, at both ends of an evaluation, at the reset, and with a replay that has
# wrapped, between a checkpoint's files.
CHAIN = ("step:5", "step:13", "before:20", "after:20", "reset:25", "commit:40")
EACH = (
    *CHAIN,
    "step:1",
    "step:9",
    "step:38",
    "state:8",
    "commit:8",
    "named:8",
    "state:16",
    "learnt:10",
    "learnt:27",
    "named:24",
    "tidy:8",
    "before:0",
    "after:0",
    "before:40",
    "after:40",
    "state:40",
)

WORLDS = pytest.mark.parametrize(
    ("name", "world"), [("dac", {}), ("sac", CARTPOLE)], ids=["dac-toy", "sac-cartpole"]
)


def killed(run: Path, *deaths: str, beside: bool = False, **env: str) -> None:
    done = python("-m", "tests.support.killed", *["--beside"] * beside, run, *deaths, **env)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("name", "world"),
    [
        ("dac", {}),
        pytest.param("sac", {}, marks=pytest.mark.kill),
        pytest.param("sac", CARTPOLE, marks=pytest.mark.kill),
    ],
    ids=["dac-toy", "sac-toy", "sac-cartpole"],
)
def test_a_run_killed_everywhere_ends_as_one_that_never_was(name, world, golden, tmp_path):
    run = a_run(name, **world)
    path = prepare(run, tmp_path)
    killed(path, *CHAIN)
    assert_same_run(path, golden(run))
    assert len(events(path, "started")) == 2  # one death came before the first checkpoint
    assert len(events(path, "resumed")) == len(CHAIN) - 1


@pytest.mark.kill
@pytest.mark.parametrize("death", EACH)
@WORLDS
def test_a_run_killed_once_ends_as_one_that_never_was(name, world, death, golden, tmp_path):
    run = a_run(name, **world)
    path = prepare(run, tmp_path)
    killed(path, death)
    assert_same_run(path, golden(run))


@pytest.mark.kill
@pytest.mark.skipif(len(usable_cores()) < 2, reason="one core")
def test_a_run_is_resumed_to_the_bit_with_any_number_of_cores(tmp_path):
    run = a_run("dac", batch_size=64)

    def on(threads: int, steps: int, place: str) -> Path:
        path = prepare(extended(run, steps), tmp_path / place)
        done = python("-m", "dualac.execution.worker", "--threads", str(threads), path)
        assert done.returncode == 0, done.stderr
        return path

    straight, stopped = on(1, 40, "straight"), on(2, 24, "stopped")
    assert on(1, 32, "stopped") == on(2, 40, "stopped") == stopped
    assert (last(stopped) / "state.safetensors").read_bytes() == (
        last(straight) / "state.safetensors"
    ).read_bytes()
    assert timeless(stopped) == timeless(straight)


@pytest.mark.kill
@pytest.mark.skipif(len(usable_cores()) < 2, reason="one core")
def test_a_run_that_began_in_a_users_own_python_is_resumed_by_the_command(tmp_path):
    """It was not pinned: XLA had every core."""
    straight = prepare(a_run("dac"), tmp_path / "straight")
    begun = prepare(extended(a_run("dac"), 24), tmp_path / "begun")
    for path in (straight, begun):
        done = python(
            "-c",
            "from pathlib import Path; from dualac.training.loop import train; "
            f"train([Path({str(path)!r})], lambda _: None)",
        )
        assert done.returncode == 0, done.stderr
    prepare(a_run("dac"), tmp_path / "begun")
    done = python("-m", "dualac", "resume", begun)
    assert done.returncode == 0, done.stderr
    assert (last(begun) / "state.safetensors").read_bytes() == (
        last(straight) / "state.safetensors"
    ).read_bytes()


@pytest.mark.kill
def test_a_worker_killed_at_random_moments_ends_as_one_that_never_was(tmp_path):
    """Moments, not steps: wherever the machine happens to be, the disk, the imports and the
    compiler included.
    """
    run = a_run(
        "dac",
        steps=2000,
        checkpoint_every=20,
        eval_every=100,
        log_every=30,
        resets=(500,),
        capacity=300,
    )

    def worker(path: Path) -> subprocess.Popen[bytes]:
        words = [sys.executable, "-m", "dualac.execution.worker", "--threads", "1", str(path)]
        return subprocess.Popen(
            words, cwd=ROOT, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )

    straight = prepare(run, tmp_path / "straight")
    began = time.monotonic()
    with worker(straight) as process:
        assert process.stdout is not None
        process.stdout.readline()
        started = time.monotonic() - began
        process.communicate()
        assert process.returncode == 0
    trained_for = time.monotonic() - began - started

    path, moments, kills = prepare(run, tmp_path / "killed"), np.random.default_rng(0), 0
    while not (path / "DONE").exists():
        with worker(path) as process:
            try:  # long enough to get somewhere, too short to get far
                process.communicate(
                    timeout=moments.uniform(0.3, 1.0) * (started + 0.4 * trained_for)
                    if kills < 25
                    else None
                )
                assert process.returncode == 0
            except subprocess.TimeoutExpired:
                process.kill()
                kills += 1
    assert kills > 1
    assert_same_run(path, straight, capacity=300)


@pytest.mark.kill
def test_a_run_goes_on_across_an_explorer_s_restart_and_a_reset_as_one_never_stopped(
    tmp_path,
):
    """Restarts after 12, 24 and 36, a reset after 25; stopped at the step of a restart and between
    restart and reset.
    """
    row = dataclasses.replace(tiny("dac-v1"), explorer_restart_every=12)
    run = dataclasses.replace(a_run("dac-v1"), algorithm=row)
    straight = trained(run, tmp_path / "straight")
    assert [event["step"] for event in events(straight, "explorer_restarted")] == [12, 24, 36]
    for steps in (12, 24, 40):
        path = trained(extended(run, steps), tmp_path / "stopped")
    assert (last(path) / "state.safetensors").read_bytes() == (
        last(straight) / "state.safetensors"
    ).read_bytes()


@pytest.mark.parametrize("steps", [24, 25])
def test_a_finished_run_that_is_extended_equals_one_that_was_longer_from_the_start(
    steps, golden, tmp_path
):
    """At 25 the end of the first is the very step after which the second resets; its evaluation
    there is one more than the longer run has.
    """
    run = a_run(eval_every=8)
    path = trained(extended(run, steps), tmp_path)
    assert trained(run, tmp_path) == path
    extra = [row for row in rows(path, "eval.jsonl") if row["step"] % 8]
    assert {row["step"] for row in extra} == ({25} if steps == 25 else set())
    if not extra:
        assert_same_run(path, golden(run))
    assert (last(path) / "state.safetensors").read_bytes() == (
        last(golden(run)) / "state.safetensors"
    ).read_bytes()


def test_a_run_that_ends_a_second_time_is_compared_with_the_first(tmp_path):
    """At the same step, and at a later one: what it said when it was done must still be what its
    rows say.
    """
    path = trained(a_run(steps=24), tmp_path)
    true = (path / "DONE").read_text()
    go_on(path)
    assert (path / "DONE").read_text() == true
    (path / "DONE").write_text(true.replace('"evaluations": "', '"evaluations": "0'))
    with pytest.raises(DataError, match="finished twice with different results"):
        go_on(path)
    with pytest.raises(DataError, match="was changed after the run was done"):
        trained(a_run(), tmp_path)
    (path / "DONE").write_text(true)
    trained(a_run(), tmp_path)
    assert json.loads((path / "DONE").read_text())["step"] == 40


def test_a_run_that_was_planned_without_the_reset_behind_its_end_comes_to_it(golden, tmp_path):
    """As older versions planned them."""
    trained(a_run(steps=20, resets=()), tmp_path)
    assert_same_run(trained(a_run(), tmp_path), golden(a_run()))


def test_a_run_extended_past_its_replay_equals_one_that_was_longer_from_the_start(golden, tmp_path):
    """Shorter than its capacity it needs a smaller ring: what is in it must be found again in the
    larger one.
    """
    run = a_run(eval_every=8, capacity=30)
    trained(extended(run, 16), tmp_path)
    assert_same_run(trained(run, tmp_path), golden(run), capacity=30)


def test_evaluating_more_often_changes_nothing_else(golden, tmp_path):
    usual, more = golden(a_run()), trained(a_run(eval_every=1), tmp_path)
    assert (last(usual) / "state.safetensors").read_bytes() == (
        last(more) / "state.safetensors"
    ).read_bytes()
    assert manifest(last(usual))["sampler"] == manifest(last(more))["sampler"]
    assert rows(usual, "eval.jsonl") == [
        row for row in rows(more, "eval.jsonl") if row["step"] % 10 == 0
    ]
    assert len(rows(more, "eval.jsonl")) == 41 * 2


def test_evaluating_beside_the_learner_changes_nothing_wherever_it_is_killed(golden, tmp_path):
    """At 20 and 30 a checkpoint is written while the evaluation of the same step goes on; the life
    that resumes there owes it.
    """
    run = a_run(checkpoint_every=10)
    path = prepare(run, tmp_path)
    killed(
        path, "named:20", "step:24", "named:30", beside=True, TMPDIR=str(tmp_path)
    )  # where nobody holds the lease of a core
    assert [
        manifest(path / "checkpoints" / str(step))["facts"]["owes_evaluation"]
        for step in checkpoint_steps(path)
    ] == [True, False]
    assert_same_run(path, golden(run))


def test_evaluating_longer_plays_the_same_episodes_first(golden, tmp_path):
    usual, more = golden(a_run()), trained(a_run(eval_episodes=3), tmp_path)
    assert same(agent_of(last(usual)), agent_of(last(more)))
    assert rows(usual, "eval.jsonl") == [
        row for row in rows(more, "eval.jsonl") if row["episode"] < 2
    ]


@pytest.mark.parametrize("place", ["disk", "device"])
def test_where_the_replay_is_changes_nothing_and_nothing_of_it_stays(golden, tmp_path, place):
    trained(extended(a_run(), 20), tmp_path, replay_in=place)
    path = trained(a_run(), tmp_path, replay_in=place)
    assert_same_run(path, golden(a_run()))
    assert {entry.name for entry in path.iterdir()} == {
        entry.name for entry in golden(a_run()).iterdir()
    }


def test_checkpointing_more_often_changes_nothing_else(golden, tmp_path):
    usual, more = golden(a_run()), trained(a_run(checkpoint_every=1), tmp_path)
    assert_same_run(more, usual)
    assert checkpoint_steps(more) == [39, 40]


def test_logging_more_often_changes_nothing_else(golden, tmp_path):
    usual, more = golden(a_run()), trained(a_run(log_every=1), tmp_path)
    assert same(agent_of(last(usual)), agent_of(last(more)))
    assert same(replay_of(last(usual), 20), replay_of(last(more), 20))
    assert (usual / "eval.jsonl").read_bytes() == (more / "eval.jsonl").read_bytes()
    assert [row["step"] for row in rows(more, "train.jsonl")] == list(range(1, 41))


def test_another_seed_is_another_run(golden):
    assert not same(agent_of(last(golden(a_run()))), agent_of(last(golden(a_run(seed=4)))))


def test_a_run_resumed_under_another_fingerprint_is_refused_unless_allowed_and_then_says_so(
    tmp_path, monkeypatch
):
    path = trained(a_run(steps=16), tmp_path)
    monkeypatch.setenv("XLA_FLAGS", "--xla_another=1")  # this process has read the real ones
    prepare(a_run(steps=24), tmp_path)
    with pytest.raises(DataError, match=r"xla_flags: .*another=1'? here.*--allow-inexact"):
        go_on(path)
    go_on(path, allow_inexact=True)
    assert checkpoint_steps(path)[-1] == 24
    assert "xla_flags" in events(path, "inexact_resume")[0]["reason"]


@pytest.mark.parametrize("toy", ["Forgetful", "Fading"])
def test_a_task_that_does_not_play_its_episode_again_is_named_and_the_run_goes_on(
    toy, tmp_path, monkeypatch
):
    """Not even its length need be the same."""
    monkeypatch.setattr(toys.Fading, "made", 0)
    run = a_run(task=toys.task(toy), steps=16, eval_every=16, protocol=Protocol(time_limit=50))
    path = trained(run, tmp_path)
    prepare(extended(run, 24), tmp_path)
    heard = go_on(path)
    assert "does not play the same episode again" in events(path, "inexact_resume")[0]["reason"]
    assert any(isinstance(message, RunWarning) for message in heard)
    assert checkpoint_steps(path)[-1] == 24


def test_a_task_that_cannot_play_again_is_named_at_the_start_and_resumed_with_a_new_episode(
    tmp_path,
):
    run = a_run(
        task=toys.task("Forgetful"), steps=16, eval_every=16, protocol=Protocol(time_limit=50)
    )
    path = prepare(run, tmp_path)
    heard = go_on(path)
    assert (
        "does not play the same episode again from its seed: where it is stopped"
        in events(path, "not_replayable")[0]["reason"]
    )
    assert isinstance(heard[0], RunWarning)
    assert not events(path, "inexact_resume")
    prepare(extended(run, 24), tmp_path)

    class NeverPlaysAgain(Rollout):
        def _play_again(self, snapshot):
            pytest.fail("the run says that it is in vain")

    go_on(path, make_rollout=NeverPlaysAgain)
    assert len(events(path, "not_replayable")) == 2
    assert "the episode in flight was cut" in events(path, "inexact_resume")[0]["reason"]


def test_testing_that_episodes_can_be_played_again_changes_nothing(golden, tmp_path):
    class Untested(Rollout):
        def test_replay(self, step):
            return None

    path = trained(a_run(), tmp_path, make_rollout=Untested)
    assert not events(golden(a_run()), "not_replayable")
    assert_same_run(path, golden(a_run()))
