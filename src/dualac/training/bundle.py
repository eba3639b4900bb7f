"""Many arrays as few, since each that is handed to a compiled function has its price: an agent's, and those of a lesson."""

import itertools
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from dualac.types import Spec, Transition

SMALL = 4096  # numbers up to which an array is laid behind others of its kind


class Bundle:
    """How a tree like this one is held between calls: large arrays one by one, of the small ones all of a kind behind one another.

    Every array that is handed to a compiled function, and every one that it hands back, costs two to five microseconds; an agent has a hundred.
    """

    def __init__(self, like: Any) -> None:
        self._likes, self._tree = jax.tree.flatten(like)
        slots: dict[Any, int] = {}
        self._slots = [slots.setdefault(like.dtype if like.size <= SMALL else place, len(slots)) for place, like in enumerate(self._likes)]
        self._size = len(slots)

    def tie(self, tree: Any) -> list[jax.Array]:
        leaves = self._tree.flatten_up_to(tree)
        slots = [[leaf for leaf, slot in zip(leaves, self._slots, strict=True) if slot == wanted] for wanted in range(self._size)]
        return [jnp.concatenate([leaf.ravel() for leaf in slot]) if len(slot) > 1 else slot[0] for slot in slots]

    def untie(self, arrays: Mapping[int, jax.Array]) -> Any:
        """The tree of these arrays, by their numbers; None where one is missing."""
        leaves: list[Any] = [None] * len(self._slots)
        for number, array in arrays.items():
            places = [place for place, slot in enumerate(self._slots) if slot == number]
            ends = list(itertools.accumulate(self._likes[place].size for place in places))[:-1]
            for place, piece in zip(places, jnp.split(array, ends) if ends else [array], strict=True):
                leaves[place] = piece.reshape(self._likes[place].shape)
        return jax.tree.unflatten(self._tree, leaves)

    def numbers(self, part: Callable[[Any], Any] = lambda tree: tree) -> list[int]:
        """Of the arrays that have in them what this takes out of the tree."""
        return sorted(set(jax.tree.leaves(part(jax.tree.unflatten(self._tree, self._slots)))))


class Lesson(NamedTuple):
    """What a step of the environment has to teach: minibatches, what is seen now, and the step's number."""

    batches: Any
    obs: Any
    step: Any


def to_rows(lesson: Lesson, parts: int) -> np.ndarray:
    """Minibatches in equal parts, a transition a row; the last row of each has what is seen now and, as it is in memory, the step's number."""
    updates, size = lesson.batches.reward.shape
    columns = [np.reshape(array, (updates, parts, size // parts, -1)).swapaxes(0, 1) for array in lesson.batches]
    last = np.concatenate([lesson.obs, np.atleast_1d(lesson.step).view(np.float32)])
    rows = np.zeros((parts, updates, size // parts + 1, sum(column.shape[-1] for column in columns)), np.float32)
    np.concatenate(columns, axis=-1, out=rows[:, :, :-1])
    rows[:, :, -1, : len(last)] = last
    return rows


def from_rows(rows: jax.Array, spec: Spec) -> Lesson:
    """A part of it."""
    widths = (spec.obs_dim, spec.action_dim, 1, 1)
    obs, action, reward, discount, next_obs = jnp.split(rows[0, :, :-1], list(itertools.accumulate(widths)), axis=-1)
    last = rows[0, 0, -1]
    step = jax.lax.bitcast_convert_type(last[spec.obs_dim], jnp.uint32)
    return Lesson(Transition(obs, action, reward[..., 0], discount[..., 0], next_obs), last[: spec.obs_dim], step)
