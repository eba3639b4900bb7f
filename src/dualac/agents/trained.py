"""Parameters together with the optimiser that moves them."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float

Params = Any


class Trained(NamedTuple):
    params: Params
    adam: optax.OptState


def trained(params: Params, lr: float, b1: float = 0.9) -> Trained:
    return Trained(params, optax.adam(lr, b1=b1).init(params))


def descend(learner: Trained, grads: Params, lr: float, b1: float = 0.9) -> Trained:
    """One step of Adam."""
    updates, adam = optax.adam(lr, b1=b1).update(grads, learner.adam, learner.params)
    return Trained(optax.apply_updates(learner.params, updates), adam)


def norm(params: Params) -> Float[Array, ""]:
    """Their length, all of them taken as one vector."""
    return optax.tree.norm(params)


def polyak_average(target: Params, online: Params, weight: float) -> Params:
    """target <- (1 - weight) target + weight online."""
    return jax.tree.map(lambda slow, fast: (1.0 - weight) * slow + weight * fast, target, online)


def frozen(tree: Any) -> Any:
    """The same values as constants: no gradient passes."""
    return jax.tree.map(jax.lax.stop_gradient, tree)


def all_finite(tree: Any) -> Array:
    return jnp.all(jnp.stack([jnp.isfinite(leaf).all() for leaf in jax.tree.leaves(tree)]))
