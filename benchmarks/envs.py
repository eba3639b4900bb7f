"""What the adapters cost: a task through `dualac.envs.make` against the bare suite, in alternation, as a ratio.

    .venv/bin/python benchmarks/envs.py [--json] [--rounds 20] [TASK...]

Both play the same episodes: the same seeds, the same actions, each in the dtype that it wants. In every round each plays each episode once, in turns,
and an episode's fastest time counts, on the process's own clock: so what else the machine does counts little. The reset is not timed.
"""

import argparse
import json
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from dualac.envs import make
from dualac.envs.suites import imported, silence
from dualac.envs.tasks import MYOSUITE

EPISODES = 4
SECONDS = 0.05  # of the bare suite in an episode, about
WANTED = 0.15

Steps = Callable[[np.ndarray], None]
Resets = Callable[[int], Any]


def bare_dmc(name: str) -> tuple[Resets, Steps]:
    domain, _, task = name.partition("-")
    with silence():
        env = imported("dmc", "dm_control.suite").load(domain, task)

    def reset(seed: int) -> None:
        env.task._random = np.random.RandomState(seed)
        env.reset()

    return reset, env.step


def bare_metaworld(name: str) -> tuple[Resets, Steps]:
    with silence():
        env = imported("metaworld", "metaworld.env_dict").ALL_V3_ENVIRONMENTS[f"{name}-v3"]()
    env._freeze_rand_vec, env.seeded_rand_vec, env._set_task_called, env._partially_observable = False, True, True, False
    del env.sawyer_observation_space

    def reset(seed: int) -> None:
        env.seed(seed)
        env.reset()

    return reset, env.step


def bare_myosuite(name: str) -> tuple[Resets, Steps]:
    with silence():
        env = imported("myosuite", "myosuite").make_env(MYOSUITE[name].id, max_episode_steps=10**9)
    return lambda seed: env.reset(seed=seed), env.step


BARE = {"dmc": bare_dmc, "metaworld": bare_metaworld, "myosuite": bare_myosuite}


def play(reset: Resets, step: Steps, seed: int, actions: list[np.ndarray]) -> float:
    """Seconds of this process that an episode's steps take."""
    reset(seed)
    began = time.process_time()
    for action in actions:
        step(action)
    return time.process_time() - began


def measure(task: str, rounds: int) -> dict[str, Any]:
    suite, _, name = task.partition("/")
    bare, env = BARE[suite](name), make(task)
    adapted = (lambda seed: env.reset(seed=seed), env.step)
    dtype = np.float64 if suite == "dmc" else np.float32
    size = env.action_space.shape[0]  # pyright: ignore[reportOptionalSubscript]
    some = list(np.zeros((20, size), dtype))
    steps = int(max(20, min(env.cap or 1000, SECONDS / (play(*bare, 0, some) / len(some)))))
    chosen = [np.random.default_rng(seed).uniform(-1, 1, (steps, size)).astype(np.float32) for seed in range(EPISODES)]
    fastest = np.full((2, EPISODES), np.inf)
    for number in range(rounds):
        for seed, actions in enumerate(chosen):
            turns = [(0, *bare, list(actions.astype(dtype))), (1, *adapted, list(actions))]
            for who, reset, step, given in turns[:: 1 if number % 2 else -1]:
                fastest[who, seed] = min(fastest[who, seed], play(reset, step, seed, given))
    env.close()
    speeds = EPISODES * steps / fastest.sum(axis=1)
    return {
        "task": task,
        "bare_steps_per_second": round(speeds[0]),
        "adapted_steps_per_second": round(speeds[1]),
        "overhead": speeds[0] / speeds[1] - 1,
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("tasks", nargs="*", default=["dmc/cheetah-run", "metaworld/push", "myosuite/key-turn-easy"])
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    rows = [measure(task, asked.rounds) for task in asked.tasks]
    if asked.json:
        print(json.dumps(rows))
        return
    for row in rows:
        speeds = f"bare {row['bare_steps_per_second']}, adapted {row['adapted_steps_per_second']} steps/s of CPU"
        print(f"{row['task']:<24} {speeds}; overhead {row['overhead']:.1%} (at most {WANTED:.0%} wanted)")


if __name__ == "__main__":
    main()
