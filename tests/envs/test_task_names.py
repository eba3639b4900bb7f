"""What users may type for a task, and the answer where it is none."""

import subprocess
import sys

import gymnasium
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support import env_toys

from dualac.envs import NOT_LISTED, all_tasks, canonical, make, suite_tasks, task_set, tasks
from dualac.envs.suites.dmc import _suite
from dualac.envs.suites.packages import imported
from dualac.errors import UsageError

TOYS = env_toys.__name__
DMC = suite_tasks("dmc")


def test_the_table_of_the_control_suite_is_the_suites_own():
    suite, _ = _suite()
    assert (
        tuple((domain, task) for domain, names in tasks.DMC.items() for task in names)
        == suite.ALL_TASKS
    )


def test_the_table_of_meta_world_is_the_suites_own():
    assert [f"{name}-v3" for name in tasks.METAWORLD] == list(
        imported("metaworld", "metaworld.env_dict").ALL_V3_ENVIRONMENTS
    )


def test_the_tables_of_myosuite_are_its_registrys():
    assert list(tasks.MYOSUITE_IDS) == imported("myosuite", "myosuite").register_all_envs()["all"]
    for task in tasks.MYOSUITE.values():
        assert gymnasium.registry[task.id].max_episode_steps == task.cap


def test_a_task_of_myosuite_is_listed_once():
    listed = suite_tasks("myosuite")
    assert len(listed) == len(tasks.MYOSUITE_IDS)
    assert not {f"myosuite/{task.id}" for task in tasks.MYOSUITE.values()} & set(listed)


# The paper's table: every task in its set, the bold ones after a star.
DAC_30 = """
dmc/acrobot-swingup* dmc/cheetah-run* dmc/hopper-hop* dmc/humanoid-run dmc/humanoid-stand*
dmc/humanoid-walk* dmc/swimmer-swimmer6
dmc/pendulum-swingup dmc/quadruped-run dmc/walker-run
metaworld/assembly metaworld/box-close* metaworld/coffee-pull metaworld/drawer-open*
metaworld/hammer* metaworld/lever-pull metaworld/push*
metaworld/stick-pull metaworld/stick-push metaworld/sweep*
myosuite/reach-easy* myosuite/reach-hard myosuite/pose-easy* myosuite/pose-hard
myosuite/pen-twirl-easy* myosuite/pen-twirl-hard myosuite/object-hold-easy*
myosuite/object-hold-hard myosuite/key-turn-easy* myosuite/key-turn-hard
"""


def test_the_sets_are_the_papers():
    listed = DAC_30.split()
    assert task_set("dac-30") == tuple(name.removesuffix("*") for name in listed)
    assert task_set("dac-15") == tuple(
        name.removesuffix("*") for name in listed if name.endswith("*")
    )
    assert (len(task_set("dac-30")), len(task_set("dac-15")), len(tasks.PAPER)) == (30, 15, 32)
    assert task_set("dog-humanoid") == (
        "dmc/dog-run",
        "dmc/dog-trot",
        "dmc/humanoid-run",
        "dmc/humanoid-walk",
    )
    assert set(tasks.PAPER) == set(task_set("dac-30")) | set(task_set("dog-humanoid"))
    assert all(canonical(name) == name for name in tasks.PAPER)
    with pytest.raises(
        UsageError, match="the sets are dac-30, dac-15 and dog-humanoid; did you mean dac-30"
    ):
        task_set("dac30")


@given(st.sampled_from(DMC), st.data())
def test_case_and_dashes_do_not_matter_in_the_control_suite(name, data):
    spelt = "".join(
        data.draw(st.sampled_from([c.lower(), c.upper(), *("-_" if c in "-_" else "")]))
        for c in name.removeprefix("dmc/")
    )
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
        ("walker-run", "dmc/walker-run"),
        ("hammer-v3", "metaworld/hammer"),
        ("metaworld/hammer-v3", "metaworld/hammer"),
        ("mw-hammer", "metaworld/hammer"),
        ("MetaWorld/Pick_Place", "metaworld/pick-place"),
        ("myo-reach-hard", "myosuite/reach-hard"),
        ("myoHandReachRandom-v0", "myosuite/reach-hard"),
        ("myosuite/myoHandReachRandom-v0", "myosuite/reach-hard"),
        ("myosuite/reach_hard", "myosuite/reach-hard"),
        ("gym/myosuite:myoHandReachRandom-v0", "myosuite/reach-hard"),
        ("myosuite:myoHandReachRandom-v0", "myosuite/reach-hard"),
        ("gym/myoHandReachRandom-v0", "myosuite/reach-hard"),
        ("myoelbowpose1d6mrandom-v0", "myosuite/myoElbowPose1D6MRandom-v0"),
        ("gym/Pendulum-v1", "gym/Pendulum-v1"),
        ("gym/phys2d/Pendulum-v0", "gym/phys2d/Pendulum-v0"),
        (f"{TOYS}:toys/Toy-v0", f"gym/{TOYS}:toys/Toy-v0"),
        (f"gym/{TOYS}:toys/Toy-v0", f"gym/{TOYS}:toys/Toy-v0"),
    ],
)
def test_a_spelling_stands_for_one_name(typed, name):
    assert canonical(typed) == name


@pytest.mark.parametrize(
    ("typed", "message"),
    [
        ("cheeta-run", "did you mean dmc/cheetah-run"),
        ("dmc/chetah_run", "did you mean dmc/cheetah-run"),
        ("HalfCheetah-v5", "did you mean gym/HalfCheetah-v5"),
        ("gym/HalfCheeta-v5", "did you mean gym/HalfCheetah-v5"),
        ("gym/pendulum-v1", "did you mean gym/Pendulum-v1"),
        (
            f"{TOYS}:toys/Tooy-v0",
            f"module {TOYS} registers no task 'toys/Tooy-v0'; did you mean gym/toys/Toy-v0",
        ),
        ("dm/cheetah-run", "no suite 'dm'.*did you mean dmc/cheetah-run"),
        ("unheard/of", "the suites are dmc, metaworld, myosuite and gym"),
        ("hammer", "did you mean metaworld/hammer"),
        ("hammer-v2", "did you mean metaworld/hammer"),
        ("metaworld/hamer", "did you mean metaworld/hammer"),
        ("metaworld/a/hammer", "no task 'metaworld/a/hammer'"),
        ("reach-easy", "did you mean myosuite/reach-easy"),
        ("myosuite/reach", "did you mean myosuite/reach-(easy|hard)"),
        ("myosuite/myoHandReachRandm-v0", "did you mean myosuite/reach-hard"),
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
def test_an_unknown_name_is_answered_with_the_nearest(typed, message):
    with pytest.raises(UsageError, match=message) as raised:
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
    assert all_tasks() == DMC + suite_tasks("metaworld") + suite_tasks("myosuite") + suite_tasks(
        "gym"
    )
    assert "gym/<module>:<id>" in NOT_LISTED
    with pytest.raises(UsageError, match="the suites are dmc, metaworld, myosuite and gym"):
        suite_tasks("atari")


def test_the_listed_gymnasium_tasks_are_registered():
    assert set(tasks.GYM) | set(tasks.GYM_BOX2D) <= set(gymnasium.registry)


@pytest.mark.suite
def test_the_listed_gymnasium_tasks_are_those_of_its_registry_that_can_be_made():
    made = set()
    own = [
        spec
        for spec in gymnasium.registry.values()
        if str(spec.entry_point).startswith("gymnasium.")
    ]  # other tests register toys and suites
    for spec in own:
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
for name in ("cheetah-run", "hammer-v3", "myo-reach-hard"): envs.about(name)
envs.all_tasks(); envs.Protocol(time_limit=3)
heavy = {"jax", "gymnasium", "dm_control", "metaworld", "myosuite", "mujoco"}
assert not heavy & set(sys.modules), "names"
envs.make("gym/Pendulum-v1")
assert not {"jax", "dm_control", "metaworld", "myosuite"} & set(sys.modules), "make"
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        env={"PYTHONPATH": ":".join(sys.path)},
    )
    assert done.returncode == 0, done.stderr


def test_toys_are_registered_as_a_users_are():
    assert make(f"{TOYS}:toys/Toy-v0").task == f"gym/{TOYS}:toys/Toy-v0"
