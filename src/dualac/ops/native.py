"""The passes of `native/kernels.c` as functions of JAX, with their derivatives."""

import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from dualac.ops import build
from dualac.ops.reference import Inputs, Stack, split_rows

MOST_LAYERS = 64  # of a pass, of all its networks
FEW_ROWS = 8  # below which the reference is as fast: what acts has one row
SMALL = 4096  # parameters up to which a pass would cost more than it saves
# Gradients whose squares are added up by themselves, so that their sum is the same however many
# cores share them.
STRETCH = 1024

Shape = jax.ShapeDtypeStruct


def can_pass_layers(inputs: Sequence[Array], stacks: Sequence[Stack]) -> bool:
    """Tell whether these layers can go through a pass, and whether that is worth it."""
    rows = math.prod(inputs[0].shape[:-1])
    if rows < FEW_ROWS or len(stacks[0]) > MOST_LAYERS:
        return False
    return not _any_empty(inputs, stacks) and _are_float32(inputs, stacks)


def layers(
    inputs: Sequence[Float[Array, "*batch _"]], stacks: Sequence[Stack]
) -> Float[Array, "networks *batch m"]:
    batch = inputs[0].shape[:-1]
    flat = tuple(x.reshape(math.prod(batch), x.shape[-1]) for x in inputs)
    together = MOST_LAYERS // len(stacks[0])  # networks of a pass
    outputs = [
        _networks(flat, tuple(map(tuple, stacks[first : first + together])))
        for first in range(0, len(stacks), together)
    ]
    return jnp.concatenate(outputs).reshape(len(stacks), *batch, -1)


@jax.custom_vjp
def _networks(inputs: Inputs, stacks: tuple[Stack, ...]) -> Float[Array, "networks rows m"]:
    return _networks_forward(inputs, stacks)[0]


Residuals = tuple[Inputs, list[Array], list[list[Array]]]  # inputs, layers' inputs, kernels


def _networks_forward(inputs: Inputs, stacks: tuple[Stack, ...]) -> tuple[Array, Residuals]:
    """Return the outputs, and each layer's input: the first layers' is the same for all."""
    x = jnp.concatenate(inputs, axis=-1)
    results = [_float32(len(stacks), x.shape[0], kernel.shape[1]) for kernel, _ in stacks[0]]
    parameters = [array for stack in stacks for layer in stack for array in layer]
    *hidden, y = _call(build.FORWARD, results)(x, *parameters)
    kernels = [[kernel for kernel, _ in stack] for stack in stacks]
    return y, (inputs, [x, *hidden], kernels)


def _networks_backward(
    residuals: Residuals, slope: Array
) -> tuple[Inputs, tuple[tuple[tuple[Array, Array], ...], ...]]:
    """Return the slopes by inputs, kernels and biases.

    Each kind comes from a call of its own, which XLA leaves out where nobody needs its result.
    """
    inputs, layer_inputs, kernels = residuals
    networks, depth = len(kernels), len(layer_inputs)
    hidden = layer_inputs[:0:-1]  # the last first
    slopes = [slope]
    if hidden:
        later = [kernel for of_one in kernels for kernel in of_one[:0:-1]]
        slopes += _call(build.BACKWARD, _shapes(hidden))(slope, *later, *hidden)

    flat = [kernel for of_one in kernels for kernel in of_one]
    biases = [_float32(kernel.shape[1]) for kernel in flat]
    gradients = _call(build.GRADIENTS, [*_shapes(flat), *biases])(*layer_inputs, *slopes[::-1])
    pairs = list(zip(gradients[: len(flat)], gradients[len(flat) :], strict=True))
    by_layers = tuple(tuple(pairs[first : first + depth]) for first in range(0, len(flat), depth))

    first_kernels = zip(*(split_rows(of_one[0], inputs) for of_one in kernels), strict=True)
    by_inputs = []
    for x, rows in zip(inputs, first_kernels, strict=True):
        result = [_float32(networks, *x.shape)]
        by_inputs.append(_call(build.BACKWARD, result)(slopes[-1], *rows)[0].sum(axis=0))
    return tuple(by_inputs), by_layers


_networks.defvjp(_networks_forward, _networks_backward)


def can_compare_quantiles(zs: Array, target: Array) -> bool:
    return not _any_empty(zs, target) and _are_float32(zs, target)


def quantile_loss(zs: Array, target: Array, kappa: float) -> tuple[Array, Array]:
    results = [_float32(*zs.shape[:2]), _float32(*zs.shape)]
    losses, slopes = _call(build.QUANTILE_LOSS, results)(zs, target, kappa=np.float32(kappa))
    return losses, slopes


def can_move(first: Any, *others: Any) -> bool:
    """Tell whether these trees are alike, and large enough to be worth a pass."""
    shapes = jax.tree.map(jnp.shape, first)
    alike = all(
        jax.tree.structure(tree) == jax.tree.structure(first)
        and jax.tree.map(jnp.shape, tree) == shapes
        for tree in others
    )
    size = sum(map(jnp.size, jax.tree.leaves(first)))
    return alike and size > SMALL and _are_float32(first, *others)


def adam(
    trained: tuple[Any, Any, Any], grads: Any, rate: Array, eps: Array, *, b1: float, b2: float
) -> tuple[tuple[Any, Any, Any], Float[Array, ""]]:
    structure = jax.tree.structure(grads)
    count = structure.num_leaves
    arrays = jax.tree.leaves(trained)
    stretches = sum(math.ceil(leaf.size / STRETCH) for leaf in jax.tree.leaves(grads))
    call = _call(
        build.ADAM,
        [*_shapes(arrays), _float32(stretches)],
        {2 + place: place for place in range(3 * count)},
    )
    *moved, squares = call(
        jnp.float32(rate),
        jnp.float32(eps),
        *arrays,
        *jax.tree.leaves(grads),
        b1=np.float32(b1),
        b2=np.float32(b2),
        new1=np.float32(1.0 - b1),
        new2=np.float32(1.0 - b2),
        stretch=np.int64(STRETCH),
    )
    params, mean, square = (
        jax.tree.unflatten(structure, moved[kind * count : (kind + 1) * count]) for kind in range(3)
    )
    return (params, mean, square), jnp.sqrt(squares.sum())


def polyak_average(slow: Any, fast: Any, weight: float) -> Any:
    leaves, structure = jax.tree.flatten(slow)
    call = _call(build.POLYAK, _shapes(leaves), {place: place for place in range(len(leaves))})
    moved = call(
        *leaves,
        *jax.tree.leaves(fast),
        rest=np.float32(1.0 - weight),
        weight=np.float32(weight),
    )
    return jax.tree.unflatten(structure, moved)


def _any_empty(*trees: Any) -> bool:
    return any(leaf.size == 0 for leaf in jax.tree.leaves(trees))


def _are_float32(*trees: Any) -> bool:
    """Tell whether native passes can be had and these are numbers of theirs."""
    leaves = jax.tree.leaves(trees)
    return build.uses_native() and all(jnp.result_type(leaf) == jnp.float32 for leaf in leaves)


def _shapes(leaves: Sequence[Array]) -> list[Shape]:
    return [Shape(leaf.shape, leaf.dtype) for leaf in leaves]


def _float32(*shape: int) -> Shape:
    return Shape(shape, jnp.float32)


def _call(target: str, results: list[Shape], aliases: dict[int, int] | None = None) -> Any:
    """Make a call of a pass; of several seeds one after the other, each as alone, to the bit."""
    return jax.ffi.ffi_call(target, results, vmap_method="sequential", input_output_aliases=aliases)
