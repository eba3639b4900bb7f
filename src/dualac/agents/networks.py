"""The networks, and the only file that knows flax.

Kernels are orthogonal with gain sqrt(2), the critic's output included; biases start at zero:
SR-SAC's choice, which the paper's code inherits.
"""

import itertools
import math
from collections.abc import Sequence
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from dualac.ops import Layer, layers

GAIN = math.sqrt(2.0)


WIDEST = 65_536
DORMANT = 0.025


def sensible(hidden: Sequence[int]) -> bool:
    """Whether these can be the widths of hidden layers."""
    return bool(hidden) and all(1 <= width <= WIDEST for width in hidden)


class Linear(nn.Module):
    """Kernel and bias of a layer, to be applied by whoever asks."""

    width: int
    gain: float = GAIN
    bias: bool = True

    @nn.compact
    def __call__(self, inputs: int) -> tuple[Array, Array]:
        kernel = self.param("kernel", nn.initializers.orthogonal(self.gain), (inputs, self.width))
        return kernel, self.param(
            "bias", nn.initializers.zeros, (self.width,)
        ) if self.bias else jnp.zeros(self.width)


class Trunk(nn.Module):
    """Layers that each come before a ReLU, and what normalises each, to be applied by whoever
    asks.
    """

    hidden: Sequence[int]
    layer_norm: bool = False

    @nn.compact
    def __call__(self, inputs: int) -> tuple[list[Layer], list[nn.LayerNorm]]:
        sizes = itertools.pairwise((inputs, *self.hidden))
        stack = [
            Linear(width, name=f"Dense_{number}")(size)
            for number, (size, width) in enumerate(sizes)
        ]
        return stack, [
            nn.LayerNorm(name=f"LayerNorm_{number}")
            for number in range(len(stack) if self.layer_norm else 0)
        ]


def through(
    network: nn.Module, inputs: Sequence[Array], trunks: Sequence[Trunk], lasts: Sequence[Layer]
) -> Float[Array, "trunks *batch m"]:
    """What these trunks of a network, each with a last layer behind it, make of the same inputs."""
    stacks, norms = zip(*(trunk(sum(x.shape[-1] for x in inputs)) for trunk in trunks), strict=True)
    watched = (
        network.is_mutable_collection("intermediates") and not network.is_initializing()
    )  # by `dormant`
    if not norms[0] and not watched:
        return layers(inputs, [[*stack, last] for stack, last in zip(stacks, lasts, strict=True)])
    made = []
    for stack, normed, last in zip(stacks, norms, lasts, strict=True):
        hidden = inputs
        for layer, norm in itertools.zip_longest(stack, normed):
            x = layers(hidden, [[layer]])[0]
            hidden = [nn.relu(norm(x) if norm else x)]
            network.sow("intermediates", "hidden", hidden[0])
        made.append(layers(hidden, [[last]])[0])
    return jnp.stack(made)


def heads(
    network: nn.Module, inputs: Sequence[Array], trunk: Trunk, *outputs: Linear
) -> list[Array]:
    """What several layers make of the same trunk, by one product."""
    kernels, biases = zip(*(layer(trunk.hidden[-1]) for layer in outputs), strict=True)
    return jnp.split(
        through(
            network, inputs, [trunk], [(jnp.concatenate(kernels, axis=-1), jnp.concatenate(biases))]
        )[0],
        len(outputs),
        axis=-1,
    )


class DeterministicActor(nn.Module):
    """The pre-tanh action."""

    hidden: Sequence[int]
    action_dim: int

    @nn.compact
    def __call__(self, obs: Array) -> Array:
        return heads(self, [obs], Trunk(self.hidden), Linear(self.action_dim, name="mean"))[0]


class GaussianActor(nn.Module):
    """mean(s) and log sigma(s) = -10 + 6 (1 + tanh l(s)): bounded smoothly to (-10, 2), so that its
    gradient never dies at a clip.
    """

    hidden: Sequence[int]
    action_dim: int

    @nn.compact
    def __call__(self, obs: Array) -> tuple[Array, Array]:
        mean, raw = heads(
            self,
            [obs],
            Trunk(self.hidden),
            Linear(self.action_dim, name="mean"),
            Linear(self.action_dim, gain=1.0, name="log_std"),
        )
        return mean, bounded_log_std(raw)


class Perturbation(nn.Module):
    """How an optimist departs from a pessimist: shift(s, mu_p) and log multiplier tanh u(s, mu_p);
    no biases, so that both start near zero.
    """

    hidden: Sequence[int]
    action_dim: int
    head_gain: float
    widens: bool  # whether there is a multiplier at all

    @nn.compact
    def __call__(self, obs: Array, mean: Array) -> tuple[Array, Array]:
        names = ("shift", "log_multiplier") if self.widens else ("shift",)
        shift, *multiplier = heads(
            self,
            [obs, mean],
            Trunk(self.hidden),
            *(Linear(self.action_dim, self.head_gain, bias=False, name=name) for name in names),
        )
        return shift, jnp.tanh(multiplier[0]) if multiplier else jnp.zeros_like(shift)


class Critics(nn.Module):
    """`k` critics with parameters of their own, each with `atoms` outputs (one for a scalar value).

    Listed, not stacked: a critic stays with the core that it is on, and XLA multiplies separate
    matrices a little faster (docs/design.md).
    """

    k: int
    hidden: Sequence[int]
    layer_norm: bool
    atoms: int = 1

    @nn.compact
    def __call__(self, obs: Array, action: Array) -> Float[Array, "critics *batch atoms"]:
        trunks = [Trunk(self.hidden, self.layer_norm, name=f"critic_{i}") for i in range(self.k)]
        return through(
            self,
            [obs, action],
            trunks,
            [Linear(self.atoms, name=f"value_{i}")(self.hidden[-1]) for i in range(self.k)],
        )


def bounded_log_std(raw: Array) -> Array:
    return -10.0 + 6.0 * (1.0 + jnp.tanh(raw))


def apply(network: nn.Module, params: Any, *inputs: Array) -> Any:
    return network.apply(params, *inputs)


def dormant(network: nn.Module, params: Any, *inputs: Array) -> Float[Array, ""]:
    """Share of hidden units whose mean activation over the batch is at most a fortieth of their
    layer's (Sokar et al., 2023).
    """
    _, seen = network.apply(params, *inputs, mutable=["intermediates"])
    activity = [
        layer.reshape(-1, layer.shape[-1]).mean(axis=0) for layer in jax.tree.leaves(seen)
    ]  # after ReLU: never negative
    return jnp.concatenate([units <= DORMANT * units.mean() for units in activity]).mean()


def action_dim(actor_params: dict) -> int:
    """An actor's parameters know how many actions it has, so applying it needs no second record of
    that number.
    """
    heads = actor_params["params"]
    return heads["mean" if "mean" in heads else "shift"]["kernel"].shape[-1]
