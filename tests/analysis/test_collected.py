"""Tables of `dualac collect` say the same as the directories that they were made of."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.support.written import write_plan, write_rows, write_run, write_sweep

from dualac.analysis.data.collect import merged, write
from dualac.analysis.data.frame import EVALUATION, Frame, read
from dualac.analysis.report.exports import escape_markdown
from dualac.analysis.report.make import Order, make
from dualac.analysis.summary.compare import compare
from dualac.analysis.summary.summarise import Choices
from dualac.cli import run

TASKS = ["dmc/cheetah-run", "metaworld/hammer"]


@pytest.fixture
def places(tmp_path: Path) -> tuple[Path, Path]:
    """Return runs in directories, and the same runs in tables."""
    runs, tables = tmp_path / "runs", tmp_path / "tables"
    write_sweep(runs, {"dac": 0.6, "sac": 0.4}, TASKS, 2, training=500)
    failed = write_run(runs, "td3", reached=40_000)
    (failed / "FAILED").write_text(
        json.dumps({"step": 45_000, "reason": "its loss diverged", "error": "RunFailedError"})
    )
    assert run(["collect", str(runs), "--out", str(tables)]) == 0
    return runs, tables


def assert_same_runs(ours: Frame, theirs: Frame) -> None:
    assert len(ours.runs) == len(theirs.runs) > 0
    for one, other in zip(ours.runs, theirs.runs, strict=True):
        assert (one.spec, one.machine, one.status) == (other.spec, other.machine, other.status)
        assert one.events == other.events
        for name in EVALUATION:
            np.testing.assert_array_equal(one.evaluations[name], other.evaluations[name])
        assert one.training.keys() == other.training.keys()
        for name, values in one.training.items():
            np.testing.assert_array_equal(values, other.training[name])


@pytest.mark.parametrize("training_rows", [200, None, 2])
def test_runs_are_the_same_from_tables_and_from_directories(
    places: tuple[Path, Path], training_rows: int | None
):
    runs, tables = (read([place], training_rows=training_rows) for place in places)
    assert_same_runs(tables, runs)


def test_a_report_has_the_same_numbers_from_tables_and_from_directories(
    places: tuple[Path, Path],
):
    texts = []
    for place in places:
        order = Order((place,), "md", None, "T", Choices(), "dualac report", figures={})
        texts.append(make(order).read_text().replace(escape_markdown(str(place)), "PLACE"))
    assert texts[0] == texts[1]
    assert "its loss diverged" in texts[0]


def test_a_comparison_is_the_same_from_tables_and_from_directories(places: tuple[Path, Path]):
    runs, tables = (compare([place]) for place in places)
    assert tables == runs


def test_a_directory_beside_its_table_counts_once(places: tuple[Path, Path]):
    runs, _ = places
    before = read([runs])
    assert run(["collect", str(runs)]) == 0
    assert_same_runs(read([runs]), before)


def test_tables_and_later_runs_are_collected_together(places: tuple[Path, Path], tmp_path: Path):
    runs, tables = places
    everything = read([runs], training_rows=None)
    shutil.rmtree(runs / "sac")
    write_run(runs, "redq")
    assert run(["collect", str(runs), str(tables), "--out", str(tables)]) == 0
    again = read([tables], training_rows=None)
    assert {run.name for run in again.runs} == {"dac", "sac", "td3", "redq"}
    assert len(again.runs) == len(everything.runs) + 1


def test_only_finished_runs_are_collected_where_that_is_wanted(
    places: tuple[Path, Path], tmp_path: Path
):
    assert run(["collect", str(places[0]), "--finished", "--out", str(tmp_path / "done")]) == 0
    frame = read([tmp_path / "done"])
    assert {run.name for run in frame.runs} == {"dac", "sac"}


def test_a_planned_run_that_stands_in_the_table_is_not_missing(places: tuple[Path, Path]):
    _, tables = places
    write_plan(tables, ["dac", "sac"], TASKS, 3)
    assert {(plan.name, plan.seed) for plan in read([tables]).missing} == {("dac", 2), ("sac", 2)}


def test_a_plan_that_goes_on_makes_a_collected_run_unfinished(places: tuple[Path, Path]):
    _, tables = places
    write_plan(tables, ["dac"], TASKS, 2, steps=200_000)
    states = {run.name: run.status for run in read([tables]).runs}
    assert states["dac"].state == "interrupted"
    assert states["dac"].reason == "the plan goes on to step 200000"
    assert states["sac"].state == "done"


def test_a_run_that_went_on_when_it_was_collected_is_not_running(tmp_path: Path):
    write_run(tmp_path / "runs", reached=30_000)
    (record,) = read([tmp_path / "runs"]).runs
    going = replace(record, status=record.status._replace(state="running"))
    write(merged([going]), tmp_path / "tables")
    (collected,) = read([tmp_path / "tables"]).runs
    assert (collected.status.state, collected.status.step) == ("interrupted", 30_000)


@pytest.mark.parametrize("name", ["runs.parquet", "training.parquet"])
def test_a_damaged_table_is_named_and_the_rest_is_read(places: tuple[Path, Path], name: str):
    runs, tables = places
    (tables / name).write_bytes(b"PAR1 and nothing else")
    frame = read([runs, tables])
    assert len(frame.runs) == 9
    assert "its tables cannot be read" in str(frame.damaged[-1])


def test_a_run_without_an_evaluation_is_in_the_tables(tmp_path: Path):
    path = write_run(tmp_path / "runs", reached=0)
    write_rows(path / "eval.jsonl", [])
    assert run(["collect", str(tmp_path / "runs"), "--out", str(tmp_path / "tables")]) == 0
    assert_same_runs(read([tmp_path / "tables"]), read([tmp_path / "runs"]))
