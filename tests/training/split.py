"""Learns a little, its minibatches split over as many devices as it is told, and writes down the agents it comes to.

python split.py CORES FILE ALGORITHM...
"""

import sys

import jax
import numpy as np
import safetensors.numpy
from tests.training.runs import a_run

from dualac.training import machine
from dualac.training.learner import Learner
from dualac.types import Spec, Transition


def learned(name: str) -> dict[str, np.ndarray]:
    learner = Learner([a_run(name)], Spec(3, 2))
    draw = np.random.default_rng(0)
    for step in range(10, 14):
        shapes = [(2, 8, 3), (2, 8, 2), (2, 8), (2, 8), (2, 8, 3)]
        batch = Transition._make(np.tanh(draw.normal(size=shape)).astype(np.float32) for shape in shapes)
        learner.learn([batch], [np.ones(3, np.float32)], step)
        learner.hear([float(step)], step)
    learner.explore([np.ones(3, np.float32)], 14)
    assert learner.diverged() == []
    return learner.save(0)


if __name__ == "__main__":
    machine.pin(1)
    cores, file, *names = sys.argv[1:]
    jax.config.update("jax_num_cpu_devices", int(cores))
    assert jax.local_device_count() == int(cores)
    safetensors.numpy.save_file({f"{name}/{leaf}": array for name in names for leaf, array in learned(name).items()}, file)
