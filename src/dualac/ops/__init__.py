"""What an update spends its time on: layers of networks, the loss of quantile critics, and the
steps of the optimisers.

Each is written twice: as XLA has it, for every device, and as a pass of `kernels.c`, for the CPU,
where it takes less time and all cores of a run. Both compute the same, to rounding. A pass gives
the same bits however many cores share it.
"""

import itertools
import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from dualac.ops.build import (
    BACKWARD,
    DESCEND,
    FOLLOW,
    FORWARD,
    REGRESS,
    WEIGH,
    by_xla,
    gather,
    maker,
    native,
    why_not,
)

__all__ = [
    "Layer",
    "Stack",
    "adam",
    "by_xla",
    "gather",
    "layers",
    "length",
    "maker",
    "native",
    "polyak",
    "regress",
    "why_not",
]

Layer = tuple[Float[Array, "n m"], Float[Array, "m"]]  # kernel and bias
Stack = Sequence[Layer]  # of a network

MOST = 64  # layers of a pass, of all its networks
FEW = 8  # rows below which XLA is as fast: what acts has one
SMALL = 4096  # parameters up to which a pass would cost more than it saves
# gradients whose squares are added up by themselves, so that their sum is the same however many
# cores share them
STRETCH = 1024
NARROW = 64  # outputs up to which XLA's weight gradient is cheaper by the other side


def layers(
    inputs: Sequence[Float[Array, "*batch _"]], stacks: Sequence[Stack]
) -> Float[Array, "networks *batch m"]:
    """What networks of the same sizes, each some layers with a ReLU between every two, make of the
    same inputs side by side.

    The inputs come apart since rarely the slopes of all are asked for: a critic's is asked for with
    respect to the action alone. By passes there are slopes, but no slopes of slopes.
    """
    _require_sizes(inputs, stacks)
    batch, depth = inputs[0].shape[:-1], len(stacks[0])
    rows = math.prod(batch)
    empty = any(leaf.size == 0 for leaf in jax.tree.leaves((inputs, stacks)))
    if rows < FEW or depth > MOST or empty or not _fits(inputs, stacks):
        return jnp.stack([_layer_by_layer(inputs, stack) for stack in stacks])
    flat, together = tuple(x.reshape(rows, x.shape[-1]) for x in inputs), MOST // depth
    passes = [
        _passed(flat, tuple(map(tuple, stacks[first : first + together])))
        for first in range(0, len(stacks), together)
    ]
    return jnp.concatenate(passes).reshape(len(stacks), *batch, -1)


def _layer_by_layer(
    inputs: Sequence[Float[Array, "*batch _"]], stack: Stack
) -> Float[Array, "*batch m"]:
    *hidden, (kernel, bias) = stack
    for layer in hidden:
        inputs = [jax.nn.relu(_plus(_product(tuple(inputs), layer[0]), layer[1]))]
    return _plus(_product(tuple(inputs), kernel), bias)


def _plus(x: Array, bias: Array) -> Array:
    return x + jnp.broadcast_to(bias, x.shape)


def regress(
    zs: Float[Array, "critics batch atoms"], target: Float[Array, "batch targets"], kappa: float
) -> tuple[Float[Array, "critics batch"], Float[Array, "critics batch atoms"]]:
    """The sums over all pairs of |level_l - 1(u < 0)| H(u), u = y_j - z_l, and their slopes by z,
    both by one walk over the target's atoms.

    What is held then fits the cache: with all pairs at once it takes sixty times as long on a CPU.
    """
    if zs.ndim != 3 or target.ndim != 2 or target.shape[0] != zs.shape[1]:  # C would not notice
        raise TypeError(
            f"values of (critics, batch, atoms) and a target of (batch, atoms), unlike {zs.shape} "
            f"and {target.shape}"
        )
    if _fits(zs, target) and zs.size and target.size:
        return tuple(
            _call(REGRESS, [_float32(*zs.shape[:2]), _float32(*zs.shape)])(
                zs, target, kappa=_f(kappa)
            )
        )
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
    learned: tuple[Any, Any, Any], grads: Any, step: Array, least: Array, *, b1: float, b2: float
) -> tuple[tuple[Any, Any, Any], Float[Array, ""]]:
    """Parameters, and the running means of their gradients (m) and of the gradients' squares (v),
    after p - step m / (sqrt(v) + least); and the length of the gradient, which costs next to
    nothing where a pass goes through it anyway.
    """
    trees = [jax.tree.flatten(tree) for tree in (*learned, grads)]
    (leaves, tree), *_ = trees
    if _large(*learned, grads):
        given = [leaf for leaves, _ in trees for leaf in leaves]
        count = len(leaves)
        stretches = sum(math.ceil(leaf.size / STRETCH) for leaf in leaves)
        call = _call(
            DESCEND,
            [*_alike(given[: 3 * count]), _float32(stretches)],
            {2 + place: place for place in range(3 * count)},
        )
        rates = {"b1": _f(b1), "b2": _f(b2), "new1": _f(1.0 - b1), "new2": _f(1.0 - b2)}
        *moved, squares = call(
            jnp.float32(step), jnp.float32(least), *given, **rates, stretch=np.int64(STRETCH)
        )
        params, mean, square = (
            jax.tree.unflatten(tree, moved[kind * count : (kind + 1) * count]) for kind in range(3)
        )
        return (params, mean, square), jnp.sqrt(squares.sum())
    params, mean, square = learned
    mean = jax.tree.map(lambda m, g: b1 * m + (1.0 - b1) * g, mean, grads)
    square = jax.tree.map(lambda v, g: b2 * v + (1.0 - b2) * g**2, square, grads)
    params = jax.tree.map(
        lambda p, m, v: p - step * m / (jnp.sqrt(v) + least), params, mean, square
    )
    return (params, mean, square), length(grads)


def length(tree: Any) -> Float[Array, ""]:
    """Of all its numbers, taken as one vector."""
    return jnp.sqrt(jnp.stack([jnp.vdot(leaf, leaf) for leaf in jax.tree.leaves(tree)]).sum())


def polyak(slow: Any, fast: Any, weight: float) -> Any:
    """(1 - weight) slow + weight fast."""
    leaves, tree = jax.tree.flatten(slow)
    if _large(slow, fast):
        call = _call(FOLLOW, _alike(leaves), {place: place for place in range(len(leaves))})
        return jax.tree.unflatten(
            tree, call(*leaves, *jax.tree.leaves(fast), rest=_f(1.0 - weight), weight=_f(weight))
        )
    return jax.tree.map(lambda slow, fast: (1.0 - weight) * slow + weight * fast, slow, fast)


def _require_sizes(inputs: Sequence[Array], stacks: Sequence[Stack]) -> None:
    """C would not notice."""
    if len({x.shape[:-1] for x in inputs}) != 1:
        raise TypeError(
            "inputs side by side have the same axes but for the last, unlike "
            f"{', '.join(str(x.shape) for x in inputs)}"
        )
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
                    f"a layer of kernel {kernel.shape} and bias {bias.shape} does not fit what it "
                    f"is given, {size} wide"
                )
            size = kernel.shape[1]


def _fits(*trees: Any) -> bool:
    return native() and all(jnp.result_type(leaf) == jnp.float32 for leaf in jax.tree.leaves(trees))


def _large(first: Any, *others: Any) -> bool:
    """Whether these are as like one another as a pass takes them to be, and large enough for
    one.
    """
    shapes = jax.tree.map(jnp.shape, first)
    alike = all(
        jax.tree.structure(tree) == jax.tree.structure(first)
        and jax.tree.map(jnp.shape, tree) == shapes
        for tree in others
    )
    return alike and sum(map(jnp.size, jax.tree.leaves(first))) > SMALL and _fits(first, *others)


def _f(number: float) -> np.float32:
    return np.float32(number)


def _alike(leaves: Sequence[Array]) -> list[jax.ShapeDtypeStruct]:
    return [jax.ShapeDtypeStruct(leaf.shape, leaf.dtype) for leaf in leaves]


def _float32(*shape: int) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, jnp.float32)


Inputs = tuple[Array, ...]  # (rows, some columns) each


@jax.custom_vjp
def _passed(inputs: Inputs, stacks: tuple[Stack, ...]) -> Float[Array, "networks rows m"]:
    return _passed_and_seen(inputs, stacks)[0]


def _passed_and_seen(
    inputs: Inputs, stacks: tuple[Stack, ...]
) -> tuple[Array, tuple[Inputs, list[Array], list[list[Array]]]]:
    """And what each layer saw: the first ones the same, the others what their own network had made
    of it.
    """
    x = jnp.concatenate(inputs, axis=-1)
    made = [_float32(len(stacks), x.shape[0], kernel.shape[1]) for kernel, _ in stacks[0]]
    *seen, y = _call(FORWARD, made)(
        x, *(array for stack in stacks for layer in stack for array in layer)
    )
    return y, (inputs, [x, *seen], [[kernel for kernel, _ in stack] for stack in stacks])


def _slopes(
    told: tuple[Inputs, list[Array], list[list[Array]]], slope: Array
) -> tuple[Inputs, tuple[Stack, ...]]:
    """Each by a call of its own that XLA leaves out where nobody asks for it: hidden layers',
    kernels' and biases', every input's.
    """
    inputs, seen, kernels = told
    networks, depth = len(kernels), len(seen)
    by_relus = seen[:0:-1]
    slopes = [slope]
    if by_relus:
        slopes += _call(BACKWARD, _alike(by_relus))(
            slope, *(kernel for of_one in kernels for kernel in of_one[:0:-1]), *by_relus
        )
    every = [kernel for of_one in kernels for kernel in of_one]
    weighed = _call(WEIGH, [*_alike(every), *(_float32(kernel.shape[1]) for kernel in every)])(
        *seen, *slopes[::-1]
    )
    of_layers = list(zip(weighed[: len(every)], weighed[len(every) :], strict=True))
    parts = zip(*(_parts(of_one[0], inputs) for of_one in kernels), strict=True)
    of_inputs = tuple(
        _call(BACKWARD, [_float32(networks, *x.shape)])(slopes[-1], *part)[0].sum(axis=0)
        for x, part in zip(inputs, parts, strict=True)
    )
    return of_inputs, tuple(
        tuple(of_layers[first : first + depth]) for first in range(0, len(every), depth)
    )


def _parts(kernel: Array, inputs: Inputs) -> list[Array]:
    """The rows of a kernel that each input is multiplied with."""
    return jnp.split(kernel, list(itertools.accumulate(x.shape[-1] for x in inputs))[:-1])


def _call(
    name: str, results: list[jax.ShapeDtypeStruct], aliases: dict[int, int] | None = None
) -> Any:
    """Of several seeds one after the other: each as it is alone, to the bit."""
    return jax.ffi.ffi_call(name, results, vmap_method="sequential", input_output_aliases=aliases)


_passed.defvjp(_passed_and_seen, _slopes)


@jax.custom_vjp
def _product(inputs: Inputs, kernel: Float[Array, "n m"]) -> Float[Array, "*batch m"]:
    """x W. Where W has few columns its gradient x'y is made as (y'x)': XLA's CPU product that reads
    x across takes six times as long.
    """
    return _product_and_seen(inputs, kernel)[0]


def _product_and_seen(inputs: Inputs, kernel: Array) -> tuple[Array, tuple[Inputs, Array]]:
    return jnp.concatenate(inputs, axis=-1) @ kernel, (inputs, kernel)


def _gradients(seen: tuple[Inputs, Array], slope: Array) -> tuple[Inputs, Array]:
    inputs, kernel = seen
    rows = math.prod(slope.shape[:-1])
    x, slopes = (
        jnp.concatenate(inputs, axis=-1).reshape(rows, kernel.shape[0]),
        slope.reshape(rows, kernel.shape[1]),
    )
    # The barrier keeps XLA from turning the one product into the other.
    of_kernel = (
        jax.lax.optimization_barrier(slopes.T @ x).T if slopes.shape[-1] <= NARROW else x.T @ slopes
    )
    return tuple(slope @ part.T for part in _parts(kernel, inputs)), of_kernel


_product.defvjp(_product_and_seen, _gradients)
