"""A report of some places: written once, or again while runs go on."""

import contextlib
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal, NamedTuple, get_args

from dualac.analysis.data.frame import Frame, read
from dualac.analysis.figures.paper import FIGURES, PaperFigure, gallery
from dualac.analysis.report.markdown import write_captions, write_figures, write_markdown
from dualac.analysis.report.page import write_page
from dualac.analysis.summary.summarise import Choices, summarise
from dualac.errors import DataError, UsageError
from dualac.runs.layout import DONE, FAILED

Format = Literal["html", "md", "pdf", "svg", "png"]
FORMATS: tuple[Format, ...] = get_args(Format)


class Order(NamedTuple):
    """A report as it is wanted."""

    places: tuple[Path, ...]
    format: Format
    out: Path | None
    title: str | None
    choices: Choices
    command: str  # the command line, to be named in the report
    figures: Mapping[str, PaperFigure] = FIGURES  # drawn where the runs can make them


def make(order: Order, refresh: int | None = None) -> Path:
    """Write the report and return where. With `refresh`, a page reloads itself while runs go on."""
    for place in order.places:
        if not place.is_dir():
            raise DataError(f"{place} is not a directory; give one that holds runs")
    frame = read(order.places)
    if not frame.runs and order.format in ("pdf", "svg", "png"):
        raise DataError(f"no run at or below {order.places[0]}, so there is nothing to draw")
    try:
        return _write(order, frame, refresh)
    except OSError as error:
        raise UsageError(
            f"{error.filename or order.places[0]} cannot be written ({error.strerror}); choose "
            "another --out"
        ) from None


def _write(order: Order, frame: Frame, refresh: int | None) -> Path:
    summary = summarise(frame, order.choices)
    home = order.places[0]
    title = order.title or home.resolve().name
    if order.format == "html":
        out = order.out or home / "report.html"
        reload = refresh if _goes_on(frame) else None
        return write_page(summary, title, out, order.command, reload)
    if order.format == "md":
        out = order.out or home / "report.md"
        return write_markdown(summary, title, out, order.command, order.figures)
    folder = order.out or home / "figures"
    pictures = gallery(summary, order.figures).pictures
    write_figures(pictures, folder, order.format)
    write_captions(pictures, folder)
    return folder


def watch(
    order: Order,
    every: int,
    out: Path,
    say: Callable[[str], None],
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Make a report anew whenever a run's files have changed, until none is running or missing."""
    made = _last_change(order.places)
    while _goes_on(read(order.places, training_rows=2)):
        sleep(every)
        changed = _last_change(order.places)
        if changed != made:
            made = changed
            make(order, refresh=every)
            say(f"{out} made anew at {time.strftime('%H:%M:%S')}")
    make(order)
    say("no run is going on any more")


def _goes_on(frame: Frame) -> bool:
    return bool(frame.missing) or any(run.status.state == "running" for run in frame.runs)


def _last_change(places: tuple[Path, ...]) -> float:
    """Return when a run last wrote a row, or ended."""
    newest = 0.0
    for place in places:
        for home, _, files in os.walk(place):
            for name in files:
                if name.endswith(".jsonl") or name in (DONE, FAILED):
                    with contextlib.suppress(OSError):  # replaced just now
                        newest = max(newest, os.stat(os.path.join(home, name)).st_mtime)
    return newest
