"""How fast tasks are alone: steps a second of random actions, and what a reset takes."""

import time
from typing import Any

import numpy as np

from dualac import envs


def measure(tasks: list[str], steps: int) -> list[dict[str, Any]]:
    return [_measure(task, steps) for task in tasks]


def _measure(task: str, steps: int) -> dict[str, Any]:
    env = envs.make(task)
    shape = (steps, *(env.action_space.shape or ()))
    actions = np.random.default_rng(0).uniform(-1, 1, shape).astype(np.float32)
    stepping = resetting = 0.0
    resets = 0
    over = True
    for action in actions:
        if over:
            began = time.perf_counter()
            env.reset(seed=resets)
            resetting += time.perf_counter() - began
            resets += 1
        began = time.perf_counter()
        _, _, terminated, truncated, _ = env.step(action)
        stepping += time.perf_counter() - began
        over = terminated or truncated
    env.close()
    pace, reset = steps / stepping, 1e3 * resetting / resets
    return {"task": task, "steps_per_second": pace, "reset_ms": reset}
