"""The most memory that a run's process ever had, with a full replay, and resumed."""

import contextlib
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from dualac.envs import Protocol
from dualac.execution.pinned import answer, ask
from dualac.runs.lock import owned
from dualac.training.loop import steps
from dualac.training.presets import find_algorithm
from dualac.training.replay import Replay, replay_bytes
from dualac.training.run import Run, prepare
from dualac.training.session import Session
from dualac.types import Spec

EPISODE = 1_000  # transitions from one start to the next, written at once
ROUND = 20  # steps in which a run learns, logs, is evaluated and checkpointed
LIVE = f"{__name__}:live"


def measure(algorithm: str, task: str, spec: Spec, capacity: int) -> dict[str, Any]:
    """Measure a new and a resumed run, each in a process of its own on one core."""
    every = {
        "warmup": ROUND // 2,
        "log_every": ROUND // 2,
        "eval_every": ROUND,
        "checkpoint_every": ROUND,
        "protocol": Protocol(eval_episodes=1),
    }
    steps = max(capacity, 4 * ROUND)
    run = Run("held", find_algorithm(algorithm), task, steps=steps, capacity=capacity, **every)
    with tempfile.TemporaryDirectory() as folder:
        path = str(prepare(run, Path(folder)))
        first = answer(ask(LIVE, 1, path=path, full_after=ROUND, until=3 * ROUND))
        resumed = answer(ask(LIVE, 1, path=path, full_after=0, until=4 * ROUND))
    held, peak = replay_bytes(capacity, spec), max(first, resumed)
    return {
        "algorithm": algorithm,
        "task": task,
        "obs": spec.obs_dim,
        "actions": spec.action_dim,
        "capacity": capacity,
        "replay_bytes": held,
        "new_bytes": first,
        "resumed_bytes": resumed,
        "peak_bytes": peak,
        "beside_the_replay": peak - held,
    }


def live(path: str, full_after: int, until: int) -> int:
    """Take a run to a step and return its peak in bytes; fill its replay after `full_after`."""
    session = Session([Path(path)], lambda message: None)
    with owned(Path(path)), contextlib.closing(session):
        session.start(allow_inexact=False)
        for step in steps(session):
            if step == full_after:
                fill(session.rollouts[0].replay, session.rollouts[0].spec)
            if step == until:
                break
    status = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in status if line.startswith("VmHWM")).split()[1]) * 1024


def filled(capacity: int, spec: Spec) -> Replay:
    replay = Replay(capacity, spec, np.random.SeedSequence(0))
    fill(replay, spec)
    return replay


def fill(replay: Replay, spec: Spec) -> None:
    draw = np.random.default_rng(0)
    for start in range(0, replay.capacity, EPISODE):
        count = min(EPISODE, replay.capacity - start)
        shapes = {
            "obs": (count, spec.obs_dim),
            "action": (count, spec.action_dim),
            "reward": (count,),
            "led": (1, spec.obs_dim),
        }
        episode = {
            name: draw.uniform(-1, 1, shape).astype(np.float32) for name, shape in shapes.items()
        }
        episode |= {"discount": np.ones(count, np.float32), "ends": np.array([count - 1])}
        replay.write(start, episode)
    replay.restore(replay.capacity, replay.sampler_state())
