"""Many runs become columns: what is damaged is counted and named, what is unlike is never
averaged.
"""

import json
import os
import platform
from pathlib import Path

import numpy as np
import pytest
from tests.support.written import MACHINE, PROTOCOL, write_rows, write_run, write_sweep

from dualac.analysis.data import collect
from dualac.analysis.data.curves import Curve
from dualac.analysis.data.frame import EVALUATION, read, read_run
from dualac.analysis.data.groups import group
from dualac.analysis.data.scores import Board, by_step, grid, held, scale
from dualac.analysis.data.status import survey
from dualac.errors import DataError

RESULTS = Path(__file__).parents[2] / "results"


def test_every_run_below_a_directory_is_read_once(tmp_path: Path):
    write_sweep(tmp_path, {"dac": 0.5, "sac": 0.4}, ["dmc/cheetah-run", "metaworld/hammer"], 2)
    frame = read([tmp_path, tmp_path / "dac"])
    assert len(frame.runs) == 8
    assert frame.damaged == []
    table = collect.evaluation_table(collect.merged(frame.runs))
    assert {len(column) for column in table.values()} == {8 * 11 * 2}
    assert {"run", *EVALUATION} <= set(table)
    assert table["algorithm"].count("sac") == 4 * 11 * 2
    assert set(table["state"]) == {"done"} and len(set(table["run"])) == 8
    assert {len(column) for column in collect.evaluation_table([]).values()} == {0}


def test_what_older_files_leave_unsaid_is_what_the_code_that_wrote_them_meant():
    """The analysis knows no dataclass: what it fills in must be what loading the run gives."""
    from dualac.parts.as_json import to_json
    from dualac.training.run import load

    paths = sorted(path.parent for path in RESULTS.rglob("run.json"))
    assert paths
    for path in paths:
        assert read_run(path).spec == to_json(load(path))


def test_defaults_of_older_versions_are_those_of_the_dataclasses():
    import dataclasses

    from dualac.agents.algorithm import Algorithm
    from dualac.agents.optimist import OptimisticActor
    from dualac.agents.pessimism import Fixed
    from dualac.agents.policies import Soft
    from dualac.envs import Protocol
    from dualac.runs.versions import ADDED

    for part in (Algorithm, OptimisticActor, Soft, Fixed, Protocol):
        defaults = {field.name: field.default for field in dataclasses.fields(part)}
        assert ADDED[part.__name__].items() <= defaults.items()


def test_damaged_lines_are_counted_named_and_passed_over(tmp_path: Path):
    path = write_run(tmp_path)
    lines = (path / "eval.jsonl").read_text().splitlines()
    lines[3:5] = ['{"step": 10000, "ret', "\x00\x00"]
    lines[7] = '{"return": 5}'
    lines[9] = "[1, 2]"
    (path / "eval.jsonl").write_text("\n".join(lines) + '\n{"step": 1000')
    frame = read([tmp_path])
    assert [str(one) for one in frame.damaged] == [
        f"{path / 'eval.jsonl'}: 4 damaged lines passed over (4, 5, 8, 10)"
    ]
    assert len(frame.runs[0].evaluations["step"]) == 22 - 4


@pytest.mark.parametrize(
    "line",
    [
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"step": 1e400, "return": 1}',
        b'{"step": -5, "return": 1}',
        b'{"step": "<script>"} x',
        b'{"step": true}',
        b'{"step": "oops"}',
    ],
)
def test_no_line_can_break_the_reading_of_the_others(tmp_path: Path, line: bytes):
    path = write_run(tmp_path)
    (path / "eval.jsonl").write_bytes(line + b"\n" + (path / "eval.jsonl").read_bytes())
    frame = read([tmp_path])
    assert len(frame.runs[0].evaluations["step"]) == 22
    assert len(frame.damaged) == 1
    assert frame.runs[0].status.state == "done"


@pytest.mark.parametrize("value", [None, "NaN", "five", [1], {"a": 1}, 10**400])
def test_a_return_that_is_no_number_is_none(tmp_path: Path, value):
    path = write_run(tmp_path)
    write_rows(path / "eval.jsonl", [{"step": 0, "return": value}, {"step": 10, "return": 3.0}])
    found = read([tmp_path]).runs[0].evaluations["return"]
    assert np.isnan(found[0])
    assert found[1] == 3.0


@pytest.mark.parametrize("content", ["", "[]", "{", '{"name": "dac"}', '{"name": 3}'])
def test_a_run_that_cannot_be_used_is_named(tmp_path: Path, content: str):
    path = write_run(tmp_path)
    (path / "run.json").write_text(content)
    frame = read([tmp_path])
    assert frame.runs == []
    assert "run.json" in str(frame.damaged[0])


def test_a_long_log_is_thinned_and_its_damage_is_found_all_the_same(tmp_path: Path):
    path = write_run(tmp_path, training=2_000)
    text = (path / "train.jsonl").read_text().splitlines()
    text[777] = "{half"
    (path / "train.jsonl").write_text("\n".join(text) + "\n")
    run = read([tmp_path]).runs[0]
    assert len(run.training["step"]) <= 201
    assert run.training["step"][-1] == 100_000
    assert "(778)" in str(run.damaged[0])
    assert len(read([tmp_path], training_rows=None).runs[0].training["step"]) == 1_999


def test_how_far_a_run_has_come_and_why_not_further(tmp_path: Path):
    done = write_run(tmp_path, seed=0)
    failed = write_run(tmp_path, seed=1, reached=40_000)
    (failed / "FAILED").write_text(
        json.dumps({"step": 45_000, "reason": "its loss diverged", "error": "RunFailedError"})
    )
    stopped = write_run(tmp_path, seed=2, reached=30_000)
    write_rows(
        stopped / "events.jsonl",
        [{"event": "started", "step": 0}, {"event": "interrupted", "step": 30_000}],
    )
    killed = write_run(tmp_path, seed=3, reached=20_000)
    (killed / "lock").write_text(json.dumps({"pid": 2**22 + 1, "host": platform.node()}))
    running = write_run(tmp_path, seed=4, reached=10_000)
    (running / "lock").write_text(json.dumps({"pid": os.getpid(), "host": platform.node()}))
    found = [read_run(path).status for path in (done, failed, stopped, killed, running)]
    assert [status.state for status in found] == [
        "done",
        "failed",
        "interrupted",
        "interrupted",
        "running",
    ]
    assert [status.step for status in found] == [100_000, 45_000, 30_000, 20_000, 10_000]
    assert found[1].reason == "its loss diverged"


def test_a_run_on_another_host_is_running_while_it_writes(tmp_path: Path):
    fresh, stale = (write_run(tmp_path, seed=seed, reached=20_000) for seed in range(2))
    for path in (fresh, stale):
        (path / "lock").write_text(json.dumps({"pid": 1, "host": "another"}))
    for rows in stale.glob("*.jsonl"):
        os.utime(rows, (1e9, 1e9))
    assert [read_run(path).status.state for path in (fresh, stale)] == ["running", "interrupted"]
    assert [mark.state for mark in survey(tmp_path)[0]] == ["running", "interrupted"]


@pytest.mark.parametrize(
    "content",
    [
        "{",
        "{}",
        '{"runs": [3]}',
        '{"runs": [{"name": 3, "task": "a", "replay_ratio": 2, "steps": 1, "seeds": [0]}]}',
    ],
)
def test_a_plan_that_cannot_be_used_is_named(tmp_path: Path, content: str):
    write_run(tmp_path)
    (tmp_path / "plan.json").write_text(content)
    frame = read([tmp_path])
    assert len(frame.runs) == 1
    assert "plan.json: cannot be" in str(frame.damaged[0])
    assert "plan.json: cannot be" in str(survey(tmp_path)[1][0])


def test_agents_of_one_name_with_other_settings_are_other_agents(tmp_path: Path):
    write_run(tmp_path, "sac", seed=0)
    write_run(tmp_path, "sac", seed=1, changes={"reset_every": 160_000})
    write_run(tmp_path, "sac", seed=2, changes={"algorithm.explorer.target_kl": 0.1})
    labels = [one.label for one in group(read([tmp_path]).runs).groups]
    assert labels == sorted(labels)
    assert len(labels) == 3
    assert any("reset_every=160000" in label for label in labels)
    assert any("explorer.target_kl=0.1" in label for label in labels)


def test_how_long_and_how_often_does_not_make_another_agent(tmp_path: Path):
    write_run(tmp_path, seed=0)
    write_run(
        tmp_path,
        seed=1,
        changes={"steps": 50_000, "eval_every": 5_000, "log_every": 7},
        reached=50_000,
    )
    assert [one.label for one in group(read([tmp_path]).runs).groups] == ["dac"]


@pytest.mark.parametrize("kind", ["protocol", "version"])
def test_runs_by_other_rules_are_refused_or_kept_apart(tmp_path: Path, kind: str):
    for seed in range(2):
        write_run(tmp_path, task="metaworld/hammer", seed=seed)
    other = write_run(
        tmp_path,
        task="metaworld/hammer",
        seed=2,
        changes={"protocol": PROTOCOL | {"success": "last"}} if kind == "protocol" else {},
    )
    if kind == "version":
        (other / "machine.json").write_text(json.dumps(MACHINE).replace("3.0.0", "2.0.0"))
    runs = read([tmp_path]).runs
    refused = group(runs)
    assert [len(one.runs) for one in refused.groups] == [2]
    assert [run.path for run, _ in refused.refused] == [other]
    assert (
        "success last, not any" if kind == "protocol" else "metaworld 2.0.0, not 3.0.0"
    ) in refused.refused[0][1]
    apart = group(runs, "separate")
    assert sorted(len(one.runs) for one in apart.groups) == [1, 2]
    assert apart.refused == []


def test_the_rules_of_most_runs_count_and_an_unknown_version_is_no_rule(tmp_path: Path):
    for seed in range(3):
        (write_run(tmp_path, seed=seed) / "machine.json").unlink()
    other = write_run(tmp_path, seed=3, changes={"protocol.eval_episodes": 1})
    refused = group(read([tmp_path]).runs).refused
    assert [(run.path, reason.partition(": ")[2]) for run, reason in refused] == [
        (other, "eval_episodes 1, not 10")
    ]
    versions = [write_run(tmp_path, seed=seed) for seed in (4, 5, 6)]
    (versions[0] / "machine.json").write_text(json.dumps(MACHINE).replace("3.16.0", "2.3.0"))
    assert [run.path for run, _ in group(read([tmp_path]).runs).refused] == [other, versions[0]]


def test_of_as_many_runs_the_default_rules_count(tmp_path: Path):
    write_run(tmp_path, seed=0)
    other = write_run(tmp_path, seed=1, changes={"protocol.action_repeat": 2})
    assert [run.path for run, _ in group(read([tmp_path]).runs).refused] == [other]


def test_a_rule_that_does_not_concern_a_suite_is_no_difference(tmp_path: Path):
    write_run(tmp_path, seed=0)
    write_run(tmp_path, seed=1, changes={"protocol.metaworld_cap": 500, "protocol.success": "last"})
    (
        write_run(tmp_path, seed=2) / "machine.json"
    ).unlink()  # a version that is not known is no other version
    assert [len(one.runs) for one in group(read([tmp_path]).runs).groups] == [3]


def test_a_copy_counts_once_and_a_contradiction_is_an_error_with_both_paths(tmp_path: Path):
    first = write_run(tmp_path / "a", seed=0)
    write_run(tmp_path / "b", seed=0, reached=60_000)
    grouped = group(read([tmp_path]).runs)
    assert [run.path for run in grouped.groups[0].runs] == [first]
    assert len(grouped.notes) == 1
    other = write_run(tmp_path / "c", seed=0, final=0.9)
    with pytest.raises(DataError, match="their rows differ") as error:
        group(read([tmp_path]).runs)
    assert str(first) in str(error.value)
    assert str(other) in str(error.value)


def test_what_a_score_is_depends_on_the_suite(tmp_path: Path):
    protocol = {"protocol": PROTOCOL | {"success": "last"}}
    tasks = ("dmc/cheetah-run", "metaworld/hammer", "myosuite/reach-easy", "gym/Pendulum-v1")
    runs = {
        task: read_run(
            write_run(tmp_path, task=task, changes=protocol if task.startswith("myo") else {})
        )
        for task in tasks
    }
    found = {task: scale(run, {}) for task, run in runs.items()}
    assert [one and one.column for one in found.values()] == [
        "return",
        "success",
        "success_last",
        None,
    ]
    given = scale(runs["gym/Pendulum-v1"], {"": (-1500.0, 0.0)})
    assert given == ("return", -1500.0, 0.0, "return, -1500 to 0")
    assert scale(runs["dmc/cheetah-run"], {"": (0.0, 1.0), "dmc/cheetah-run": (0.0, 500.0)}) == (
        "return",
        0.0,
        500.0,
        "return, 0 to 500",
    )


def test_an_evaluation_is_the_mean_of_the_episodes_that_have_a_number():
    columns = {
        "step": np.array([0, 0, 10, 10, 20.0]),
        "return": np.array([1, 3, 5, np.nan, np.nan]),
    }
    curve = by_step(columns, "return")
    np.testing.assert_array_equal(curve.steps, [0, 10, 20])
    np.testing.assert_array_equal(curve.returns, [2, 5, np.nan])


def test_a_curve_holds_its_last_evaluation_and_ends_where_it_ends():
    curve = Curve(np.array([10, 20]), np.array([1.0, 2.0]))
    np.testing.assert_array_equal(
        held(curve, np.array([0, 10, 15, 20, 25])), [np.nan, 1, 1, 2, np.nan]
    )
    assert np.isnan(held(Curve(np.array([]), np.array([])), np.array([1.0]))).all()
    assert len(grid([Curve(np.arange(1_000), np.zeros(1_000))])) == 101


def test_the_curves_of_a_group_have_an_axis_for_steps_seeds_and_tasks(tmp_path: Path):
    write_sweep(tmp_path, {"dac": 0.5}, ["dmc/a", "dmc/b"], 3)
    groups = group(read([tmp_path]).runs).groups
    found = Board(groups, {}).curves_of(
        groups[0], ["dmc/a", "dmc/b", "dmc/c"], np.array([0.0, 100_000.0])
    )
    assert found.shape == (2, 3, 3)
    assert np.isfinite(found).sum() == 12
