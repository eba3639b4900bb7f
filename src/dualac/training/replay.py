"""What was lived: a ring of transitions, with a generator of its own.

An observation is stored once: what a transition led to is what the next one began with. Only where
it is not, at the end of an episode, and for the newest, is it kept beside the ring.
"""

import os
import tempfile
from pathlib import Path
from typing import Any, NamedTuple, SupportsFloat

import numpy as np

from dualac.errors import DataError
from dualac.types import Spec, Transition

FOLLOWS = -1  # a transition led to what the next one begins with
NEWEST = 0  # where what the newest led to is kept


class Slots(NamedTuple):
    """The ring's arrays."""

    obs: np.ndarray
    action: np.ndarray
    reward: np.ndarray
    discount: np.ndarray


class Ring:
    """Where transitions are kept: arrays of NumPy, in memory or in a file."""

    def __init__(self, capacity: int, spec: Spec, place: Path | None = None) -> None:
        """`place`: a directory in whose file system the ring is, instead of in memory; nothing of
        it is left when the process ends.
        """
        self.slots = Slots(*(_zeros((capacity, *shape), place) for shape in shapes(spec)))
        self.ends = np.zeros(
            (16, spec.obs_dim), np.float32
        )  # what is kept beside the ring: what transitions led to that none follows

    def put(self, slots: Any, values: Slots) -> None:
        for ring, value in zip(self.slots, values, strict=True):
            ring[slots] = value

    def keep(self, place: int, obs: np.ndarray) -> None:
        self.ends[place] = obs

    def grow(self) -> None:
        """Twice the places to keep something in."""
        self.ends = np.concatenate([self.ends, np.zeros_like(self.ends)])

    def read(self, slots: np.ndarray) -> Slots:
        return Slots(*(ring[slots] for ring in self.slots))

    def led_to(self, slots: np.ndarray, led: np.ndarray) -> np.ndarray:
        """What transitions led to: the next one's beginning, or what is kept in the place that
        `led` tells.
        """
        found = self.slots.obs.take(slots + 1, axis=0, mode="wrap")
        ends = led != FOLLOWS
        found[ends] = self.ends[led[ends]]
        return found

    def gather(self, slots: np.ndarray, led: np.ndarray) -> Transition:
        """Fresh arrays each time: JAX on CPU may alias what it is given."""
        return Transition(*self.read(slots), self.led_to(slots, led))  # pyright: ignore[reportArgumentType]


class Replay:
    """`added` counts every transition ever stored; transition i lives in slot i % capacity until it
    is overwritten.
    """

    def __init__(
        self, capacity: int, spec: Spec, seed: np.random.SeedSequence, ring: Ring | None = None
    ) -> None:
        """`ring`: where, if not in memory."""
        self.capacity = capacity
        self.added = 0
        self.ring = ring or Ring(capacity, spec)
        self._led = np.full(
            capacity, FOLLOWS, np.int32
        )  # of each slot: FOLLOWS, or the place where what it led to is kept
        self._newest = np.zeros(
            spec.obs_dim, np.float32
        )  # what the newest led to, as it is kept in the place NEWEST
        self._free = list(range(len(self.ring.ends) - 1, NEWEST, -1))
        self._sampler = np.random.Generator(np.random.PCG64(seed))

    @property
    def size(self) -> int:
        return min(self.added, self.capacity)

    @property
    def nbytes(self) -> int:
        return (
            sum(ring.nbytes for ring in self.ring.slots) + self._led.nbytes + self.ring.ends.nbytes
        )

    def add(
        self,
        obs: np.ndarray,
        action: np.ndarray,
        reward: SupportsFloat,
        discount: float,
        next_obs: np.ndarray,
    ) -> None:
        slot, before = self.added % self.capacity, (self.added - 1) % self.capacity
        obs = np.asarray(obs, np.float32)
        self._release(self._led[[slot]])
        self.ring.put(slot, Slots(obs, action, reward, discount))  # pyright: ignore[reportArgumentType]
        if self.added and before != slot:
            self._led[before] = (
                FOLLOWS if obs.tobytes() == self._newest.tobytes() else self._keep(self._newest)
            )
        self._led[slot] = NEWEST
        self._remember(np.asarray(next_obs, np.float32))
        self.added += 1

    def _remember(self, newest: np.ndarray) -> None:
        self._newest = newest.copy()
        self.ring.keep(NEWEST, self._newest)

    def sample(self, minibatches: int, batch_size: int) -> Transition:
        """Minibatches drawn uniformly with replacement, in one gather."""
        return self._gather(self._sampler.integers(0, self.size, (minibatches, batch_size)))

    def peek_batch(self, generator: np.random.Generator, batch_size: int) -> Transition:
        """A minibatch that the sampler does not notice."""
        return self._gather(generator.integers(0, self.size, (batch_size,)))

    def _gather(self, slots: np.ndarray) -> Transition:
        return self.ring.gather(slots, self._led[slots])

    def oldest(self) -> int:
        """Index of the oldest transition still kept."""
        return max(0, self.added - self.capacity)

    def read(self, start: int, stop: int) -> dict[str, np.ndarray]:
        """Transitions start..stop-1 by index of addition; `led` is what those at `ends` led to,
        with which the next does not begin.
        """
        slots = np.arange(start, stop) % self.capacity
        ends = self._led[slots] != FOLLOWS
        ends[-1:] = True  # what comes next is in another file
        led = self.ring.led_to(slots[ends], self._led[slots[ends]])
        return self.ring.read(slots)._asdict() | {"ends": np.flatnonzero(ends), "led": led}

    def write(self, start: int, arrays: dict[str, np.ndarray]) -> None:
        """The inverse of `read`, for transitions that still fit. What follows one another is
        written in that order.
        """
        count = len(arrays["reward"])
        for name, ring in self.ring.slots._asdict().items():
            if arrays[name].shape != (count, *ring.shape[1:]):
                raise DataError(
                    f"the replay holds {name} of shape {arrays[name].shape[1:]}, the task has "
                    f"{ring.shape[1:]}"
                )
        skip = max(0, count - self.capacity)
        slots = np.arange(start + skip, start + count) % self.capacity
        self._release(self._led[slots])
        self.ring.put(slots, Slots(*(arrays[name][skip:] for name in Slots._fields)))
        self._led[slots] = FOLLOWS
        for end, led in zip(arrays["ends"].tolist(), arrays["led"], strict=True):
            if end >= skip:
                self._led[(start + end) % self.capacity] = self._keep(led)
        if not skip and count < self.capacity:
            self._join((start - 1) % self.capacity, slots[:1])

    def _join(self, before: int, slots: np.ndarray) -> None:
        """Two files that follow one another: what the first ended with is what the second begins
        with, unless an episode ended there.
        """
        for slot in slots:
            led = self._led[[before]]
            if (
                led[0] != FOLLOWS
                and np.asarray(self.ring.ends[led[0]]).tobytes()
                == np.asarray(self.ring.slots.obs[slot]).tobytes()
            ):
                self._release(led)
                self._led[before] = FOLLOWS

    def sampler_state(self) -> dict[str, Any]:
        return dict(self._sampler.bit_generator.state)

    def restore(self, added: int, sampler_state: dict[str, Any]) -> None:
        """After all has been written."""
        self.added = added
        newest = (added - 1) % self.capacity
        if added and self._led[newest] > NEWEST:
            self._remember(np.asarray(self.ring.ends[self._led[newest]]))
            self._release(self._led[[newest]])
            self._led[newest] = NEWEST
        self._sampler.bit_generator.state = sampler_state

    def _keep(self, obs: np.ndarray) -> int:
        if not self._free:
            places = len(self.ring.ends)
            self._free = list(range(2 * places - 1, places - 1, -1))
            self.ring.grow()
        place = self._free.pop()
        self.ring.keep(place, obs)
        return place

    def _release(self, led: np.ndarray) -> None:
        self._free += led[led > NEWEST].tolist()


def to_float32(number: SupportsFloat) -> np.float32:
    """What does not fit is infinite, and that is noticed; NumPy need not warn of it."""
    with np.errstate(over="ignore"):
        return np.float32(float(number))


def replay_bytes(capacity: int, spec: Spec) -> int:
    """Of its ring. What episodes ended with, one observation each, comes on top."""
    return 4 * capacity * (1 + sum(int(np.prod(shape)) for shape in shapes(spec)))


def shapes(spec: Spec) -> tuple[tuple[int, ...], ...]:
    return (spec.obs_dim,), (spec.action_dim,), (), ()


def _zeros(shape: tuple[int, ...], place: Path | None) -> np.ndarray:
    if place is None:
        return np.zeros(shape, np.float32)
    with tempfile.TemporaryFile(dir=place) as file:
        os.posix_fallocate(
            file.fileno(), 0, 4 * int(np.prod(shape))
        )  # now: a page for which there is no disk later would be a crash
        return np.memmap(file, np.float32, "r+", shape=shape).view(np.ndarray)
