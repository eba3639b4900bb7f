"""What a person sees while runs go on: a live table on a terminal, plain lines elsewhere."""

import math
import time
from pathlib import Path
from typing import Any, NamedTuple, Self

from rich.console import Console
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table

from dualac.analysis.metrics import METRICS
from dualac.machine.messages import Failed, Progress, Retried, RunEvent, RunWarning, Stopping
from dualac.parts.text import format_steps

ENDED = ("done", "interrupted", "failed")
STOPPING = "stopping after this step; press Ctrl-C again to stop at once"
PLAIN_EVERY = 20.0  # seconds between plain lines of one seed, beside its evaluations


class Column(NamedTuple):
    """A logged number: what it is called, where it is logged, how it is written."""

    title: str
    metric: str
    form: str


SHOWN = [metric for metric in METRICS.values() if metric.symbol]
RISK = [Column(metric.symbol, metric.columns[0], metric.form) for metric in SHOWN]
COLUMNS = (
    Column("eval", "eval/mean_reward", "{:.1f}"),
    Column("return", "rollout/ep_rew_mean", "{:.1f}"),
    Column("success", "eval/success_rate", "{:.0%}"),
    *RISK,
    Column("bad", "rollout/bad_transitions", "{:.0f}"),
)
# Columns of the terminal: below WIDE there is no bar, below MEDIUM nothing that the eye can do
# without.
WIDE, MEDIUM = 112, 92


class OnScreen:
    """What is drawn anew in a terminal, and printed a line at a time elsewhere; a context."""

    def __init__(self, console: Console, *, quiet: bool = False) -> None:
        self._console, self._quiet = console, quiet
        self._live: Live | None = None
        if console.is_terminal and not quiet:
            self._live = Live(console=console, auto_refresh=False, transient=False)

    def __enter__(self) -> Self:
        if self._live:
            self._live.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        if self._live:
            self._live.__exit__(*error)


class Display(OnScreen):
    """Shows what is reported of one run or of many."""

    def __init__(self, console: Console, *, quiet: bool = False) -> None:
        super().__init__(console, quiet=quiet)
        self._rows: dict[str, Progress] = {}  # by the path of the run
        self._failed: set[str] = set()
        self._printed: dict[str, float] = {}

    def __call__(self, event: RunEvent) -> None:
        match event:
            case RunWarning(seed, text):
                line = f"warning, seed {seed}: {text}"
                self._console.print(line, markup=False, soft_wrap=True)
            case Failed(path):  # why is said when all have ended
                self._failed.add(path)
                if path in self._rows:
                    self._show(path)
            case Progress():
                self._failed.discard(event.path)
                self._rows[event.path] = event
                self._show(event.path)
            case Stopping():
                self._console.print(STOPPING, soft_wrap=True)
            case Retried():
                pass

    def _show(self, path: str) -> None:
        if self._live:
            self._live.update(self._table(), refresh=True)
        elif not self._quiet and self._worth_a_line(path):
            self._console.print(self._line(path), markup=False, highlight=False, soft_wrap=True)

    def _worth_a_line(self, path: str) -> bool:
        now = time.monotonic()
        recent = now - self._printed.get(path, -math.inf) < PLAIN_EVERY
        if self._state(path) == "progress" and recent:
            return False
        self._printed[path] = now
        return True

    def _state(self, path: str) -> str:
        return "failed" if path in self._failed else self._rows[path].stage

    def _shown(self) -> list[Column]:
        """List the columns that at least one run has: SAC has no KL, most tasks no success."""

        def has(column: Column) -> bool:
            values = [row.metrics.get(column.metric) for row in self._rows.values()]
            return any(value is not None and (value or column.title != "bad") for value in values)

        return [column for column in COLUMNS if has(column)]

    def _name(self, row: Progress) -> str:
        """Name a run by its seed, and by where it is if that differs."""
        homes = {Path(path).parent for path in self._rows}
        return f"seed {row.seed}" if len(homes) == 1 else "/".join(Path(row.path).parts[-4:])

    def _table(self) -> Table:
        table = Table(box=None, pad_edge=False)
        wide = self._console.width >= WIDE
        narrow = self._console.width < MEDIUM
        columns = [one for one in self._shown() if not (narrow and one.title == "return")]
        table.add_column("")
        for title in ([""] if wide else []) + ["step", "steps/s", "left"]:
            table.add_column(title, justify="right", no_wrap=True)
        for column in columns:
            table.add_column(column.title, justify="right", no_wrap=True)
        for path, row in sorted(self._rows.items()):
            bar = [ProgressBar(total=row.steps, completed=row.step, width=16)] if wide else []
            state = self._state(path)
            left = state if state in ENDED else duration(row.eta)
            numbers = [self._cell(column, row) for column in columns]
            table.add_row(self._name(row), *bar, progress(row), f"{row.fps:.0f}", left, *numbers)
        return table

    def _line(self, path: str) -> str:
        row = self._rows[path]
        numbers = [
            f"{column.title} {self._cell(column, row)}"
            for column in self._shown()
            if column.metric in row.metrics
        ]
        words = [self._name(row), f"{self._state(path):<9}", f"step {progress(row)}"]
        words += [f"{row.fps:.0f} steps/s", f"left {duration(row.eta)}"]
        return "  ".join(words + numbers)

    def _cell(self, column: Column, row: Progress) -> str:
        """Write a number; the KL with its target."""
        value = row.metrics.get(column.metric)
        if value is None:
            return "-"
        shows_target = column.metric == "train/kl" and row.target_kl
        return column.form.format(value) + (f"/{row.target_kl:g}" if shows_target else "")


def progress(row: Progress) -> str:
    return f"{format_steps(row.step)}/{format_steps(row.steps)}"


def duration(seconds: float | None) -> str:
    if seconds is None:
        return "-"
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
