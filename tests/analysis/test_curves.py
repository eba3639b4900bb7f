"""Rows on disk become curves: what a kill leaves behind is passed over, what is damaged is
named.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dualac.analysis.data.curves import evaluation_curve, training_series
from dualac.errors import DataError
from dualac.runs.rows import read_rows


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_every_row_is_read_in_order(tmp_path: Path):
    path = write(tmp_path / "eval.jsonl", [{"step": 0}, {"step": 10}])
    assert read_rows(path) == [{"step": 0}, {"step": 10}]


def test_a_file_that_is_not_there_has_no_rows(tmp_path: Path):
    assert read_rows(tmp_path / "eval.jsonl") == []


def test_an_empty_file_has_no_rows(tmp_path: Path):
    assert read_rows(write(tmp_path / "eval.jsonl", [])) == []


@pytest.mark.parametrize("half", ['{"step": 2', '{"step"', "{"])
def test_a_half_written_last_line_is_passed_over(tmp_path: Path, half: str):
    path = write(tmp_path / "eval.jsonl", [{"step": 0}, {"step": 1}])
    path.write_text(path.read_text() + half)
    assert read_rows(path) == [{"step": 0}, {"step": 1}]


def test_a_damaged_line_elsewhere_is_named_with_its_file_and_number(tmp_path: Path):
    path = tmp_path / "eval.jsonl"
    path.write_text('{"step": 0}\n{"ste\n{"step": 2}\n')
    with pytest.raises(DataError, match=r"eval\.jsonl, line 2 is damaged"):
        read_rows(path)


def test_an_evaluation_is_the_mean_of_its_episodes_and_steps_rise(tmp_path: Path):
    rows = [
        {"step": 10, "return": 5.0},
        {"step": 0, "return": 1.0},
        {"step": 10, "return": 7.0},
        {"step": 0, "return": 2.0},
    ]
    write(tmp_path / "eval.jsonl", rows)
    curve = evaluation_curve(tmp_path)
    np.testing.assert_array_equal(curve.steps, [0, 10])
    np.testing.assert_allclose(curve.returns, [1.5, 6.0])


@pytest.mark.parametrize("content", [None, "", '{"step": 0, "ret'])
def test_a_run_without_a_whole_evaluation_says_so(tmp_path: Path, content: str | None):
    if content is not None:
        (tmp_path / "eval.jsonl").write_text(content)
    with pytest.raises(DataError, match="no evaluations yet"):
        evaluation_curve(tmp_path)


def test_a_series_leaves_out_the_rows_that_have_not_its_number(tmp_path: Path):
    """Warm-up has no losses, and what was not finite is null."""
    write(
        tmp_path / "train.jsonl",
        [
            {"step": 10},
            {"step": 20, "train/kl": 0.5},
            {"step": 30, "train/kl": None},
            {"step": 40, "train/kl": 0.25},
        ],
    )
    series = training_series(tmp_path, "train/kl")
    np.testing.assert_array_equal(series.steps, [20, 40])
    np.testing.assert_array_equal(series.returns, [0.5, 0.25])


def test_a_series_that_no_row_has_is_empty(tmp_path: Path):
    write(tmp_path / "train.jsonl", [{"step": 10}])
    assert training_series(tmp_path, "train/kl").steps.size == 0
