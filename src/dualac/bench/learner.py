"""What one update costs, against the floor set by its matrix products.

The floor is the GFLOP of the update's matrix products, counted in its program, divided by the rate
of a 256 x 256 x 256 product measured in the same run, on each core if there are several. All are
timed in turns, so that a machine that slows down slows all alike.
"""

import functools
import math
import time
from pathlib import Path
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
from dualac.parts import user_files
from dualac.parts.as_json import from_json
from dualac.parts.paths import options, replaced
from dualac.training.learner import Learner
from dualac.training.presets import find_algorithm
from dualac.training.run import Run
from dualac.types import Spec, Transition

PRODUCTS = 200  # of 256 x 256 matrices in one measurement of the rate


def needed(program: Any) -> Any:
    """Remove from a program what it computes and nobody uses, as XLA will."""
    return dce_jaxpr(program.jaxpr, [True] * len(program.jaxpr.outvars))[0]


def count_gflop(jaxpr: Any, taken: float = 1.0) -> float:
    """Count 2 m n k for every matrix product of a program.

    Products inside its loops count once a turn, in its branches by the share `taken`.
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
    """A row of the table in the learner that trains it; its state goes on from call to call."""

    def __init__(self, name: str, row: Algorithm, load: Load) -> None:
        """Compile the row's update for a load, and count its products."""
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
        self.batches = [batch] * load.seeds
        minibatch = jax.tree.map(lambda leaf: leaf[0], batch)
        agent = make_agent(row, spec)
        noise = agent.noise(jax.random.key(0), minibatch.action.size)
        with reference_only():  # whose products can be counted
            program = jax.make_jaxpr(agent.update)(
                self.learner.member_state(0), minibatch, noise, np.uint32(0)
            )
        # Where actors move once in so many updates, that share of their work belongs to one.
        self.gflop = count_gflop(needed(program), 1 / row.policy.delay)
        self.step = 0
        self.run()
        self.seconds.clear()  # the first call compiled

    def run(self) -> None:
        """Make the updates of one call, and note the seconds of each."""
        began = time.perf_counter()
        self.learner.learn(self.batches, self.step)
        self.learner.diverged()  # waits for it, as training does
        self.step += 1
        self.seconds.append((time.perf_counter() - began) / self.load.replay_ratio)


def measure(kinds: list[tuple[str, dict[str, int]]], rounds: int = 9) -> list[dict[str, Any]]:
    """Measure each algorithm and load, in turns; the first is what the others are compared with."""
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
            took = time.perf_counter() - began
            row.rates.append(threads * PRODUCTS * 2 * 256**3 / 1e9 / took)  # XLA has one core
    return [
        {"algorithm": row.name, **row.load._asdict(), "threads": threads, **_figures(row, rows[0])}
        for row in rows
    ]


def best(questions: list[dict[str, Any]], calls: int) -> list[float]:
    """Measure the seconds of an update of each row, written as JSON: the best of a few calls."""
    # Whoever asks has the files loaded, and names them by their absolute paths.
    find_part = functools.partial(user_files.find, folder=Path(), consent=True)
    seconds = []
    for question in questions:
        row = from_json(Algorithm, question["algorithm"], find_part)
        timed = Timed("", row, Load(**question["load"]))
        for _ in range(calls):
            timed.run()
        seconds.append(min(timed.seconds))
    return seconds


def _figures(row: Timed, first: Timed) -> dict[str, float]:
    """Return medians; of a ratio the median over the turns, since the clock changes both sides."""
    gflop, rate = row.gflop * row.load.seeds, median(row.rates)
    shares = [gflop / there / took for there, took in zip(row.rates, row.seconds, strict=True)]
    ratios = [took / other for took, other in zip(row.seconds, first.seconds, strict=True)]
    return {
        "ms_per_update": 1e3 * median(row.seconds),
        "best_ms_per_update": 1e3 * min(row.seconds),
        "gflop_per_update": gflop,
        "sgemm_gflops": rate,
        "floor_ms": 1e3 * gflop / rate,
        "percent_of_sgemm": 100 * median(shares),
        "times_the_first": median(ratios),
    }


def _sized(row: Any, load: Load) -> Any:
    """Return the row with every hidden layer so wide, and so many critics."""
    wide = {
        option.path: (load.width,) * len(option.value)
        for option in options(row)
        if load.width and option.path.endswith(".hidden")
    }
    return replaced(row, wide | ({"critic.k": load.critics} if load.critics else {}))
