"""Suites as packages: silent, missing, of another version; and what is particular to one of
them.
"""

import gc
import logging
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest

from dualac.envs import Protocol, make
from dualac.envs.suites import packages as suites
from dualac.errors import BrokenEpisodeError, UsageError

ONE_OF_EACH = ("dmc/cheetah-run", "metaworld/push", "myosuite/key-turn-easy", "gym/HalfCheetah-v5")


@pytest.mark.parametrize("task", ONE_OF_EACH)
def test_a_suite_says_nothing_and_leaves_nothing_behind(task, tmp_path):
    code = (
        f"import dualac.envs as e; env = e.make({task!r}); env.reset(seed=0); "
        "env.step(env.action_space.sample()); env.close()"
    )
    paths = [path if os.path.isabs(path) else os.path.abspath(path) for path in sys.path]
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env={"PYTHONPATH": ":".join(paths)},
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert list(tmp_path.iterdir()) == []


def test_what_building_a_model_took_is_given_back():
    """Two dogs are 150 MB and the packages that make them 60; MuJoCo would keep 400 more."""
    code = """
from dualac import envs
dogs = [envs.make("dmc/dog-run") for _ in range(2)]
print(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmRSS")))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 320_000, "kB"


def test_environments_of_a_hand_share_what_it_was_built_from_while_there_are_any():
    from dualac.envs.suites.myosuite import _plans

    first, second = (make("myosuite/object-hold-hard") for _ in range(2))
    assert first.unwrapped._mj_spec is second.unwrapped._mj_spec
    assert "object-hold-hard" in _plans
    for env in (first, second):
        env.close()
    del env, first, second
    gc.collect()
    assert "object-hold-hard" not in _plans


def test_silence_holds_for_python_and_for_c_and_ends(capfd):
    print("before")
    with suites.silence():
        print("python")
        os.write(1, b"c to stdout\n")
        os.write(2, b"c to stderr\n")
        logging.getLogger("absl").warning("absl")
    print("after")
    assert capfd.readouterr() == ("before\nafter\n", "")


def test_silence_ends_when_what_it_covers_fails(capfd):
    with pytest.raises(ZeroDivisionError), suites.silence():
        raise ZeroDivisionError
    os.write(1, b"after\n")
    assert capfd.readouterr().out == "after\n"


@pytest.mark.parametrize(
    ("task", "package", "extra"),
    [
        ("metaworld/push", "metaworld", "metaworld"),
        ("myosuite/reach-easy", "myosuite", "myosuite"),
        ("cheetah-run", "dm_control", "dmc"),
    ],
)
def test_a_missing_suite_is_answered_with_the_command(task, package, extra, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(
        UsageError, match=rf"^{extra} tasks need {package}: pip install 'dualac\[{extra}\]'$"
    ):
        make(task)


def test_the_tested_versions_are_the_bounds_of_the_package():
    extras = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    required = {
        requirement.partition("=")[0].partition(">")[0]: requirement
        for extra in ("dmc", "metaworld", "myosuite", "mujoco")
        for requirement in extras[extra]
    }
    for package, (first, below) in suites.TESTED.items():
        assert required[package] in (f"{package}=={first}", f"{package}>={first},<{below}")


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """Install an empty package of some version, so that Python finds it before any other."""

    def install(package, version):
        metadata = tmp_path / f"{package}-{version}.dist-info" / "METADATA"
        metadata.parent.mkdir()
        metadata.write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: {version}\n")
        monkeypatch.syspath_prepend(tmp_path)

    suites.warn_if_untested.cache_clear()
    yield install
    suites.warn_if_untested.cache_clear()


@pytest.mark.parametrize("version", ["2.12.2", "3.1"])
def test_a_version_that_was_not_tested_is_named_once_with_those_that_were(
    version, installed, caplog
):
    installed("myosuite", version)
    for _ in range(2):
        suites.warn_if_untested("myosuite")
    (record,) = caplog.records
    assert record.getMessage() == (
        f"myosuite {version} is installed, but tasks were tested with 3.0.0 up to, not including, "
        "3.0.1: episodes may differ"
    )


@pytest.mark.parametrize("version", ["3.0.0", "3.0.0.post1"])
def test_a_version_that_was_tested_is_not_mentioned(version, installed, caplog):
    installed("myosuite", version)
    suites.warn_if_untested("myosuite")
    assert caplog.records == []


def test_warnings_of_a_blown_up_simulation_are_those_mujoco_means():
    mujoco = suites.imported("mujoco", "mujoco")
    kinds = [
        mujoco.mjtWarning.mjWARN_BADQPOS,
        mujoco.mjtWarning.mjWARN_BADQVEL,
        mujoco.mjtWarning.mjWARN_BADQACC,
        mujoco.mjtWarning.mjWARN_BADCTRL,
    ]
    assert [int(kind) for kind in kinds] == list(range(7))[suites.BLOWN_UP]


@pytest.mark.parametrize("task", ["metaworld/push", "myosuite/key-turn-easy"])
def test_a_diverged_simulation_is_a_broken_episode_and_no_end_of_the_task(task):
    env = make(task, protocol=Protocol(myosuite_termination="end"))
    env.reset(seed=0)
    env.unwrapped.data.qvel[:] = np.nan
    with pytest.raises(BrokenEpisodeError, match=f"^{task}: the simulation diverged$"):
        env.step(np.zeros(env.action_space.shape))
    env.reset(seed=0)
    assert np.isfinite(env.step(np.zeros(env.action_space.shape))[0]).all()


@pytest.mark.parametrize("task", ["metaworld/push", "myosuite/key-turn-easy"])
def test_options_a_suite_would_ignore_are_refused(task):
    with pytest.raises(UsageError, match="no options"):
        make(task).reset(seed=0, options={"easy": True})


@pytest.mark.parametrize("task", ["metaworld/push", "myosuite/key-turn-easy"])
def test_success_is_reported_at_every_step(task):
    env = make(task)
    env.reset(seed=0)
    assert env.step(np.zeros(env.action_space.shape))[4]["success"] is False


def test_the_goal_of_meta_world_stays_in_sight():
    env = make("metaworld/push")
    goals = []
    for seed in range(3):
        observations = [env.reset(seed=seed)[0], env.step(np.ones(4))[0], env.step(np.ones(4))[0]]
        goals.append(env.unwrapped._target_pos.astype(np.float32).tolist())
        assert [observation[-3:].tolist() for observation in observations] == [goals[-1]] * 3
    assert len({tuple(goal) for goal in goals}) == 3


def test_meta_world_draws_nothing_from_numpys_global_generator():
    env = make("metaworld/push")
    before = np.random.get_state()[1].tolist()
    env.reset(seed=3)
    assert np.random.get_state()[1].tolist() == before


@pytest.mark.parametrize("task", ["metaworld/push", "myosuite/key-turn-hard"])
def test_resets_without_a_seed_draw_on_reproducibly(task):
    first, again = (make(task, seed=5) for _ in range(2))
    episodes = [[env.reset()[0].tolist() for _ in range(3)] for env in (first, again)]
    assert episodes[0] == episodes[1]
    assert episodes[0][0] != episodes[0][1]


def test_a_task_that_wants_the_network_is_refused_at_once():
    with pytest.raises(UsageError, match=r"^myosuite/myoFullBodyDirectional-v0 cannot be made: "):
        make("myosuite/myoFullBodyDirectional-v0")
