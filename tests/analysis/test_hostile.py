"""Nothing that users named, and no damage, is more than text in a report."""

import json
import os
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from tests.support.reports import EXPECTED, HOSTILE, TASKS, order, shown, summary
from tests.support.written import write_rows, write_run, write_sweep

from dualac.analysis.data.frame import read
from dualac.analysis.report.exports import as_csv, as_json, escape_latex, escape_markdown
from dualac.analysis.report.make import make
from dualac.analysis.report.page import page
from dualac.cli import run


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
        ("run.json", ["steps"], 10**400, "a number of 401 digits"),
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
    assert run(["report", str(tmp_path / "runs"), "--out", str(tmp_path / "out.html")]) == 0
    make(order(tmp_path / "runs", "md", "curves", out=tmp_path / "out.md"))
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
