"""Reports of written runs, and what a browser would find in their pages."""

import json
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from dualac.analysis.data.frame import read
from dualac.analysis.figures.paper import FIGURES
from dualac.analysis.report.make import Format, Order
from dualac.analysis.report.page import page
from dualac.analysis.summary.summarise import Choices, Summary, summarise

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
