"""A plan carried out: no work twice, nothing lost, what fails set aside while the rest goes on."""

import dataclasses
import errno
import fcntl
import io
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from rich.console import Console
from tests.support.runs import ROOT, environment
from tests.support.toy_units import (
    BROKEN,
    FULL,
    POISON,
    SHAKY,
    SPACE,
    here,
    toy_experiment,
    toy_sweep,
)

from dualac.analysis.data.status import survey as told_survey
from dualac.cli.commands import experiments
from dualac.cli.sweep_progress import Watch
from dualac.errors import DataError, LockedError, RunFailedError, TryAgainError
from dualac.execution.local import Effort, Failure, Work, _Launcher, launch
from dualac.experiments.adapt import scaled
from dualac.experiments.expand import expand
from dualac.experiments.find import find_experiment
from dualac.experiments.spec import Experiment, Grid, Scale
from dualac.experiments.survey import Unit, look, survey
from dualac.experiments.sweep import Orders, order, sweep
from dualac.machine.cores import usable_cores
from dualac.machine.messages import Failed, Progress, Retried, RunEvent
from dualac.runs.lock import Attempt, owned
from dualac.runs.plan import claim
from dualac.runs.state import mark_done
from dualac.training.run import Flags, load, prepare


def states(outcome) -> dict[int, set[str]]:
    found: dict[int, set[str]] = {}
    for unit in outcome.units:
        found.setdefault(unit.run.seed, set()).add(unit.state)
    return found


def executions(out: Path) -> dict[Path, int]:
    return {log.parent: len(log.read_text().splitlines()) for log in out.rglob("executed")}


@pytest.fixture(scope="module")
def swept(tmp_path_factory):
    out = tmp_path_factory.mktemp("swept")
    heard: list[RunEvent] = []
    return out, toy_sweep(out, (0, 1, 2, POISON, BROKEN, SHAKY), heard.append), heard


def test_what_fails_every_time_is_set_aside_and_the_rest_is_done(swept):
    out, outcome, _ = swept
    assert states(outcome) == {
        0: {"done"},
        1: {"done"},
        2: {"done"},
        SHAKY: {"done"},
        POISON: {"failed"},
        BROKEN: {"failed"},
    }
    reasons = {unit.run.seed: unit.reason for unit in outcome.units if unit.state == "failed"}
    assert "SIGKILL" in reasons[POISON] and reasons[BROKEN] == "the toy is broken"
    tries = {
        path.name: number for path, number in executions(out).items() if path.parts[-4] == "sac"
    }
    assert tries == {
        "seed0": 1,
        "seed1": 1,
        "seed2": 1,
        f"seed{SHAKY}": 2,
        f"seed{POISON}": 3,
        f"seed{BROKEN}": 1,
    }
    assert sum(failure.final for failure in outcome.failures) == 4


def test_another_attempt_is_told_of(swept):
    retried = [message for message in swept[2] if isinstance(message, Retried)]
    assert len(retried) == 2 * (2 + 1)  # by two agents: the poisonous one twice, the shaky one once


def test_a_failure_is_told_of_when_it_happens(swept):
    failed = [message for message in swept[2] if isinstance(message, Failed)]
    assert sorted(Path(message.path).name for message in failed if message.final) == sorted(
        2 * [f"seed{POISON}", f"seed{BROKEN}"]
    )
    shown = Console(width=200, record=True, file=io.StringIO())
    watch = Watch(shown, swept[1].units)
    for message in failed:
        watch(message)
    shown_text = shown.export_text()
    assert shown_text.count("set aside") == 4
    assert "gym/Pendulum-v1 rr2 seed 90002: the toy is broken" in shown_text
    assert "4 failed" in shown_text


def seen(units: list[Unit], height: int, running=()) -> list[str]:
    """Return the live view of a sweep as lines."""
    shown = Console(width=120, height=height, record=True, file=io.StringIO())
    watch = Watch(shown, units, quiet=True)
    for unit in running:
        watch(Progress(str(unit.path), unit.run.seed, 7, 9, 3.0))
    shown.print(watch.view())
    return shown.export_text().splitlines()


def test_the_live_view_shows_the_grid(swept):
    units = swept[1].units
    shown = seen(
        units, 40, [unit for unit in units if unit.run.seed == POISON and unit.run.name == "sac"]
    )
    assert [line.split() for line in shown if line.split()[-1:] == ["waiting"]] == [
        ["algorithm", "rr", "task", "done", "running", "failed", "waiting"]
    ]
    assert ["dac", "2", "gym/Pendulum-v1", "4", "2"] in [line.split() for line in shown]


def test_the_live_view_of_a_large_sweep_fits_the_terminal():
    experiment = find_experiment("benchmark")
    units = [
        Unit(run, run.directory(Path("out")), "missing")
        for run in expand(scaled(experiment, Scale(seeds=1)))
    ]
    shown = seen(units, 24, units[:5])
    assert len(shown) <= 24
    assert ["dac", "16", "30", "tasks", "30"] in [line.split() for line in shown]
    assert len(seen(units, 12, units[:5])) <= 12
    assert any("more" in line for line in seen(units, 12, units[:5]))


def test_a_full_disk_ends_the_sweep_and_the_same_command_goes_on(tmp_path):
    """Not one run after another: the disk is full for all. What was finished stays, and nothing is
    set aside.
    """
    outcome = toy_sweep(tmp_path, (FULL, *range(40)), workers=1)
    assert max(failure.error.code for failure in outcome.failures) == TryAgainError.code
    assert not any(failure.final for failure in outcome.failures)
    assert "failed" not in {unit.state for unit in outcome.units}
    assert len(executions(tmp_path)) < 80
    before = {
        path: number for path, number in executions(tmp_path).items() if (path / "DONE").exists()
    }
    (tmp_path / SPACE).touch()
    assert states(toy_sweep(tmp_path, (FULL, *range(40)), workers=1)) == {
        seed: {"done"} for seed in (FULL, *range(40))
    }
    assert before.items() <= executions(tmp_path).items()


@pytest.mark.skipif(len(usable_cores()) < 2, reason="needs two workers at once, and so two cores")
def test_a_driver_without_space_stops_its_workers_before_it_ends(tmp_path):
    """They would go on without anybody who hears them."""
    begun = []

    def full(work):
        while begun and not list(tmp_path.rglob("lingers")):
            time.sleep(0.01)
        if begun:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        begun.append(work)

    def few(works, report, flags, effort):
        works = [
            work._replace(prepare=lambda work=work: (full(work), work.prepare())) for work in works
        ]
        return launch(works, report, flags, effort._replace(entry="tests.support.toy_units:linger"))

    with pytest.raises(TryAgainError, match="free space"):
        sweep(toy_experiment(3), Orders(tmp_path, few, workers=2), lambda message: None)
    assert len(list(tmp_path.rglob("stopped"))) == 1


def test_a_full_disk_where_a_run_s_directory_is_made_is_the_disk_s_fault(tmp_path, monkeypatch):
    """Found by the driver, before any worker has the run: 75, and not a word of a checkpoint that
    is not there.
    """

    def full(self, *words, **how):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self))

    heard: list[RunEvent] = []
    claim(tmp_path, "toy", expand(toy_experiment(1)))
    monkeypatch.setattr(Path, "mkdir", full)
    with pytest.raises(
        TryAgainError, match=r"seed0 cannot be used \(No space left on device\); free space"
    ):
        toy_sweep(tmp_path, 1, heard.append)
    assert not [message for message in heard if isinstance(message, Failed)]


def test_a_run_that_another_process_owns_does_not_bring_down_the_sweep(tmp_path):
    toy_sweep(tmp_path, 2, executor=here)
    path = tmp_path / "sac" / "gym-Pendulum-v1" / "rr2" / "seed0"
    with owned(path):
        outcome = toy_sweep(
            tmp_path, 2, grid={"steps": 30_000}
        )  # its run.json is to be written anew
    assert [failure.error.code for failure in outcome.failures] == [LockedError.code]
    assert Counter(unit.state for unit in outcome.units) == {"done": 3, "running": 1}


def test_more_steps_continue_runs_whose_resets_lay_behind_their_end(tmp_path):
    resets = {"resets": {2: (25_000, 40_000)}}
    toy_sweep(tmp_path, 1, executor=here, grid=resets)
    assert {unit.state for unit in survey(expand(toy_experiment(1, **resets)), tmp_path)} == {
        "done"
    }
    assert {
        unit.state for unit in survey(expand(toy_experiment(1, **resets, steps=30_000)), tmp_path)
    } == {"interrupted"}
    assert states(toy_sweep(tmp_path, 1, executor=here, grid={**resets, "steps": 30_000})) == {
        0: {"done"}
    }
    with pytest.raises(DataError, match="resets"):
        toy_sweep(tmp_path, 1, grid={"resets": {2: (26_000,)}, "steps": 40_000})


def test_a_run_that_was_planned_without_the_resets_behind_its_end_is_what_it_was(tmp_path):
    """As older versions planned them."""
    run, *_ = expand(toy_experiment(1, resets={2: (15_000, 25_000)}))
    older = dataclasses.replace(run, resets=(15_000,))
    path = prepare(older, tmp_path)
    (path / "eval.jsonl").touch()
    mark_done(path, older.steps, older.identity())
    assert look(run, tmp_path).state == "done"
    assert load(prepare(run, tmp_path)) == older
    further = dataclasses.replace(run, steps=30_000)
    assert look(further, tmp_path).state != "done"
    assert load(prepare(further, tmp_path)) == further
    assert older.identity() in further.identities()
    with pytest.raises(DataError, match="resets"):
        prepare(dataclasses.replace(further, resets=(), steps=40_000), tmp_path)


def test_started_again_nothing_is_done_twice_and_what_was_set_aside_waits_to_be_asked_for(swept):
    out = swept[0]
    before = executions(out)
    toy_sweep(out, (0, 1, 2, POISON, BROKEN, SHAKY))
    assert executions(out) == before


def test_more_seeds_extend_a_sweep_and_the_plan_remembers_all(swept):
    out = swept[0]
    before = executions(out)
    assert states(toy_sweep(out, (0, 7))) == {0: {"done"}, 7: {"done"}}
    new = {path: number for path, number in executions(out).items() if path not in before}
    assert {path.name for path in new} == {"seed7"}
    plan = json.loads((out / "plan.json").read_text())
    assert [cell["seeds"] for cell in plan["runs"]] == [[0, 1, 2, 7, POISON, BROKEN, SHAKY]] * 2


def test_a_directory_remembers_how_far_each_seed_is_to_go(tmp_path):
    toy_sweep(tmp_path, 2, executor=here)
    toy_sweep(tmp_path, (1, 2), executor=here, grid={"steps": 30_000})
    marks, _ = told_survey(tmp_path)
    assert {(mark.seed, mark.steps, mark.state) for mark in marks} == {
        (0, 20_000, "done"),
        (1, 30_000, "done"),
        (2, 30_000, "done"),
    }
    plan = json.loads((tmp_path / "plan.json").read_text())["runs"]
    assert [(cell["steps"], cell["seeds"]) for cell in plan if cell["name"] == "sac"] == [
        (20_000, [0]),
        (30_000, [1, 2]),
    ]


def test_sweeps_that_start_together_lose_nothing_of_the_plan(tmp_path):
    with ThreadPoolExecutor(8) as pool:
        list(
            pool.map(
                lambda seed: claim(tmp_path, "toy", expand(toy_experiment((seed,)))), range(40)
            )
        )
    assert [cell["seeds"] for cell in json.loads((tmp_path / "plan.json").read_text())["runs"]] == [
        list(range(40))
    ] * 2


def test_where_nothing_is_new_the_plan_is_not_written(tmp_path, monkeypatch):
    claim(tmp_path, "toy", expand(toy_experiment(3)))
    before = (tmp_path / "plan.json").stat()
    # A finished sweep may lie in a directory that may only be read.
    monkeypatch.setattr(fcntl, "flock", None)
    claim(tmp_path, "toy", expand(toy_experiment(2)))
    assert (tmp_path / "plan.json").stat() == before


@pytest.mark.kill
def test_what_was_set_aside_is_begun_anew_when_asked_for(tmp_path):
    toy_sweep(tmp_path, (BROKEN,))
    toy_sweep(tmp_path, (BROKEN,), retry_failed=True)
    assert set(executions(tmp_path).values()) == {2}


def test_the_directory_of_another_experiment_is_refused(tmp_path):
    (tmp_path / "plan.json").write_text(json.dumps({"experiment": "other", "runs": []}))
    with pytest.raises(DataError, match="holds the experiment 'other', not 'toy'"):
        toy_sweep(tmp_path, 1)


@pytest.mark.parametrize(
    "damage", ["[]", "{", '{"experiment": "toy"}', '{"experiment": "toy", "runs": [3]}']
)
def test_a_plan_that_is_damaged_is_one_line(damage, tmp_path):
    (tmp_path / "plan.json").write_text(damage)
    with pytest.raises(DataError, match=r"plan\.json"):
        toy_sweep(tmp_path, 1)


def test_a_run_that_is_marked_as_failed_and_as_done_is_failed_to_everyone(tmp_path):
    toy_sweep(tmp_path, 1, executor=here)
    for path in tmp_path.rglob("seed0"):
        (path / "FAILED").write_text(
            json.dumps({"step": 20_000, "reason": "finished twice", "error": "DataError"})
        )
    assert (
        {unit.state for unit in survey(expand(toy_experiment(1)), tmp_path)}
        == {mark.state for mark in told_survey(tmp_path)[0]}
        == {"failed"}
    )


def test_a_directory_that_holds_another_run_is_refused_with_the_difference(tmp_path):
    run, *_ = expand(toy_experiment(1))
    prepare(run, tmp_path)
    other = run.__class__(**{**run.__dict__, "warmup": 77})
    with pytest.raises(DataError, match="warmup"):
        look(other, tmp_path)


def test_what_was_not_started_is_told_in_a_short_line():
    launcher = _Launcher(lambda message: None, Flags(), Effort())
    launcher._pass_on(signal.SIGINT)
    (failure,) = launcher.run([Work([Path(f"run{i}")]) for i in range(400)])
    assert (
        str(failure.error)
        == "not started: run0 run1 run2 and 397 more; the same command starts them"
    )
    assert failure.error.code == 130


def test_a_sweep_ends_with_what_is_set_aside_and_how_it_is_begun_anew(tmp_path, capsys):
    def broken(works, *rest):
        for work in works:
            work.prepare()
        return [Failure(work, RunFailedError("the toy is broken")) for work in works]

    file = tmp_path / "mine.py"
    file.write_text(
        "from tests.support.toy_units import BROKEN, toy_experiment\n"
        "TOY = toy_experiment((BROKEN,))\n"
    )
    argv = [str(file), "--out", str(tmp_path / "out")]
    assert experiments.sweep(argv, find_executor=lambda args: broken) == 3
    assert "2 set aside (--retry-failed begins anew with them)" in capsys.readouterr().out


def test_the_longest_runs_come_first(tmp_path):
    experiment = toy_experiment(2)
    units = order(experiment, survey(expand(experiment), tmp_path))
    assert [unit.run.name for unit in units] == ["dac", "dac", "sac", "sac"]


def test_an_experiment_may_ask_that_its_runs_begin_in_the_order_of_its_plan(tmp_path):
    grids = tuple(
        Grid(("sac", "dac"), ("gym/Pendulum-v1",), seeds=(seed,), steps=20_000) for seed in range(2)
    )
    experiment = Experiment("toy", "which comes first?", grids, order="as-planned")
    units = order(experiment, survey(expand(experiment), tmp_path))
    assert [(unit.run.name, unit.run.seed) for unit in units] == [
        ("sac", 0),
        ("dac", 0),
        ("sac", 1),
        ("dac", 1),
    ]


def test_deliver_gives_every_agent_the_same_whenever_it_is_stopped():
    runs = expand(find_experiment("deliver"))
    assert len(runs) == 5 * (10 * 5 + 3 * 3)
    for start in range(0, len(runs), 5):
        cell = runs[start : start + 5]
        assert {run.name for run in cell} == {"sac", "sac-0.2", "dac", "dac-bounded", "oac"}
        assert len({(run.task, run.seed, run.steps, run.replay_ratio) for run in cell}) == 1


def test_a_second_commit_of_the_same_is_none_and_of_something_else_an_error_that_names_both(
    tmp_path,
):
    def rows(*returns: float) -> None:
        (tmp_path / "eval.jsonl").write_text(
            "".join(
                json.dumps({"step": 10 * i, "return": one}) + "\n" for i, one in enumerate(returns)
            )
        )

    rows(0, 1)
    mark_done(tmp_path, 10, "me")
    mark_done(tmp_path, 10, "me")
    for other, step in (((0, 2), 10), ((1, 1, 3), 20)):
        rows(*other)
        with pytest.raises(
            DataError,
            match=(
                r"finished twice with different results: .*DONE tells of other rows than "
                r".*eval.jsonl"
            ),
        ):
            mark_done(tmp_path, step, "me")
    rows(0, 1, 3)
    mark_done(tmp_path, 20, "me")
    assert json.loads((tmp_path / "DONE").read_text())["step"] == 20


def test_what_a_killed_writer_left_is_swept_up(tmp_path):
    (run,) = expand(toy_experiment(1))[:1]
    path = prepare(run, tmp_path)
    (path / "eval.jsonl").write_text("")
    for left in (path / "DONE.1.partial", tmp_path / "plan.json.1.partial"):
        left.write_text("{")
    claim(tmp_path, "toy", [run])
    mark_done(path, run.steps, run.identity())
    assert not list(tmp_path.rglob("*.partial"))


def test_an_attempt_that_was_given_up_may_write_no_more(tmp_path):
    first = Attempt.begin(tmp_path)
    first.require()
    second = Attempt.begin(tmp_path)
    second.require()
    with pytest.raises(LockedError, match="this is attempt 1 of it, and attempt 2 has begun"):
        first.require()


def drive(out: Path, seeds: int, *address: str) -> subprocess.Popen:
    words = [sys.executable, "-m", "tests.support.toy_units", str(out), str(seeds), *address]
    return subprocess.Popen(words, cwd=ROOT, env=environment(), start_new_session=True)


def assert_each_committed_once(out: Path, units: int) -> None:
    done = list(out.rglob("DONE"))
    assert len(done) == units
    assert not list(out.rglob("FAILED")) and not list(out.rglob("DONE.*"))
    for path in done:
        (row,) = (path.parent / "eval.jsonl").read_text().splitlines()
        assert json.loads(row)["return"] == int(path.parent.name.removeprefix("seed")) / 7


@pytest.mark.kill
def test_a_driver_that_is_killed_leaves_nothing_undone_and_nothing_twice(tmp_path):
    driver = drive(tmp_path, 150)
    deadline = time.monotonic() + 60
    while sum(1 for _ in tmp_path.rglob("DONE")) < 20 and time.monotonic() < deadline:
        time.sleep(0.05)
    driver.kill()
    driver.wait()
    done = {path.parent for path in tmp_path.rglob("DONE")}
    before = executions(tmp_path)
    assert 20 <= len(done) < 300
    assert drive(tmp_path, 150).wait() == 0
    assert_each_committed_once(tmp_path, 300)
    after = executions(tmp_path)
    assert all(after[path] == before[path] for path in done)


@pytest.mark.kill
def test_6400_units_survive_twenty_deaths_of_their_driver(tmp_path):
    """What the docs quote is printed: the seconds of the whole, and of the units alone."""
    began, units = time.monotonic(), 6400
    for death in range(20):
        driver = drive(tmp_path, units // 2)
        goal = (death + 1) * units // 22
        while driver.poll() is None and sum(1 for _ in tmp_path.glob("*/*/*/*/DONE")) < goal:
            time.sleep(1.0)
        os.kill(driver.pid, signal.SIGKILL)
        driver.wait()
    assert drive(tmp_path, units // 2).wait() == 0
    assert_each_committed_once(tmp_path, units)
    seconds = time.monotonic() - began
    print(
        f"\n{units} units of 10 ms, driver killed 20 times: {seconds:.0f} s, of which "
        f"{units * 0.01 / 2:.0f} s are the units on two cores"
    )
    assert seconds < 300 + units * 0.01
