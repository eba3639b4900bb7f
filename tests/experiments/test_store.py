"""What is on disk, seen again: the grid of a sweep, one frame of many runs, the record of one."""

import json
import os
import platform
import shutil
import signal
import sys
from pathlib import Path

import pytest
from tests.support.runs import a_run, signalling, trained
from tests.support.toy_units import BROKEN, toy_sweep

from dualac import cli
from dualac.analysis.data import groups
from dualac.analysis.data.collect import evaluation_table, merged
from dualac.analysis.data.frame import read
from dualac.analysis.data.status import survey
from dualac.cli.commands import experiments
from dualac.errors import DataError, DualacError, Interrupted
from dualac.training.run import Run


@pytest.fixture(scope="module")
def toys(tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("toys")
    toy_sweep(out, (0, 1, BROKEN))
    return out


@pytest.fixture(scope="module")
def real(tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("real")
    for seed in (3, 4):
        trained(a_run("sac", seed=seed), out)
    return out


def shown_by(capsys, *words) -> str:
    assert cli.run([str(word) for word in words]) == 0
    return capsys.readouterr().out


def test_the_grid_tells_what_is_done_failed_and_missing(toys, tmp_path, capsys):
    copy = tmp_path / "copy"
    shutil.copytree(toys, copy)
    shutil.rmtree(copy / "sac" / "gym-Pendulum-v1" / "rr2" / "seed1")
    (copy / "dac" / "gym-Pendulum-v1" / "rr2" / "seed0" / "DONE").unlink()
    states = {(mark.name, mark.seed): mark.state for mark in survey(copy)[0]}
    assert states == {
        ("dac", 0): "interrupted", ("dac", 1): "done", ("dac", BROKEN): "failed",
        ("sac", 0): "done", ("sac", 1): "missing", ("sac", BROKEN): "failed",
    }  # fmt: skip
    shown = shown_by(capsys, "status", copy)
    assert "2 done, 1 interrupted, 2 failed, 1 missing; 6 runs" in shown
    assert "the toy is broken" in shown
    rows = json.loads(shown_by(capsys, "status", copy, "--json"))
    assert rows["counts"] == {"done": 2, "interrupted": 1, "failed": 2, "missing": 1}


def test_a_run_that_is_owned_is_running(real, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(real, copy)
    (path,) = copy.rglob("seed3")
    (path / "DONE").unlink()
    (path / "lock").write_text(json.dumps({"pid": os.getpid(), "host": platform.node()}))
    assert {mark.seed: mark.state for mark in survey(copy)[0]} == {
        3: "running",
        4: "done",
    }


def test_a_damaged_file_is_named_and_the_rest_is_told(toys, tmp_path, capsys):
    copy = tmp_path / "copy"
    shutil.copytree(toys, copy)
    (copy / "plan.json").write_text("{")
    next(copy.rglob("run.json")).write_text("[]")
    assert cli.run(["status", str(copy)]) == 0
    warned = capsys.readouterr()
    assert warned.err.count("dualac: warning:") == 2 and "5 runs" in warned.out


def test_the_frame_has_a_row_an_episode_with_where_it_came_from(real, tmp_path, capsys):
    import pyarrow.parquet

    shown_by(capsys, "collect", real, "--out", tmp_path)
    table = pyarrow.parquet.read_table(tmp_path / "evaluations.parquet").to_pydict()
    rows = [
        json.loads(line)
        for path in sorted(real.rglob("eval.jsonl"))
        for line in path.read_text().splitlines()
    ]
    assert table["return"] == [row["return"] for row in rows]
    assert table["step"] == [row["step"] for row in rows]
    assert set(table["seed"]) == {3, 4} and set(table["algorithm"]) == {"sac"}
    assert all(table[name][0] for name in ("host", "dualac", "versions", "protocol", "run"))
    assert len((tmp_path / "evaluations.csv").read_text().splitlines()) == len(rows) + 1


def test_what_is_planned_and_not_there_is_told_wherever_one_looks_from(toys, tmp_path, capsys):
    copy = tmp_path / "deeply" / "below" / "copy"
    shutil.copytree(toys, copy)
    shutil.rmtree(copy / "sac" / "gym-Pendulum-v1" / "rr2" / "seed1")
    counts = {
        place: json.loads(shown_by(capsys, "status", place, "--json"))["counts"]
        for place in (tmp_path, copy, copy / "sac", copy / "dac")
    }
    assert counts[tmp_path] == counts[copy] == {"done": 3, "failed": 2, "missing": 1}
    assert counts[copy / "sac"] == {"done": 1, "failed": 1, "missing": 1} and counts[
        copy / "dac"
    ] == {"done": 2, "failed": 1}
    shown = shown_by(capsys, "collect", copy)
    assert "toy: 5 runs (3 done, 2 failed, 1 missing)" in shown
    assert "missing    sac on gym/Pendulum-v1, replay ratio 2, seed 1" in shown
    assert "missing" not in shown_by(capsys, "collect", copy, toys)  # where it stands
    assert "toy: 3 done, 2 failed, 1 missing; 6 runs" in shown_by(capsys, "status", tmp_path)
    assert evaluation_table(read([copy]).runs)["experiment"][0] == "toy"


def test_a_run_that_was_once_shorter_is_the_same_run(tmp_path):
    """It has an evaluation at its former end, which one that went on at once has not."""
    shorter, longer = (
        trained(a_run(seed=3, steps=steps), tmp_path / str(steps)) for steps in (25, 40)
    )
    (one,) = merged(read([tmp_path]).runs)
    assert one.path == longer and shorter.exists()
    assert [group.runs[0].path for group in groups.group(read([tmp_path]).runs).groups] == [longer]


def test_merging_is_commutative_and_idempotent_and_the_longer_run_counts(real, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(real, copy)
    (shorter,) = (path / "eval.jsonl" for path in copy.rglob("seed3"))
    shorter.write_text("".join(shorter.read_text().splitlines(keepends=True)[:-2]))
    (gone,) = copy.rglob("seed4")
    shutil.rmtree(gone)

    def of(*places):
        return evaluation_table(merged(read(places, training_rows=0).runs))

    assert of(real, copy) == of(copy, real) == of(real, real, copy) == of(real)


def test_the_same_run_with_other_numbers_is_an_error_that_names_both(real, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(real, copy)
    (other,) = (path / "eval.jsonl" for path in copy.rglob("seed3"))
    other.write_text(other.read_text().replace('"return": ', '"return": 1', 1))
    with pytest.raises(
        DataError, match=r"seed3 and .*seed3 are the same run with different results"
    ):
        merged(read([real, copy]).runs)


def test_the_record_of_a_run_tells_what_it_is_and_where_it_was_made(real, capsys):
    (path,) = real.rglob("seed3")
    shown = shown_by(capsys, "show", path)
    for part in ("sac on", "seed 3", "done at step 40", "Fixed(", "versions   python", "event "):
        assert part in shown


def test_the_record_of_a_run_that_was_taken_up_elsewhere_tells_where(tmp_path, capsys, monkeypatch):
    path = trained(a_run("sac", steps=24), tmp_path)
    monkeypatch.setenv("DUALAC_COMMAND", "dualac train sac --steps 40")
    monkeypatch.setattr(platform, "node", lambda: "elsewhere")
    trained(a_run("sac"), tmp_path)
    assert "resumed at step 24: host elsewhere, command dualac train sac --steps 40" in shown_by(
        capsys, "show", path
    )
    hosts = set(evaluation_table(merged(read([tmp_path]).runs))["host"])
    assert len(hosts) == 1 and hosts.pop().endswith("; elsewhere")


def test_a_run_that_was_stopped_before_its_first_row_tells_where(tmp_path):
    """Its checkpoint is further than its rows."""
    with pytest.raises(Interrupted):
        trained(a_run("sac"), tmp_path, make_rollout=signalling(signal.SIGINT, 6))
    (run,) = read([tmp_path]).runs
    assert run.status == ("interrupted", 6, "stopped by a signal")


@pytest.mark.parametrize(
    "words",
    [
        ("status", "nowhere"),
        ("collect", "nowhere"),
        ("show", "."),
        ("collect", "empty"),
        ("status", "empty"),
    ],
)
def test_a_directory_without_runs_is_one_line(words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    with pytest.raises(DualacError) as error:
        cli.run(list(words))
    assert error.value.code == 65


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("sweep",), "sweep what"),
        (("sweep", "benchmrk"), "did you mean benchmark"),
        (("sweep", "smoke", "--scale", "small"), "no scale"),
        (("sweep", "smoke", "--seeds", "1,1"), "without repeats"),
        (("sweep", "smoke", "--tasks", "dmc/cheetah-run,dmc/cheetah-run"), "each once"),
        (("sweep", "smoke", "--tasks", "dmc/chetah-run"), "cheetah-run"),
        (("sweep", "smoke", "--algorithms", "dacc"), "did you mean dac"),
        (("sweep", "smoke", "--address", "1.2.3.4:5"), "add --executor ray"),
        (("sweep", "smoke", "--workers", "0"), "at least 1"),
        (("sweep", "smoke", "--executor", "slurm"), "slurm"),
        (("sweep", "smoke", "--steps", "2.5"), "whole number"),
        (("sweep", "smoke", "--steps", "0"), "steps must be between 1 and"),
        (
            ("sweep", "--algorithms", "dac", "--tasks", "gym/Pendulum-v1", "--steps", "0"),
            "steps must be between 1 and",
        ),
        (("sweep", "mine.py"), "no file"),
        (
            ("sweep", "--algorithms", "dac", "--tasks", "gym/Pendulum-v1", "--scale", "small"),
            "--scale is that of an experiment",
        ),
        (
            ("sweep", "smoke", "--explorer.target-kl", "0.1"),
            "sac has no --explorer.target-kl; for those that have: --algorithms dac",
        ),
        (("sweep", "smoke", "--target-kl", "0.1"), "did you mean --explorer.target-kl"),
        (("sweep", "smoke", "--gamma", "x"), "--gamma x: 'x' is not a number"),
        (("sweep", "smoke", "--protocol.metaworld-cap", "50"), "no effect on a task of dmc"),
        (("sweep", "smoke", "--protocol", "nobodys"), "nobodys"),
        (("sweep", "smoke", "--recalibrate"), "add --plan"),
        (("sweep", "smoke", "--scale", "small"), "leave out --scale"),
        (
            ("sweep", "smoke", "--out", "x" * 300),
            r"cannot be used \(File name too long\); choose another --out",
        ),
        (
            ("sweep", "smoke", "--plan", "--out", "x" * 300),
            r"cannot be used \(File name too long\); choose another --out",
        ),
        (("status", "x" * 300), r"cannot be used \(File name too long\); name a place that exists"),
        (("show", "x" * 300), r"cannot be used \(File name too long\); name a place that exists"),
        (("sweep", "raises.py"), "no luck"),
    ],
)
def test_what_a_sweep_cannot_be_is_told_in_one_line_before_anything_is_begun(
    words, reason, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "raises.py").write_text("raise OSError('no luck')\n")
    with pytest.raises(DualacError, match=reason):
        cli.run(list(words))
    assert not (tmp_path / "runs").exists()


def test_a_place_that_cannot_be_written_is_one_line(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(DualacError, match="cannot be"):
        cli.run(["sweep", "smoke", "--out", str(tmp_path / "file" / "below"), "--quiet"])


def test_what_train_takes_a_sweep_takes_for_every_agent(tmp_path):
    """An agent that is changed is another, under another name; a run that is changed is not that of
    the directory.
    """
    from dualac.cli.commands.experiments import _read
    from dualac.experiments.expand import expand

    def runs(*words):
        return expand(_read(["--tasks", "gym/Pendulum-v1", *words])[0])

    words = (
        "--algorithms",
        "dac,dac-ln",
        "--explorer.target-kl",
        "0.1",
        "--warmup",
        "500",
        "--eval-episodes",
        "3",
        "--resets",
        "20k",
    )
    one, other = runs(*words)
    assert (one.name, other.name) == ("dac+target_kl0.1", "dac-ln+target_kl0.1")
    assert one.algorithm.explorer.target_kl == other.algorithm.explorer.target_kl == 0.1
    assert (one.warmup, one.protocol.eval_episodes, one.resets) == (500, 3, (20_000,))
    assert [
        run.name for run in runs("--algorithms", "dac,sac", "--gamma", "0.9", "--batch-size", "8")
    ] == ["dac+gamma0.9", "sac+gamma0.9"]
    assert [run.name for run in runs("--algorithms", "dac", "--gamma", "0.99")] == [
        "dac"
    ]  # which is what it has
    twice = runs(
        "--algorithms", "dac", "--explorer.optimism.lr", "1e-4", "--explorer.kl-weight.lr", "1e-4"
    )
    assert [run.name for run in twice] == [
        "dac+explorer.optimism.lr0.0001+explorer.kl_weight.lr0.0001"
    ]


def test_the_plan_of_another_experiment_s_directory_is_refused(toys):
    with pytest.raises(
        DataError, match="holds the experiment 'toy', not 'smoke'; choose another --out"
    ):
        cli.run(["sweep", "smoke", "--plan", "--out", str(toys)])


def test_the_plan_of_many_runs_does_not_compare_each_with_each(tmp_path):
    compared = 0

    def count(frame, event, arg):
        nonlocal compared
        compared += event == "call" and frame.f_code is Run.__eq__.__code__

    argv = ["smoke", "--seeds", "300", "--plan", "--out", str(tmp_path / "out")]
    sys.setprofile(count)
    try:
        code = experiments.sweep(argv, measure=lambda questions: [0.01 for _ in questions])
    finally:
        sys.setprofile(None)
    assert code == 0
    assert compared < 3_000


@pytest.fixture
def hours(tmp_path, capsys, monkeypatch):
    """Return what a plan says, and its core-hours, where an update takes so many seconds."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    def answer(seconds, *argv):
        plan = [*argv, "--plan", "--out", str(tmp_path / "out")]
        measure = lambda questions: [seconds for _ in questions]  # noqa: E731
        assert experiments.sweep(plan, measure=measure) == 0
        shown = capsys.readouterr().out
        return shown, float(shown.split("about ")[1].split(" core-hours")[0])

    return answer


def test_the_plan_says_what_is_left_and_what_it_takes(tmp_path, hours):
    grid = ("--tasks", "cheetah-run", "--seeds", "2", "--algorithms", "dac,sac")
    shown, taken = hours(0.01, "benchmark", *grid)
    assert "8 in" in shown and "0 done, 0 begun, 8 to begin" in shown
    # 990,000 steps of learning at replay ratios 2 and 16, two seeds, two agents: 990,000 * 18 * 4 *
    # 0.01 s are 198 hours, beside the simulator's
    assert 198 < taken < 202
    (book,) = tmp_path.rglob("calibration.json")
    assert json.loads(book.read_text())
    assert not (tmp_path / "out").exists()


def test_an_update_is_timed_once_unless_it_is_to_be_timed_anew(hours):
    argv = ("smoke", "--algorithms", "dac", "--steps", "1M")
    first = hours(0.02, *argv)[1]
    assert hours(0.04, *argv)[1] == first
    assert hours(0.04, *argv, "--recalibrate")[1] > first
