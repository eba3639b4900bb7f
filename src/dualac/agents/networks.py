"""The networks: how their parameters start, and what they make of their inputs.

Parameters are dictionaries of arrays, for example of an actor with one hidden layer

    {"params": {"Trunk_0": {"Dense_0": {"kernel", "bias"}}, "mean": {"kernel", "bias"}}}

Checkpoints call their arrays by these names, and each kernel is drawn by its own: do not rename.
Kernels are orthogonal with gain sqrt(2), the critic's output included; biases start at zero:
SR-SAC's choice, which the paper's code inherits.
"""

import hashlib
import itertools
import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from dualac import ops
from dualac.types import Actions, CriticValues, Key, Obs, Spec

Params = dict[str, Any]

GAIN = math.sqrt(2.0)
WIDEST = 65_536
DORMANT = 0.025  # of the mean activation of a layer's units
LAYER_NORM_EPS = 1e-6


def sensible(hidden: Sequence[int]) -> bool:
    """Tell whether these can be the widths of hidden layers."""
    return bool(hidden) and all(1 <= width <= WIDEST for width in hidden)


# How parameters start.


def init_gaussian_actor(key: Key, spec: Spec, hidden: Sequence[int]) -> Params:
    gains = {"mean": GAIN, "log_std": 1.0}
    return _init_actor(key, spec.obs_dim, hidden, spec.action_dim, gains)


def init_deterministic_actor(key: Key, spec: Spec, hidden: Sequence[int]) -> Params:
    return _init_actor(key, spec.obs_dim, hidden, spec.action_dim, {"mean": GAIN})


def init_perturbation(
    key: Key, spec: Spec, hidden: Sequence[int], head_gain: float, *, widens: bool
) -> Params:
    """Make heads without biases, so that shift and multiplier both start near zero."""
    gains = {"shift": head_gain} | ({"log_multiplier": head_gain} if widens else {})
    inputs = spec.obs_dim + spec.action_dim
    return _init_actor(key, inputs, hidden, spec.action_dim, gains, bias=False)


def init_critics(
    key: Key, spec: Spec, k: int, hidden: Sequence[int], *, layer_norm: bool, atoms: int
) -> Params:
    """List `k` critics with parameters of their own: each stays with a core (docs/design.md)."""
    params = {}
    for i in range(k):
        params[f"critic_{i}"] = _init_trunk(
            key, f"critic_{i}", spec.obs_dim + spec.action_dim, hidden, layer_norm=layer_norm
        )
        params[f"value_{i}"] = _init_layer(key, (f"value_{i}",), hidden[-1], atoms)
    return {"params": params}


def _init_actor(
    key: Key,
    inputs: int,
    hidden: Sequence[int],
    actions: int,
    gains: dict[str, float],
    *,
    bias: bool = True,
) -> Params:
    """Make a trunk and a head of this gain for each name."""
    heads = {
        name: _init_layer(key, (name,), hidden[-1], actions, gain, bias=bias)
        for name, gain in gains.items()
    }
    return {"params": {"Trunk_0": _init_trunk(key, "Trunk_0", inputs, hidden), **heads}}


def _init_trunk(
    key: Key, name: str, inputs: int, hidden: Sequence[int], *, layer_norm: bool = False
) -> Params:
    trunk = {}
    for i, (n, m) in enumerate(itertools.pairwise((inputs, *hidden))):
        trunk[f"Dense_{i}"] = _init_layer(key, (name, f"Dense_{i}"), n, m)
        if layer_norm:
            trunk[f"LayerNorm_{i}"] = {"scale": jnp.ones(m), "bias": jnp.zeros(m)}
    return trunk


def _init_layer(
    key: Key,
    path: tuple[str, ...],
    inputs: int,
    outputs: int,
    gain: float = GAIN,
    *,
    bias: bool = True,
) -> Params:
    draw = jax.nn.initializers.orthogonal(gain)
    layer = {"kernel": draw(_key_of(key, path), (inputs, outputs))}
    return layer | {"bias": jnp.zeros(outputs)} if bias else layer


def _key_of(key: Key, path: tuple[str, ...]) -> Key:
    """Derive a layer's own key from its names; the same as flax's, and so the same weights."""
    digest = hashlib.sha1("".join(path).encode() + b"\x01").digest()
    return jax.random.fold_in(key, jnp.uint32(int.from_bytes(digest[:4], "big")))


# What they make of their inputs.


def deterministic_actor(params: Params, obs: Obs) -> Actions:
    """Return the action before tanh."""
    return _heads(params, [obs], "mean")[0]


def gaussian_actor(params: Params, obs: Obs) -> tuple[Actions, Actions]:
    """Return the mean before tanh, and the bounded logarithm of the standard deviation."""
    mean, raw = _heads(params, [obs], "mean", "log_std")
    return mean, bounded_log_std(raw)


def perturbation(params: Params, obs: Obs, mean: Actions) -> tuple[Actions, Actions]:
    """Return shift(s, mu_p) and the log multiplier tanh u(s, mu_p), 0 without such a head."""
    if "log_multiplier" not in params["params"]:
        shift = _heads(params, [obs, mean], "shift")[0]
        return shift, jnp.zeros_like(shift)
    shift, raw = _heads(params, [obs, mean], "shift", "log_multiplier")
    return shift, jnp.tanh(raw)


def critics(params: Params, obs: Obs, action: Actions) -> CriticValues:
    tree = params["params"]
    numbers = range(len(tree) // 2)
    trunks = [tree[f"critic_{i}"] for i in numbers]
    values = [tree[f"value_{i}"] for i in numbers]
    return _through([obs, action], trunks, [_kernel_and_bias(value) for value in values])


def bounded_log_std(raw: Array) -> Array:
    """Bound it smoothly to (-10, 2), so that its gradient never dies at a clip."""
    return -10.0 + 6.0 * (1.0 + jnp.tanh(raw))


def dormant(params: Params, *inputs: Array) -> Float[Array, ""]:
    """Return the share of units below 1/40 of their layer's mean activity (Sokar et al., 2023)."""
    trunks = [layers for layers in params["params"].values() if "Dense_0" in layers]
    asleep = []
    for trunk in trunks:
        for hidden in _hidden_units(inputs, trunk):
            units = hidden.reshape(-1, hidden.shape[-1]).mean(axis=0)  # never negative
            asleep.append(units <= DORMANT * units.mean())
    return jnp.concatenate(asleep).mean()


def _heads(params: Params, inputs: Sequence[Array], *names: str) -> list[Array]:
    """Return what several heads make of the same trunk, by one product."""
    tree = params["params"]
    kernels, biases = zip(*(_kernel_and_bias(tree[name]) for name in names), strict=True)
    last = jnp.concatenate(kernels, axis=-1), jnp.concatenate(biases)
    return jnp.split(_through(inputs, [tree["Trunk_0"]], [last])[0], len(names), axis=-1)


def _through(
    inputs: Sequence[Array], trunks: Sequence[Params], lasts: Sequence[ops.Layer]
) -> Float[Array, "trunks *batch m"]:
    """Pass the same inputs through each trunk and the last layer behind it."""
    if "LayerNorm_0" not in trunks[0]:
        stacks = [[*_hidden_layers(trunk), last] for trunk, last in zip(trunks, lasts, strict=True)]
        return ops.layers(inputs, stacks)
    outputs = []
    for trunk, last in zip(trunks, lasts, strict=True):
        hidden = _hidden_units(inputs, trunk)[-1]
        outputs.append(ops.layers([hidden], [[last]])[0])
    return jnp.stack(outputs)


def _hidden_units(inputs: Sequence[Array], trunk: Params) -> list[Array]:
    """Return what each hidden layer passes on: its units after normalisation and ReLU."""
    units = []
    for i, layer in enumerate(_hidden_layers(trunk)):
        x = ops.layers(inputs, [[layer]])[0]
        if norm := trunk.get(f"LayerNorm_{i}"):
            x = layer_norm(x, norm["scale"], norm["bias"])
        units.append(jax.nn.relu(x))
        inputs = units[-1:]
    return units


def layer_norm(
    x: Float[Array, "*batch m"], scale: Float[Array, "m"], bias: Float[Array, "m"]
) -> Float[Array, "*batch m"]:
    """Return x with mean 0 and variance 1 over its last axis, then scaled and shifted."""
    mean = x.mean(axis=-1, keepdims=True)
    variance = jnp.maximum((x * x).mean(axis=-1, keepdims=True) - mean * mean, 0.0)
    scale, bias = (jnp.expand_dims(row, range(x.ndim - 1)) for row in (scale, bias))
    return (x - mean) * (jax.lax.rsqrt(variance + LAYER_NORM_EPS) * scale) + bias


def _hidden_layers(trunk: Params) -> list[ops.Layer]:
    depth = sum(name.startswith("Dense_") for name in trunk)
    return [_kernel_and_bias(trunk[f"Dense_{i}"]) for i in range(depth)]


def _kernel_and_bias(layer: Params) -> ops.Layer:
    kernel = layer["kernel"]
    return kernel, layer["bias"] if "bias" in layer else jnp.zeros(kernel.shape[1])
