"""Adam, and parameters together with the state it moves them by."""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple, final

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from dualac import ops
from dualac.errors import UsageError
from dualac.parts.fields import check_fields

Params = Any


class AdamState(NamedTuple):
    """Running means of the gradient (m) and of its square (v), over the gradients seen so far (t).

    Checkpoints call their arrays by these names.
    """

    seen: Int[Array, ""]
    mean: Params
    square: Params


class Trained(NamedTuple):
    """Parameters that an optimiser moves."""

    params: Params
    adam: AdamState


def require_rates(part: Any, lr: float, b1: float = 0.9) -> None:
    """Refuse a part whose learning rate or momentum Adam cannot have."""
    if not (0 < lr < math.inf and 0 <= b1 < 1):
        raise UsageError(f"{part}: lr must be positive and b1 in [0, 1)")


@final
@dataclass(frozen=True)
class Adam:
    """p <- p - lr (m / (1 - b1^t)) / (sqrt(v / (1 - b2^t)) + eps)."""

    lr: float
    """learning rate"""
    b1: float = 0.9
    """how much of the running mean of the gradient a step keeps"""
    b2: float = 0.999
    """how much of the running mean of its square a step keeps"""
    eps: float = 1e-8
    """keeps the division finite"""

    def __post_init__(self) -> None:
        check_fields(self)
        require_rates(self, self.lr, self.b1)
        if not (0 <= self.b2 < 1 and 0 < self.eps < math.inf):
            raise UsageError(f"{self}: b2 must be in [0, 1) and eps positive")

    def init(self, params: Params) -> Trained:
        mean, square = (jax.tree.map(jnp.zeros_like, params) for _ in range(2))
        return Trained(params, AdamState(jnp.zeros((), jnp.int32), mean, square))

    def step(self, trained: Trained, grads: Params) -> tuple[Trained, Float[Array, ""]]:
        """Move the parameters once; return them, and the length of the gradient.

        The two corrections 1 - b^t are multiplied out of the sum over parameters.
        """
        seen = trained.adam.seen + 1
        correction = jnp.sqrt(1.0 - self.b2**seen)
        rate = self.lr * correction / (1.0 - self.b1**seen)
        before = (trained.params, trained.adam.mean, trained.adam.square)
        (params, mean, square), length = ops.adam(
            before, grads, rate, self.eps * correction, b1=self.b1, b2=self.b2
        )
        return Trained(params, AdamState(seen, mean, square)), length
