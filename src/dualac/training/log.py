"""What a run writes down as it goes: JSON lines, and TensorBoard files if asked."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dualac.errors import UsageError
from dualac.runs.layout import EVALUATIONS, EVENTS, TENSORBOARD, TRAINING
from dualac.runs.rows import RowWriter, read_rows

REWOUND = (EVALUATIONS, TRAINING)  # a resumed run writes these rows again; events stay as history


class Log:
    """The three files of a run.

    A checkpoint remembers how long the first two were, so that a resumed run has each row exactly
    once.
    """

    def __init__(
        self, path: Path, permit: Callable[[], None], *, tensorboard: bool = False
    ) -> None:
        """Open the files. `permit` is called before each row, and raises where this process may no
        longer write. A row that was permitted just before a later attempt began goes into a file
        that the attempt has put a copy in the place of: nobody reads it.
        """
        self.path = path
        self._tensorboard = tensorboard
        self._writer: Any = None
        self._files: dict[str, RowWriter] = {}
        try:
            for name in (*REWOUND, EVENTS):
                self._files[name] = RowWriter(path / name, permit)
        except BaseException:
            self.close()
            raise

    def evaluation(self, rows: list[dict[str, Any]], summary: dict[str, float], step: int) -> None:
        for row in rows:
            self._append(EVALUATIONS, row)
        self._scalars(summary, step)

    def training(self, row: dict[str, Any], step: int) -> None:
        self._append(TRAINING, {"step": step, **row})
        self._scalars(row, step)

    def event(self, kind: str, step: int, **facts: Any) -> None:
        now = time.strftime("%Y-%m-%dT%H:%M:%S%z")
        self._append(EVENTS, {"event": kind, "step": step, "time": now, **facts})

    def last_event(self, *kinds: str) -> str | None:
        """Return which of these events came last, if any."""
        for row in reversed(read_rows(self.path / EVENTS, [])):
            if row.get("event") in kinds:
                return row["event"]
        return None

    def positions(self) -> dict[str, int]:
        """Return how long the files are, once they are safely on disk."""
        return {name: self._files[name].position() for name in REWOUND}

    def digests(self) -> dict[str, str]:
        """Return the SHA-256 of the files."""
        return {name: self._files[name].digest() for name in REWOUND}

    def rewind(
        self, positions: dict[str, int], step: int = 0, digests: dict[str, str] | None = None
    ) -> None:
        """Cut the files back to what they were at a checkpoint, from which every start goes on.

        They must still begin with what had these digests, which older versions did not keep.
        TensorBoard forgets what came after the checkpoint's step.
        """
        for name in REWOUND:
            self._files[name].require(positions.get(name, 0), (digests or {}).get(name))
        if self._tensorboard:
            self._writer = _tensorboard(self.path, step + 1)
        for name in REWOUND:
            self._files[name].rewind(positions.get(name, 0))

    def close(self) -> None:
        for file in self._files.values():
            file.close()
        if self._writer:
            self._writer.close()

    def _append(self, name: str, row: dict[str, Any]) -> None:
        self._files[name].append(row)

    def _scalars(self, row: dict[str, Any], step: int) -> None:
        if self._writer:
            for name, value in row.items():
                if isinstance(value, int | float):
                    self._writer.add_scalar(name, value, step)


def _tensorboard(path: Path, purge_step: int) -> Any:
    try:
        from tensorboardX import SummaryWriter
    except ImportError:
        raise UsageError(
            "--tensorboard needs tensorboardX: pip install 'dualac[tensorboard]'"
        ) from None
    return SummaryWriter(str(path / TENSORBOARD), purge_step=purge_step)
