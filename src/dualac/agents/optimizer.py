"""Parameters together with the optimiser that moves them."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from dualac import ops

Params = Any
B2, EPS = 0.999, 1e-8


class Adam(NamedTuple):
    """Running means of the gradient and of its square (m and v), and how many gradients they have
    seen (t).
    """

    seen: Int[Array, ""]
    mean: Params
    square: Params


class Trained(NamedTuple):
    params: Params
    adam: Adam


def trained(params: Params) -> Trained:
    mean, square = (jax.tree.map(jnp.zeros_like, params) for _ in range(2))
    return Trained(params, Adam(jnp.zeros((), jnp.int32), mean, square))


def descend(
    learner: Trained, grads: Params, lr: float, b1: float = 0.9
) -> tuple[Trained, Float[Array, ""]]:
    """One step of Adam: p - lr (m / (1 - b1^t)) / (sqrt(v / (1 - b2^t)) + eps), its two corrections
    multiplied out of the sum over parameters; and the length of the gradient.
    """
    seen = learner.adam.seen + 1
    correction = jnp.sqrt(1.0 - B2**seen)
    step, least = lr * correction / (1.0 - b1**seen), EPS * correction
    params, mean, square, grad_norm = ops.adam(
        (learner.params, learner.adam.mean, learner.adam.square), grads, step, least, b1=b1, b2=B2
    )
    return Trained(params, Adam(seen, mean, square)), grad_norm


def without_optimizers(tree: Any) -> Any:
    """The same without optimisers: what acts needs none, and each array that is handed to a
    compiled function costs it a microsecond.
    """
    return jax.tree.map(
        lambda node: node._replace(adam=()) if _is_trained(node) else node,
        tree,
        is_leaf=_is_trained,
    )


def _is_trained(node: Any) -> bool:
    return isinstance(node, Trained)


def polyak_average(target: Params, online: Params, weight: float) -> Params:
    """target <- (1 - weight) target + weight online."""
    return ops.polyak(target, online, weight)


def frozen(tree: Any) -> Any:
    """The same values as constants: no gradient passes."""
    return jax.tree.map(jax.lax.stop_gradient, tree)


def all_finite(tree: Any) -> Array:
    return jnp.all(jnp.stack([jnp.isfinite(leaf).all() for leaf in jax.tree.leaves(tree)]))
