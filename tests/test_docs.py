"""What the pages tell a reader to import, to open or to run is there."""

import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
KEPT = [path for folder in ("notes", "results") for path in sorted((ROOT / folder).rglob("*.md"))]
IMPORT = re.compile(r"^from (dualac[\w.]*) import (?:\(([^)]+)\)|(.+))$", re.MULTILINE)
LINK = re.compile(r"\]\(([^)#:]+?)(?:#[^)]*)?\)")
FILE = re.compile(r"`(?:\.venv/bin/python )?((?:benchmarks|scripts|examples|src|tests)/[\w/.-]+)")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_names_what_there_is(page: Path):
    text = page.read_text()
    for module, over_lines, on_one_line in IMPORT.findall(text):
        for name in re.findall(r"\w+", over_lines or on_one_line):
            assert hasattr(importlib.import_module(module), name), f"{module}.{name}"
    absent = [link for link in LINK.findall(text) if not (page.parent / link).exists()]
    absent += [name for name in FILE.findall(text) if not (ROOT / name.rstrip(".")).exists()]
    assert absent == []


@pytest.mark.parametrize("page", KEPT, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_of_history_or_results_links_to_what_there_is(page: Path):
    assert [
        link for link in LINK.findall(page.read_text()) if not (page.parent / link).exists()
    ] == []


def test_the_readme_has_the_two_commands_of_a_clone():
    block = re.findall(r"```\n(.+?)```", (ROOT / "README.md").read_text(), re.DOTALL)[0]
    assert [line.split("#")[0].strip() for line in block.splitlines()] == [
        "make train",
        "make test",
    ]
