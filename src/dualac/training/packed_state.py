"""Many arrays as few, since each that is handed to a compiled function has its price."""

import itertools
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp

SMALL = 4096  # numbers up to which an array is laid behind others of its kind


class Bundle:
    """How a tree like this one is held between calls: large arrays one by one, of the small ones
    all of a kind behind one another.

    Every array that is handed to a compiled function, and every one that it hands back, costs two
    to five microseconds; an agent has a hundred.
    """

    def __init__(self, like: Any) -> None:
        self._likes, self._tree = jax.tree.flatten(like)
        slots: dict[Any, int] = {}
        self._slots = [
            slots.setdefault(like.dtype if like.size <= SMALL else place, len(slots))
            for place, like in enumerate(self._likes)
        ]
        self._size = len(slots)

    def tie(self, tree: Any) -> list[Any]:
        leaves = self._tree.flatten_up_to(tree)
        slots = [
            [leaf for leaf, slot in zip(leaves, self._slots, strict=True) if slot == wanted]
            for wanted in range(self._size)
        ]
        return [
            jnp.concatenate([leaf.ravel() for leaf in slot]) if len(slot) > 1 else slot[0]
            for slot in slots
        ]

    def untie(self, arrays: Mapping[int, Any]) -> Any:
        """The tree of these arrays, by their numbers; None where one is missing. NumPy's are not
        copied for it.
        """
        leaves: list[Any] = [None] * len(self._slots)
        for number, array in arrays.items():
            places = [place for place, slot in enumerate(self._slots) if slot == number]
            spans = itertools.pairwise(
                itertools.accumulate((self._likes[place].size for place in places), initial=0)
            )
            for place, (start, end) in zip(places, spans, strict=True):
                leaves[place] = (array[start:end] if len(places) > 1 else array).reshape(
                    self._likes[place].shape
                )
        return jax.tree.unflatten(self._tree, leaves)

    def numbers(self, part: Callable[[Any], Any] = lambda tree: tree) -> list[int]:
        """Of the arrays that have in them what this takes out of the tree."""
        return sorted(set(jax.tree.leaves(part(jax.tree.unflatten(self._tree, self._slots)))))
