"""A plan carried out: no work twice, nothing lost, what fails set aside while the rest goes on."""

import errno
import io
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from rich.console import Console
from tests.experiments.toy_units import BROKEN, FULL, POISON, SHAKY, SPACE, toy_experiment, toy_sweep
from tests.training.runs import ROOT, environment

from dualac.errors import DataError, LockedError, TryAgainError
from dualac.experiments.plan import expand
from dualac.experiments.survey import look, survey
from dualac.experiments.sweep import Orders, order, sweep
from dualac.experiments.watch import Watch
from dualac.training.launch import launch
from dualac.training.lock import Attempt
from dualac.training.run import commit, prepare


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
    heard: list[dict] = []
    return out, toy_sweep(out, (0, 1, 2, POISON, BROKEN, SHAKY), heard.append), heard


def test_what_fails_every_time_is_set_aside_and_the_rest_is_done(swept):
    out, outcome, _ = swept
    assert states(outcome) == {0: {"done"}, 1: {"done"}, 2: {"done"}, SHAKY: {"done"}, POISON: {"failed"}, BROKEN: {"failed"}}
    reasons = {unit.run.seed: unit.reason for unit in outcome.units if unit.state == "failed"}
    assert "SIGKILL" in reasons[POISON] and reasons[BROKEN] == "the toy is broken"
    tries = {path.name: number for path, number in executions(out).items() if path.parts[-4] == "sac"}
    assert tries == {"seed0": 1, "seed1": 1, "seed2": 1, f"seed{SHAKY}": 2, f"seed{POISON}": 3, f"seed{BROKEN}": 1}
    assert sum(failure.final for failure in outcome.failures) == 4


def test_another_attempt_is_told_of(swept):
    retried = [message for message in swept[2] if message["kind"] == "retried"]
    assert len(retried) == 2 * (2 + 1)  # by two agents: the poisonous one twice, the shaky one once


def test_a_failure_is_told_of_when_it_happens(swept):
    failed = [message for message in swept[2] if message["kind"] == "failed"]
    assert sorted(Path(message["path"]).name for message in failed if message["final"]) == sorted(2 * [f"seed{POISON}", f"seed{BROKEN}"])
    shown = Console(width=200, record=True, file=io.StringIO())
    watch = Watch(shown, swept[1].units)
    for message in failed:
        watch(message)
    told = shown.export_text()
    assert told.count("set aside") == 4
    assert "gym/Pendulum-v1 rr2 seed 90002: the toy is broken" in told
    assert "4 failed" in told


def test_a_full_disk_ends_the_sweep_and_the_same_command_goes_on(tmp_path):
    """Not one run after another: the disk is full for all. What was finished stays, and nothing is set aside."""
    outcome = toy_sweep(tmp_path, (FULL, *range(40)), workers=1)
    assert max(failure.error.code for failure in outcome.failures) == TryAgainError.code
    assert not any(failure.final for failure in outcome.failures)
    assert "failed" not in {unit.state for unit in outcome.units}
    assert len(executions(tmp_path)) < 80
    before = {path: number for path, number in executions(tmp_path).items() if (path / "DONE").exists()}
    (tmp_path / SPACE).touch()
    assert states(toy_sweep(tmp_path, (FULL, *range(40)), workers=1)) == {seed: {"done"} for seed in (FULL, *range(40))}
    assert before.items() <= executions(tmp_path).items()


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
        works = [work._replace(prepare=lambda work=work: (full(work), work.prepare())) for work in works]
        return launch(works, report, flags, effort._replace(entry="tests.experiments.toy_units:linger"))

    with pytest.raises(TryAgainError, match="free space"):
        sweep(toy_experiment(3), Orders(tmp_path, few, workers=2), lambda message: None)
    assert len(list(tmp_path.rglob("stopped"))) == 1


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


@pytest.mark.kill
def test_what_was_set_aside_is_begun_anew_when_asked_for(tmp_path):
    toy_sweep(tmp_path, (BROKEN,))
    toy_sweep(tmp_path, (BROKEN,), retry_failed=True)
    assert set(executions(tmp_path).values()) == {2}


def test_the_directory_of_another_experiment_is_refused(tmp_path):
    (tmp_path / "plan.json").write_text(json.dumps({"experiment": "other", "runs": []}))
    with pytest.raises(DataError, match="holds the experiment 'other', not 'toy'"):
        toy_sweep(tmp_path, 1)


def test_a_directory_that_holds_another_run_is_refused_with_the_difference(tmp_path):
    run, *_ = expand(toy_experiment(1))
    prepare(run, tmp_path)
    other = run.__class__(**{**run.__dict__, "warmup": 77})
    with pytest.raises(DataError, match="warmup"):
        look(other, tmp_path)


def test_the_longest_runs_come_first(tmp_path):
    units = order(survey(expand(toy_experiment(2)), tmp_path))
    assert [unit.run.name for unit in units] == ["dac", "dac", "sac", "sac"]


def test_a_second_commit_of_the_same_is_none_and_of_something_else_an_error_that_names_both(tmp_path):
    (tmp_path / "eval.jsonl").write_text("1\n")
    commit(tmp_path, 10, "me")
    commit(tmp_path, 10, "me")
    (tmp_path / "eval.jsonl").write_text("2\n")
    with pytest.raises(DataError, match=r"finished twice with different results: .*DONE tells of other rows than .*eval.jsonl"):
        commit(tmp_path, 10, "me")


def test_an_attempt_that_was_given_up_may_write_no_more(tmp_path):
    first = Attempt.begin(tmp_path)
    first.require()
    second = Attempt.begin(tmp_path)
    second.require()
    with pytest.raises(LockedError, match="this is attempt 1 of it, and attempt 2 has begun"):
        first.require()


def drive(out: Path, seeds: int, *address: str) -> subprocess.Popen:
    words = [sys.executable, "-m", "tests.experiments.toy_units", str(out), str(seeds), *address]
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
    print(f"\n{units} units of 10 ms, driver killed 20 times: {seconds:.0f} s, of which {units * 0.01 / 2:.0f} s are the units on two cores")
    assert seconds < 300 + units * 0.01
