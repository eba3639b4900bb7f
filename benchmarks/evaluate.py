"""What it brings to evaluate in several environments at once, on a machine with idle cores.

    .venv/bin/python benchmarks/evaluate.py [TASK] [EPISODES]

Episodes of an untrained policy of the paper's size in one environment, and in one beside it on each
further core, in alternation; the rows must be equal.
"""

import sys
import time
from statistics import median

import jax
import numpy as np

from dualac import make_agent
from dualac.envs import Protocol
from dualac.envs.faults.guarded import Guarded
from dualac.machine.cores import pin, usable_cores
from dualac.training.evaluation import evaluate

ROUNDS = 3


def main() -> None:
    task, episodes = (sys.argv[1:] + ["dmc/dog-run", "4"][len(sys.argv) - 1 :])[:2]
    cores = usable_cores()
    (home,) = pin(1)
    env = Guarded(task, Protocol())
    beside = [env.elsewhere() for core in cores if core != home]
    for other, core in zip(beside, [core for core in cores if core != home], strict=True):
        other.move_to(core)
    agent = make_agent(("dac"), env.observation_space.shape[0], env.action_space.shape[0])  # pyright: ignore[reportOptionalSubscript]
    state = jax.jit(agent.init)(jax.random.key(0))
    exploit = jax.jit(
        lambda state, obs: agent.exploit(state, agent.begin(jax.random.key(0)), obs)[0]
    )

    def act(obs: np.ndarray) -> np.ndarray:
        return np.asarray(exploit(state, obs))

    took: dict[int, list[float]] = {1: [], len(cores): []}
    rows = []
    for _ in range(ROUNDS):
        for players in ([env], [env, *beside]):
            began = time.perf_counter()
            rows.append(evaluate(players, lambda seed: act, range(int(episodes))))
            took[len(players)].append(time.perf_counter() - began)
    assert all(one == rows[0] for one in rows)
    alone, together = (median(times) for times in took.values())
    ratio = f"{alone / together:.2f} times as fast, equal rows"
    print(
        f"{task}, {episodes} episodes: {alone:.2f} s in one environment, {together:.2f} s in "
        f"{len(cores)}: {ratio}"
    )
    for one in (env, *beside):
        one.close()


if __name__ == "__main__":
    main()
