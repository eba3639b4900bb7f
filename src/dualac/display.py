"""What a person sees while runs go on: a live table on a terminal, plain lines elsewhere."""

import math
import time
from types import TracebackType
from typing import Any, NamedTuple

from rich.console import Console
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table

PLAIN_EVERY = 20.0  # seconds between plain lines of one seed, beside its evaluations


class Column(NamedTuple):
    """A number of the risk story: what it is called, where it is logged, how it is written."""

    title: str
    metric: str
    form: str


COLUMNS = (
    Column("eval", "eval/mean_reward", "{:.1f}"),
    Column("return", "rollout/ep_rew_mean", "{:.1f}"),
    Column("success", "eval/success_rate", "{:.0%}"),
    Column("KL", "train/kl", "{:.3f}"),
    Column("beta_o", "train/optimism", "{:.2f}"),
    Column("KL weight", "train/kl_weight", "{:.3f}"),
    Column("alpha", "train/ent_coef", "{:.3f}"),
)


class Display:
    """Takes the loop's reports; use it as a context."""

    def __init__(self, console: Console, target_kl: float | None = None, *, quiet: bool = False) -> None:
        self._console, self._target, self._quiet = console, target_kl, quiet
        self._rows: dict[int, dict[str, Any]] = {}
        self._printed: dict[int, float] = {}
        self._live = Live(console=console, auto_refresh=False, transient=False) if console.is_terminal and not quiet else None

    def __enter__(self) -> "Display":
        if self._live:
            self._live.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._live:
            self._live.__exit__(kind, error, trace)

    def __call__(self, message: dict[str, Any]) -> None:
        if message["kind"] == "warning":
            self._console.print(f"warning, seed {message['seed']}: {message['text']}", markup=False, soft_wrap=True)
            return
        self._rows[message["seed"]] = message
        if self._live:
            self._live.update(self._table(), refresh=True)
        elif not self._quiet and self._worth_a_line(message):
            self._console.print(self._line(message), markup=False, highlight=False, soft_wrap=True)

    def _worth_a_line(self, message: dict[str, Any]) -> bool:
        seed, now = message["seed"], time.monotonic()
        if message["kind"] == "progress" and now - self._printed.get(seed, -math.inf) < PLAIN_EVERY:
            return False
        self._printed[seed] = now
        return True

    def _shown(self) -> list[Column]:
        """Only what at least one run has: SAC has no KL, most tasks no success."""
        return [column for column in COLUMNS if any(column.metric in row["metrics"] for row in self._rows.values())]

    def _table(self) -> Table:
        table = Table(box=None, pad_edge=False)
        for title in ("seed", "", "step", "steps/s", "left"):
            table.add_column(title, justify="right")
        for column in self._shown():
            table.add_column(column.title + (f" ({self._target:g})" if column.metric == "train/kl" and self._target else ""), justify="right")
        for seed, row in sorted(self._rows.items()):
            bar = ProgressBar(total=row["steps"], completed=row["step"], width=16)
            left = row["kind"] if row["kind"] in ("done", "interrupted") else duration(row["eta"])
            cells = [column.form.format(row["metrics"][column.metric]) if column.metric in row["metrics"] else "-" for column in self._shown()]
            table.add_row(str(seed), bar, f"{short(row['step'])}/{short(row['steps'])}", f"{row['fps']:.0f}", left, *cells)
        return table

    def _line(self, row: dict[str, Any]) -> str:
        numbers = []
        for column in COLUMNS:
            if column.metric in row["metrics"]:
                target = f"/{self._target:g}" if column.metric == "train/kl" and self._target else ""
                numbers.append(f"{column.title} {column.form.format(row['metrics'][column.metric])}{target}")
        step = f"step {short(row['step'])}/{short(row['steps'])}"
        return "  ".join([f"seed {row['seed']}", f"{row['kind']:<9}", step, f"{row['fps']:.0f} steps/s", f"left {duration(row['eta'])}", *numbers])


def short(number: int) -> str:
    """12400 as 12.4k."""
    for scale, letter in ((1_000_000, "M"), (1_000, "k")):
        if number >= scale:
            return f"{number / scale:.4g}{letter}"
    return str(number)


def duration(seconds: float | None) -> str:
    if seconds is None:
        return "-"
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
