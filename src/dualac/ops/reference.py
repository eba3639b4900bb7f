"""The arithmetic of an update in JAX, for every device."""

import itertools
import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

Layer = tuple[Float[Array, "n m"], Float[Array, "m"]]  # kernel and bias
Stack = Sequence[Layer]  # the layers of a network
Inputs = tuple[Array, ...]  # side by side: together they are what a first layer sees

# Outputs up to which XLA's CPU product makes a weight gradient faster by the other side.
NARROW = 64


def layers(
    inputs: Sequence[Float[Array, "*batch _"]], stacks: Sequence[Stack]
) -> Float[Array, "networks *batch m"]:
    return jnp.stack([_network(tuple(inputs), stack) for stack in stacks])


def _network(inputs: Inputs, stack: Stack) -> Float[Array, "*batch m"]:
    *hidden, last = stack
    for layer in hidden:
        inputs = (jax.nn.relu(_layer(inputs, layer)),)
    return _layer(inputs, last)


def _layer(inputs: Inputs, layer: Layer) -> Float[Array, "*batch m"]:
    kernel, bias = layer
    x = _product(inputs, kernel)
    return x + jnp.broadcast_to(bias, x.shape)


@jax.custom_vjp
def _product(inputs: Inputs, kernel: Float[Array, "n m"]) -> Float[Array, "*batch m"]:
    """Return x W.

    Where W has few columns its gradient x'y is made as (y'x)': XLA's CPU product that reads x
    across takes six times as long.
    """
    return _product_forward(inputs, kernel)[0]


def _product_forward(inputs: Inputs, kernel: Array) -> tuple[Array, tuple[Inputs, Array]]:
    return jnp.concatenate(inputs, axis=-1) @ kernel, (inputs, kernel)


def _product_backward(residuals: tuple[Inputs, Array], slope: Array) -> tuple[Inputs, Array]:
    inputs, kernel = residuals
    rows = math.prod(slope.shape[:-1])
    x = jnp.concatenate(inputs, axis=-1).reshape(rows, kernel.shape[0])
    slopes = slope.reshape(rows, kernel.shape[1])
    if kernel.shape[1] <= NARROW:
        # The barrier keeps XLA from turning the one product into the other.
        of_kernel = jax.lax.optimization_barrier(slopes.T @ x).T
    else:
        of_kernel = x.T @ slopes
    return tuple(slope @ rows.T for rows in split_rows(kernel, inputs)), of_kernel


_product.defvjp(_product_forward, _product_backward)


def split_rows(kernel: Array, inputs: Inputs) -> list[Array]:
    """Split a kernel into the rows that each input is multiplied with."""
    ends = itertools.accumulate(x.shape[-1] for x in inputs)
    return jnp.split(kernel, list(ends)[:-1])


def quantile_loss(zs: Array, target: Array, kappa: float) -> tuple[Array, Array]:
    """Walk over the target's atoms: what is held then fits the cache.

    With all pairs at once it takes sixty times as long on a CPU.
    """
    levels = (jnp.arange(zs.shape[-1], dtype=jnp.float32) + 0.5) / zs.shape[-1]

    def add(
        sums: tuple[Array, Array], atom: Float[Array, "batch"]
    ) -> tuple[tuple[Array, Array], None]:
        error = atom[None, :, None] - zs
        clipped = jnp.clip(error, -kappa, kappa)
        weighted = jnp.where(error < 0.0, 1.0 - levels, levels) * clipped
        return (sums[0] + weighted * (error - clipped / 2), sums[1] - weighted), None

    (losses, slopes), _ = jax.lax.scan(add, (jnp.zeros_like(zs), jnp.zeros_like(zs)), target.T)
    return losses.sum(axis=-1), slopes


def adam(
    trained: tuple[Any, Any, Any], grads: Any, rate: Array, eps: Array, *, b1: float, b2: float
) -> tuple[tuple[Any, Any, Any], Float[Array, ""]]:
    params, mean, square = trained
    mean = jax.tree.map(lambda m, g: b1 * m + (1.0 - b1) * g, mean, grads)
    square = jax.tree.map(lambda v, g: b2 * v + (1.0 - b2) * g**2, square, grads)
    params = jax.tree.map(lambda p, m, v: p - rate * m / (jnp.sqrt(v) + eps), params, mean, square)
    return (params, mean, square), length(grads)


def length(tree: Any) -> Float[Array, ""]:
    """Return the length of all numbers of a tree, taken as one vector."""
    return jnp.sqrt(jnp.stack([jnp.vdot(leaf, leaf) for leaf in jax.tree.leaves(tree)]).sum())


def polyak_average(slow: Any, fast: Any, weight: float) -> Any:
    return jax.tree.map(lambda slow, fast: (1.0 - weight) * slow + weight * fast, slow, fast)


def require_fitting_layers(inputs: Sequence[Array], stacks: Sequence[Stack]) -> None:
    """Refuse layers that do not fit one another; C would not notice."""
    if len({x.shape[:-1] for x in inputs}) != 1:
        shapes = ", ".join(str(x.shape) for x in inputs)
        raise TypeError(f"inputs side by side have the same axes but for the last, unlike {shapes}")
    sizes = {tuple(kernel.shape for kernel, _ in stack) for stack in stacks}
    if len(sizes) != 1 or sizes == {()}:
        raise TypeError(
            "networks that go through a pass together have the same layers, at least one"
        )
    for stack in stacks:
        size = sum(x.shape[-1] for x in inputs)
        for kernel, bias in stack:
            if kernel.shape != (size, *bias.shape):
                raise TypeError(
                    f"a layer of kernel {kernel.shape} and bias {bias.shape} does not fit its "
                    f"input, which is {size} wide"
                )
            size = kernel.shape[1]


def require_fitting_quantiles(zs: Array, target: Array) -> None:
    """Refuse values and targets that do not fit one another; C would not notice."""
    if zs.ndim != 3 or target.ndim != 2 or target.shape[0] != zs.shape[1]:
        raise TypeError(
            f"values of (critics, batch, atoms) and a target of (batch, atoms), unlike {zs.shape} "
            f"and {target.shape}"
        )
