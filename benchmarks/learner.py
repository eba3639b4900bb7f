"""What one update costs, against the floor set by its matrix products.

    taskset -c 0 .venv/bin/python benchmarks/learner.py [ALGORITHM...]

The floor is the GFLOP of the update's matrix products, counted in its program, divided by the rate of a 256 x 256 x 256 product measured in the
same run. Both are timed in alternation, so that a machine that slows down slows both. Run it on an otherwise idle core.
"""

import argparse
import json
import math
import os
import time
from statistics import median

import jax
import jax.numpy as jnp
import numpy as np

from dualac.agents.algorithms import ALGORITHMS
from dualac.api import make_agent
from dualac.types import Transition

ROUNDS = 9


def count_gflop(jaxpr: jax.extend.core.Jaxpr) -> float:
    """2 m n k for every matrix product of a program, those inside its loops and branches counted once a turn."""
    total = 0.0
    for step in jaxpr.eqns:
        if step.primitive.name == "dot_general":
            (contracted, _), _ = step.params["dimension_numbers"]
            inner = math.prod(step.invars[0].aval.shape[axis] for axis in contracted)
            total += 2e-9 * math.prod(step.outvars[0].aval.shape) * inner
        turns = step.params.get("length", 1) if step.primitive.name == "scan" else 1
        for value in jax.tree.leaves(step.params, is_leaf=lambda leaf: hasattr(leaf, "jaxpr") or hasattr(leaf, "eqns")):
            inner_jaxpr = getattr(value, "jaxpr", value)
            if hasattr(inner_jaxpr, "eqns"):
                total += turns * count_gflop(inner_jaxpr)
    return total


def seconds(call: object) -> float:
    began = time.perf_counter()
    jax.block_until_ready(call())  # type: ignore[operator]
    return time.perf_counter() - began


def measure(name: str, obs_dim: int, action_dim: int, batch: int, updates: int) -> dict[str, float | str | int]:
    agent = make_agent(name, obs_dim, action_dim)
    draw = np.random.default_rng(0)

    def normal(*shape: int) -> np.ndarray:
        return draw.normal(size=(updates, batch, *shape)).astype(np.float32)

    batches = Transition(normal(obs_dim), np.tanh(normal(action_dim)), normal(), np.ones((updates, batch), np.float32), normal(obs_dim))
    keys = jax.random.split(jax.random.key(1), updates)
    learn = jax.jit(lambda state, batches: jax.lax.scan(lambda state, x: agent.update(state, *x), state, (batches, keys)), donate_argnums=0)
    state = jax.jit(agent.init)(jax.random.key(0))
    one = jax.tree.map(lambda leaf: leaf[0], batches)
    gflop = count_gflop(jax.make_jaxpr(agent.update)(state, one, keys[0]).jaxpr)
    square = jnp.full((256, 256), 1e-3)
    product = jax.jit(lambda x: jax.lax.fori_loop(0, 200, lambda _, y: y @ x, x))
    product(square).block_until_ready()
    state, _ = learn(state, batches)
    updates_ms, rates = [], []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        state, _ = jax.block_until_ready(learn(state, batches))
        updates_ms.append(1e3 * (time.perf_counter() - began) / updates)
        rates.append(200 * 2 * 256**3 / 1e9 / seconds(lambda: product(square)))
    ms, rate = median(updates_ms), median(rates)
    return {
        "algorithm": name, "obs": obs_dim, "actions": action_dim, "batch": batch, "cores": len(os.sched_getaffinity(0)),
        "ms_per_update": ms, "best_ms_per_update": min(updates_ms), "gflop_per_update": gflop, "sgemm_gflops": rate, "floor_ms": 1e3 * gflop / rate,
        "times_the_floor": ms / (1e3 * gflop / rate), "percent_of_sgemm": 100 * gflop / rate / (ms / 1e3),
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("algorithms", nargs="*", default=["dac", "sac"], help=f"of {', '.join(ALGORITHMS)}")
    parser.add_argument("--obs", type=int, default=17)
    parser.add_argument("--actions", type=int, default=6)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--updates", type=int, default=16, help="updates in one compiled call")
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    for name in asked.algorithms:
        found = measure(name, asked.obs, asked.actions, asked.batch, asked.updates)
        if asked.json:
            print(json.dumps(found))
        else:
            print(
                f"{name}: {found['ms_per_update']:.2f} ms an update (best {found['best_ms_per_update']:.2f}) on {found['cores']} core(s); "
                f"{found['gflop_per_update']:.3f} GFLOP of matrix products at {found['sgemm_gflops']:.0f} GFLOP/s take {found['floor_ms']:.2f} ms: "
                f"{found['times_the_floor']:.2f} times the floor"
            )


if __name__ == "__main__":
    main()
