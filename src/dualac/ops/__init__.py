"""The arithmetic that an update spends its time on, behind one door.

Layers of networks, the loss of quantile critics, Adam and Polyak averaging are written twice: in
`reference` with JAX, for every device, and in `native` as passes in C, for the CPU, where they
take less time and all cores of a run. Both compute the same, to rounding. A pass gives the same
bits however many cores share it. Without a compiler all is the reference.
"""

from collections.abc import Sequence
from typing import Any

from jaxtyping import Array, Float

from dualac.ops import native, reference
from dualac.ops.build import identity, reference_only, start_helpers, uses_native, why_not_native
from dualac.ops.reference import Layer, Stack, length

__all__ = [
    "Layer",
    "Stack",
    "adam",
    "identity",
    "layers",
    "length",
    "polyak_average",
    "quantile_loss",
    "reference_only",
    "start_helpers",
    "uses_native",
    "why_not_native",
]


def layers(
    inputs: Sequence[Float[Array, "*batch _"]], stacks: Sequence[Stack]
) -> Float[Array, "networks *batch m"]:
    """Pass the same inputs through networks of the same sizes, side by side.

    Each network is some layers with a ReLU between every two. The inputs come apart because rarely
    the slopes of all are needed: of a critic only those by the action. A native pass has slopes,
    but no slopes of slopes.
    """
    reference.require_fitting_layers(inputs, stacks)
    if native.can_pass_layers(inputs, stacks):
        return native.layers(inputs, stacks)
    return reference.layers(inputs, stacks)


def quantile_loss(
    zs: Float[Array, "critics batch atoms"], target: Float[Array, "batch targets"], kappa: float
) -> tuple[Float[Array, "critics batch"], Float[Array, "critics batch atoms"]]:
    """Return the sums over all pairs of |level_l - 1(u < 0)| H(u), u = y_j - z_l, and their slopes.

    The slopes are by z. Both come from one walk over the target's atoms.
    """
    reference.require_fitting_quantiles(zs, target)
    if native.can_compare_quantiles(zs, target):
        return native.quantile_loss(zs, target, kappa)
    return reference.quantile_loss(zs, target, kappa)


def adam(
    trained: tuple[Any, Any, Any], grads: Any, rate: Array, eps: Array, *, b1: float, b2: float
) -> tuple[tuple[Any, Any, Any], Float[Array, ""]]:
    """Return parameters, m and v after p - rate m / (sqrt(v) + eps), and the gradient's length.

    `trained` is the parameters and the running means of their gradients (m) and of the gradients'
    squares (v).
    """
    if native.can_move(*trained, grads):
        return native.adam(trained, grads, rate, eps, b1=b1, b2=b2)
    return reference.adam(trained, grads, rate, eps, b1=b1, b2=b2)


def polyak_average(slow: Any, fast: Any, weight: float) -> Any:
    """Return (1 - weight) slow + weight fast."""
    if native.can_move(slow, fast):
        return native.polyak_average(slow, fast, weight)
    return reference.polyak_average(slow, fast, weight)
