"""What training costs end to end, and what several learners do side by side."""

import itertools
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from dualac.bench.load import Load
from dualac.envs import Protocol, canonical
from dualac.execution.pinned import answer, ask
from dualac.machine.children import Child
from dualac.machine.cores import own_cores
from dualac.training.learner import Learner
from dualac.training.loop import train
from dualac.training.presets import find_algorithm
from dualac.training.run import Run, prepare
from dualac.types import Spec, Transition

MEASURE = "dualac.bench.learner:measure"
NEVER = 10**9


class TimedLearner(Learner):
    """A learner that notes when each step began, and its seconds in the compiled update."""

    def __init__(self, runs: list[Run], spec: Spec) -> None:
        super().__init__(runs, spec)
        self.began: list[float] = []
        self.learning: list[float] = []

    def explore(self, obs: list[np.ndarray], episodes: list[int], step: int) -> list[np.ndarray]:
        self.began.append(time.perf_counter())
        return super().explore(obs, episodes, step)

    def learn(self, batches: list[Transition], step: int) -> None:
        began = time.perf_counter()
        super().learn(batches, step)
        self.learning.append(time.perf_counter() - began)

    def diverged(self) -> list[int]:
        """Wait for the updates, which belongs to the seconds of learning."""
        began = time.perf_counter()
        diverged = super().diverged()
        self.learning[-1] += time.perf_counter() - began
        return diverged


def undisturbed(algorithm: str, task: str, *, steps: int, warmup: int, replay_ratio: int) -> Run:
    """Return a run that is not disturbed by evaluations, logs or checkpoints while it is timed."""
    row, task = find_algorithm(algorithm), canonical(task)
    lengths: dict[str, Any] = {"steps": steps, "warmup": warmup, "replay_ratio": replay_ratio}
    rare: dict[str, Any] = dict.fromkeys(("eval_every", "log_every", "checkpoint_every"), NEVER)
    return Run("timed", row, task, **lengths, **rare, protocol=Protocol(eval_episodes=1))


def trained(
    algorithm: str, task: str, replay_ratio: int, steps: int, warmup: int = 1_000
) -> dict[str, Any]:
    """Measure steps a second, and the share of a step outside the learner's compiled call."""
    learners: list[TimedLearner] = []

    def make_learner(runs: list[Run], spec: Spec) -> TimedLearner:
        learners.append(TimedLearner(runs, spec))
        return learners[0]

    run = undisturbed(
        algorithm, task, steps=warmup + steps, warmup=warmup, replay_ratio=replay_ratio
    )
    with tempfile.TemporaryDirectory() as folder:
        train([prepare(run, Path(folder))], lambda message: None, make_learner=make_learner)
    (learner,) = learners
    settled = steps // 5  # what comes before is compiling
    paces = [after - before for before, after in itertools.pairwise(learner.began)][settled:]
    learning = learner.learning[settled : settled + len(paces)]
    step = median(paces)
    outside = [1 - learnt / pace for learnt, pace in zip(learning, paces, strict=True)]
    return {
        "algorithm": algorithm,
        "task": task,
        "replay_ratio": replay_ratio,
        "threads": len(own_cores()),
        "steps_per_second": 1 / step,
        "ms_per_step": 1e3 * step,
        "ms_per_update": 1e3 * median(learning) / replay_ratio,
        "share_outside_the_learner": median(outside),
    }


def sweep(algorithm: str, load: Load, workers: int, rounds: int = 3) -> dict[str, Any]:
    """Measure updates a second of one pinned worker, and of several side by side, in turns."""
    alone, together = [], []
    for _ in range(rounds):
        alone.append(1 / _update(algorithm, load, 1))
        begun = [ask(MEASURE, 1, kinds=[(algorithm, load._asdict())]) for _ in range(workers)]
        together.append(sum(1 / _seconds(child) for child in begun))
    one, many = median(alone), median(together)
    return {
        "algorithm": algorithm,
        "replay_ratio": load.replay_ratio,
        "workers": workers,
        "updates_per_second_of_one": one,
        "updates_per_second_of_all": many,
        "times_one": many / one,
    }


def _update(algorithm: str, load: Load, threads: int) -> float:
    """Measure the seconds of an update in a process that is pinned to so many cores."""
    return _seconds(ask(MEASURE, threads, kinds=[(algorithm, load._asdict())]))


def _seconds(child: Child) -> float:
    return answer(child)[0]["ms_per_update"] / 1e3
