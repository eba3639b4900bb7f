"""A short training with several threads on one core, which writes the agent that it comes to.

python -m tests.support.helped THREADS FILE ALGORITHM
"""

import sys

import numpy as np
import safetensors.numpy
from tests.support.runs import a_run

from dualac import ops
from dualac.machine.cores import _helping, pin, usable_cores
from dualac.parts.paths import options, replaced
from dualac.training.learner import Learner
from dualac.types import Spec, Transition


def learned(name: str) -> dict[str, np.ndarray]:
    run = a_run(name, batch_size=256)
    # Wide, so that there is something to share.
    wide = {option.path: (64, 64) for option in options(run) if option.path.endswith(".hidden")}
    learner = Learner([replaced(run, wide)], Spec(3, 2))
    draw = np.random.default_rng(0)
    for step in range(10, 14):
        shapes = [(2, 256, 3), (2, 256, 2), (2, 256), (2, 256), (2, 256, 3)]
        batch = Transition._make(
            np.tanh(draw.normal(size=shape)).astype(np.float32) for shape in shapes
        )
        learner.learn([batch], step)
        learner.observe_return([float(step)], step)
    learner.explore([np.ones(3, np.float32)], [0], 14)
    assert learner.diverged() == []
    return learner.save(0)


if __name__ == "__main__":
    threads, file, name = sys.argv[1:]
    pin(1)
    _helping[:] = usable_cores() * (int(threads) - 1)
    safetensors.numpy.save_file(learned(name), file)
    print("helped" if ops.uses_native() else "by XLA")
