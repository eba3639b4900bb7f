"""Where an environment step's time goes beside its updates: microseconds of each thing that the loop does between two calls of the learner.

    taskset -c 0 .venv/bin/python benchmarks/step.py [dac] [dmc/cheetah-run] [--replay-ratio 2]

Of each an eighth of its calls are faster than what is told here: a busy machine counts much like an idle one.
"""

import argparse
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

from dualac import envs
from dualac.api import find_algorithm
from dualac.training import learner, loop, machine, member, replay
from dualac.training.run import Run, prepare

STEPS, WARMUP = 1_500, 500
PARTS: tuple[tuple[str, type, str], ...] = (
    ("an action", learner.Learner, "explore"),
    ("the environment, and storing what it answered", member.Member, "step"),
    ("drawing the minibatches", replay.Replay, "sample"),
    ("the updates: handing them over", learner.Learner, "learn"),
    ("the updates: waiting for them", learner.Learner, "diverged"),
)


@contextmanager
def watched() -> Iterator[dict[str, list[float]]]:
    """Seconds of each call of each part, in order."""
    times: dict[str, list[float]] = defaultdict(list)

    def timed(name: str, function: Callable) -> Callable:
        def call(*args: Any, **words: Any) -> Any:
            began = time.perf_counter()
            try:
                return function(*args, **words)
            finally:
                times[name].append(time.perf_counter() - began)

        return call

    patches = [mock.patch.object(owner, method, timed(name, getattr(owner, method))) for name, owner, method in PARTS]
    for patch in patches:
        patch.start()
    yield times
    for patch in patches:
        patch.stop()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("algorithm", nargs="?", default="dac")
    parser.add_argument("task", nargs="?", default="dmc/cheetah-run")
    parser.add_argument("--replay-ratio", type=int, default=2)
    asked = parser.parse_args()
    machine.pin(1)
    rare = {"eval_every": 10**9, "log_every": 10**9, "checkpoint_every": 10**9, "protocol": envs.Protocol(eval_episodes=1)}
    run = Run(
        "timed", find_algorithm(asked.algorithm), envs.canonical(asked.task), steps=STEPS, warmup=WARMUP, replay_ratio=asked.replay_ratio, **rare
    )
    whole: list[float] = []

    def beat(self: Any) -> Iterator[int]:
        before = time.perf_counter()
        for step in steps(self):
            whole.append(time.perf_counter() - before)
            yield step
            before = time.perf_counter()

    steps = loop.Session.steps
    with tempfile.TemporaryDirectory() as out, watched() as times, mock.patch.object(loop.Session, "steps", beat):
        loop.train([prepare(run, Path(out))], lambda message: None)
    found = {name: low(seconds) for name, seconds in times.items()}
    step = low(whole)
    for name, _, _ in PARTS:
        print(f"{name:46} {found[name]:9.1f} us")
    print(f"{'all else':46} {step - sum(found.values()):9.1f} us")
    print(f"{'a step':46} {step:9.1f} us, {1 - (found[PARTS[3][0]] + found[PARTS[4][0]]) / step:.1%} of it beside the updates")


def low(seconds: list[float]) -> float:
    """Once it learns, and is compiled."""
    settled = sorted(seconds[-(STEPS - WARMUP - 100) : -1])
    return 1e6 * settled[len(settled) // 8]


if __name__ == "__main__":
    main()
