"""The state of a run is decided in one place, and everybody agrees about it."""

import json
import os
import platform
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.support.written import write_rows

from dualac import cli, training
from dualac.agents.algorithms import ALGORITHMS
from dualac.analysis.data.collect import merged, run_table
from dualac.analysis.data.completeness import cells
from dualac.analysis.data.frame import read
from dualac.analysis.data.groups import group
from dualac.analysis.data.status import survey as survey_status
from dualac.errors import DataError
from dualac.execution.local import Failure, Work
from dualac.experiments.expand import expand
from dualac.experiments.spec import Experiment, Grid
from dualac.experiments.survey import survey as survey_plan
from dualac.experiments.sweep import Orders, sweep
from dualac.runs.lock import owned
from dualac.runs.plan import claim
from dualac.runs.rows import read_rows
from dualac.runs.state import (
    EVENT_KINDS,
    changes_since_done,
    clear_failed,
    mark_done,
    mark_failed,
    read_status,
)
from dualac.training.run import Run, prepare

STEPS = 20_000
TASK = "gym/Pendulum-v1"
NO_PROCESS = 2**22 + 1  # above the largest id of a process


def write(path: Path, reached: int, *events: str) -> None:
    """Write rows up to a step, as training does, and events."""
    write_rows(path / "train.jsonl", [{"step": reached}])
    write_rows(path / "eval.jsonl", [{"step": 0, "return": 0.0}, {"step": reached, "return": 1.0}])
    write_rows(path / "events.jsonl", [{"event": event, "step": reached} for event in events])


def lock(path: Path, pid: int) -> None:
    (path / "lock").write_text(json.dumps({"pid": pid, "host": platform.node()}))


def done(run: Run, out: Path) -> None:
    path = prepare(run, out)
    write(path, STEPS, "started", "done")
    mark_done(path, STEPS, run.identity())


def all_rows_and_a_live_process(run: Run, out: Path) -> None:
    path = prepare(run, out)
    write(path, STEPS, "started")
    lock(path, os.getpid())


def a_live_process(run: Run, out: Path) -> None:
    path = prepare(run, out)
    write(path, 7_000, "started")
    lock(path, os.getpid())


def all_rows_and_a_dead_process(run: Run, out: Path) -> None:
    path = prepare(run, out)
    write(path, STEPS, "started")
    lock(path, NO_PROCESS)


def stopped_by_a_signal(run: Run, out: Path) -> None:
    write(prepare(run, out), 9_000, "started", "interrupted")


def once_ended_earlier(run: Run, out: Path) -> None:
    shorter = Run(run.name, run.algorithm, run.task, run.seed, 12_000)
    path = prepare(shorter, out)
    write(path, 12_000, "started", "done")
    mark_done(path, 12_000, shorter.identity())


def extended(run: Run, out: Path) -> None:
    once_ended_earlier(run, out)
    prepare(run, out)


def failed(run: Run, out: Path) -> None:
    path = prepare(run, out)
    write(path, 5_000, "started", "failed")
    mark_failed(path, 5_500, "its loss diverged", "RunFailedError")


def failed_and_done(run: Run, out: Path) -> None:
    done(run, out)
    mark_failed(run.directory(out), STEPS, "finished twice", "DataError")


def failed_and_damaged(run: Run, out: Path) -> None:
    path = prepare(run, out)
    write(path, 5_000, "started")
    (path / "FAILED").write_text("{")


def done_and_damaged(run: Run, out: Path) -> None:
    done(run, out)
    (run.directory(out) / "DONE").write_text('{"step": ')


def kept_without_done(run: Run, out: Path) -> None:
    path = prepare(run, out)
    write(path, STEPS)
    for name in ("lock", "events.jsonl"):
        (path / name).unlink()


def kept_in_part(run: Run, out: Path) -> None:
    path = prepare(run, out)
    write(path, 15_000)
    (path / "lock").unlink()


def prepared_and_never_begun(run: Run, out: Path) -> None:
    prepare(run, out)


def not_there(run: Run, out: Path) -> None:
    pass


CASES: dict[Callable[[Run, Path], None], tuple[str, int, str]] = {
    done: ("done", STEPS, ""),
    all_rows_and_a_live_process: ("running", STEPS, ""),
    a_live_process: ("running", 7_000, ""),
    all_rows_and_a_dead_process: ("interrupted", STEPS, "it stopped without a word"),
    stopped_by_a_signal: ("interrupted", 9_000, "stopped by a signal"),
    once_ended_earlier: ("interrupted", 12_000, "the plan goes on to step 20000"),
    extended: ("interrupted", 12_000, "the plan goes on to step 20000"),
    failed: ("failed", 5_500, "its loss diverged"),
    failed_and_done: ("failed", STEPS, "finished twice"),
    failed_and_damaged: ("failed", 5_000, "its FAILED cannot be read"),
    done_and_damaged: ("interrupted", STEPS, "its DONE cannot be read"),
    kept_without_done: ("done", STEPS, ""),
    kept_in_part: ("interrupted", 15_000, ""),
    prepared_and_never_begun: ("missing", 0, ""),
    not_there: ("missing", 0, ""),
}
STATES = {seed: state for seed, (state, _, _) in enumerate(CASES.values())}
EXPERIMENT = Experiment("cases", "?", (Grid(("sac",), (TASK,), seeds=len(CASES), steps=STEPS),))


@pytest.fixture
def out(tmp_path: Path) -> Iterator[Path]:
    """Make a sweep's directory with a run in each state; the seed is the number of its case."""
    runs = expand(EXPERIMENT)
    claim(tmp_path, EXPERIMENT.name, runs)
    for case, run in zip(CASES, runs, strict=True):
        case(run, tmp_path)
    yield tmp_path


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_the_state_of_a_run_is_decided_from_its_files(case, tmp_path: Path):
    run = Run("sac", ALGORITHMS["sac"], TASK, steps=STEPS)
    case(run, tmp_path)
    assert read_status(run.directory(tmp_path), STEPS) == CASES[case]


def test_report_and_status_and_sweep_and_collect_agree_about_every_run(out: Path, capsys):
    found = read([out])
    (cell,) = cells(group(found.runs).groups, found.missing)
    status, damaged = survey_status(out)
    plan = survey_plan(expand(EXPERIMENT), out)
    table = run_table(merged(found.runs))
    assert cli.run(["status", str(out), "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)["runs"]

    assert damaged == found.damaged == []
    assert cell.seeds == STATES
    assert {run.seed: run.state for run in status} == STATES
    assert {unit.run.seed: unit.state for unit in plan} == STATES
    assert {run["seed"]: run["state"] for run in shown} == STATES
    collected = dict(zip(table["seed"], table["state"], strict=True))
    assert collected.items() <= STATES.items()
    assert set(collected) == set(STATES) - {list(CASES).index(not_there)}


def test_the_steps_and_the_reasons_agree_too(out: Path):
    reported = {run.seed: run.status for run in read([out]).runs}
    for run in survey_status(out)[0]:
        decision = (run.state, run.step, run.reason)
        assert decision == tuple(CASES.values())[run.seed]
        assert decision == reported.get(run.seed, decision)
    for unit in survey_plan(expand(EXPERIMENT), out):
        assert (unit.state, unit.step, unit.reason) == tuple(CASES.values())[unit.run.seed]


def test_a_sweep_begins_what_is_neither_done_nor_failed(out: Path):
    begun: list[Path] = []

    def note(works: list[Work], *_: object) -> list[Failure]:
        begun.extend(path for work in works for path in work.paths)
        return []

    sweep(EXPERIMENT, Orders(out, note), lambda message: None)
    seeds = {int(path.name.removeprefix("seed")) for path in begun}
    assert seeds == {seed for seed, state in STATES.items() if state not in ("done", "failed")}


def test_a_run_on_another_host_is_running_while_it_writes_rows(tmp_path: Path):
    run = Run("sac", ALGORITHMS["sac"], TASK, steps=STEPS)
    a_live_process(run, tmp_path)
    path = run.directory(tmp_path)
    (path / "lock").write_text(json.dumps({"pid": 1, "host": "another"}))
    assert read_status(path, STEPS).state == "running"
    for rows in path.glob("*.jsonl"):
        os.utime(rows, (1e9, 1e9))
    assert read_status(path, STEPS).state == "interrupted"


def test_a_run_that_its_owner_has_left_is_not_running(tmp_path: Path):
    run = Run("sac", ALGORITHMS["sac"], TASK, steps=STEPS)
    path = prepare(run, tmp_path)
    write(path, 3_000, "started")
    with owned(path):
        assert read_status(path, STEPS).state == "running"
    assert read_status(path, STEPS).state == "interrupted"


def test_a_run_that_is_no_longer_marked_as_failed_is_what_its_rows_say(tmp_path: Path):
    run = Run("sac", ALGORITHMS["sac"], TASK, steps=STEPS)
    failed_and_done(run, tmp_path)
    clear_failed(run.directory(tmp_path))
    assert read_status(run.directory(tmp_path), STEPS).state == "done"


def test_a_damaged_done_is_written_anew_when_the_run_ends(tmp_path: Path):
    run = Run("sac", ALGORITHMS["sac"], TASK, steps=STEPS)
    done_and_damaged(run, tmp_path)
    path = run.directory(tmp_path)
    mark_done(path, STEPS, run.identity())
    assert read_status(path, STEPS).state == "done"


# ---- what is named after DONE ----


def finished(tmp_path: Path) -> Path:
    (run,) = expand(Experiment("one", "", (Grid(("sac",), (TASK,), seeds=1, steps=STEPS),)))
    done(run, tmp_path)
    return run.directory(tmp_path)


def test_a_finished_run_as_it_was_has_nothing_to_name(tmp_path):
    path = finished(tmp_path)
    assert changes_since_done(path, STEPS) == []
    assert read([tmp_path]).damaged == []


def other_return(path: Path) -> None:
    text = (path / "eval.jsonl").read_text()
    (path / "eval.jsonl").write_text(text.replace("1.0", "999.0"))


def a_row_more(path: Path) -> None:
    write_rows(path / "eval.jsonl", [*read_rows(path / "eval.jsonl"), {"step": STEPS}])


def other_gamma(path: Path) -> None:
    text = (path / "run.json").read_text()
    assert '"gamma": 0.99' in text
    (path / "run.json").write_text(text.replace('"gamma": 0.99', '"gamma": 0.95'))


def an_unknown_event(path: Path) -> None:
    with (path / "events.jsonl").open("a") as file:
        file.write('{"event": "new", "step": 1}\n')


@pytest.mark.parametrize(
    ("change", "name"),
    [
        (other_return, "eval.jsonl"),
        (a_row_more, "eval.jsonl"),
        (other_gamma, "run.json"),
        (an_unknown_event, "events.jsonl"),
    ],
)
def test_what_was_changed_after_a_run_was_done_is_named(change, name, tmp_path, capsys):
    path = finished(tmp_path)
    change(path)
    damaged = read([tmp_path]).damaged
    assert [damage.path for damage in damaged] == [path / name]
    assert cli.run(["show", str(path)]) == 0
    assert name in capsys.readouterr().err
    if change is not an_unknown_event:
        with pytest.raises(DataError, match=f"{name}: was changed after the run was done"):
            cli.run(["resume", str(path), "--quiet"])


@pytest.mark.parametrize("content", ["[]", '{"step": "x"}', '{"step": 1e400}', "{" * 100_000])
def test_a_verdict_of_another_shape_counts_as_none_and_is_named(content, tmp_path):
    path = finished(tmp_path)
    (path / "DONE").write_text(content)
    assert read_status(path, STEPS).reason == "its DONE cannot be read"
    (path / "FAILED").write_text(content.replace("step", "reason").replace("1e400", "7"))
    status = read_status(path, STEPS)
    assert status.state == "failed"


def test_every_event_that_is_written_is_of_a_kind_that_is_known():
    """Other kinds are named by the report."""
    sources = Path(training.__file__).parent.glob("*.py")
    text = "".join(source.read_text() for source in sources)
    kinds = re.findall(r'(?:_event|\.event|_warn)\(\s*(?:[\w.]+(?:\[\w\])?,\s*)?"(\w+)"', text)
    assert len(kinds) > 8 and set(kinds) <= EVENT_KINDS


def test_rows_without_a_run_json_are_named(tmp_path):
    path = finished(tmp_path)
    (path / "run.json").unlink()
    (path / "run.json").mkdir()
    assert [damage.path for damage in read([tmp_path]).damaged] == [path]
