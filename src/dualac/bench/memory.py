"""What a run holds in memory: two simulators of its task, a full replay, a learner, a few updates; the most the process ever had."""

from pathlib import Path
from typing import Any

import numpy as np

from dualac.api import find_algorithm
from dualac.training.guarded import Guarded
from dualac.training.learner import Learner
from dualac.training.replay import Replay, replay_bytes
from dualac.training.run import Run
from dualac.types import Spec

BLOCK = 10_000  # transitions that are written at once
EPISODE = 1_000  # transitions from one start to the next


def filled(capacity: int, spec: Spec) -> Replay:
    """A replay that is full, of random numbers."""
    replay, draw = Replay(capacity, spec, np.random.SeedSequence(0)), np.random.default_rng(0)
    for start in range(0, capacity, BLOCK):
        count = min(BLOCK, capacity - start)
        ends = np.append(np.arange(EPISODE - 1, count - 1, EPISODE), count - 1)
        shapes = {"obs": (count, spec.obs_dim), "action": (count, spec.action_dim), "reward": (count,), "led": (len(ends), spec.obs_dim)}
        block = {name: draw.uniform(-1, 1, shape).astype(np.float32) for name, shape in shapes.items()}
        replay.write(start, block | {"discount": np.ones(count, np.float32), "ends": ends})
    replay.restore(capacity, replay.sampler_state())
    return replay


def measure(algorithm: str, task: str, obs: int, actions: int, capacity: int) -> dict[str, Any]:
    spec = Spec(obs, actions)
    run = Run("held", find_algorithm(algorithm), task, capacity=capacity)
    before = _of_this_process("VmRSS")
    simulators = [Guarded(task, run.protocol) for _ in range(2)]  # a run learns in one and is evaluated in the other
    for simulator in simulators:
        simulator.reset(seed=0)
    of_simulators = _of_this_process("VmRSS") - before
    replay = filled(capacity, spec)
    learner = Learner([run], spec)
    for step in range(3):
        learner.learn([replay.sample(run.replay_ratio, run.batch_size)], [np.zeros(obs, np.float32)], run.warmup + step)
    learner.diverged()
    peak, held = _of_this_process("VmHWM"), replay_bytes(capacity, spec)
    about = {"algorithm": algorithm, "task": task, "obs": obs, "actions": actions, "capacity": capacity}
    return {**about, "replay_bytes": held, "simulators_bytes": of_simulators, "peak_bytes": peak, "beside_the_replay": peak - held}


def _of_this_process(what: str) -> int:
    """Bytes."""
    return int(next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(what)).split()[1]) * 1024
