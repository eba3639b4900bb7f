"""Environments in a process of their own: the same bits, and a hang, an exit or a crash is one
broken episode.
"""

import contextlib
import os
import select
import signal
from pathlib import Path

import numpy as np
import pytest
from tests.support import toys
from tests.support.runs import a_run, assert_same_run, events, last, python, rows, trained

from dualac.envs import make
from dualac.envs.faults.guarded import Guarded
from dualac.errors import BrokenEpisodeError, LostEnvironmentError, UsageError
from dualac.training.run import Run

SECONDS = 60.0
ZERO = np.zeros(2, np.float32)
LEFT_BEHIND = """
import os, signal
from dualac.envs import make
env = make("gym/tests.support.toys:HangAlways-v0", isolated=60.0)
env.reset(seed=0)
print(env._process.pid, flush=True)
if os.fork() == 0:  # not a thread: it must go on when the process hangs
    os.read(0, 1)
    os.kill(os.getppid(), signal.SIGKILL)
    os._exit(0)
while True:
    env.step([0, 0])
"""


def shown(env, seed, steps=60):
    """All an episode shows, as bytes."""
    actions = (
        np.random.default_rng(seed)
        .uniform(-1, 1, (steps, env.action_space.shape[0]))
        .astype(np.float32)
    )
    seen = [env.reset(seed=seed)[0].tobytes()]
    for action in actions:
        obs, reward, terminated, truncated, info = env.step(action)
        assert (obs.dtype, type(reward), type(terminated), type(truncated)) == (
            np.float32,
            float,
            bool,
            bool,
        )
        seen += [
            obs.tobytes(),
            np.float64(reward).tobytes(),
            str((terminated, truncated, info.get("success"))),
        ]
        if terminated or truncated:
            break
    return seen


def alive(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def assert_gone(process: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        handle = os.pidfd_open(process)
        assert select.select([handle], [], [], 60.0)[0]
        os.close(handle)
    assert not alive(process)


SUITES = [
    pytest.param(task, marks=pytest.mark.suite)
    for task in ("metaworld/push", "myosuite/key-turn-easy")
]


@pytest.mark.parametrize("task", [toys.task("Drift"), "dmc/cheetah-run", *SUITES])
def test_an_isolated_environment_gives_the_same_bits(task):
    here, there = make(task, seed=5), make(task, seed=5, isolated=SECONDS)
    assert (there.observation_space, there.action_space) == (
        here.observation_space,
        here.action_space,
    )
    assert (there.task, there.cap) == (here.task, here.cap)
    assert there.reset()[0].tobytes() == here.reset()[0].tobytes()
    assert [shown(there, seed) for seed in (1, 2)] == [shown(here, seed) for seed in (1, 2)]
    process = there._process.pid
    there.close()
    there.close()
    assert not alive(process)
    here.close()


def test_an_isolated_run_is_the_same_run_broken_episodes_and_all(tmp_path, golden):
    run = a_run(task=toys.task("RaiseInStepSometimes"))
    path = trained(run, tmp_path, isolated=SECONDS)
    assert events(path, "bad_transition")
    assert_same_run(path, golden(run))


@pytest.mark.kill
def test_an_environment_that_ends_its_process_costs_an_isolated_run_an_episode_each_time(
    tmp_path, golden
):
    """It breaks where the one that raises does, so all that is learned is the same."""
    path, raising = (
        trained(a_run(task=toys.task("DieSometimes")), tmp_path, isolated=SECONDS),
        golden(a_run(task=toys.task("RaiseInStepSometimes"))),
    )
    assert {event["reason"] for event in events(path, "bad_transition")} == {
        "ended its process with code 7"
    }
    assert (last(path) / "state.safetensors").read_bytes() == (
        last(raising) / "state.safetensors"
    ).read_bytes()
    assert [row["return"] for row in rows(path, "eval.jsonl")] == [
        row["return"] for row in rows(raising, "eval.jsonl")
    ]


def test_isolation_is_no_part_of_what_a_run_is():
    assert not [field for field in Run.__dataclass_fields__ if "isol" in field]


def test_an_environment_that_hangs_is_ended_where_it_hangs_is_named_and_another_one_takes_its_place(
    capfd,
):
    env = Guarded(toys.task("HangAlways"), Run.protocol, isolated=1.0)
    process = env.env._process.pid
    shown(env, 0, steps=2)
    with pytest.raises(LostEnvironmentError, match="did not answer to step within 1 s"):
        env.step(ZERO)
    assert_gone(process)
    assert "in _break" in capfd.readouterr().err
    shown(env, 1, steps=2)
    assert env.env._process.pid != process
    env.close()


def test_a_crash_is_named_by_its_signal():
    env = make(toys.task("Drift"), isolated=SECONDS)
    env.reset(seed=0)
    os.kill(env._process.pid, signal.SIGSEGV)
    with pytest.raises(LostEnvironmentError, match=r"crashed its process \(SIGSEGV\)"):
        env.step(ZERO)
    with pytest.raises(LostEnvironmentError, match="is gone"):
        env.reset(seed=1)


def test_what_is_raised_there_is_raised_here_with_its_traceback():
    env = make(toys.task("RaiseInStepAlways"), isolated=SECONDS)
    with pytest.raises(
        LostEnvironmentError, match=r"^raised ZeroDivisionError: of the environment's own$"
    ) as raised:
        shown(env, 0)
    assert "toys.py" in str(raised.value.__cause__)
    with pytest.raises(UsageError, match="between 0 and"):
        env.reset(seed=-1)
    with pytest.raises(UsageError, match=r"an action of shape \(2,\), not \(3,\)"):
        env.step(np.zeros(3))
    with pytest.raises(UsageError, match="no options"):
        env.reset(options={"a": 1})
    env.close()


def test_an_answer_that_is_nonsense_is_named_as_such_and_the_process_kept():
    env = Guarded(toys.task("ShapeSometimes"), Run.protocol, isolated=SECONDS)
    process = env.env._process.pid
    with pytest.raises(BrokenEpisodeError, match="observed 4 numbers"):
        for seed in range(50):
            shown(env, seed)
    env.reset(seed=0)
    assert env.env._process.pid == process
    env.close()


def test_a_task_that_cannot_be_made_is_refused_as_elsewhere():
    with pytest.raises(UsageError, match="did you mean gym/"):
        make("gym/tests.support.toys:Drft-v0", isolated=SECONDS)


def test_what_it_prints_does_not_get_into_anybodys_conversation(capfd):
    env = make(toys.task("Printing"), isolated=SECONDS)
    env.reset(seed=0)
    env.step(ZERO)
    env.close()
    said = capfd.readouterr()
    assert said.out == ""
    assert "hello from Python" in said.err and "hello from C" in said.err


def test_a_process_whose_parent_is_killed_goes_with_it_even_if_it_hangs():
    done = python("-c", LEFT_BEHIND)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert_gone(int(done.stdout))
