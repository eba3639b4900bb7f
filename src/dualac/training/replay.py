"""The replay: the newest transitions of a run, and a generator of its own that samples them."""

from collections.abc import Callable
from typing import Any, SupportsFloat

import numpy as np

from dualac.errors import DataError
from dualac.runs.arrays import Arrays, Header
from dualac.training.storage import IS_NEXT, NEWEST, Ring, Slots, shapes
from dualac.types import Spec, Transition


class Replay:
    """The newest `capacity` transitions.

    `added` counts every transition ever stored. Transition i lives in slot i % capacity until it is
    overwritten.
    """

    def __init__(
        self, capacity: int, spec: Spec, seed: np.random.SeedSequence, ring: Ring | None = None
    ) -> None:
        """Start empty; `ring` says where transitions are kept, if not in memory."""
        self.capacity = capacity
        self.added = 0
        self.ring = ring or Ring(capacity, spec)
        # Of each slot where the observation after it is: IS_NEXT, or a row of `stored_apart`.
        self._next_slot = np.full(capacity, IS_NEXT, np.int32)
        self._newest = np.zeros(spec.obs_dim, np.float32)  # a copy of the row NEWEST
        self._free_rows = list(range(len(self.ring.stored_apart) - 1, NEWEST, -1))
        self._sampler = np.random.Generator(np.random.PCG64(seed))

    @property
    def size(self) -> int:
        """How many transitions can be sampled."""
        return min(self.added, self.capacity)

    @property
    def nbytes(self) -> int:
        """Bytes of all its arrays."""
        rings = sum(array.nbytes for array in self.ring.slots)
        return rings + self._next_slot.nbytes + self.ring.stored_apart.nbytes

    def add(
        self,
        obs: np.ndarray,
        action: np.ndarray,
        reward: SupportsFloat,
        discount: float,
        next_obs: np.ndarray,
    ) -> None:
        """Store a transition in place of the oldest."""
        slot, before = self.added % self.capacity, (self.added - 1) % self.capacity
        obs = np.asarray(obs, np.float32)
        self._release(self._next_slot[[slot]])
        self.ring.put(slot, Slots(obs, action, reward, discount))  # pyright: ignore[reportArgumentType]
        if self.added and before != slot:
            follows = obs.tobytes() == self._newest.tobytes()
            self._next_slot[before] = IS_NEXT if follows else self._store_apart(self._newest)
        self._next_slot[slot] = NEWEST
        self._remember(np.asarray(next_obs, np.float32))
        self.added += 1

    def sample(self, minibatches: int, batch_size: int) -> Transition:
        """Return minibatches drawn uniformly with replacement, in one gather."""
        return self._gather(self._sampler.integers(0, self.size, (minibatches, batch_size)))

    def peek_batch(self, generator: np.random.Generator, batch_size: int) -> Transition:
        """Return a minibatch that the sampler does not notice."""
        return self._gather(generator.integers(0, self.size, (batch_size,)))

    def oldest(self) -> int:
        """Return the index of the oldest transition still kept."""
        return max(0, self.added - self.capacity)

    def read(self, start: int, stop: int) -> dict[str, np.ndarray]:
        """Return transitions start..stop-1, by index of addition, as arrays for a file.

        `led` is what the transitions at `ends` led to, with which the next does not begin.
        """
        slots = np.arange(start, stop) % self.capacity
        ends = self._next_slot[slots] != IS_NEXT
        ends[-1:] = True  # what comes next is in another file
        led = self.ring.next_obs(slots[ends], self._next_slot[slots[ends]])
        return self.ring.read(slots)._asdict() | {"ends": np.flatnonzero(ends), "led": led}

    def write(self, start: int, arrays: dict[str, np.ndarray]) -> None:
        """Invert `read` for the transitions that still fit; files come in the order of addition."""
        count = len(arrays["reward"])
        for name, ring in self.ring.slots._asdict().items():
            if arrays[name].shape != (count, *ring.shape[1:]):
                raise DataError(
                    f"the replay holds {name} of shape {arrays[name].shape[1:]}, the task has "
                    f"{ring.shape[1:]}"
                )
        skip = max(0, count - self.capacity)
        slots = np.arange(start + skip, start + count) % self.capacity
        self._release(self._next_slot[slots])
        self.ring.put(slots, Slots(*(arrays[name][skip:] for name in Slots._fields)))
        self._next_slot[slots] = IS_NEXT
        for end, led in zip(arrays["ends"].tolist(), arrays["led"], strict=True):
            if end >= skip:
                self._next_slot[(start + end) % self.capacity] = self._store_apart(led)
        if not skip and count < self.capacity:
            self._join((start - 1) % self.capacity, slots[:1])

    def sampler_state(self) -> dict[str, Any]:
        """Return the state of the generator."""
        return dict(self._sampler.bit_generator.state)

    def restore(self, added: int, sampler_state: dict[str, Any]) -> None:
        """Set the counter and the generator, after everything has been written."""
        self.added = added
        newest = (added - 1) % self.capacity
        if added and self._next_slot[newest] > NEWEST:
            self._remember(np.asarray(self.ring.stored_apart[self._next_slot[newest]]))
            self._release(self._next_slot[[newest]])
            self._next_slot[newest] = NEWEST
        self._sampler.bit_generator.state = sampler_state

    def _gather(self, slots: np.ndarray) -> Transition:
        return self.ring.gather(slots, self._next_slot[slots])

    def _remember(self, newest: np.ndarray) -> None:
        self._newest = newest.copy()
        self.ring.store_apart(NEWEST, self._newest)

    def _join(self, before: int, slots: np.ndarray) -> None:
        """Drop the last observation of the file before, where the next file begins with it."""
        for slot in slots:
            row = self._next_slot[[before]]
            if row[0] == IS_NEXT:
                continue
            apart, begun = self.ring.stored_apart[row[0]], self.ring.slots.obs[slot]
            if np.asarray(apart).tobytes() == np.asarray(begun).tobytes():
                self._release(row)
                self._next_slot[before] = IS_NEXT

    def _store_apart(self, obs: np.ndarray) -> int:
        """Store an observation in a free row of `stored_apart` and return the row."""
        if not self._free_rows:
            rows = len(self.ring.stored_apart)
            self._free_rows = list(range(2 * rows - 1, rows - 1, -1))
            self.ring.grow()
        row = self._free_rows.pop()
        self.ring.store_apart(row, obs)
        return row

    def _release(self, rows: np.ndarray) -> None:
        self._free_rows += rows[rows > NEWEST].tolist()


def replay_bytes(capacity: int, spec: Spec) -> int:
    """Return the bytes of a replay's ring.

    The last observation of each episode comes on top.
    """
    return 4 * capacity * (1 + sum(int(np.prod(shape)) for shape in shapes(spec)))


def segment_check(first: int, last: int, spec: Spec | None) -> Callable[[Header], None]:
    """Return a check of the header of a file of the replay, before its arrays are read."""
    count, name = last - first, f"the file of transitions {first} to {last}"

    def check(header: Header) -> None:
        shapes = {array: entry.shape for array, entry in header.items()}
        kinds = {array: entry.kind.str for array, entry in header.items()}
        ends = shapes.get("ends", (0,))
        # Without a task whatever width the arrays have is right, if it is the same.
        obs = (spec.obs_dim,) if spec else shapes.get("obs", ())[1:]
        action = (spec.action_dim,) if spec else shapes.get("action", ())[1:]
        expected = {"obs": (count, *obs), "action": (count, *action), "reward": (count,)}
        expected |= {"discount": (count,), "ends": ends, "led": (*ends, *obs)}
        if shapes.keys() != expected.keys():
            raise DataError(f"{name} does not hold the arrays of a replay")
        for array, shape in expected.items():
            if shapes[array] != shape:
                raise DataError(
                    f"the replay holds {array} of shape {shapes[array][1:]} in {name}, the task "
                    f"has {shape[1:]} in {count} transitions"
                )
        if kinds.pop("ends") != "<i8" or set(kinds.values()) != {"<f4"}:
            raise DataError(f"{name} holds numbers of another kind")

    return check


def require_ends(name: str, arrays: Arrays) -> None:
    """Refuse ends of episodes that do not rise, or lie elsewhere; a file ends with one."""
    ends, count = arrays["ends"], len(arrays["reward"])
    if not len(ends) or ends[0] < 0 or ends[-1] != count - 1 or (np.diff(ends) <= 0).any():
        raise DataError(f"{name} has ends of episodes where there are none")
