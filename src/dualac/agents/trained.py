"""Parameters together with the optimiser that moves them."""

import itertools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

Params = Any
B2, EPS = 0.999, 1e-8


class Adam(NamedTuple):
    """Running means of the gradient and of its square (m and v), and how many gradients they have seen (t)."""

    seen: Int[Array, ""]
    mean: Params
    square: Params


class Trained(NamedTuple):
    params: Params
    adam: Adam


def trained(params: Params) -> Trained:
    mean, square = (jax.tree.map(jnp.zeros_like, params) for _ in range(2))
    return Trained(params, Adam(jnp.zeros((), jnp.int32), mean, square))


PARTS, MEETING = "parts", "meeting"  # axes of devices over which a minibatch may be split: they exchange by XLA, or by a call of our own
MEAN = "dualac_mean"  # that call's name


def shared(means: Any) -> Any:
    """Means over a part of a minibatch, gradients of them among these, become means over all of it; what they are where it is whole."""
    return exchanged(means, ())[0]


def exchanged(means: Any, later: Any) -> tuple[Any, Any]:
    """`shared` means, and what is there only after them: of two exchanges each device must come to the same one first."""
    if parts := _size(MEETING):
        return _met(means, later, parts)
    return jax.lax.optimization_barrier((_pooled(means), later)) if _size(PARTS) else (means, later)


def _size(axis: str) -> int:
    try:
        return jax.lax.axis_size(axis)
    except NameError:  # no such axis: nothing is split over it
        return 0


def _met(means: Any, later: Any, parts: int) -> tuple[Any, Any]:
    leaves, tree = jax.tree.flatten((means, later))
    alike = [jax.ShapeDtypeStruct(leaf.shape, leaf.dtype) for leaf in leaves]
    averaged = len(jax.tree.leaves(means))
    return jax.tree.unflatten(tree, jax.ffi.ffi_call(MEAN, alike)(*leaves, means=averaged, parts=parts))


def _pooled(means: Any) -> Any:
    """As one vector: every exchange between devices has them wait for one another."""
    leaves, tree = jax.tree.flatten(means)
    vector = jax.lax.pmean(jnp.concatenate([leaf.ravel() for leaf in leaves]), PARTS)
    pieces = jnp.split(vector, list(itertools.accumulate(leaf.size for leaf in leaves))[:-1])
    return jax.tree.unflatten(tree, [piece.reshape(leaf.shape) for piece, leaf in zip(pieces, leaves, strict=True)])


def descend(learner: Trained, grads: Params, lr: float, b1: float = 0.9) -> Trained:
    """One step of Adam: p - lr (m / (1 - b1^t)) / (sqrt(v / (1 - b2^t)) + eps), its two corrections multiplied out of the sum over parameters."""
    seen = learner.adam.seen + 1
    mean = jax.tree.map(lambda m, g: b1 * m + (1.0 - b1) * g, learner.adam.mean, grads)
    square = jax.tree.map(lambda v, g: B2 * v + (1.0 - B2) * g**2, learner.adam.square, grads)
    correction = jnp.sqrt(1.0 - B2**seen)
    step, least = lr * correction / (1.0 - b1**seen), EPS * correction
    params = jax.tree.map(lambda p, m, v: p - step * m / (jnp.sqrt(v) + least), learner.params, mean, square)
    return Trained(params, Adam(seen, mean, square))


def bare(tree: Any) -> Any:
    """The same without optimisers: what acts needs none, and each array that is handed to a compiled function costs it a microsecond."""
    return jax.tree.map(lambda node: node._replace(adam=()) if _is_trained(node) else node, tree, is_leaf=_is_trained)


def _is_trained(node: Any) -> bool:
    return isinstance(node, Trained)


def norm(params: Params) -> Float[Array, ""]:
    """Their length, all of them taken as one vector."""
    return jnp.sqrt(jnp.stack([jnp.vdot(leaf, leaf) for leaf in jax.tree.leaves(params)]).sum())


def polyak_average(target: Params, online: Params, weight: float) -> Params:
    """target <- (1 - weight) target + weight online."""
    return jax.tree.map(lambda slow, fast: (1.0 - weight) * slow + weight * fast, target, online)


def frozen(tree: Any) -> Any:
    """The same values as constants: no gradient passes."""
    return jax.tree.map(jax.lax.stop_gradient, tree)


def all_finite(tree: Any) -> Array:
    return jnp.all(jnp.stack([jnp.isfinite(leaf).all() for leaf in jax.tree.leaves(tree)]))
