"""The replay's ring on the device: minibatches are gathered where they are learned from, and only
indices and new transitions cross to it.
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dualac.training.replay import FOLLOWS, Ring, Slots, shapes
from dualac.types import Spec, Transition


class DeviceRing(Ring):
    """The same ring, to the bit, in arrays of JAX. Nothing crosses to the device or back that is
    not said here.
    """

    def __init__(self, capacity: int, spec: Spec) -> None:
        self.slots: Any = Slots._make(
            jnp.zeros((capacity, *shape), jnp.float32) for shape in shapes(spec)
        )
        self.ends: Any = jnp.zeros((16, spec.obs_dim), jnp.float32)

    def put(self, slots: Any, values: Slots) -> None:
        self.slots = _put(
            self.slots,
            _there(slots, np.int32),
            Slots._make(_there(value, np.float32) for value in values),
        )

    def keep(self, place: int, obs: np.ndarray) -> None:
        self.ends = _set(self.ends, _there(place, np.int32), _there(obs, np.float32))

    def grow(self) -> None:
        self.ends = jnp.concatenate([self.ends, jnp.zeros_like(self.ends)])

    def read(self, slots: np.ndarray) -> Slots:
        return jax.device_get(_take(self.slots, _there(slots, np.int32)))

    def led_to(self, slots: np.ndarray, led: np.ndarray) -> np.ndarray:
        return jax.device_get(
            _led_to(self.slots.obs, self.ends, _there(slots, np.int32), _there(led, np.int32))
        )

    def gather(self, slots: np.ndarray, led: np.ndarray) -> Transition:
        return _gather(self.slots, self.ends, _there(slots, np.int32), _there(led, np.int32))


def _there(value: Any, kind: type) -> jax.Array:
    """Of its own: what is put there must not change with the array it was."""
    return jax.device_put(np.array(value, kind))


@partial(jax.jit, donate_argnums=0)
def _put(ring: Any, slots: jax.Array, values: Any) -> Any:
    return jax.tree.map(lambda one, value: one.at[slots].set(value), ring, values)


@partial(jax.jit, donate_argnums=0)
def _set(ends: jax.Array, place: jax.Array, obs: jax.Array) -> jax.Array:
    return ends.at[place].set(obs)


@jax.jit
def _take(ring: Any, slots: jax.Array) -> Any:
    return jax.tree.map(lambda one: one[slots], ring)


@jax.jit
def _led_to(obs: jax.Array, ends: jax.Array, slots: jax.Array, led: jax.Array) -> jax.Array:
    return jnp.where(
        (led == FOLLOWS)[..., None], obs[(slots + 1) % len(obs)], ends[jnp.maximum(led, 0)]
    )


@jax.jit
def _gather(ring: Any, ends: jax.Array, slots: jax.Array, led: jax.Array) -> Transition:
    obs, action, reward, discount = _take(ring, slots)
    return Transition(obs, action, reward, discount, _led_to(ring.obs, ends, slots, led))
