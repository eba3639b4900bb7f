"""What the adapters cost: a task through `dualac.envs.make` against the bare suite, in alternation,
as a ratio.

    .venv/bin/python benchmarks/envs.py [--json] [--rounds 20] [--isolated] [TASK...]

Both play the same episodes: the same seeds, the same actions, each in the dtype that it wants. In
every round each plays each episode once, in turns, and an episode's fastest time counts, on the
process's own clock: so what else the machine does counts little. The reset is not timed.

--isolated: a task in a process of its own, as --isolate-env has it, against the same task in this
process, on the clocks of both processes together: in training they take turns on one core (so
confine this to one: taskset -c 1). Also as a share of a step at replay ratio 2.
"""

import argparse
import json
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from dualac.envs import make
from dualac.envs.suites.packages import imported, silence
from dualac.envs.tasks import MYOSUITE

EPISODES = 4
SECONDS = 0.05  # of the bare suite in an episode, about
WANTED = 0.15
TRAINING = 2 * 8e-3  # seconds of a step of training: two updates (dualac bench learner)

Steps = Callable[[np.ndarray], None]
Resets = Callable[[int], Any]
Clock = Callable[[], float]


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
    env._freeze_rand_vec, env.seeded_rand_vec, env._set_task_called, env._partially_observable = (
        False,
        True,
        True,
        False,
    )
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


def play(
    reset: Resets,
    step: Steps,
    seed: int,
    actions: list[np.ndarray],
    clock: Clock = time.process_time,
) -> float:
    """Seconds that an episode's steps take."""
    reset(seed)
    began = clock()
    for action in actions:
        step(action)
    return clock() - began


def measure(task: str, rounds: int) -> dict[str, Any]:
    suite, _, name = task.partition("/")
    without_optimizers, env = BARE[suite](name), make(task)
    adapted = (lambda seed: env.reset(seed=seed), env.step)
    dtype = np.float64 if suite == "dmc" else np.float32
    size = env.action_space.shape[0]  # pyright: ignore[reportOptionalSubscript]
    some = list(np.zeros((20, size), dtype))
    steps = int(
        max(20, min(env.cap or 1000, SECONDS / (play(*without_optimizers, 0, some) / len(some))))
    )
    chosen = [
        np.random.default_rng(seed).uniform(-1, 1, (steps, size)).astype(np.float32)
        for seed in range(EPISODES)
    ]
    fastest = np.full((2, EPISODES), np.inf)
    for number in range(rounds):
        for seed, actions in enumerate(chosen):
            turns = [
                (0, *without_optimizers, list(actions.astype(dtype))),
                (1, *adapted, list(actions)),
            ]
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


def measure_isolated(task: str, rounds: int) -> dict[str, Any]:
    here, there = make(task), make(task, isolated=60.0)
    steps = min(here.cap or 500, 500)  # pyright: ignore[reportAttributeAccessIssue]
    size = here.action_space.shape[0]  # pyright: ignore[reportOptionalSubscript]
    chosen = [
        list(np.random.default_rng(seed).uniform(-1, 1, (steps, size)).astype(np.float32))
        for seed in range(EPISODES)
    ]
    fastest = np.full((2, EPISODES), np.inf)
    theirs = (~there._process.pid << 3) | 2  # pyright: ignore[reportAttributeAccessIssue]  Linux's number for that process's clock

    def clock() -> float:
        return time.process_time() + time.clock_gettime(theirs)

    for number in range(rounds):
        for seed, actions in enumerate(chosen):
            for who, env in list(enumerate((here, there)))[:: 1 if number % 2 else -1]:
                seconds = play(
                    lambda seed, env=env: env.reset(seed=seed), env.step, seed, actions, clock
                )
                fastest[who, seed] = min(fastest[who, seed], seconds)
    here.close()
    there.close()
    each = fastest.sum(axis=1) / (EPISODES * steps)
    return {
        "task": task,
        "steps_per_second": round(1 / each[0]),
        "isolated_steps_per_second": round(1 / each[1]),
        "ratio": each[0] / each[1],
        "microseconds_a_step": 1e6 * (each[1] - each[0]),
        "share_of_training": (each[1] - each[0]) / (TRAINING + each[0]),
    }


def show_isolated(row: dict[str, Any]) -> None:
    speeds = (
        f"in-process {row['steps_per_second']}, isolated {row['isolated_steps_per_second']} "
        f"steps/s of CPU: ratio {row['ratio']:.2f}"
    )
    print(
        f"{row['task']:<24} {speeds}; {row['microseconds_a_step']:.0f} us a step, "
        f"{row['share_of_training']:.2%} of training at replay ratio 2"
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument(
        "tasks", nargs="*", default=["dmc/cheetah-run", "metaworld/push", "myosuite/key-turn-easy"]
    )
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--isolated", action="store_true")
    asked = parser.parse_args()
    rows = [
        (measure_isolated if asked.isolated else measure)(task, asked.rounds)
        for task in asked.tasks
    ]
    if asked.json:
        print(json.dumps(rows))
        return
    for row in rows:
        if asked.isolated:
            show_isolated(row)
            continue
        speeds = (
            f"bare {row['bare_steps_per_second']}, adapted {row['adapted_steps_per_second']} "
            "steps/s of CPU"
        )
        print(
            f"{row['task']:<24} {speeds}; overhead {row['overhead']:.1%} (at most {WANTED:.0%} "
            "wanted)"
        )


if __name__ == "__main__":
    main()
