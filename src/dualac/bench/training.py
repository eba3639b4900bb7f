"""What training costs end to end, in a run that is thrown away; and several learners side by
side.
"""

import itertools
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any, ClassVar

import numpy as np

from dualac.bench.load import Load
from dualac.envs import Protocol, canonical
from dualac.execution.pinned import answer, ask
from dualac.machine.children import Child
from dualac.machine.cores import own_cores
from dualac.training import loop
from dualac.training.learner import Learner
from dualac.training.presets import find_algorithm
from dualac.training.run import Run, prepare
from dualac.types import Transition

MEASURE = "dualac.bench.learner:measure"
NEVER = 10**9


class Watched(Learner):
    """Looks at the clock: when each step began, and how long it was in the learner's compiled call,
    handing over and waiting.
    """

    began: ClassVar[list[float]] = []
    learning: ClassVar[list[float]] = []

    def explore(self, obs: list[np.ndarray], step: int) -> list[np.ndarray]:
        self.began.append(time.perf_counter())
        return super().explore(obs, step)

    def learn(self, batches: list[Transition], obs: list[np.ndarray], step: int) -> None:
        began = time.perf_counter()
        super().learn(batches, obs, step)
        self.learning.append(time.perf_counter() - began)

    def diverged(self) -> list[int]:
        began = time.perf_counter()
        found = super().diverged()
        self.learning[-1] += time.perf_counter() - began
        return found


def undisturbed(algorithm: str, task: str, *, steps: int, warmup: int, replay_ratio: int) -> Run:
    """A run that neither evaluates, but for once, nor logs or checkpoints while it is timed."""
    rare = {
        "eval_every": NEVER,
        "log_every": NEVER,
        "checkpoint_every": NEVER,
        "protocol": Protocol(eval_episodes=1),
    }
    return Run(
        "timed",
        find_algorithm(algorithm),
        canonical(task),
        steps=steps,
        warmup=warmup,
        replay_ratio=replay_ratio,
        **rare,
    )


def trained(
    algorithm: str, task: str, replay_ratio: int, steps: int, warmup: int = 1_000
) -> dict[str, Any]:
    """Environment steps a second while it learns, and what share of a step is outside the learner's
    compiled call. Once in a process.
    """
    loop.Learner = Watched
    run = undisturbed(
        algorithm, task, steps=warmup + steps, warmup=warmup, replay_ratio=replay_ratio
    )
    with tempfile.TemporaryDirectory() as folder:
        loop.train([prepare(run, Path(folder))], lambda message: None)
    settled = steps // 5  # what comes before is compiling
    paces = [after - before for before, after in itertools.pairwise(Watched.began)][settled:]
    learning = Watched.learning[settled : settled + len(paces)]
    step = median(paces)
    return {
        "algorithm": algorithm,
        ("task"): task,
        "replay_ratio": replay_ratio,
        "threads": len(own_cores()),
        "steps_per_second": 1 / step,
        ("ms_per_step"): 1e3 * step,
        "ms_per_update": 1e3 * median(learning) / replay_ratio,
        "share_outside_the_learner": median(
            1 - learnt / pace for learnt, pace in zip(learning, paces, strict=True)
        ),
    }


def sweep(algorithm: str, load: Load, workers: int, rounds: int = 3) -> dict[str, Any]:
    """Updates a second of one pinned worker, and of several side by side, in turns."""
    alone, together = [], []
    for _ in range(rounds):
        alone.append(1 / _update(algorithm, load, 1))
        begun = [ask(MEASURE, 1, kinds=[(algorithm, load._asdict())]) for _ in range(workers)]
        together.append(sum(1 / _seconds(child) for child in begun))
    one, many = median(alone), median(together)
    about = {"algorithm": algorithm, "replay_ratio": load.replay_ratio, "workers": workers}
    return {
        **about,
        "updates_per_second_of_one": one,
        "updates_per_second_of_all": many,
        "times_one": many / one,
    }


def _update(algorithm: str, load: Load, threads: int) -> float:
    """Seconds of an update, in a process of its own that is pinned to so many cores."""
    return _seconds(ask(MEASURE, threads, kinds=[(algorithm, load._asdict())]))


def _seconds(child: Child) -> float:
    return answer(child)[0]["ms_per_update"] / 1e3
