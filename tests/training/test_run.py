"""What a run is: what it refuses, what makes it another one, where it lives."""

import dataclasses
import json

import numpy as np
import pytest
from tests.support.runs import a_run, tiny

from dualac.agents.algorithms import ALGORITHMS
from dualac.agents.optimist import OptimisticActor
from dualac.agents.pessimism import Fixed
from dualac.envs import Protocol
from dualac.errors import DataError, UsageError
from dualac.parts.paths import replaced
from dualac.runs.files import write_json
from dualac.runs.layout import find_runs
from dualac.runs.spec import FREE
from dualac.runs.state import require_resumable
from dualac.training.run import Run, load, prepare, record_task

REFUSED = [
    ({"seed": -1}, r"--seed must be between 0 and 2147483647, not -1"),
    ({"seed": 2**31}, "--seed"),
    ({"steps": 0}, "--steps must be"),
    ({"steps": 10**13}, "--steps must be"),
    ({"steps": 10, "warmup": 10}, r"--steps 10 ends before learning starts: --warmup is 10"),
    ({"warmup": -1}, "--warmup must be"),
    ({"replay_ratio": 0}, "--replay-ratio must be between 1 and 1024, not 0"),
    ({"replay_ratio": 1025}, "--replay-ratio"),
    ({"batch_size": 0}, "--batch-size"),
    ({"batch_size": 2**20 + 1}, "--batch-size"),
    ({"capacity": 0}, "--capacity"),
    ({"capacity": 10**11}, "--capacity"),
    ({"resets": (0, 5)}, "--resets must be rising steps above 0, not 0,5"),
    ({"resets": (-1,)}, "--resets"),
    ({"resets": (20, 10)}, "--resets"),
    ({"resets": (10, 10)}, "--resets"),
    ({"reset_every": -1}, "--reset-every"),
    ({"eval_every": 0}, "--eval-every"),
    ({"log_every": 0}, "--log-every"),
    ({"checkpoint_every": 0}, "--checkpoint-every"),
    ({"seed": float("nan")}, "seed"),
    ({"pack": (1, 2)}, "a pack has each of its seeds once, seed 3 among them"),
    ({"pack": (3, 3)}, "a pack has each of its seeds once"),
]


@pytest.mark.parametrize(
    ("change", "reason"), REFUSED, ids=[json.dumps(change) for change, _ in REFUSED]
)
def test_what_makes_no_sense_is_refused_in_one_line_that_names_the_option(change, reason):
    with pytest.raises(UsageError, match=reason) as refusal:
        a_run(**change)
    assert refusal.value.code == 64
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("name", ["", "../up", "a/b", ".hidden", "-flag", "x" * 65, "a b", "a\n"])
def test_a_name_that_is_no_directory_is_refused(name):
    with pytest.raises(UsageError, match="a name is 1 to 64 letters"):
        dataclasses.replace(a_run(), name=name)


@pytest.mark.parametrize(
    "change",
    [
        {"steps": 11, "warmup": 10},
        {"seed": 2**31 - 1},
        {"warmup": 0},
        {"pack": (3,)},
        {"resets": ()},
        {"replay_ratio": 1024},
    ],
)
def test_the_bounds_themselves_are_allowed(change):
    a_run(**change)


@pytest.mark.parametrize(
    "change",
    [
        {"steps": 40.0},
        {"steps": 1e3},
        {"seed": 3.0},
        {"batch_size": 8.5},
        {"seed": True},
        {"resets": (25.0,)},
        {"steps": "40"},
    ],
)
def test_a_number_of_the_wrong_kind_is_refused_or_made_whole_before_anything_is_written(change):
    """`steps=1e6` is what people type; what comes of it must not be a traceback in the middle of a
    run.
    """
    try:
        run = a_run(**change)
    except UsageError:
        return
    for field, value in change.items():
        kept = getattr(run, field)
        assert kept == value
        assert all(type(number) is int for number in (kept if isinstance(kept, tuple) else (kept,)))


def test_numbers_of_numpy_are_numbers(tmp_path):
    run = a_run(seed=np.int64(3), steps=np.int32(40))
    assert run.identity() == a_run().identity()
    assert load(prepare(run, tmp_path)) == a_run()


def test_a_list_of_resets_is_the_tuple(tmp_path):
    run = a_run(resets=[25])
    assert run.identity() == a_run().identity()
    assert load(prepare(run, tmp_path)) == run


def test_two_runs_that_are_equal_have_one_identity(tmp_path):
    """-1 and -1.0 are one number."""
    one, other = (
        dataclasses.replace(
            a_run(), algorithm=dataclasses.replace(tiny("sac"), pessimism=Fixed(beta))
        )
        for beta in (-1.0, -1)
    )
    assert one == other
    assert one.identity() == other.identity()


OTHER = {
    "name": "other", (
        "algorithm"
    ): tiny("dac"), (
        "task"
    ): "dmc/cartpole-swingup", "seed": 4, "steps": 41, "warmup": 11, "replay_ratio": 3,
    "batch_size": 9, (
        "capacity"
    ): 21, "resets": (26,), (
        "reset_every"
    ): 5, "reset_same_init": True, "eval_every": 11, "log_every": 8,
    "checkpoint_every": 9, "protocol": Protocol(time_limit=9), "pack": (3, 4),
}  # fmt: skip


def test_every_field_of_a_run_is_spoken_of_here():
    assert set(OTHER) == {field.name for field in dataclasses.fields(Run)}


@pytest.mark.parametrize("field", OTHER)
def test_the_identity_is_everything_that_decides_a_number_and_nothing_else(field):
    changed = dataclasses.replace(a_run(), **{field: OTHER[field]})
    assert (changed.identity() == a_run().identity()) == (field in FREE)
    assert changed.identity() == dataclasses.replace(a_run(), **{field: OTHER[field]}).identity()


@pytest.mark.parametrize(
    "path",
    [
        "pessimism.beta",
        "policy.lr",
        "policy.temperature.start",
        "explorer.target_kl",
        "critic.hidden",
        "gamma",
    ],
)
def test_the_identity_changes_with_every_choice_of_the_row(path):
    row = tiny("dac")
    values = {"pessimism.beta": -0.3, "critic.hidden": (8, 8), "gamma": 0.9}
    changed = dataclasses.replace(
        a_run("dac"), algorithm=replaced(row, {path: values.get(path, 0.123)})
    )
    assert changed.identity() != a_run("dac").identity()


def test_the_identity_is_the_same_in_every_version_of_this_file():
    """It names directories and checkpoints that people have: change it only with a new format."""
    assert (
        Run("sac", ALGORITHMS["sac"], "dmc/cheetah-run").identity()
        == "ca1194dbde3eec1785ca2ff170c94c4266d570e91475a9c11e9ed3c934af006f"
    )


def test_run_json_is_read_as_it_was_written(tmp_path):
    for run in (
        a_run(),
        a_run("dac", pack=(3, 4), protocol=Protocol(time_limit=5)),
        a_run(resets=(), reset_every=7),
    ):
        path = prepare(run, tmp_path / run.name / str(len(run.pack)) / str(run.reset_every))
        assert load(path) == run
        assert load(path).identity() == run.identity()


def test_the_same_run_has_the_same_directory_and_is_continued(tmp_path):
    path = prepare(a_run(), tmp_path)
    assert prepare(a_run(), tmp_path) == path == a_run().directory(tmp_path)
    assert path.relative_to(tmp_path).as_posix() == "sac/gym-tests.support.toys-Drift-v0/rr2/seed3"


def test_a_longer_or_otherwise_logged_run_is_the_same_and_never_gets_shorter(tmp_path):
    path = prepare(a_run(), tmp_path)
    prepare(a_run(steps=50, log_every=3, checkpoint_every=5), tmp_path)
    assert (load(path).steps, load(path).log_every, load(path).checkpoint_every) == (50, 3, 5)
    prepare(a_run(steps=30), tmp_path)
    assert load(path).steps == 50


def test_another_run_in_the_same_directory_is_refused_with_what_differs(tmp_path):
    path = prepare(a_run("dac"), tmp_path)
    before = (path / "run.json").read_bytes()
    other = dataclasses.replace(
        a_run("dac"),
        batch_size=16,
        steps=99,
        algorithm=dataclasses.replace(tiny("dac"), explorer=OptimisticActor(hidden=(8,), lr=1e-2)),
    )
    with pytest.raises(
        DataError, match=r"holds another run \(.*batch_size: 8 there, 16 here"
    ) as refusal:
        prepare(other, tmp_path)
    assert "explorer.optimism.lr: 0.01 there, 3e-05 here" in str(refusal.value)
    assert "steps" not in str(refusal.value)
    assert refusal.value.code == 65
    assert (path / "run.json").read_bytes() == before


@pytest.mark.parametrize(
    "damage",
    [
        lambda spec: "",
        lambda spec: json.dumps(spec)[:-9],
        lambda spec: "[]",
        lambda spec: '"run"',
        lambda spec: json.dumps(spec | {"seed": "3"}),
        lambda spec: json.dumps(spec | {"seed": None}),
        lambda spec: json.dumps(spec | {"batch_size": -8}),
        lambda spec: json.dumps(spec | {"resets": 25}),
        lambda spec: json.dumps(spec | {"soul": 1}),
        lambda spec: json.dumps({key: value for key, value in spec.items() if key != "task"}),
        lambda spec: json.dumps(spec | {"part": "Gallop"}),
        lambda spec: json.dumps(spec | {"algorithm": 7}),
        lambda spec: json.dumps(
            spec | {"algorithm": spec["algorithm"] | {"pessimism": {"part": "Hope"}}}
        ),
        lambda spec: json.dumps(spec | {"name": "../../up"}),
    ],
    ids=[
        "empty",
        "cut",
        "list",
        "string",
        "text-seed",
        "no-seed",
        "negative",
        "number-for-list",
        "more",
        "less",
        "kind",
        "algorithm",
        "part",
        "climbing",
    ],
)
def test_a_run_json_that_is_damaged_or_of_another_version_is_bad_data(damage, tmp_path):
    path = prepare(a_run(), tmp_path)
    spec = json.loads((path / "run.json").read_text())
    (path / "run.json").write_text(damage(spec))
    with pytest.raises(DataError) as refusal:
        load(path)
    assert "\n" not in str(refusal.value)


def test_runs_are_found_at_and_below_a_directory(tmp_path):
    one, two = prepare(a_run(), tmp_path), prepare(a_run(seed=4), tmp_path)
    assert find_runs(tmp_path) == sorted([one, two])
    assert find_runs(one) == [one]
    with pytest.raises(DataError, match="no run at or below"):
        find_runs(tmp_path / "nothing")


DESCRIBED = {
    "task": "gym/x:Y-v0",
    "observation": [["a", 0, 2], ["b", 2, 3]],
    "action": {"low": [-1.0], "high": [1.0]},
    "cap": 5,
}
EXCHANGED = DESCRIBED | {"observation": [["b", 0, 1], ["a", 1, 3]]}


def test_a_run_records_how_its_task_was_flattened_and_scaled(tmp_path):
    record_task(tmp_path, DESCRIBED)
    assert json.loads((tmp_path / "task.json").read_text()) == DESCRIBED
    record_task(
        tmp_path, EXCHANGED
    )  # an environment that is still being written, before anything was learned from it
    assert json.loads((tmp_path / "task.json").read_text()) == EXCHANGED


def test_a_task_that_exchanged_its_parts_is_not_the_one_that_was_learned(tmp_path):
    record_task(tmp_path, DESCRIBED)
    (tmp_path / "checkpoints" / "8").mkdir(parents=True)
    record_task(tmp_path, DESCRIBED)
    with pytest.raises(
        DataError,
        match=(
            r"was trained on another gym/x:Y-v0 \(observation: \[\['a', 0, 2\].* put the "
            r"environment back"
        ),
    ):
        record_task(tmp_path, EXCHANGED)
    assert json.loads((tmp_path / "task.json").read_text()) == DESCRIBED


def test_a_json_file_is_written_whole_or_not_at_all(tmp_path):
    write_json(tmp_path / "a.json", {"x": 1})
    with pytest.raises(TypeError):
        write_json(tmp_path / "a.json", {"x": object()})
    assert json.loads((tmp_path / "a.json").read_text()) == {"x": 1}


def test_a_run_that_failed_for_a_reason_that_would_come_again_is_refused(tmp_path):
    path = prepare(a_run(), tmp_path)
    require_resumable(path)
    write_json(path / "FAILED", {"step": 12, "reason": "diverged: x", "error": "RunFailedError"})
    with pytest.raises(DataError, match="failed at step 12: diverged: x; it would again"):
        require_resumable(path)
    write_json(path / "FAILED", {"step": 12, "reason": "x", "error": "ZeroDivisionError"})
    require_resumable(path)
