"""A sweep as a person sees it: how much is done, what runs now, what went wrong."""

import math
import time
from collections import Counter
from pathlib import Path

from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from dualac.cli.progress import STOPPING, OnScreen, duration, progress
from dualac.experiments.survey import Unit
from dualac.machine.messages import Failed, Progress, Retried, RunEvent, RunWarning, Stopping
from dualac.parts.text import one_line

PLAIN_EVERY = 60.0  # seconds between two lines where there is no terminal
MOST_LINES = 20  # of runs under way
STATES = ("done", "running", "failed", "waiting")

# Of an agent, a replay ratio and a task: how many runs are in each state.
Cells = dict[tuple[str, str, str], Counter[str]]


class Watch(OnScreen):
    """Shows what is reported of the runs of a sweep."""

    def __init__(self, console: Console, units: list[Unit], *, quiet: bool = False) -> None:
        super().__init__(console, quiet=quiet)
        self._units = {str(unit.path): unit for unit in units}
        self._done = {str(unit.path) for unit in units if unit.state == "done"}
        self._failed = {str(unit.path): unit.reason for unit in units if unit.state == "failed"}
        self._running: dict[str, Progress] = {}
        self._printed = -math.inf

    def __call__(self, event: RunEvent) -> None:
        match event:
            case Stopping():
                self._console.print(STOPPING, soft_wrap=True)
                return
            case RunWarning():
                return  # in the run's events; `dualac status` shows how many
            case Retried(path, attempt, text):
                self._running.pop(path, None)
                self._say(f"attempt {attempt} ended: {text}; begun again")
                return
            case Failed(path, text, final):
                self._running.pop(path, None)
                if final:
                    self._failed[path] = text
                outcome = "set aside" if final else "stopped"
                self._say(f"{outcome:<11} {self._name(path)}: {one_line(text)}")
            case Progress(stage="done" | "interrupted"):
                self._running.pop(event.path, None)
                if event.stage == "done":
                    self._done.add(event.path)
                self._say(f"{event.stage:<11} {self._name(event.path)}  {self._score(event)}")
            case Progress():
                self._running[event.path] = event
        self._refresh()

    def _refresh(self) -> None:
        if self._live:
            self._live.update(self.view(), refresh=True)
        elif not self._quiet and time.monotonic() - self._printed > PLAIN_EVERY:
            self._printed = time.monotonic()
            self._console.print(self._headline(), soft_wrap=True)

    def _say(self, line: str) -> None:
        if not self._quiet:
            self._console.print(line, soft_wrap=True)

    def view(self) -> Group:
        table = Table(box=None, pad_edge=False)
        for title in ("running", "step", "steps/s", "eval"):
            table.add_column(title, justify="left" if title == "running" else "right", no_wrap=True)
        lines = min(MOST_LINES, self._console.height // 2)
        for path, row in sorted(self._running.items())[:lines]:
            table.add_row(self._name(path), progress(row), f"{row.fps:.0f}", self._score(row))
        # What the terminal has beside the headline, two rows of titles and the cursor.
        room = self._console.height - min(len(self._running), lines) - 4
        return Group(Text(self._headline()), self._grid(max(room, 1)), table)

    def _grid(self, room: int) -> Table:
        """Count the runs of each state, by agent and task, or by agent where that does not fit."""
        cells = self._count_by_task()
        if len(cells) > room:
            cells = _merge_tasks(cells)
        table = Table(box=None, pad_edge=False)
        for title in ("algorithm", "rr", "task", *STATES):
            side = "left" if title in ("algorithm", "task") else "right"
            table.add_column(title, justify=side, no_wrap=True)
        shown = list(cells.items())[: room if len(cells) <= room else room - 1]
        for names, counts in shown:
            table.add_row(*names, *(str(counts[state] or "") for state in STATES))
        if len(shown) < len(cells):
            table.add_row(f"and {len(cells) - len(shown)} more")
        return table

    def _count_by_task(self) -> Cells:
        cells: Cells = {}
        for path, unit in self._units.items():
            names = (unit.run.name, str(unit.run.replay_ratio), unit.run.task)
            cells.setdefault(names, Counter())[self._state(path)] += 1
        return cells

    def _state(self, path: str) -> str:
        if path in self._done:
            return "done"
        if path in self._failed:
            return "failed"
        return "running" if path in self._running else "waiting"

    def _headline(self) -> str:
        waiting = len(self._units) - len(self._done) - len(self._failed) - len(self._running)
        parts = [
            f"{len(self._done)} of {len(self._units)} done",
            f"{len(self._running)} running",
            f"{waiting} waiting",
        ]
        if self._failed:
            parts.append(f"{len(self._failed)} failed")
        speed = sum(row.fps for row in self._running.values())
        left = f"; {speed:.0f} steps/s, about {duration(self._left())} left" if speed else ""
        return ", ".join(parts) + left

    def _left(self) -> float | None:
        """Estimate the seconds left from the updates left: a step's time depends on its updates."""
        pace, updates = 0.0, 0.0
        for path, unit in self._units.items():
            if path in self._done or path in self._failed:
                continue
            row = self._running.get(path)
            step = row.step if row else unit.step
            pace += row.fps * unit.run.replay_ratio if row else 0.0
            updates += (unit.run.steps - step) * unit.run.replay_ratio
        return updates / pace if pace else None

    def _score(self, row: Progress) -> str:
        value = row.metrics.get("eval/mean_reward")
        return "" if value is None else f"{value:.1f}"

    def _name(self, path: str) -> str:
        unit = self._units.get(path)
        if unit is None:
            return "/".join(Path(path).parts[-4:])
        return f"{unit.run.name} {unit.run.task} rr{unit.run.replay_ratio} seed {unit.run.seed}"


def _merge_tasks(cells: Cells) -> Cells:
    tasks = Counter((name, ratio) for name, ratio, _ in cells)
    merged: Cells = {}
    for (name, ratio, _), counts in cells.items():
        names = (name, ratio, f"{tasks[name, ratio]} tasks")
        merged.setdefault(names, Counter()).update(counts)
    return merged
