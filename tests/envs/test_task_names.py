"""What users may type for a task, and what they are told when it is none."""

import subprocess
import sys

import gymnasium
import pytest
import toys
from hypothesis import given
from hypothesis import strategies as st

from dualac.envs import NOT_LISTED, all_tasks, canonical, make, suite_tasks, tasks
from dualac.envs.dmc import _suite
from dualac.errors import UsageError

DMC = suite_tasks("dmc")


def test_the_table_of_the_control_suite_is_the_suites_own():
    suite, _ = _suite()
    assert tuple((domain, task) for domain, names in tasks.DMC.items() for task in names) == suite.ALL_TASKS


@given(st.sampled_from(DMC), st.data())
def test_case_and_dashes_do_not_matter_in_the_control_suite(name, data):
    spelt = "".join(data.draw(st.sampled_from([c.lower(), c.upper(), *("-_" if c in "-_" else "")])) for c in name.removeprefix("dmc/"))
    prefix = data.draw(st.sampled_from(["dmc/", "DMC/", "", "dm_control/"]))
    assert canonical(prefix + spelt) == name
    assert canonical(f"dm_control/{spelt}-v0") == name


def test_a_canonical_name_stands_for_itself():
    assert [canonical(name) for name in all_tasks()] == all_tasks()
    assert len(set(all_tasks())) == len(all_tasks())


@pytest.mark.parametrize(
    ("typed", "name"),
    [
        ("cheetah-run", "dmc/cheetah-run"),
        ("  cheetah-run\n", "dmc/cheetah-run"),
        ("dm_control/cheetah-run-v0", "dmc/cheetah-run"),
        ("ball-in-cup-catch", "dmc/ball_in_cup-catch"),
        ("dmc/cartpole-swingup-sparse", "dmc/cartpole-swingup_sparse"),
        ("humanoid-cmu-run", "dmc/humanoid_CMU-run"),
        ("gym/Pendulum-v1", "gym/Pendulum-v1"),
        ("gym/phys2d/Pendulum-v0", "gym/phys2d/Pendulum-v0"),
        ("toys:toys/Toy-v0", "gym/toys:toys/Toy-v0"),
        ("gym/toys:toys/Toy-v0", "gym/toys:toys/Toy-v0"),
    ],
)
def test_a_spelling_stands_for_one_name(typed, name):
    assert canonical(typed) == name


@pytest.mark.parametrize(
    ("typed", "told"),
    [
        ("cheeta-run", "did you mean dmc/cheetah-run"),
        ("dmc/chetah_run", "did you mean dmc/cheetah-run"),
        ("HalfCheetah-v5", "did you mean gym/HalfCheetah-v5"),
        ("gym/HalfCheeta-v5", "did you mean gym/HalfCheetah-v5"),
        ("gym/pendulum-v1", "did you mean gym/Pendulum-v1"),
        ("toys:toys/Tooy-v0", "module toys registers no task 'toys/Tooy-v0'; did you mean gym/toys/Toy-v0"),
        ("dm/cheetah-run", "no suite 'dm'.*did you mean dmc/cheetah-run"),
        ("unheard/of", "the suites are dmc and gym"),
        ("xyzzy", "dualac list tasks"),
        ("", "dualac list tasks"),
        ("dmc/", "no task 'dmc/'"),
        ("gym/", "no task ''"),
        ("no_such_module:Toy-v0", "module no_such_module does not import"),
        ("os.system('x'):Toy-v0", "is not a module's name"),
        ("a:b:Toy-v0", "is not a module's name"),
        ("..up:Toy-v0", "is not a module's name"),
    ],
)
def test_an_unknown_name_is_answered_with_the_nearest(typed, told):
    with pytest.raises(UsageError, match=told) as raised:
        canonical(typed)
    assert "\n" not in str(raised.value)


def test_a_version_is_never_guessed():
    with pytest.raises(UsageError, match="HalfCheetah-v5"):
        canonical("gym/HalfCheetah")


def test_a_module_that_fails_to_import_is_named(tmp_path, monkeypatch):
    (tmp_path / "broken_toys.py").write_text("1 / 0")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(UsageError, match="module broken_toys does not import: ZeroDivisionError"):
        canonical("broken_toys:Toy-v0")


def test_the_lists_are_the_suites():
    assert len(DMC) == 51
    assert "gym/HalfCheetah-v5" in suite_tasks("gym")
    assert all_tasks() == DMC + suite_tasks("gym")
    assert "gym/<module>:<id>" in NOT_LISTED
    with pytest.raises(UsageError, match="the suites are dmc and gym"):
        suite_tasks("atari")


def test_the_listed_gymnasium_tasks_are_registered():
    assert set(tasks.GYM) | set(tasks.GYM_BOX2D) <= set(gymnasium.registry)


@pytest.mark.suite
def test_the_listed_gymnasium_tasks_are_those_of_its_registry_that_can_be_made():
    made = set()
    for spec in list(gymnasium.registry.values()):
        newest = gymnasium.envs.registration.find_highest_version(spec.namespace, spec.name)
        if spec.namespace is None and spec.version == newest:
            try:
                make(f"gym/{spec.id}").close()
            except UsageError:
                continue
            made.add(f"gym/{spec.id}")
    assert made == set(suite_tasks("gym"))


def test_naming_tasks_imports_no_simulator():
    code = """
import sys
import dualac.envs as envs
assert not {"gymnasium", "numpy"} & set(sys.modules), "import"
envs.canonical("cheetah-run"); envs.all_tasks(); envs.Protocol(time_limit=3)
assert not {"jax", "gymnasium", "dm_control", "mujoco"} & set(sys.modules), "names"
envs.make("gym/Pendulum-v1")
assert not {"jax", "dm_control"} & set(sys.modules), "make"
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, env={"PYTHONPATH": ":".join(sys.path)})
    assert done.returncode == 0, done.stderr


def test_toys_are_registered_as_a_users_are():
    assert make("toys:toys/Toy-v0").task == f"gym/{toys.__name__}:toys/Toy-v0"
