"""The C passes with random shapes, one array after the other: run under the sanitizers.

python -m tests.attack.native_shapes SEED COUNT

Nothing is compiled together: each array that a pass is given, or makes, is an allocation of its
own, behind which the sanitizer watches.
"""

from __future__ import annotations

import itertools
import sys

import jax
import jax.numpy as jnp
import numpy as np

from dualac import ops


def normal(draw: np.random.Generator, *shape: int) -> jax.Array:
    return jnp.asarray(draw.normal(size=shape), jnp.float32)


def some_layers(draw: np.random.Generator) -> None:
    sizes = draw.choice([1, 2, 3, 5, 7, 8, 15, 16, 17, 31, 33, 64, 70, 129], size=4).tolist()
    sizes = sizes[: draw.integers(2, 5)]
    rows, networks = int(draw.integers(1, 140)), int(draw.integers(1, 5))
    stacks = [
        [(normal(draw, *pair), normal(draw, pair[1])) for pair in itertools.pairwise(sizes)]
        for _ in range(networks)
    ]
    x = normal(draw, rows, sizes[0])
    slopes = jax.grad(lambda x, stacks: ops.layers([x], stacks).sum(), argnums=(0, 1))
    jax.block_until_ready(slopes(x, stacks))


def some_quantiles(draw: np.random.Generator) -> None:
    critics, rows, quantiles, targets = (int(draw.integers(1, high)) for high in (5, 40, 70, 70))
    z, y = normal(draw, critics, rows, quantiles), normal(draw, rows, targets)
    jax.block_until_ready(ops.quantile_loss(z, y, 1.0))


def some_optimisers(draw: np.random.Generator) -> None:
    """Take small arrays and one so large that the pass is taken instead of XLA."""
    shapes = [tuple(draw.integers(1, 90, size=draw.integers(1, 3)).tolist()) for _ in range(3)]
    shapes.insert(int(draw.integers(4)), (int(draw.integers(20_000, 40_000)),))
    learned = tuple([abs(normal(draw, *shape)) for shape in shapes] for _ in range(3))
    grads = [normal(draw, *shape) for shape in shapes]
    step = jnp.float32(1e-3)
    jax.block_until_ready(ops.adam(learned, grads, step, step, b1=0.9, b2=0.999))
    jax.block_until_ready(ops.polyak_average(learned[0], grads, 0.005))


def main() -> int:
    seed, count = int(sys.argv[1]), int(sys.argv[2])
    if not ops.uses_native():
        print(ops.why_not_native())
        return 1
    ops.start_helpers([0, 0])  # two helpers: the passes are shared
    draw = np.random.default_rng(seed)
    for _ in range(count):
        some_layers(draw)
        some_quantiles(draw)
        some_optimisers(draw)
    print(f"{3 * count} passes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
