"""What one update costs, against the floor set by its matrix products.

The floor is the GFLOP of the update's matrix products, counted in its program, divided by the rate
of a 256 x 256 x 256 product measured in the same run, on each core if there are several. All are
timed in turns, so that a machine that slows down slows all alike.
"""

import math
import time
from statistics import median
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.interpreters.partial_eval import dce_jaxpr

from dualac.agents.agent import make_agent
from dualac.agents.algorithm import Algorithm
from dualac.bench.load import Load
from dualac.machine.cores import own_cores
from dualac.ops import reference_only
from dualac.parts.as_json import from_json
from dualac.parts.paths import options, replaced
from dualac.training.learner import Learner
from dualac.training.presets import find_algorithm
from dualac.training.run import Run
from dualac.types import Spec, Transition

PRODUCTS = 200  # of 256 x 256 matrices in one measurement of the rate


def needed(program: Any) -> Any:
    """A program without what it computes and nobody uses, as XLA will have it: gradients with
    respect to what stays as it is.
    """
    return dce_jaxpr(program.jaxpr, [True] * len(program.jaxpr.outvars))[0]


def count_gflop(jaxpr: Any, taken: float = 1.0) -> float:
    """2 m n k for every matrix product of a program, those inside its loops counted once a turn, in
    its branches by the share `taken`.
    """
    total = 0.0
    for step in jaxpr.eqns:
        if step.primitive.name == "dot_general":
            (contracted, _), _ = step.params["dimension_numbers"]
            inner = math.prod(step.invars[0].aval.shape[axis] for axis in contracted)
            total += 2e-9 * math.prod(step.outvars[0].aval.shape) * inner
        turns = {"scan": step.params.get("length", 1), "cond": taken}.get(step.primitive.name, 1)
        for value in jax.tree.leaves(
            step.params, is_leaf=lambda leaf: hasattr(leaf, "jaxpr") or hasattr(leaf, "eqns")
        ):
            inner_jaxpr = getattr(value, "jaxpr", value)
            if hasattr(inner_jaxpr, "eqns"):
                total += turns * count_gflop(inner_jaxpr, taken)
    return total


class Timed:
    """A row of the table in the very learner that trains it, with a state that goes on from call to
    call.
    """

    def __init__(self, name: str, row: Algorithm, load: Load) -> None:
        self.name, self.load = name, load
        self.seconds: list[float] = []  # of an update, in each turn
        self.rates: list[float] = []  # of the machine's product, in GFLOP/s, after each turn
        row = _sized(row, load)
        spec, draw = Spec(load.obs, load.actions), np.random.default_rng(0)
        runs = [
            Run("timed", row, "", seed=seed, replay_ratio=load.replay_ratio, batch_size=load.batch)
            for seed in range(load.seeds)
        ]
        self.learner = Learner(runs, spec)
        flat = (load.replay_ratio, load.batch)

        def normal(*shape: int) -> np.ndarray:
            return draw.normal(size=(*flat, *shape)).astype(np.float32)

        ones = np.ones(flat, np.float32)
        batch = Transition._make(
            (normal(load.obs), np.tanh(normal(load.actions)), normal(), ones, normal(load.obs))
        )
        self.batches, self.seen = (
            [batch] * load.seeds,
            [np.zeros(load.obs, np.float32)] * load.seeds,
        )
        one = jax.tree.map(lambda leaf: leaf[0], batch)
        with reference_only():  # whose products can be counted
            program = jax.make_jaxpr(make_agent(row, spec).update)(
                self.learner.member_state(0), one, jax.random.key(0), np.uint32(0)
            )
        self.gflop = count_gflop(
            needed(program), 1 / row.policy.delay
        )  # where actors move at every so many updates, so much belongs to one
        self.step = 0
        self.run()
        self.seconds.clear()  # the first call compiled

    def run(self) -> None:
        began = time.perf_counter()
        self.learner.learn(self.batches, self.seen, self.step)
        self.learner.diverged()  # waits for it, as training does
        self.step += 1
        self.seconds.append((time.perf_counter() - began) / self.load.replay_ratio)


def measure(kinds: list[tuple[str, dict[str, int]]], rounds: int = 9) -> list[dict[str, Any]]:
    """A row of figures for each algorithm and load, the first being what the others are compared
    with.
    """
    rows = [Timed(name, find_algorithm(name), Load(**load)) for name, load in kinds]
    square = jnp.full((256, 256), 1e-3)
    product = jax.jit(lambda x: jax.lax.fori_loop(0, PRODUCTS, lambda _, y: y @ x, x))
    product(square).block_until_ready()
    threads = len(own_cores())
    for _ in range(rounds):
        for row in rows:
            row.run()
            began = time.perf_counter()
            product(square).block_until_ready()
            row.rates.append(
                threads * PRODUCTS * 2 * 256**3 / 1e9 / (time.perf_counter() - began)
            )  # XLA has one of the cores
    return [
        {"algorithm": row.name, **row.load._asdict(), "threads": threads, **_figures(row, rows[0])}
        for row in rows
    ]


def best(questions: list[dict[str, Any]], calls: int) -> list[float]:
    """Seconds of an update of each row, spelt as JSON, the best of a few calls: what else the
    machine does only adds to it.
    """
    found = []
    for question in questions:
        timed = Timed("", from_json(Algorithm, question["algorithm"]), Load(**question["load"]))
        for _ in range(calls):
            timed.run()
        found.append(min(timed.seconds))
    return found


def _figures(row: Timed, first: Timed) -> dict[str, float]:
    """Medians; of a ratio the median of what it was in each turn, since a machine whose clock
    changes changes both sides of it.
    """
    gflop, rate = row.gflop * row.load.seeds, median(row.rates)
    return {
        "ms_per_update": 1e3 * median(row.seconds),
        "best_ms_per_update": 1e3 * min(row.seconds),
        "gflop_per_update": gflop,
        "sgemm_gflops": rate,
        "floor_ms": 1e3 * gflop / rate,
        "percent_of_sgemm": 100
        * median(gflop / there / took for there, took in zip(row.rates, row.seconds, strict=True)),
        "times_the_first": median(
            took / other for took, other in zip(row.seconds, first.seconds, strict=True)
        ),
    }


def _sized(row: Any, load: Load) -> Any:
    """The row with every hidden layer so wide, and so many critics."""
    wide = {
        option.path: (load.width,) * len(option.value)
        for option in options(row)
        if load.width and option.path.endswith(".hidden")
    }
    return replaced(row, wide | ({"critic.k": load.critics} if load.critics else {}))
