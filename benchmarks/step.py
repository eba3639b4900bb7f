"""Where an environment step's time goes beside its updates: microseconds of each thing that the
loop does between two calls of the learner.

taskset -c 0 .venv/bin/python benchmarks/step.py [dac] [dmc/cheetah-run] [--replay-ratio 2]
[--threads 1]

Of each an eighth of its calls are faster than what is printed here: a busy machine counts much like
an idle one.
"""

import argparse
import contextlib
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

from dualac.bench.training import undisturbed
from dualac.machine.cores import pin
from dualac.runs.lock import owned
from dualac.training.learner import Learner
from dualac.training.loop import steps
from dualac.training.replay import Replay
from dualac.training.rollout import Rollout
from dualac.training.run import prepare
from dualac.training.session import Session

STEPS, WARMUP, SETTLED = 1_500, 500, 900  # of which so many at the end are counted
PARTS: tuple[tuple[str, type, str], ...] = (
    ("an action", Learner, "explore"),
    ("the environment, and storing what it answered", Rollout, "step"),
    ("drawing the minibatches", Replay, "sample"),
    ("the updates: handing them over", Learner, "learn"),
    ("the updates: waiting for them", Learner, "diverged"),
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

    patches = [
        mock.patch.object(owner, method, timed(name, getattr(owner, method)))
        for name, owner, method in PARTS
    ]
    for patch in patches:
        patch.start()
    yield times
    for patch in patches:
        patch.stop()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("algorithm", nargs="?", default="dac")
    parser.add_argument("task", nargs="?", default="dmc/cheetah-run")
    parser.add_argument("--replay-ratio", type=int, default=2)
    parser.add_argument("--threads", type=int, default=1)
    asked = parser.parse_args()
    pin(asked.threads)
    run = undisturbed(
        asked.algorithm, asked.task, steps=STEPS, warmup=WARMUP, replay_ratio=asked.replay_ratio
    )
    whole: list[float] = []

    with tempfile.TemporaryDirectory() as out, watched() as times:
        path = prepare(run, Path(out))
        session = Session([path], lambda message: None)
        with owned(path), contextlib.closing(session):
            session.start(allow_inexact=False)
            before = time.perf_counter()
            for _ in steps(session):
                whole.append(time.perf_counter() - before)
                before = time.perf_counter()
    parts = {name: times[name][-SETTLED:-1] for name, _, _ in PARTS}
    beside = [
        step - sum(known) for step, *known in zip(whole[-SETTLED:-1], *parts.values(), strict=True)
    ]
    for name, seconds in {**parts, "all else": beside, "a step": whole[-SETTLED:-1]}.items():
        print(f"{name:46} {1e6 * sorted(seconds)[len(seconds) // 8]:9.1f} us")
    learning = [sum(each) for each in zip(*list(parts.values())[-2:], strict=True)]
    share = sorted(
        1 - updates / step for updates, step in zip(learning, whole[-SETTLED:-1], strict=True)
    )
    print(f"beside the updates: {share[len(share) // 2]:.1%} of a step, the median of all steps")


if __name__ == "__main__":
    main()
