"""A report from a directory of runs: what is asked for, what is written, and again while runs go
on.
"""

import contextlib
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Literal, NamedTuple, get_args

from dualac.analysis.data.frame import Frame, read
from dualac.analysis.figures.paper import gallery
from dualac.analysis.report.markdown import write_captions, write_figures, write_markdown
from dualac.analysis.report.page import write_page
from dualac.analysis.summary.summarise import Choices, summarise
from dualac.errors import DataError, UsageError

Format = Literal["html", "md", "pdf", "svg", "png"]
FORMATS: tuple[Format, ...] = get_args(Format)


class Order(NamedTuple):
    places: tuple[Path, ...]
    format: Format
    out: Path | None
    title: str | None
    choices: Choices
    command: str
    """that asked for it, to stand in it"""


def make(order: Order, refresh: int | None = None) -> Path:
    """Read the runs and write what was ordered; a page that is watched reloads itself, until every
    run has ended.
    """
    for place in order.places:
        if not place.is_dir():
            raise DataError(f"{place} is not a directory; give one that holds runs")
    frame = read(order.places)
    if not frame.runs and order.format in ("pdf", "svg", "png"):
        raise DataError(f"no run at or below {order.places[0]}, so there is nothing to draw")
    summary = summarise(frame, order.choices)
    home = order.places[0]
    title = order.title or home.resolve().name
    try:
        if order.format == "html":
            return write_page(
                summary,
                title,
                order.out or home / "report.html",
                order.command,
                refresh if _going_on(frame) else None,
            )
        if order.format == "md":
            return write_markdown(summary, title, order.out or home / "report.md", order.command)
        folder = order.out or home / "figures"
        pictures = gallery(summary).pictures
        write_figures(pictures, folder, order.format)
        write_captions(pictures, folder)
        return folder
    except OSError as error:
        raise UsageError(
            f"{error.filename or home} cannot be written ({error.strerror}); choose another --out"
        ) from None


def watch(order: Order, every: int, out: Path, say: Callable[[str], None]) -> None:
    """Make it anew whenever some file of the runs has changed, until none is running or missing
    from its plan; Ctrl-C ends it sooner.
    """
    seen = _changed(order.places)
    while _going_on(read(order.places, training_rows=2)):
        time.sleep(every)
        now = _changed(order.places)
        if now != seen:
            seen = now
            make(order, refresh=every)
            say(f"{out} made anew at {time.strftime('%H:%M:%S')}")
    make(order)
    say("no run is going on any more")


def _going_on(frame: Frame) -> bool:
    return bool(frame.missing) or any(run.status.state == "running" for run in frame.runs)


def _changed(places: tuple[Path, ...]) -> float:
    """When a run last wrote a row."""
    newest = 0.0
    for place in places:
        for home, _, files in os.walk(place):
            for name in files:
                if name.endswith(".jsonl") or name in ("DONE", "FAILED"):
                    with contextlib.suppress(OSError):  # replaced just now
                        newest = max(newest, os.stat(os.path.join(home, name)).st_mtime)
    return newest
