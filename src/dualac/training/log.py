"""What a run writes down as it goes: JSON lines, and TensorBoard files if asked."""

import json
import math
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dualac.errors import DataError, UsageError

REWOUND = (
    "eval.jsonl",
    "train.jsonl",
)  # a resumed run writes these rows again; events stay as history


class Log:
    """The three files of a run. A checkpoint remembers how long the first two were, so that a
    resumed run has each row exactly once.
    """

    def __init__(
        self, path: Path, permit: Callable[[], None], *, tensorboard: bool = False
    ) -> None:
        """`permit` is asked before each row, and raises where this process may no longer write."""
        self.path = path
        self._permit = permit
        self._files = {name: (path / name).open("a") for name in (*REWOUND, "events.jsonl")}
        self._tensorboard = tensorboard
        self._writer: Any = None

    def evaluation(self, rows: list[dict[str, Any]], summary: dict[str, float], step: int) -> None:
        for row in rows:
            self._append("eval.jsonl", row)
        self._scalars(summary, step)

    def training(self, row: dict[str, Any], step: int) -> None:
        self._append("train.jsonl", {"step": step, **row})
        self._scalars(row, step)

    def event(self, kind: str, step: int, **facts: Any) -> None:
        self._append(
            "events.jsonl",
            {"event": kind, "step": step, "time": time.strftime("%Y-%m-%dT%H:%M:%S%z"), **facts},
        )

    def last_event(self, *kinds: str) -> str | None:
        """Which of these events came last, if any; a line that a kill cut short is none."""
        lines = [
            line
            for line in (self.path / "events.jsonl").read_text().splitlines()
            if line.endswith("}")
        ]
        return next(
            (
                event
                for event in (json.loads(line)["event"] for line in reversed(lines))
                if event in kinds
            ),
            None,
        )

    def positions(self) -> dict[str, int]:
        """How long the files are, once they are safely on disk."""
        for name in REWOUND:
            os.fsync(self._files[name].fileno())
        return {name: self._files[name].tell() for name in REWOUND}

    def rewind(self, positions: dict[str, int], step: int = 0) -> None:
        """As they were at a checkpoint, from which every start goes on; TensorBoard is told to
        forget what came after its step.
        """
        if self._tensorboard:
            self._writer = _tensorboard(self.path, step + 1)
        for name in REWOUND:
            length, file = positions.get(name, 0), self._files[name]
            if (self.path / name).stat().st_size < length:
                raise DataError(
                    f"{self.path / name} is shorter than when the checkpoint was written"
                )
            file.truncate(length)
            file.seek(length)

    def close(self) -> None:
        for file in self._files.values():
            file.close()
        if self._writer:
            self._writer.close()

    def _append(self, name: str, row: dict[str, Any]) -> None:
        self._permit()
        self._files[name].write(json.dumps(_plain(row), allow_nan=False) + "\n")
        self._files[name].flush()

    def _scalars(self, row: dict[str, Any], step: int) -> None:
        if self._writer:
            for name, value in row.items():
                if isinstance(value, int | float):
                    self._writer.add_scalar(name, value, step)


def _plain(value: Any) -> Any:
    """JSON has no NaN: what is not finite is null."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _tensorboard(path: Path, purge_step: int) -> Any:
    try:
        from tensorboardX import SummaryWriter
    except ImportError:
        raise UsageError(
            "--tensorboard needs tensorboardX: pip install 'dualac[tensorboard]'"
        ) from None
    return SummaryWriter(str(path / "tensorboard"), purge_step=purge_step)
