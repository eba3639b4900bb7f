"""What one update costs, against the floor set by its matrix products.

    taskset -c 0 .venv/bin/python benchmarks/learner.py [ALGORITHM...] [--all]

The floor is the GFLOP of the update's matrix products, counted in its program, divided by the rate of a 256 x 256 x 256 product measured in the
same run. All are timed in alternation, so that a machine that slows down slows both. Run it on an otherwise idle core.
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


def count_gflop(jaxpr: jax.extend.core.Jaxpr, taken: float = 1.0) -> float:
    """2 m n k for every matrix product of a program, those inside its loops counted once a turn, in its branches by the share `taken`."""
    total = 0.0
    for step in jaxpr.eqns:
        if step.primitive.name == "dot_general":
            (contracted, _), _ = step.params["dimension_numbers"]
            inner = math.prod(step.invars[0].aval.shape[axis] for axis in contracted)
            total += 2e-9 * math.prod(step.outvars[0].aval.shape) * inner
        turns = {"scan": step.params.get("length", 1), "cond": taken}.get(step.primitive.name, 1)
        for value in jax.tree.leaves(step.params, is_leaf=lambda leaf: hasattr(leaf, "jaxpr") or hasattr(leaf, "eqns")):
            inner_jaxpr = getattr(value, "jaxpr", value)
            if hasattr(inner_jaxpr, "eqns"):
                total += turns * count_gflop(inner_jaxpr, taken)
    return total


def seconds(call: object) -> float:
    began = time.perf_counter()
    jax.block_until_ready(call())  # type: ignore[operator]
    return time.perf_counter() - began


class Row:
    """A row of the table, compiled, with a state that goes on from call to call."""

    def __init__(self, name: str, asked: argparse.Namespace) -> None:
        self.name, self.updates, self.ms = name, asked.updates, []
        agent, draw = make_agent(name, asked.obs, asked.actions), np.random.default_rng(0)

        def normal(*shape: int) -> np.ndarray:
            return draw.normal(size=(asked.updates, asked.batch, *shape)).astype(np.float32)

        ones = np.ones((asked.updates, asked.batch), np.float32)
        self.batches = Transition(normal(asked.obs), np.tanh(normal(asked.actions)), normal(), ones, normal(asked.obs))  # pyright: ignore[reportArgumentType]
        keys, counts = jax.random.split(jax.random.key(1), asked.updates), np.arange(asked.updates, dtype=np.uint32)
        self.learn = jax.jit(
            lambda state, batches: jax.lax.scan(lambda state, x: agent.update(state, *x), state, (batches, keys, counts)), donate_argnums=0
        )
        self.state = jax.jit(agent.init)(jax.random.key(0))
        one = jax.tree.map(lambda leaf: leaf[0], self.batches)
        # Where actors move at every so many updates, so much of their work belongs to one.
        self.gflop = count_gflop(jax.make_jaxpr(agent.update)(self.state, one, keys[0], counts[0]).jaxpr, 1 / ALGORITHMS[name].policy.delay)
        self.run()

    def run(self) -> None:
        began = time.perf_counter()
        self.state, _ = jax.block_until_ready(self.learn(self.state, self.batches))
        self.ms.append(1e3 * (time.perf_counter() - began) / self.updates)


def measure(asked: argparse.Namespace, names: list[str]) -> list[dict[str, float | str | int]]:
    rows = [Row(name, asked) for name in names]
    square = jnp.full((256, 256), 1e-3)
    product = jax.jit(lambda x: jax.lax.fori_loop(0, 200, lambda _, y: y @ x, x))
    product(square).block_until_ready()
    rates = []
    for _ in range(ROUNDS):
        for row in rows:
            row.run()
        rates.append(200 * 2 * 256**3 / 1e9 / seconds(lambda: product(square)))
    rate = median(rates)
    return [
        {
            "algorithm": row.name, "obs": asked.obs, "actions": asked.actions, "batch": asked.batch, "cores": len(os.sched_getaffinity(0)),
            "ms_per_update": median(row.ms[1:]), "best_ms_per_update": min(row.ms), "gflop_per_update": row.gflop, "sgemm_gflops": rate,
            "floor_ms": 1e3 * row.gflop / rate, "times_the_floor": median(row.ms[1:]) / (1e3 * row.gflop / rate),
            "percent_of_sgemm": 100 * row.gflop / rate / (median(row.ms[1:]) / 1e3), "times_the_first": median(row.ms[1:]) / median(rows[0].ms[1:]),
        }
        for row in rows
    ]  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("algorithms", nargs="*", default=["sac", "dac"], help=f"of {', '.join(ALGORITHMS)}")
    parser.add_argument("--all", action="store_true", help="every row, SAC first")
    parser.add_argument("--obs", type=int, default=17)
    parser.add_argument("--actions", type=int, default=6)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--updates", type=int, default=20, help="updates in one compiled call")
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    for found in measure(asked, ["sac", *(name for name in ALGORITHMS if name != "sac")] if asked.all else asked.algorithms):
        if asked.json:
            print(json.dumps(found))
        else:
            print(
                f"{found['algorithm']}: {found['ms_per_update']:.2f} ms an update (best {found['best_ms_per_update']:.2f}) "
                f"on {found['cores']} core(s), {found['times_the_first']:.2f} times the first row's; "
                f"{found['gflop_per_update']:.3f} GFLOP of matrix products at {found['sgemm_gflops']:.0f} GFLOP/s "
                f"take {found['floor_ms']:.2f} ms: {found['times_the_floor']:.2f} times the floor"
            )


if __name__ == "__main__":
    main()
