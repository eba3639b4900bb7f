"""What a run holds in memory: the most that a process ever had in which one learned, logged, was evaluated and checkpointed, beside a full replay."""

import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from dualac.api import find_algorithm
from dualac.envs import Protocol
from dualac.envs.suites import let_go
from dualac.training import loop
from dualac.training.guarded import Guarded
from dualac.training.replay import Replay, replay_bytes
from dualac.training.run import Run, prepare
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
    rows = {"steps": 20, "warmup": 10, "log_every": 10, "eval_every": 20, "checkpoint_every": 20, "protocol": Protocol(eval_episodes=1)}
    run = Run("held", find_algorithm(algorithm), task, **rows)
    of_simulators = _two_simulators(run)
    replay = filled(capacity, spec)  # held while a run goes on that has seen next to nothing
    with tempfile.TemporaryDirectory() as folder:
        loop.train([prepare(run, Path(folder))], lambda message: None)
    peak, held = _of_this_process("VmHWM"), replay_bytes(replay.capacity, spec)
    about = {"algorithm": algorithm, "task": task, "obs": obs, "actions": actions, "capacity": capacity}
    return {**about, "replay_bytes": held, "simulators_bytes": of_simulators, "peak_bytes": peak, "beside_the_replay": peak - held}


def _two_simulators(run: Run) -> int:
    """Bytes that they take: a run learns in one and is evaluated in the other."""
    let_go()  # what is free already is not theirs to give back
    before = _of_this_process("VmRSS")
    simulators = [Guarded(run.task, run.protocol) for _ in range(2)]
    for simulator in simulators:
        simulator.reset(seed=0)
    taken = _of_this_process("VmRSS") - before
    for simulator in simulators:
        simulator.close()
    return max(0, taken)


def _of_this_process(what: str) -> int:
    """Bytes."""
    return int(next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(what)).split()[1]) * 1024
