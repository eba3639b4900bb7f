"""`dualac report`: every state a directory of runs can be in is said in words, and nothing that
users named is more than text.
"""

import json
import os
import platform
import re
import shlex
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from tests.support.written import PROTOCOL, SPEC, write_plan, write_rows, write_run, write_sweep

from dualac.analysis.data.frame import read
from dualac.analysis.data.groups import settings
from dualac.analysis.figures.panels import caption
from dualac.analysis.figures.paper import FIGURES, gallery
from dualac.analysis.figures.style import COLOURS, Decimals, inks
from dualac.analysis.report.exports import as_csv, as_json, escape_latex, escape_markdown
from dualac.analysis.report.make import Format, Order, make, watch
from dualac.analysis.report.page import page
from dualac.analysis.summary.commands import commands
from dualac.analysis.summary.headline import headline
from dualac.analysis.summary.problems import problems
from dualac.analysis.summary.summarise import Choices, Summary, only, summarise
from dualac.analysis.summary.tables import differences, sensitivity
from dualac.cli import run
from dualac.cli.commands.analysis import table_as_data
from dualac.errors import DataError, UsageError
from dualac.experiments.adapt import scaled
from dualac.experiments.expand import expand
from dualac.experiments.find import find_experiment, shipped
from dualac.experiments.spec import Scale
from dualac.parts.as_json import to_json
from dualac.runs.versions import with_defaults

HOSTILE = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "=cmd|' /C calc'!A0",
    "</style></title>",
    "{{ 7*7 }}",
    "$x$ \\input{a}",
)
EXPECTED = """
    figure figcaption div table caption thead tbody tr th td h3 h4 details summary label input
    fieldset legend span pre select option b ul li a code
"""  # what runs add to a page without any
TASKS = ["dmc/cheetah-run", "metaworld/hammer"]


class Seen(HTMLParser):
    """What a browser would find in a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text = ""
        self._within = ""
        self.data: dict[str, Any] = {}
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        self._within = "data" if ("id", "data") in attrs else tag

    def handle_endtag(self, tag: str) -> None:
        self._within = ""

    def handle_data(self, data: str) -> None:
        if self._within == "data":
            self.data = json.loads(data)
        elif self._within not in ("script", "style"):
            self.text += data


def summary(root: Path, **choices: Any) -> Summary:
    return summarise(read([root]), Choices(**choices))


def order(root: Path, kind: Format, *figures: str, out: Path | None = None) -> Order:
    """Write a report of one kind with a few of the figures: to draw all takes seconds."""
    chosen = {name: FIGURES[name] for name in figures}
    return Order((root,), kind, out, None, Choices(), "dualac report", chosen)


def shown(root: Path, **choices: Any) -> Seen:
    return Seen(page(summary(root, **choices), "a report", root, "dualac report"))


def test_no_runs_are_said_and_make_a_page(tmp_path: Path):
    seen = shown(tmp_path)
    assert "No run was found" in seen.text
    assert "figure" not in seen.tags


def test_one_run_has_nothing_to_be_compared_with(tmp_path: Path):
    write_run(tmp_path)
    seen = shown(tmp_path)
    assert "There is nothing to compare it with" in seen.text
    assert "one seed: no interval" in seen.text
    assert seen.tags.count("figure") > 4


def test_one_seed_of_two_algorithms_is_not_separable(tmp_path: Path):
    write_sweep(tmp_path, {"dac": 0.8, "sac": 0.2}, TASKS, 1)
    assert "not separable: one seed has no spread" in shown(tmp_path).text


def test_a_missing_task_is_left_out_by_name(tmp_path: Path):
    write_sweep(tmp_path, {"dac": 0.6, "sac": 0.4}, TASKS, 2)
    write_run(tmp_path, "dac", "dmc/walker-run")
    found = summary(tmp_path)
    assert found.panels[0].tasks == TASKS
    assert found.panels[0].left_out == ["dmc/walker-run"]
    text = shown(tmp_path).text
    assert "not every algorithm has come so far on dmc/walker-run" in text
    assert "left out: dmc/walker-run" in text


def test_scores_that_are_no_numbers_are_said_and_counted_nowhere(tmp_path: Path):
    write_sweep(tmp_path, {"dac": 0.6, "sac": 0.4}, ["dmc/cheetah-run"], 3)
    path = write_run(tmp_path, "sac", seed=3)
    write_rows(
        path / "eval.jsonl",
        [{"step": step, "episode": 0, "return": None} for step in range(0, 100_001, 10_000)],
    )
    found = summary(tmp_path)
    assert found.panels[0].seeds("sac") == [3]
    assert "Seeds of each task: 3; sac has 3 of 4." in caption(found.panels, found)
    assert "Runs without a score there, and not counted: sac 1 of 4." in " ".join(headline(found))
    assert (
        "Seeds of each task: 3; sac has 3 of 4." in gallery(found).pictures[-1].caption
    )  # every task's curves
    assert any(
        one.kind == "diverged" and "11 evaluation episodes without a finite return" in one.text
        for one in problems(found)
    )
    assert "NaN" not in json.dumps(shown(tmp_path).data)


def test_all_scores_not_numbers_make_a_page(tmp_path: Path):
    path = write_run(tmp_path)
    write_rows(path / "eval.jsonl", [{"step": 0, "return": None}])
    assert "nothing is aggregated" in shown(tmp_path).text


def test_equal_scores_have_an_interval_without_width_and_no_winner(tmp_path: Path):
    for name in ("dac", "sac"):
        for seed in range(3):
            write_run(tmp_path, name, seed=seed, final=0.5)
    text = shown(tmp_path).text
    assert "0.500 [0.500, 0.500]" in text
    assert "no number of seeds up to 1000 would separate them" in text


def test_unlike_protocols_are_refused_in_words_or_kept_apart(tmp_path: Path):
    write_sweep(tmp_path, {"dac": 0.6}, ["metaworld/hammer"], 2)
    write_run(
        tmp_path, "dac", "metaworld/hammer", 5, changes={"protocol": PROTOCOL | {"success": "last"}}
    )
    assert "success last, not any; --unlike separate keeps it apart" in shown(tmp_path).text
    assert "dac [success=last]" in shown(tmp_path, unlike="separate").text
    assert "dac [success=last]: under other rules than the rest" in " ".join(
        headline(summary(tmp_path, unlike="separate"))
    )
    assert "other rules" not in " ".join(headline(summary(tmp_path)))


def test_a_sweep_half_done_says_so_and_compares_where_all_have_been(tmp_path: Path):
    write_sweep(tmp_path, {"dac": 0.6, "sac": 0.4}, ["dmc/cheetah-run"], 2)
    write_sweep(tmp_path / "more", {"td3": 0.3}, ["dmc/cheetah-run"], 2, reached=60_000)
    found = summary(tmp_path)
    assert found.panels[0].at == 60_000
    sentences = " ".join(headline(found))
    assert "Not finished: 2 interrupted. These numbers will change." in sentences
    assert "the score at 60k steps" in sentences
    assert [one.label for one in summary(tmp_path, at=100_000).panels[0].groups] == ["dac", "sac"]


def test_what_a_plan_has_and_the_disk_does_not_is_missing(tmp_path: Path):
    write_sweep(tmp_path, {"dac": 0.6}, ["dmc/cheetah-run"], 2)
    write_plan(tmp_path, ["dac", "sac"], TASKS, 3)
    found = summary(tmp_path)
    assert len(found.frame.missing) == 10
    assert "Not complete: 10 missing of 12 runs." in caption(found.panels, found)
    assert "Not finished: 10 of the plan not begun." in " ".join(headline(found))
    assert any(
        one.kind == "missing" and "sac on metaworld/hammer" in one.text for one in problems(found)
    )
    seen = shown(tmp_path)
    assert [value for key, value in seen.attributes if key == "class"].count(
        "seed missing"
    ) == 10 + 1  # and the legend's
    assert "sac" in seen.text
    write_plan(
        tmp_path, ["dac"], ["dmc/cheetah-run"], 2, steps=200_000
    )  # longer than the runs meant to be
    assert "the plan goes on to step 200000" in " ".join(
        one.text for one in problems(summary(tmp_path))
    )


def test_one_run_that_died_early_does_not_take_the_others_back(tmp_path: Path):
    write_sweep(tmp_path, {"dac": 0.6, "sac": 0.4, "td3": 0.3}, TASKS, 2)
    path = write_run(tmp_path, "gpl", reached=20_000)
    (path / "FAILED").write_text(
        json.dumps(
            {"step": 25_000, "reason": "the critic's loss is not finite", "error": "RunFailedError"}
        )
    )
    found = summary(tmp_path)
    assert found.panels[0].at == 100_000
    assert [one.label for one in found.panels[0].apart] == ["gpl"]
    texts = {one.kind: one.text for one in problems(found)}
    assert "the critic's loss is not finite" in texts["failed"]
    assert "gpl" in texts["not compared"]


def test_tasks_without_bounds_are_plotted_and_enter_no_aggregate(tmp_path: Path):
    write_sweep(tmp_path, {"dac": 0.6, "sac": 0.4}, ["gym/Pendulum-v1"], 2)
    seen = shown(tmp_path)
    assert "No task here has known bounds" in seen.text
    assert len(seen.data["tasks"]) == 1
    assert seen.data["panels"] == []
    assert shown(tmp_path, bounds={"": (0.0, 1000.0)}).data["panels"] != []


def test_damage_is_counted_and_named_in_the_page(tmp_path: Path):
    path = write_run(tmp_path)
    with (path / "eval.jsonl").open("a") as file:
        file.write("{half\n")
    broken = write_run(tmp_path, seed=1)
    (broken / "run.json").write_text("{")
    text = shown(tmp_path).text
    assert "eval.jsonl: 1 damaged line passed over (23)" in text
    assert "run.json: cannot be read" in text


def test_resumed_runs_and_versions_that_differ_are_problems(tmp_path: Path):
    path = write_run(tmp_path)
    write_rows(
        path / "events.jsonl",
        [
            {"event": "started", "step": 0},
            {"event": "resumed", "step": 10},
            {"event": "inexact_resume", "step": 10},
        ],
    )
    other = write_run(tmp_path, seed=1)
    (other / "machine.json").write_text(
        (other / "machine.json").read_text().replace("0.10.2", "0.11.0")
    )
    kinds = {one.kind: one.text for one in problems(summary(tmp_path))}
    assert kinds["versions"] == "jax differs between runs: 0.10.2 and 0.11.0"
    assert {"resumed", "inexact", "few seeds"} <= set(kinds)


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_stay_text_everywhere(tmp_path: Path, name: str):
    for folder, task in (("a", f"gym/{name}"), ("b", "dmc/cheetah-run")):
        path = write_run(tmp_path, name, task, folder=folder)
        (path / "FAILED").write_text(json.dumps({"step": 3, "reason": name, "error": name}))
        write_rows(path / "events.jsonl", [{"event": name, "step": 0}])
    write_run(
        tmp_path, "dac", f"gym/{name}", folder="c", changes={"algorithm.explorer.target_kl": name}
    )
    plain_page, seen = shown(tmp_path / "nothing"), shown(tmp_path)
    assert seen.tags.count("script") == 2
    assert seen.tags.count("style") == seen.tags.count("title") == 1
    assert "img" not in seen.tags
    assert set(seen.tags) <= {*plain_page.tags, *EXPECTED.split()}
    assert not [key for key, _ in seen.attributes if key.startswith("on") or key == "style"]
    links = [value or "" for key, value in seen.attributes if key == "href"]
    assert all(link.startswith(("#", "./")) for link in links)
    assert name in seen.text
    assert "49" not in re.findall(r"gym/(\S+)", seen.text)


def test_hostile_names_are_drawn_as_they_are_written(tmp_path: Path):
    for place, name in enumerate(HOSTILE):
        write_run(tmp_path / "runs", name, "dmc/cheetah-run", folder=str(place))
    out = tmp_path / "report.md"
    assert run(["report", str(tmp_path / "runs"), "--format", "md", "--out", str(out)]) == 0
    text = out.read_text()
    assert "<script>" not in text.split("## Reproduce")[0]
    assert "<img" not in text.split("## Reproduce")[0]
    for picture in (tmp_path / "report-figures").iterdir():
        tags = set(ElementTree.parse(picture).iter())
        assert not {tag.tag.rpartition("}")[2] for tag in tags} & {
            "script",
            "img",
            "image",
            "foreignObject",
            "a",
        }


@pytest.mark.parametrize(
    ("file", "where", "value", "message"),
    [
        ("run.json", ["name"], "d\ud800ac", ""),
        ("run.json", ["task"], "dmc/\ud800", ""),
        ("run.json", ["algorithm", "gamma"], "\ud800", ""),
        ("machine.json", ["fingerprint", "versions", "mujoco"], ["3"], ""),
        ("run.json", ["protocol", "eval_episodes"], [1], "its protocol.eval_episodes is [1]"),
        ("run.json", ["protocol", "success"], {"a": 1}, "its protocol.success is {'a': 1}"),
        ("run.json", ["steps"], 10**400, "its steps is 1000"),
        ("run.json", ["name"], "d\0c", "its name is"),
        ("FAILED", ["step"], 10**400, ""),
    ],
)
def test_no_value_of_a_file_makes_a_report_fail(
    tmp_path: Path, file: str, where: list[str], value: Any, message: str
):
    write_run(tmp_path / "runs", "sac")
    path = write_run(tmp_path / "runs") / file
    spec = tree = json.loads(path.read_text()) if path.exists() else {}
    for name in where[:-1]:
        tree = tree[name]
    tree[where[-1]] = value
    path.write_text(json.dumps(spec))
    for kind in ("html", "md"):
        assert (
            run(
                [
                    "report",
                    str(tmp_path / "runs"),
                    "--format",
                    kind,
                    "--out",
                    str(tmp_path / f"out.{kind}"),
                ]
            )
            == 0
        )
    assert [
        one.what for one in read([tmp_path / "runs"]).damaged if message and message in one.what
    ] or not message
    assert len(read([tmp_path / "runs"]).runs) == (1 if message else 2)


def test_a_folder_whose_name_is_no_text_is_linked(tmp_path: Path):
    path = write_run(tmp_path / "runs")
    os.rename(os.fsencode(path), os.fsencode(tmp_path / "runs") + b"/d\xff")
    make(order(tmp_path / "runs", "html", out=tmp_path / "out.html"))
    assert "./runs/d%FF/" in (tmp_path / "out.html").read_text()


def test_a_folder_whose_name_is_no_text_is_named_in_markdown(tmp_path: Path):
    path = write_run(tmp_path / "runs", reached=50_000)
    os.rename(os.fsencode(path), os.fsencode(tmp_path / "runs") + b"/d\xff")
    make(order(tmp_path / "runs", "md", out=tmp_path / "out.md"))
    assert "interrupted" in (tmp_path / "out.md").read_text()


def test_a_spreadsheet_is_given_no_formula(tmp_path: Path):
    write_run(tmp_path, "=cmd|' /C calc'!A0", "gym/x")
    text = shown(tmp_path).data["downloads"]["tasks"]["text"]
    assert "\n'=cmd" in text
    assert (
        as_csv(
            [{"a": "+1", "b": "-2", "c": "@x", "d": "ok", "e": -1.5, "f": float("nan")}]
        ).splitlines()[1]
        == "'+1,'-2,'@x,ok,-1.5,"
    )


def test_what_is_embedded_cannot_end_its_script():
    text = as_json({"a": "</script><!--", "b": float("inf"), "c": np.array([1.0, np.nan])})
    assert "<" not in text
    assert json.loads(text) == {"a": "</script><!--", "b": None, "c": [1.0, None]}


def test_latex_and_markdown_are_escaped():
    assert escape_latex("a_b%{x}\\") == r"a\_b\%\{x\}\textbackslash{}"
    assert escape_markdown("<b>|[x](y)\nz`") == r"&lt;b&gt;\|\[x\](y) z\`"


def test_the_page_asks_for_nothing_and_allows_nothing_but_itself(tmp_path: Path):
    write_sweep(tmp_path, {"dac": 0.6, "sac": 0.4}, TASKS, 2)
    text = page(summary(tmp_path), "a report", tmp_path, "dualac report")
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text)
    assert policy
    assert policy[1].startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe" not in policy[1]
    assert not re.search(r'(src|href)="(?!#|\./)', text)
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", text)
    assert len(text) < 500_000


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


def test_the_paper_has_its_figures_where_the_runs_are_there(tmp_path: Path):
    """Every figure that data can make, from a sweep that has everything small."""
    names = (
        "dac",
        "dac-dog",
        "sac",
        "dac-ln",
        "redq",
        "dac-epistemic",
        "dac-aleatoric",
        "dac-both",
        "dac:no-kl",
        "dac:only-optimist",
    )
    write_sweep(
        tmp_path,
        {name: 0.3 + 0.05 * place for place, name in enumerate(names)},
        ["dmc/humanoid-run", "metaworld/hammer"],
        2,
    )
    for value in (0.1, 0.5):
        for task in ("dmc/humanoid-run", "metaworld/hammer"):
            for seed in range(2):
                write_run(
                    tmp_path / str(value),
                    "dac",
                    task,
                    seed,
                    final=value,
                    changes={"algorithm.explorer.target_kl": value},
                )
    rows = {"dac": settings(with_defaults(SPEC))}
    found = gallery(summary(tmp_path, rows=rows))
    assert [picture.name for picture in found.pictures] == list(FIGURES)
    assert found.missing == []
    for picture in found.pictures:
        assert "Seeds of each task: 2" in picture.caption
        figure = picture.draw()
        assert all(axes.lines or axes.patches for axes in figure.axes), picture.name
        logarithmic = [axes.yaxis for axes in figure.axes if axes.get_yscale() == "log"]
        assert all(isinstance(axis.get_major_formatter(), Decimals) for axis in logarithmic)
        assert bool(logarithmic) == (picture.name in ("adjustments", "diagnoses", "overestimation"))
    few = gallery(only(summary(tmp_path, rows=rows), names=["sac"]))
    assert {line.split(":")[0] for line in few.missing} >= {
        "design-table",
        "sensitivity",
        "wall-clock",
        "layer-norm",
        "distributional",
    }


def test_an_agent_keeps_its_colour_and_no_two_share_one():
    assert inks(["dac", "sac"])["dac"] == inks(["dac", "td3", "mine"])["dac"]
    many = inks([f"agent{number}" for number in range(20)] + ["dac", "sac"])
    assert len(set(many.values())) == 22
    assert many["dac"].colour == COLOURS[0]


def test_the_commands_make_the_runs_again(tmp_path: Path):
    write_sweep(tmp_path, {"dac": 0.5}, ["dmc/cheetah-run"], 2)
    write_run(
        tmp_path / "x",
        "dac",
        seed=0,
        changes={"algorithm.explorer.target_kl": 0.1, "resets": [20_000, 40_000]},
    )
    lines = commands(summary(tmp_path, rows={"dac": settings(with_defaults(SPEC))}))
    assert (
        "dualac train dac dmc/cheetah-run --seeds 0,1 --steps 100k --replay-ratio 2 --eval-every "
        "10k" in lines
    )
    assert any(line.endswith("--explorer.target-kl 0.1 --resets 20000,40000") for line in lines)


def test_the_commands_spell_a_part_that_is_another_and_each_schedule(tmp_path: Path):
    """What they say is what the command line makes of it."""
    from dualac.agents.algorithms import ALGORITHMS
    from dualac.cli.commands.analysis import table_as_data
    from dualac.parts.as_json import to_json
    from dualac.parts.paths import options, replaced
    from dualac.parts.text import parse
    from dualac.training.run import Run

    kinds = {"explorer": "dac:no-kl", "critic": "dac-epistemic"}
    for part, other in kinds.items():
        changed = replaced(ALGORITHMS["dac"], {part: getattr(ALGORITHMS[other], part)})
        path = write_run(tmp_path / part)
        (path / "run.json").write_text(
            json.dumps(to_json(Run("dac", changed, "dmc/cheetah-run", steps=100_000)))
        )
        (line,) = commands(summary(tmp_path / part, rows=table_as_data()))
        words = shlex.split(line)
        texts = dict(zip(words[4::2], words[5::2], strict=True))
        hints = {
            f"--{option.path.replace('_', '-')}": option for option in options(ALGORITHMS["dac"])
        }
        given = {
            hints[name].path: parse(hints[name].hint, text)
            for name, text in texts.items()
            if name in hints
        }
        assert replaced(ALGORITHMS["dac"], given) == changed
    write_run(tmp_path / "both", seed=0)
    write_run(tmp_path / "both", seed=1, changes={"eval_every": 5_000})
    assert [line.split("--eval-every ")[1] for line in commands(summary(tmp_path / "both"))] == [
        "10k",
        "5k",
    ]


def test_the_area_under_the_curve_is_another_score(tmp_path: Path):
    write_sweep(tmp_path, {"dac": 0.6, "sac": 0.4}, ["dmc/cheetah-run"], 2)
    end, way = (summary(tmp_path, at=at).panels[0] for at in (None, "area"))
    assert way.area
    assert way.aggregates["dac"]["IQM"].estimate == pytest.approx(
        end.aggregates["dac"]["IQM"].estimate / 2, abs=1e-3
    )


def test_a_clock_tells_nothing_after_the_last_row_of_the_log(tmp_path: Path):
    path = write_run(tmp_path)
    write_rows(
        path / "train.jsonl",
        [json.loads(line) for line in (path / "train.jsonl").read_text().splitlines()[:-1]],
    )
    panel = summary(tmp_path).panels[0]
    assert panel.clocks["dac"]["seconds"][-2] == pytest.approx(900)
    assert np.isnan(panel.clocks["dac"]["seconds"][-1])
    assert shown(tmp_path).data["panels"][0]["groups"][0]["seconds"][-1] is None


def test_the_area_begins_where_every_curve_does(tmp_path: Path):
    for seed in range(2):
        for name, points in (("dac", 10), ("sac", 8)):
            path = write_run(tmp_path, name, seed=seed, points=points)
            rows = [json.loads(line) for line in (path / "eval.jsonl").read_text().splitlines()]
            write_rows(path / "eval.jsonl", [row for row in rows if row["step"]])
    found = summary(tmp_path, at="area")
    assert found.panels[0].start == 12_500
    assert found.panels[0].counts() == {"dac": [(2, 2)], "sac": [(2, 2)]}
    assert "mean score on the way from 12.5k to 100k steps" in caption(found.panels, found)
    assert "no task in common" not in " ".join(headline(found))


def test_steps_to_reach_and_area_are_read_off_every_evaluation(tmp_path: Path):
    for seed in range(2):
        write_run(tmp_path, "dac", seed=seed, final=0.6, points=120)
        path = write_run(tmp_path, "sac", seed=seed, final=0.6, points=120)
        rows = [json.loads(line) for line in (path / "eval.jsonl").read_text().splitlines()]
        write_rows(
            path / "eval.jsonl",
            [{**row, "return": 244.0 if row["step"] > 833 else 0.0} for row in rows],
        )
    end, way = (summary(tmp_path, at=at).panels[0] for at in (None, "area"))
    assert len(end.steps) == 51
    assert (
        end.reached[0].steps.estimate == 40_833
    )  # the 49th of 120: 0.6 * 0.40833 is the first above 0.244
    assert way.aggregates["sac"]["IQM"].estimate == pytest.approx(
        0.244 * (120 - 1.5) / 120, abs=1e-5
    )


def test_every_chart_has_a_caption_with_its_seeds_and_what_is_missing(tmp_path: Path):
    write_sweep(tmp_path, {"dac": 0.6, "sac": 0.4}, TASKS, 2)
    write_plan(tmp_path, ["dac"], TASKS, 3)
    text = page(summary(tmp_path), "a report", tmp_path, "dualac report")
    charts = re.findall(r'<figure data-chart="(.*?)".*?</figure>', text, re.DOTALL)
    captions = re.findall(
        r'<figure data-chart=".*?".*?<figcaption>(.*?)</figcaption>', text, re.DOTALL
    )
    assert set(charts) == {"bars", "efficiency", "profile", "task", "inside", "overestimation"}
    assert len(captions) == len(charts)
    assert all(
        "Seeds of each task: 2" in one and re.search("Not complete: [12] missing of", one)
        for one in captions
    )


def test_the_hardest_tasks_have_a_panel_each_with_their_agents_at_any_replay_ratio(tmp_path: Path):
    for name, ratio in (("dac-dog", 2), ("dac-dog", 16), ("sr-sac", 32), ("sac", 2)):
        for task in ("dmc/dog-run", "dmc/humanoid-run", "dmc/cheetah-run"):
            write_run(tmp_path, name, task, changes={"replay_ratio": ratio})
    picture = next(one for one in gallery(summary(tmp_path)).pictures if one.name == "hard-tasks")
    figure = picture.draw()
    assert [axes.get_title(loc="left") for axes in figure.axes] == [
        "dmc/dog-run",
        "dmc/humanoid-run",
    ]
    labels = ["dac-dog, RR 2", "dac-dog, RR 16", "sr-sac, RR 32"]
    assert figure.axes[0].get_legend_handles_labels()[1] == labels
    assert (
        len({line.get_linestyle() for line in figure.axes[0].get_legend_handles_labels()[0][:2]})
        == 2
    )
    data = shown(tmp_path).data["tasks"][-2:]
    assert [[one["name"] for one in task["groups"]] for task in data] == [labels] * 2


def test_adjustments_are_those_of_dac_at_each_replay_ratio(tmp_path: Path):
    write_run(tmp_path, "dac:no-kl")
    assert "adjustments: needs runs of dac" in gallery(summary(tmp_path)).missing
    for ratio in (2, 16):
        write_run(tmp_path, "dac", changes={"replay_ratio": ratio})
    figure = next(
        one for one in gallery(summary(tmp_path)).pictures if one.name == "adjustments"
    ).draw()
    assert [axes.get_title(loc="left") for axes in figure.axes[::4]] == [
        "dac, RR 2: Q spread / Q mean",
        "dac, RR 16: Q spread / Q mean",
    ]
    assert all(len(axes.lines) == 1 for axes in figure.axes)


def test_variants_are_in_the_page_where_their_runs_are(tmp_path: Path):
    write_sweep(
        tmp_path, dict.fromkeys(("dac", "dac-ln", "redq", "sac"), 0.5), ["dmc/cheetah-run"], 2
    )
    seen = shown(tmp_path)
    assert "Layer norm, replay ratio 2" in seen.text
    assert "Distributional critics, replay" not in seen.text
    assert [[one["name"] for one in panel["groups"]] for panel in seen.data["panels"]] == [
        ["dac", "dac-ln", "redq", "sac"],
        ["dac", "dac-ln", "redq"],
    ]


def test_the_first_step_of_all_can_be_asked_for(tmp_path: Path):
    write_sweep(tmp_path, {"dac": 0.6, "sac": 0.4}, ["dmc/cheetah-run"], 2)
    found = summary(tmp_path, at=0)
    assert found.panels[0].at == 0
    assert found.panels[0].aggregates["dac"]["IQM"].estimate == pytest.approx(0, abs=1e-3)
    assert "nan" not in " ".join(headline(found))


def test_a_score_below_nothing_is_drawn_whole(tmp_path: Path):
    write_sweep(tmp_path, {"dac": 0.6, "sac": 0.4}, ["gym/x"], 2)
    found = summary(tmp_path, bounds={"": (800.0, 1000.0)})
    axes = next(one for one in gallery(found).pictures if one.name == "final-score").draw().axes[0]
    assert axes.get_xlim()[0] < found.panels[0].aggregates["sac"]["IQM"].low < 0


def test_a_sensitivity_study_without_the_default_marks_none(tmp_path: Path):
    write_run(tmp_path, "sac", final=0.4)
    for value in (0.05, 0.5):
        write_run(tmp_path / str(value), changes={"algorithm.explorer.target_kl": value})
    rows = {"dac": settings(with_defaults(SPEC))}
    assert [row.default for row in sensitivity(summary(tmp_path, rows=rows), "sac")] == [
        False,
        False,
    ]
    write_run(tmp_path)
    assert [row.default for row in sensitivity(summary(tmp_path, rows=rows), "sac")] == [
        False,
        True,
        False,
    ]


def test_what_agents_differ_in_is_a_table(tmp_path: Path):
    write_run(tmp_path, "dac")
    assert "Settings in which" not in shown(tmp_path).text
    write_run(
        tmp_path, "sac", changes={"algorithm.explorer": {"part": "Sampled"}, "reset_every": 7}
    )
    titles, rows = differences(summary(tmp_path).groups)
    assert titles == ["setting", "dac", "sac"]
    assert ["explorer.part", "OptimisticActor", "Sampled"] in rows
    assert ["explorer.target_kl", "0.25", "-"] in rows
    assert ["reset_every", "0", "7"] in rows
    assert not any(row[0] == "gamma" for row in rows)
    assert "Settings in which these agents differ" in shown(tmp_path).text
    assert "| reset\\_every | 0 | 7 |" in make(order(tmp_path, "md")).read_text()


@pytest.mark.parametrize("name", shipped())
def test_the_runs_of_a_shipped_experiment_make_its_figures(tmp_path: Path, name: str):
    """With its resets and its changes by path, which make other agents of known names."""
    experiment = find_experiment(name)
    tasks = sorted({one.task for one in expand(experiment)})[:2]
    runs = expand(scaled(experiment, Scale(tasks=tuple(tasks), seeds=2)))
    for one in runs:
        write_run(
            tmp_path,
            one.name,
            one.task,
            one.seed,
            final=0.5 + 0.01 * len(one.name),
            reached=one.steps,
            changes=to_json(one),
        )
    summary = summarise(read([tmp_path]), Choices(rows=table_as_data()))
    assert {picture.name for picture in gallery(summary).pictures} >= set(experiment.figures)
    assert not any("reset" in one.label for one in summary.groups)
    if (
        name == "sensitivity"
    ):  # the four values of each of the three, the default among them, at both replay ratios
        rows = sensitivity(summary, "sac")
        assert len(rows) == 24
        assert sum(row.default for row in rows) == 6
