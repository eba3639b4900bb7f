"""A run among processes: one owner at a time, and a polite end when asked for one."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.runs import (
    ROOT,
    a_run,
    assert_same_run,
    checkpoint_steps,
    environment,
    go_on,
    python,
    rows,
    signalling,
)

from dualac.errors import DualacError, Interrupted, LockedError
from dualac.machine.messages import ErrorMessage, from_line
from dualac.runs.lock import owned
from dualac.training.rollout import Rollout
from dualac.training.run import prepare

HOLD = (
    "import sys, pathlib; from dualac.runs.lock import owned\nwith "
    "owned(pathlib.Path(sys.argv[1])): print('held', flush=True); sys.stdin.read()"
)


def worker(path: Path, **words) -> subprocess.CompletedProcess[str]:
    return python("-m", "dualac.execution.worker", "--threads", "1", path, **words)


def error_of(done: subprocess.CompletedProcess[str]) -> DualacError:
    """Read the error that was the worker's last message."""
    message = from_line(done.stdout.splitlines()[-1])
    assert isinstance(message, ErrorMessage)
    return message.as_error()


def test_a_run_has_one_owner_and_a_second_process_is_named_who(tmp_path):
    path = prepare(a_run(), tmp_path)
    with owned(path):
        done = worker(path)
    assert done.returncode == 73
    assert isinstance(error_of(done), LockedError)
    assert f'"pid": {os.getpid()}' in str(error_of(done))
    assert not (path / "checkpoints").exists()


def test_the_lock_of_a_process_that_was_killed_is_free(tmp_path):
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, tmp_path],
        cwd=ROOT,
        env=environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with holder:
        assert holder.stdout is not None and holder.stdout.readline() == "held\n"
        with (
            pytest.raises(
                LockedError,
                match=(
                    rf'is being trained by another process \(.*"pid": {holder.pid}.*\); wait for '
                    r"it or stop it"
                ),
            ) as raised,
            owned(tmp_path),
        ):
            pytest.fail("two owners")
        assert raised.value.code == 73
        holder.kill()
    with owned(tmp_path):
        assert json.loads((tmp_path / "lock").read_text())["pid"] == os.getpid()


def test_training_in_one_process_twice_at_once_is_refused(tmp_path):
    path = prepare(a_run(), tmp_path)
    with owned(path), pytest.raises(LockedError):
        go_on(path)


@pytest.fixture(scope="module")
def straight(tmp_path_factory) -> Path:
    """Return a run that a process of its own took to the end in one go."""
    path = prepare(a_run(), tmp_path_factory.mktemp("straight"))
    assert worker(path, PYTHONHASHSEED="1").returncode == 0
    return path


@pytest.mark.kill
def test_two_fresh_processes_give_the_same_bits(straight, tmp_path):
    """Whatever order their sets have, wherever they were started."""
    other = prepare(a_run(), tmp_path / "other")
    assert worker(other, PYTHONHASHSEED="2", cwd=tmp_path).returncode == 0
    assert_same_run(other, straight)


@pytest.mark.kill
def test_a_worker_that_is_asked_to_stop_checkpoints_there_and_goes_on_to_the_same_bits(
    straight, tmp_path
):
    path = prepare(a_run(), tmp_path)
    done = python("-m", "tests.support.signalled", "SIGINT", "29", path)
    assert done.returncode == 130, done.stderr
    assert checkpoint_steps(path)[-1] == 29
    error = error_of(done)
    assert error.code == 130
    sentence = f"stopped at step 29, checkpoint written; continue with: dualac resume {path}"
    assert sentence in str(error)
    assert not (path / "DONE").exists()
    assert not (path / "FAILED").exists()
    assert worker(path).returncode == 0
    assert_same_run(path, straight)


def test_a_signal_in_this_process_is_obeyed_too_and_its_handlers_are_given_back(tmp_path, golden):

    path = prepare(a_run(), tmp_path)
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    with pytest.raises(Interrupted) as raised:
        go_on(path, make_rollout=signalling(signal.SIGTERM, 13))
    assert raised.value.code == 143
    assert checkpoint_steps(path)[-1] == 13
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before
    go_on(path)
    assert_same_run(path, golden(a_run()))


def test_a_signal_at_the_last_step_finds_the_run_done_or_resumes_to_done(tmp_path, golden):

    path = prepare(a_run(), tmp_path)
    try:
        go_on(path, make_rollout=signalling(signal.SIGINT, 40))
    except Interrupted:
        go_on(path)
    assert_same_run(path, golden(a_run()))


class StoppedInEvaluation(Rollout):
    """Asked to stop at the third step of the evaluation of a step, whose steps it counts."""

    when: int

    def __init__(self, path, flags, *, together):
        super().__init__(path, flags, together=together)
        self.evaluating, self.taken, take = -1, 0, self.eval_env.step

        def step(action):
            self.taken += self.evaluating == self.when
            if self.evaluating == self.when and self.taken == 3:
                signal.raise_signal(signal.SIGQUIT)
            return take(action)

        self.eval_env.step = step

    def eval_seeds(self, step):
        self.evaluating = step
        return super().eval_seeds(step)


@pytest.mark.parametrize(
    ("when", "warmup", "saved"),
    [
        pytest.param(0, 10, None, id="amid a step"),  # when the first episode has ended
        pytest.param(0, 2, 1, id="before the first update"),
        pytest.param(0, 0, None, id="before the first step"),
        pytest.param(20, 10, 20, id="between"),
        pytest.param(40, 10, 40, id="at the end"),
    ],
)
def test_a_signal_inside_an_evaluation_is_obeyed_at_once_and_the_run_goes_on_to_the_same_bits(
    when, warmup, saved, tmp_path, golden
):
    run, rollouts = a_run(warmup=warmup), []
    path = prepare(run, tmp_path)

    def make_rollout(path, flags, *, together):
        rollouts.append(StoppedInEvaluation(path, flags, together=together))
        rollouts[0].when = when
        return rollouts[0]

    with pytest.raises(Interrupted) as raised:
        go_on(path, make_rollout=make_rollout)
    assert raised.value.code == 131
    assert rollouts[0].taken == 3
    assert ("checkpoint written" in str(raised.value)) is (saved is not None)
    assert when not in [row["step"] for row in rows(path, "eval.jsonl")]
    if saved:
        assert checkpoint_steps(path)[-1] == saved
    go_on(path)
    assert_same_run(path, golden(run))
