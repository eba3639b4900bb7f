"""What was lived: a ring of transitions in NumPy, with a generator of its own."""

from typing import Any, NamedTuple, SupportsFloat

import numpy as np

from dualac.errors import DataError
from dualac.types import Spec, Transition


class Slots(NamedTuple):
    """The ring's arrays; the same fields as a Transition."""

    obs: np.ndarray
    action: np.ndarray
    reward: np.ndarray
    discount: np.ndarray
    next_obs: np.ndarray


class Replay:
    """`added` counts every transition ever stored; transition i lives in slot i % capacity until it is overwritten."""

    def __init__(self, capacity: int, spec: Spec, seed: np.random.SeedSequence) -> None:
        self.capacity = capacity
        self.added = 0
        self._slots = Slots(*(np.zeros((capacity, *shape), np.float32) for shape in _shapes(spec)))
        self._sampler = np.random.Generator(np.random.PCG64(seed))

    @property
    def size(self) -> int:
        return min(self.added, self.capacity)

    def add(self, *transition: Any) -> None:
        """obs, action, reward, discount, next_obs."""
        slot = self.added % self.capacity
        for ring, value in zip(self._slots, transition, strict=True):
            ring[slot] = value
        self.added += 1

    def sample(self, minibatches: int, batch_size: int) -> Transition:
        """Minibatches drawn uniformly with replacement, in one gather. Fresh arrays each time: JAX on CPU may alias what it is given."""
        return self._gather(self._sampler, (minibatches, batch_size))

    def glance(self, generator: np.random.Generator, batch_size: int) -> Transition:
        """A minibatch that the sampler does not notice."""
        return self._gather(generator, (batch_size,))

    def _gather(self, generator: np.random.Generator, shape: tuple[int, ...]) -> Transition:
        rows = generator.integers(0, self.size, shape)
        return Transition(*(ring[rows] for ring in self._slots))  # pyright: ignore[reportArgumentType]

    def oldest(self) -> int:
        """Index of the oldest transition still kept."""
        return max(0, self.added - self.capacity)

    def read(self, start: int, stop: int) -> dict[str, np.ndarray]:
        """Transitions start..stop-1 by index of addition."""
        slots = np.arange(start, stop) % self.capacity
        return {name: ring[slots] for name, ring in self._slots._asdict().items()}

    def write(self, start: int, arrays: dict[str, np.ndarray]) -> None:
        """The inverse of `read`, for transitions that still fit."""
        count = len(arrays["reward"])
        for name, ring in self._slots._asdict().items():
            if arrays[name].shape != (count, *ring.shape[1:]):
                raise DataError(f"the replay holds {name} of shape {arrays[name].shape[1:]}, the task has {ring.shape[1:]}")
        skip = max(0, count - self.capacity)
        slots = np.arange(start + skip, start + count) % self.capacity
        for name, ring in self._slots._asdict().items():
            ring[slots] = arrays[name][skip:]

    def sampler_state(self) -> dict[str, Any]:
        return dict(self._sampler.bit_generator.state)

    def restore(self, added: int, sampler_state: dict[str, Any]) -> None:
        self.added = added
        self._sampler.bit_generator.state = sampler_state


def to_float32(number: SupportsFloat) -> np.float32:
    """What does not fit is infinite, and that is noticed; NumPy need not warn of it."""
    with np.errstate(over="ignore"):
        return np.float32(float(number))


def replay_bytes(capacity: int, spec: Spec) -> int:
    return 4 * capacity * sum(int(np.prod(shape)) for shape in _shapes(spec))


def _shapes(spec: Spec) -> tuple[tuple[int, ...], ...]:
    return (spec.obs_dim,), (spec.action_dim,), (), (), (spec.obs_dim,)
