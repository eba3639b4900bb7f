"""A sweep as a person sees it: how much is done, what runs now, what went wrong."""

import math
import time
from collections import Counter
from pathlib import Path
from typing import Any

from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from dualac.cli.progress import OnScreen, duration, short
from dualac.experiments.survey import Unit
from dualac.parts.text import one_line

PLAIN_EVERY = 60.0  # seconds between two lines where there is no terminal
MOST_LINES = 20  # of runs under way
ENDED = ("done", "interrupted")
STATES = ("done", "running", "failed", "waiting")


class Watch(OnScreen):
    """Hears the workers of a sweep."""

    def __init__(self, console: Console, units: list[Unit], *, quiet: bool = False) -> None:
        super().__init__(console, quiet=quiet)
        self._units = {str(unit.path): unit for unit in units}
        self._done = {str(unit.path) for unit in units if unit.state == "done"}
        self._failed = {str(unit.path): unit.reason for unit in units if unit.state == "failed"}
        self._running: dict[str, dict[str, Any]] = {}
        self._printed = -math.inf

    def __call__(self, message: dict[str, Any]) -> None:
        path = message.get("path", "")
        if message["kind"] == "warning":
            return  # in the run's events; `dualac status` shows how many
        if message["kind"] == "retried":
            self._running.pop(path, None)
            self._say(f"attempt {message['attempt']} ended: {message['text']}; begun again")
            return
        if message["kind"] == "failed":
            self._running.pop(path, None)
            self._failed |= {path: message["text"]} if message["final"] else {}
            self._say(
                f"{'set aside' if message['final'] else 'stopped':<11} {self._name(path)}: "
                f"{one_line(message['text'])}"
            )
        elif message["kind"] in ENDED:
            self._running.pop(path, None)
            self._done |= {path} if message["kind"] == "done" else set()
            self._say(f"{message['kind']:<11} {self._name(path)}  {self._score(message)}")
        else:
            self._running[path] = {**self._running.get(path, {}), **message}
        if self._live:
            self._live.update(self._view(), refresh=True)
        elif not self._quiet and time.monotonic() - self._printed > PLAIN_EVERY:
            self._printed = time.monotonic()
            self._console.print(self._headline(), soft_wrap=True)

    def _say(self, line: str) -> None:
        if not self._quiet:
            self._console.print(line, soft_wrap=True)

    def _view(self) -> Group:
        table = Table(box=None, pad_edge=False)
        for title in ("running", "step", "steps/s", "eval"):
            table.add_column(title, justify="left" if title == "running" else "right", no_wrap=True)
        lines = min(MOST_LINES, self._console.height // 2)
        for path, told in sorted(self._running.items())[:lines]:
            if "step" in told:
                table.add_row(
                    self._name(path),
                    f"{short(told['step'])}/{short(told['steps'])}",
                    f"{told['fps']:.0f}",
                    self._score(told),
                )
            else:
                table.add_row(self._name(path), "", "", "")
        room = (
            self._console.height - min(len(self._running), lines) - 4
        )  # of the terminal, beside the headline, two rows of titles and the cursor
        return Group(Text(self._headline()), self._grid(max(room, 1)), table)

    def _grid(self, room: int) -> Table:
        """How many runs are in which state, by agent and task; where that does not fit, by agent;
        what still does not is counted.
        """
        cells: dict[tuple[str, str, str], Counter[str]] = {}
        for path, unit in self._units.items():
            cells.setdefault((unit.run.name, str(unit.run.replay_ratio), unit.run.task), Counter())[
                self._state(path)
            ] += 1
        if len(cells) > room:
            tasks = Counter((name, ratio) for name, ratio, _ in cells)
            whole: dict[tuple[str, str, str], Counter[str]] = {}
            for (name, ratio, _), cell in cells.items():
                whole.setdefault((name, ratio, f"{tasks[name, ratio]} tasks"), Counter()).update(
                    cell
                )
            cells = whole
        table = Table(box=None, pad_edge=False)
        for title in ("algorithm", "rr", "task", *STATES):
            table.add_column(
                title, justify="left" if title in ("algorithm", "task") else "right", no_wrap=True
            )
        shown = list(cells.items())[: room if len(cells) <= room else room - 1]
        for names, cell in shown:
            table.add_row(*names, *(str(cell[state] or "") for state in STATES))
        if len(shown) < len(cells):
            table.add_row(f"and {len(cells) - len(shown)} more")
        return table

    def _state(self, path: str) -> str:
        for state, having in (
            ("done", self._done),
            ("failed", self._failed),
            ("running", self._running),
        ):
            if path in having:
                return state
        return "waiting"

    def _headline(self) -> str:
        left = len(self._units) - len(self._done) - len(self._failed) - len(self._running)
        parts = [
            f"{len(self._done)} of {len(self._units)} done",
            f"{len(self._running)} running",
            f"{left} waiting",
        ]
        parts += [f"{len(self._failed)} failed"] if self._failed else []
        speed = sum(told.get("fps", 0.0) for told in self._running.values())
        return ", ".join(parts) + (
            f"; {speed:.0f} steps/s, about {duration(self._left())} left" if speed else ""
        )

    def _left(self) -> float | None:
        """Seconds, counted in updates: runs of another replay ratio take another time a step."""
        pace = sum(
            told.get("fps", 0.0) * self._units[path].run.replay_ratio
            for path, told in self._running.items()
            if path in self._units
        )
        todo = 0.0
        for path, unit in self._units.items():
            if path not in self._done and path not in self._failed:
                step = self._running.get(path, {}).get("step", unit.step)
                todo += (unit.run.steps - step) * unit.run.replay_ratio
        return todo / pace if pace else None

    def _score(self, told: dict[str, Any]) -> str:
        value = told.get("metrics", {}).get("eval/mean_reward")
        return "" if value is None else f"{value:.1f}"

    def _name(self, path: str) -> str:
        unit = self._units.get(path)
        return (
            f"{unit.run.name} {unit.run.task} rr{unit.run.replay_ratio} seed {unit.run.seed}"
            if unit
            else "/".join(Path(path).parts[-4:])
        )
