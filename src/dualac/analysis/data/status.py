"""How far a directory of runs is: done, running, failed, or missing from its plan. Fast: of a
finished run two small files are read.
"""

import json
import os
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from dualac.analysis.data.frame import Damage, at_work, find, planned, read_object
from dualac.errors import DataError

STATES = ("done", "running", "interrupted", "failed", "missing")
TAIL = 65_536  # bytes of a log that surely hold its last whole line


class Mark(NamedTuple):
    """One run, there or planned."""

    name: str
    task: str
    replay_ratio: int
    seed: int
    steps: int
    state: str
    step: int = 0
    reason: str = ""
    path: Path | None = None
    experiment: str = ""


def survey(place: Path) -> tuple[list[Mark], list[Damage]]:
    """Every run at or below a directory, and those that its plan, or a plan below it, has and the
    disk does not.
    """
    damaged: list[Damage] = []
    marks: dict[str, Mark] = {}
    paths, plans = find([place], damaged)
    for real, path in paths.items():
        try:
            marks[real] = look(path)
        except (DataError, KeyError, TypeError) as error:
            damaged.append(Damage(path, f"run.json cannot be used: {error}"))
    for plan in planned(plans, [place], damaged):
        path = os.path.realpath(plan.path)
        there = marks.get(path, Mark(*plan[:5], "missing"))
        if there.state == "done" and there.step < plan.steps:
            there = there._replace(state="interrupted", steps=plan.steps)
        marks[path] = there._replace(experiment=plan.experiment)
    return sorted(marks.values(), key=lambda mark: mark[:4]), damaged


def look(path: Path) -> Mark:
    spec = read_object(path / "run.json")
    mark = Mark(
        spec["name"],
        spec["task"],
        spec["replay_ratio"],
        spec["seed"],
        spec["steps"],
        "interrupted",
        path=path,
    )
    if (path / "FAILED").exists():
        told = read_object(path / "FAILED")
        return mark._replace(
            state="failed",
            step=told.get("step") or last_step(path),
            reason=str(told.get("reason", "")),
        )
    step = (
        read_object(path / "DONE").get("step", 0) if (path / "DONE").exists() else 0
    )  # of one that was extended since, it is not the end
    if step >= mark.steps:
        return mark._replace(state="done", step=step)
    return mark._replace(
        state="running" if at_work(path) else "interrupted", step=max(step, last_step(path))
    )


def last_step(path: Path) -> int:
    """That a run has written a row of."""
    rows = path / "train.jsonl"
    if not rows.exists():
        return 0
    with rows.open("rb") as file:
        file.seek(max(0, rows.stat().st_size - TAIL))
        lines = file.read().split(b"\n")[:-1]
    for line in reversed(lines):
        try:
            return int(json.loads(line)["step"])
        except (ValueError, KeyError, TypeError):
            continue
    return 0


def grid(marks: Iterable[Mark]) -> dict[tuple[str, int, str], Counter[str]]:
    """By algorithm, replay ratio and task: how many runs are in which state."""
    cells: dict[tuple[str, int, str], Counter[str]] = {}
    for mark in marks:
        cells.setdefault((mark.name, mark.replay_ratio, mark.task), Counter())[mark.state] += 1
    return cells
