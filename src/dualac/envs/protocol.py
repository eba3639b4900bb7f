"""The rules of an episode that are ours to choose, stored with every run: two runs compare only if these are equal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from dualac.errors import UsageError


@final
@dataclass(frozen=True)
class Protocol:
    """How a task is played, beyond what the task itself says."""

    time_limit: int = 0  # cap on an episode's steps, on top of the task's own; 0 = the task's own

    def __post_init__(self) -> None:
        if not isinstance(self.time_limit, int) or isinstance(self.time_limit, bool) or self.time_limit < 0:
            raise UsageError(f"time limit {self.time_limit!r}: give a number of steps, or 0 for the task's own limit")
