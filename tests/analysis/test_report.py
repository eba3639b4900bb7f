"""`dualac report`: a page, markdown, figures for a paper, and a page that is watched."""

import json
import os
import platform
import re
from pathlib import Path

import pytest
from tests.support.reports import order, summary
from tests.support.written import write_plan, write_rows, write_run, write_sweep

from dualac.analysis.report.make import Format, make, watch
from dualac.analysis.report.page import page
from dualac.cli import run
from dualac.errors import DataError, UsageError


def test_the_command_writes_a_page_where_the_runs_are(tmp_path: Path):
    write_run(tmp_path)
    assert run(["report", str(tmp_path)]) == 0
    assert (tmp_path / "report.html").read_text().startswith("<!doctype html>")


def test_the_command_writes_markdown_and_says_where(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    write_run(tmp_path, "sac")
    out = tmp_path / "out" / "results.md"
    assert run(["report", str(tmp_path), "--format", "md", "--out", str(out), "--title", "T*"]) == 0
    assert out.read_text().startswith("# T\\*\n")
    assert str(out) in capsys.readouterr().out


def test_markdown_and_its_figures_are_the_same_bytes_each_time(tmp_path: Path):
    write_sweep(tmp_path / "runs", {"dac": 0.6, "sac": 0.4}, ["dmc/cheetah-run"], 2)
    out = tmp_path / "out" / "results.md"
    wanted = order(tmp_path / "runs", "md", "sample-efficiency", "curves", out=out)
    written = []
    for _ in range(2):
        make(wanted)
        names = re.findall(r"\]\((results-figures/.*?\.svg)\)", out.read_text())
        written.append(
            {name: (out.parent / name).read_bytes() for name in names} | {"": out.read_bytes()}
        )
    assert list(written[0]) == [
        "results-figures/sample-efficiency.svg",
        "results-figures/curves.svg",
        "",
    ]
    assert all(svg.startswith(b"<?xml") for name, svg in written[0].items() if name)
    assert written[0] == written[1]


@pytest.mark.parametrize("kind", ["pdf", "png"])
def test_figures_for_a_paper(tmp_path: Path, kind: Format):
    write_run(tmp_path)
    make(order(tmp_path, kind, "curves"))
    assert (tmp_path / "figures" / f"curves.{kind}").read_bytes()[:4] in (b"%PDF", b"\x89PNG")
    assert (
        "Seeds of each task: 1. No run is missing."
        in (tmp_path / "figures" / "captions.md").read_text()
    )


@pytest.mark.parametrize(
    ("words", "error", "message"),
    [
        (["{nowhere}"], DataError, "is not a directory"),
        (["{empty}", "--format", "pdf"], DataError, "nothing to draw"),
        (["{empty}", "--format", "docx"], UsageError, "docx"),
        (["{empty}", "--at", "1k", "--area"], UsageError, "exclude each other"),
        (["{empty}", "--watch", "0"], UsageError, "at least one second"),
        (["{empty}", "--open", "--format", "md"], UsageError, "--open shows a page"),
        (["{empty}", "--out", "/proc/nowhere/report.html"], UsageError, "choose another --out"),
        (["{empty}", "--bounds", "x=1"], UsageError, "LOW,HIGH"),
    ],
)
def test_what_cannot_be_done_is_one_line(
    tmp_path: Path, words: list[str], error: type[Exception], message: str
):
    (tmp_path / "empty").mkdir()
    with pytest.raises(error, match=re.escape(message)):
        run(
            [
                "report",
                *(
                    word.format(nowhere=tmp_path / "nowhere", empty=tmp_path / "empty")
                    for word in words
                ),
            ]
        )


def test_a_watched_page_reloads_only_while_a_run_goes_on(tmp_path: Path):
    write_run(tmp_path)
    assert 'http-equiv="refresh"' in page(summary(tmp_path), "t", tmp_path, "c", refresh=30)
    assert (
        run(["report", str(tmp_path), "--watch", "1"]) == 0
    )  # nothing runs: it is made and that is that
    assert 'http-equiv="refresh"' not in (tmp_path / "report.html").read_text()


def test_a_report_is_made_anew_when_a_row_was_written_and_for_the_last_time_when_none_runs(
    tmp_path: Path,
):
    path = write_run(tmp_path, reached=50_000)
    (path / "lock").write_text(json.dumps({"pid": os.getpid(), "host": platform.node()}))
    out = make(order(tmp_path, "html"), refresh=7)
    pages, pauses = [], []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        pages.append(out.read_text())
        if len(pauses) == 2:
            write_rows(path / "eval.jsonl", [{"step": 60_000, "episode": 0, "return": 1.0}])
            os.utime(path / "eval.jsonl", (2e9, 2e9))
        if len(pauses) == 3:
            (path / "lock").unlink()

    sentences: list[str] = []
    watch(order(tmp_path, "html"), 7, out, sentences.append, sleep=pause)
    assert pauses == [7, 7, 7]
    assert ["60k" in text for text in pages] == [False, False, True]
    assert ['content="7"' in text for text in pages] == [True] * 3
    assert 'content="7"' not in out.read_text()
    assert len(sentences) == 2


def test_a_sweep_is_watched_until_nothing_of_its_plan_is_missing(tmp_path: Path):
    write_run(tmp_path, seed=0)
    write_plan(tmp_path, ["dac"], ["dmc/cheetah-run"], 2)
    pauses = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 2:
            write_run(tmp_path, seed=1)

    out = tmp_path / "report.html"
    watch(order(tmp_path, "html"), 7, out, lambda sentence: None, sleep=pause)
    assert len(pauses) == 2
    assert "Not finished" not in out.read_text()
