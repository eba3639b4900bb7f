"""Where transitions are kept: a ring of slots in memory, in a file or on the device that learns.

An observation is stored once, because what a transition leads to is what the next one begins with:

    slot          0     1     2     3     4
    obs           s0    s1    s2    z0    z1     s2's episode ended in s3, z1 is the newest
    next slot     next  next  3     next  0      `next` is IS_NEXT, a number a row of stored_apart
    stored_apart  row 0: z2 (of the newest), row 3: s3 (of an episode's end), others are free
    transition 1 is (s1, ..., s2), read from slots 1 and 2
    transition 2 is (s2, ..., s3), read from slot 2 and row 3
"""

import os
import tempfile
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from dualac.types import Spec, Transition

IS_NEXT = -1  # in place of a row: the transition leads to what the next slot begins with
NEWEST = 0  # the row with what the newest transition led to
ROWS = 16  # of `stored_apart` at first


class Slots(NamedTuple):
    """The ring's arrays."""

    obs: np.ndarray
    action: np.ndarray
    reward: np.ndarray
    discount: np.ndarray


class Ring:
    """Slots, and the observations stored apart, as arrays of NumPy."""

    def __init__(self, capacity: int, spec: Spec, place: Path | None = None) -> None:
        """Allocate the arrays in memory, or in a file in the directory `place`.

        Nothing of the file is left when the process ends.
        """
        self.slots = Slots(*(_zeros((capacity, *shape), place) for shape in shapes(spec)))
        self.stored_apart = np.zeros((ROWS, spec.obs_dim), np.float32)

    def put(self, slots: Any, values: Slots) -> None:
        """Overwrite these slots."""
        for ring, value in zip(self.slots, values, strict=True):
            ring[slots] = value

    def store_apart(self, row: int, obs: np.ndarray) -> None:
        """Overwrite a row of `stored_apart`."""
        self.stored_apart[row] = obs

    def grow(self) -> None:
        """Double the rows of `stored_apart`."""
        self.stored_apart = np.concatenate([self.stored_apart, np.zeros_like(self.stored_apart)])

    def read(self, slots: np.ndarray) -> Slots:
        """Return what these slots hold."""
        return Slots(*(ring[slots] for ring in self.slots))

    def next_obs(self, slots: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Return what the transitions in these slots led to; `rows` says where each is stored."""
        obs = self.slots.obs.take(slots + 1, axis=0, mode="wrap")
        apart = rows != IS_NEXT
        obs[apart] = self.stored_apart[rows[apart]]
        return obs

    def gather(self, slots: np.ndarray, rows: np.ndarray) -> Transition:
        """Return whole transitions, in fresh arrays: JAX on CPU may alias what it is given."""
        return Transition(*self.read(slots), self.next_obs(slots, rows))  # pyright: ignore[reportArgumentType]


class DeviceRing(Ring):
    """The same ring, to the bit, as arrays of JAX.

    Minibatches are gathered where they are learned from. Only indices and new transitions cross to
    the device, each in an explicit call.
    """

    def __init__(self, capacity: int, spec: Spec) -> None:
        """Allocate the arrays on the default device."""
        self.slots: Any = Slots._make(
            jnp.zeros((capacity, *shape), jnp.float32) for shape in shapes(spec)
        )
        self.stored_apart: Any = jnp.zeros((ROWS, spec.obs_dim), jnp.float32)

    def put(self, slots: Any, values: Slots) -> None:
        """Overwrite these slots."""
        on_device = Slots._make(_to_device(value, np.float32) for value in values)
        self.slots = _put(self.slots, _to_device(slots, np.int32), on_device)

    def store_apart(self, row: int, obs: np.ndarray) -> None:
        """Overwrite a row of `stored_apart`."""
        self.stored_apart = _set(
            self.stored_apart, _to_device(row, np.int32), _to_device(obs, np.float32)
        )

    def grow(self) -> None:
        """Double the rows of `stored_apart`."""
        self.stored_apart = jnp.concatenate([self.stored_apart, jnp.zeros_like(self.stored_apart)])

    def read(self, slots: np.ndarray) -> Slots:
        """Return what these slots hold, on the host."""
        return jax.device_get(_read(self.slots, _to_device(slots, np.int32)))

    def next_obs(self, slots: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Return what the transitions in these slots led to, on the host."""
        where = _to_device(slots, np.int32), _to_device(rows, np.int32)
        return jax.device_get(_next_obs(self.slots.obs, self.stored_apart, *where))

    def gather(self, slots: np.ndarray, rows: np.ndarray) -> Transition:
        """Return whole transitions, on the device."""
        where = _to_device(slots, np.int32), _to_device(rows, np.int32)
        return _gather(self.slots, self.stored_apart, *where)


def shapes(spec: Spec) -> tuple[tuple[int, ...], ...]:
    """Return the shape of one slot of each array."""
    return (spec.obs_dim,), (spec.action_dim,), (), ()


def _zeros(shape: tuple[int, ...], place: Path | None) -> np.ndarray:
    if place is None:
        return np.zeros(shape, np.float32)
    with tempfile.TemporaryFile(dir=place) as file:
        # Allocated now: a page for which there is no disk later would be a crash.
        os.posix_fallocate(file.fileno(), 0, 4 * int(np.prod(shape)))
        return np.memmap(file, np.float32, "r+", shape=shape).view(np.ndarray)


def _to_device(value: Any, kind: type) -> jax.Array:
    """Copy first: what is on the device must not change with the array that it was."""
    return jax.device_put(np.array(value, kind))


@partial(jax.jit, donate_argnums=0)
def _put(ring: Any, slots: jax.Array, values: Any) -> Any:
    return jax.tree.map(lambda array, value: array.at[slots].set(value), ring, values)


@partial(jax.jit, donate_argnums=0)
def _set(stored_apart: jax.Array, row: jax.Array, obs: jax.Array) -> jax.Array:
    return stored_apart.at[row].set(obs)


@jax.jit
def _read(ring: Any, slots: jax.Array) -> Any:
    return jax.tree.map(lambda array: array[slots], ring)


@jax.jit
def _next_obs(
    obs: jax.Array, stored_apart: jax.Array, slots: jax.Array, rows: jax.Array
) -> jax.Array:
    is_next = (rows == IS_NEXT)[..., None]
    return jnp.where(is_next, obs[(slots + 1) % len(obs)], stored_apart[jnp.maximum(rows, 0)])


@jax.jit
def _gather(ring: Any, stored_apart: jax.Array, slots: jax.Array, rows: jax.Array) -> Transition:
    obs, action, reward, discount = _read(ring, slots)
    return Transition(obs, action, reward, discount, _next_obs(ring.obs, stored_apart, slots, rows))
