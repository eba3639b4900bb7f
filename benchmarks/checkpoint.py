"""What checkpoints cost: the share of a run's time spent writing them, and how long a resumed run
takes to be ready.

    taskset -c 0 .venv/bin/python benchmarks/checkpoint.py [TASK] [STEPS]

Trains DAC at replay ratio 2 in this process with a checkpoint every 10,000 steps and times the
calls; then restores the last one into a new session.
"""

import sys
import tempfile
import time
from pathlib import Path

from dualac.agents.algorithms import ALGORITHMS
from dualac.envs import Protocol, canonical
from dualac.training.loop import train
from dualac.training.run import Run, prepare
from dualac.training.session import Session

spent: list[float] = []


def timed_checkpoint(session: Session, write=Session.checkpoint) -> None:
    began = time.perf_counter()
    write(session)
    spent.append(time.perf_counter() - began)


def main() -> None:
    task, steps = (sys.argv[1:] + ["dmc/cheetah-run", "20000"][len(sys.argv) - 1 :])[:2]
    Session.checkpoint = timed_checkpoint
    with tempfile.TemporaryDirectory() as folder:
        run = Run(
            "dac",
            ALGORITHMS["dac"],
            canonical(task),
            steps=int(steps),
            eval_every=10**9,
            protocol=Protocol(eval_episodes=1),
        )
        path = prepare(run, Path(folder))
        began = time.perf_counter()
        train([path], lambda message: None)
        whole = time.perf_counter() - began
        began = time.perf_counter()
        session = Session([path], lambda message: None)
        session.start(allow_inexact=False)
        ready = time.perf_counter() - began
        session.close()
    share = f"{100 * sum(spent) / whole:.2f} % (longest {max(spent):.2f} s)"
    print(
        f"{task}, {steps} steps: {len(spent)} checkpoints took {sum(spent):.2f} s of {whole:.0f} "
        f"s, {share}"
    )
    print(f"resume ready after {ready:.2f} s, reading the replay included")


if __name__ == "__main__":
    main()
