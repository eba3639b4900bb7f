"""The page in a real browser: nothing on the console, every chart drawn, every switch works,
nothing leaves the file.
"""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.browser import Page, browser, find_browser
from tests.support.reports import HOSTILE
from tests.support.written import write_rows, write_run, write_sweep

from dualac.analysis.data.frame import read
from dualac.analysis.report.page import write_page
from dualac.analysis.summary.summarise import summarise

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(
        find_browser() is None, reason="no Chromium here; scripts/install-browser installs it"
    ),
]
TASKS = ["dmc/cheetah-run", "metaworld/hammer", "gym/Pendulum-v1"]
LINES = (
    "[...document.querySelectorAll('figure[data-chart=efficiency] path[data-line]')].map(one => "
    "one.dataset.line)"
)


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("runs")
    write_sweep(root, {"dac": 0.7, "sac": 0.5, "dac:no-kl": 0.3}, TASKS, 3)
    write_sweep(root / "more", {"dac": 0.8, "sac": 0.6}, TASKS[:2], 2, changes={"replay_ratio": 16})
    return write_page(summarise(read([root])), "A report", root / "report.html", "dualac report")


@pytest.fixture
def tab() -> Iterator[Page]:
    with browser() as page:
        page.resize(1200, 900)
        yield page


def assert_well(tab: Page) -> None:
    assert tab.console == []
    assert all(url.startswith("file:") for url in tab.requests)
    assert tab.run("performance.getEntriesByType('resource').length") == 0


def test_every_chart_is_drawn_and_the_console_is_silent(tab: Page, report: Path):
    tab.open(report)
    assert tab.run("document.querySelectorAll('figure[data-chart]').length") > 15
    assert (
        tab.run(
            "[...document.querySelectorAll('figure[data-chart]')].filter(one => "
            "!one.querySelector('svg path, svg rect')).length"
        )
        == 0
    )
    assert (
        tab.run(
            "[...document.querySelectorAll('svg')].some(one => "
            "/NaN|undefined|Infinity/.test(one.outerHTML))"
        )
        is False
    )
    assert_well(tab)


def test_the_axis_toggles_between_steps_updates_and_time(tab: Page, report: Path):
    tab.open(report)
    text = "document.querySelector('figure[data-chart=efficiency] svg').textContent"
    for value, title in (
        ("updates", "gradient updates"),
        ("seconds", "wall clock"),
        ("steps", "environment steps"),
    ):
        assert title not in tab.run(text)
        tab.run(f"document.querySelector('input[value={value}]').click()")
        tab.wait(f"{text}.includes('{title}')")
    assert_well(tab)


def test_an_algorithm_can_be_hidden_everywhere_and_shown_again(tab: Page, report: Path):
    tab.open(report)
    assert "sac" in tab.run(LINES)
    tab.run("document.querySelector('input[data-agent=sac]').click()")
    tab.wait(f"!{LINES}.includes('sac')")
    assert "dac" in tab.run(LINES)
    for agent in ("dac", "dac:no-kl"):
        tab.run(f"document.querySelector('input[data-agent=\"{agent}\"]').click()")
    assert "every algorithm here is hidden" in tab.run(
        "document.querySelector('figure[data-chart=efficiency] svg').textContent"
    )
    tab.run("document.querySelector('input[data-agent=sac]').click()")
    tab.wait(f"{LINES}.includes('sac')")
    assert_well(tab)


def test_a_chart_is_read_by_pointing_and_by_keys(tab: Page, report: Path):
    tab.open(report)
    tab.run(
        "document.querySelector('figure[data-chart=efficiency]').scrollIntoView({block: 'center'})"
    )
    box = tab.run(
        "(b => ({x: b.x, y: b.y, w: b.width, h: "
        "b.height}))(document.querySelector('figure[data-chart=efficiency] "
        "svg').getBoundingClientRect())"
    )
    tab.move(box["x"] + 0.6 * box["w"], box["y"] + 0.5 * box["h"])
    tip = "document.querySelector('figure[data-chart=efficiency] .tip')"
    tab.wait(f"!{tip}.hidden")
    assert "dac" in tab.run(f"{tip}.textContent")
    assert "[" in tab.run(f"{tip}.textContent")
    tab.move(2, 2)
    tab.wait(f"{tip}.hidden")
    tab.run("document.querySelector('figure[data-chart=efficiency] svg').focus()")
    heads = []
    for key in ("Home", "ArrowRight", "End"):
        tab.press(key)
        tab.wait(f"!{tip}.hidden")
        heads.append(tab.run(f"{tip}.querySelector('b').textContent"))
    assert heads == ["0", "10k", "100k"]
    assert_well(tab)


def test_tables_sort_charts_grow_themes_change_and_numbers_download(tab: Page, report: Path):
    tab.open(report)
    first = "document.querySelector('table.sortable tbody td:nth-child(7)').textContent"
    tab.run("document.querySelectorAll('table.sortable th button')[6].click()")
    low = tab.run(first)
    tab.run("document.querySelectorAll('table.sortable th button')[6].click()")
    assert float(low) < float(tab.run(first))
    tab.run("document.querySelector('figure[data-chart=task] button').click()")
    assert tab.run("document.querySelector('figure[data-chart=task]').clientWidth") > 900
    colours = []
    for _ in range(2):
        tab.run("document.getElementById('theme').click()")
        colours.append(tab.run("getComputedStyle(document.body).backgroundColor"))
    assert colours == ["rgb(255, 255, 255)", "rgb(22, 24, 28)"]
    tab.run(
        "window.kept = []; URL.createObjectURL = blob => { kept.push(blob); return "
        "'about:blank#'; }; HTMLAnchorElement.prototype.click = () => {}"
    )
    tab.run("document.querySelectorAll('button[data-download]').forEach(one => one.click())")
    texts = tab.run("Promise.all(kept.map(blob => blob.text()))")
    assert texts[0].startswith("algorithm,replay_ratio")
    assert json.loads(texts[2])["aggregates"]
    assert texts[3].startswith(r"\begin{tabular}")
    assert_well(tab)


@pytest.mark.parametrize(("width", "scheme"), [(1200, "light"), (1200, "dark"), (390, "light")])
def test_it_fits_its_screen(tab: Page, report: Path, tmp_path: Path, width: int, scheme: str):
    tab.resize(width, 844, phone=width < 500)
    tab.prefer(scheme)
    tab.open(report)
    assert tab.run("document.documentElement.scrollWidth") <= width
    assert tab.run("getComputedStyle(document.body).backgroundColor") == (
        "rgb(22, 24, 28)" if scheme == "dark" else "rgb(255, 255, 255)"
    )
    assert tab.screenshot(tmp_path / "page.png").stat().st_size > 50_000
    assert_well(tab)


def test_it_prints_with_every_chart(tab: Page, report: Path):
    tab.open(report)
    assert len(tab.ask("Page.printToPDF")["data"]) > 50_000
    assert_well(tab)


def test_hostile_names_run_nothing(tab: Page, tmp_path: Path):
    for place, name in enumerate(HOSTILE):
        path = write_run(tmp_path, name, f"gym/{name}", folder=f"{place}")
        (path / "FAILED").write_text(json.dumps({"step": 3, "reason": name, "error": name}))
        write_run(tmp_path, name, "dmc/cheetah-run", folder=f"{place}x")
    tab.ask(
        "Page.addScriptToEvaluateOnNewDocument",
        source="window.alert = () => { window.attacked = true; }",
    )
    tab.open(
        write_page(summarise(read([tmp_path])), HOSTILE[0], tmp_path / "report.html", HOSTILE[1])
    )
    tab.run("document.querySelectorAll('figure[data-chart=task] svg').forEach(one => one.focus())")
    assert tab.run("window.attacked") is None
    assert tab.run("document.images.length") == 0
    assert tab.run("document.scripts.length") == 2
    assert tab.run("document.querySelector('h1').textContent") == HOSTILE[0]
    assert_well(tab)


@pytest.mark.parametrize("kind", ["nothing", "one run", "not numbers", "equal", "half done"])
def test_poor_reports_are_whole_pages(tab: Page, tmp_path: Path, kind: str):
    if kind == "one run":
        write_run(tmp_path)
    if kind == "not numbers":
        write_rows(
            write_run(tmp_path) / "eval.jsonl", [{"step": step, "return": None} for step in (0, 10)]
        )
    if kind == "equal":
        for seed in range(3):
            write_run(tmp_path, seed=seed, final=0.0, task="metaworld/hammer")
    if kind == "half done":
        write_sweep(tmp_path, {"dac": 0.5, "sac": 0.4}, ["dmc/cheetah-run"], 2, reached=0)
    tab.open(
        write_page(summarise(read([tmp_path])), kind, tmp_path / "report.html", "dualac report")
    )
    assert (
        tab.run(
            "[...document.querySelectorAll('svg')].some(one => "
            "/NaN|undefined|Infinity/.test(one.outerHTML))"
        )
        is False
    )
    assert_well(tab)
