"""What a session reports while it trains: where each seed is, how fast, and what it has shown."""

import time
from collections import deque
from collections.abc import Iterable
from typing import Any

from dualac.machine.messages import Progress, Report, RunWarning, Stage
from dualac.training.rollout import Rollout

WINDOW = 10.0  # seconds over which speed is measured


class Reporter:
    """The speed of a session and the last metrics of its seeds, as messages."""

    def __init__(self, report: Report) -> None:
        """Call `report` with every message."""
        self._report = report
        self._marks: deque[tuple[float, int]] = deque()
        self._metrics: dict[int, dict[str, Any]] = {}

    def speed(self, step: int) -> float:
        """Return the steps a second at a step that has just been reached."""
        now = time.monotonic()
        self._marks.append((now, step))
        while len(self._marks) > 2 and now - self._marks[1][0] > WINDOW:
            self._marks.popleft()
        then, earlier = self._marks[0]
        return (step - earlier) / (now - then) if now > then else 0.0

    def show(self, index: int, metrics: dict[str, Any], instead_of: str = "") -> None:
        """Have the next messages about a seed carry these metrics.

        If it is named, they stand instead of all whose names begin with `instead_of`.
        """
        kept = self._metrics.get(index, {})
        if instead_of:
            kept = {name: kept[name] for name in kept if not name.startswith(instead_of)}
        self._metrics[index] = kept | metrics

    def report(self, stage: Stage, rollouts: Iterable[tuple[int, Rollout]], step: int) -> None:
        """Report where each seed is."""
        speed = self.speed(step)
        for index, rollout in rollouts:
            run = rollout.run
            # Warm-up is fast and says nothing about the rest.
            learning = step > run.warmup and speed > 0
            self._report(
                Progress(
                    path=str(rollout.path),
                    seed=run.seed,
                    step=step,
                    steps=run.steps,
                    fps=speed,
                    stage=stage,
                    eta=(run.steps - step) / speed if learning else None,
                    metrics=dict(self._metrics.get(index, {})),
                    target_kl=run.algorithm.explorer.kl_target,
                )
            )

    def warn(self, rollout: Rollout, text: str) -> None:
        """Report what is wrong with a seed."""
        self._report(RunWarning(rollout.run.seed, text))
