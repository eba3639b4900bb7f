"""A tree of arrays in its other forms: packed for compiled functions, and named for files.

Every array that a compiled function takes or returns costs two to five microseconds, and an agent
has a hundred. So small arrays of one kind lie behind one another in one array:

    tree     {"bias": (3,), "kernel": (300, 300), "log_alpha": ()}
    packed   [(4,): bias and log_alpha, (300, 300): kernel]
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.interpreters.partial_eval import dce_jaxpr

from dualac.errors import DataError
from dualac.runs.arrays import Arrays

AGENT, MEMORY = "agent", "memory"  # what the names of their arrays begin with
SMALL = 4096  # numbers up to which an array lies behind others of its kind

Packed = list[Any]  # all arrays of a packed tree
PartlyPacked = Mapping[int, Any]  # some of them, by their number


class Place(NamedTuple):
    """Where a leaf of the tree lies."""

    number: int  # of the packed array
    start: int  # within it
    shared: bool  # with other leaves


class PackedState:
    """How a tree like this one is packed."""

    def __init__(self, like: Any) -> None:
        """Place the leaves of a tree of arrays, or of their shapes."""
        self._leaves, self._structure = jax.tree.flatten(like)
        numbers: dict[Any, int] = {}
        sizes: list[int] = []
        starts: list[tuple[int, int]] = []
        for position, leaf in enumerate(self._leaves):
            kind = leaf.dtype if leaf.size <= SMALL else position
            number = numbers.setdefault(kind, len(numbers))
            if number == len(sizes):
                sizes.append(0)
            starts.append((number, sizes[number]))
            sizes[number] += leaf.size
        counts = np.bincount([number for number, _ in starts], minlength=1)
        self._places = [Place(number, start, counts[number] > 1) for number, start in starts]
        self._count = len(sizes)

    def pack(self, tree: Any) -> Packed:
        """Return the packed arrays of a tree."""
        parts: list[list[Any]] = [[] for _ in range(self._count)]
        for leaf, place in zip(self._structure.flatten_up_to(tree), self._places, strict=True):
            parts[place.number].append(leaf.ravel() if place.shared else leaf)
        return [jnp.concatenate(part) if len(part) > 1 else part[0] for part in parts]

    def unpack(self, packed: Packed | PartlyPacked) -> Any:
        """Return the tree of packed arrays, with zeros where an array is missing.

        NumPy's arrays are not copied.
        """
        arrays = packed if isinstance(packed, Mapping) else dict(enumerate(packed))
        leaves = []
        for like, place in zip(self._leaves, self._places, strict=True):
            if place.number not in arrays:
                leaves.append(jnp.zeros(like.shape, like.dtype))
                continue
            array = arrays[place.number]
            if place.shared:
                array = array[place.start : place.start + like.size]
            leaves.append(array.reshape(like.shape))
        return jax.tree.unflatten(self._structure, leaves)

    def read_by(self, function: Callable[..., Any], *args: Any) -> list[int]:
        """List the numbers of the packed arrays that `function(tree, *args)` reads.

        The function is traced once, with shapes.
        """
        tree = jax.tree.unflatten(self._structure, self._leaves)
        program = jax.make_jaxpr(function)(tree, *args)
        _, used = dce_jaxpr(program.jaxpr, [True] * len(program.jaxpr.outvars))
        leaves = zip(self._places, used, strict=False)  # the arguments after the tree follow
        return sorted({place.number for place, is_used in leaves if is_used})


def named_arrays(tree: Any) -> Arrays:
    """Return the leaves of a tree by their paths."""
    return {
        jax.tree_util.keystr(path, simple=True, separator="."): leaf
        for path, leaf in jax.tree_util.tree_leaves_with_path(tree)
    }


def tree_of(name: str, template: Any, arrays: Arrays) -> Any:
    """Return the tree that was saved under a name among these arrays; name what does not fit."""
    expected = {
        path: (leaf.shape, leaf.dtype) for path, leaf in named_arrays({name: template}).items()
    }
    saved = {
        path: (array.shape, array.dtype)
        for path, array in arrays.items()
        if path.partition(".")[0] == name
    }
    for path in sorted({*expected, *saved}):
        if expected.get(path) != saved.get(path):
            raise DataError(
                f"the checkpoint's {path} is {saved.get(path, 'missing')}, this version has "
                f"{expected.get(path, 'no such thing')}"
            )
    return jax.tree.unflatten(jax.tree.structure(template), [arrays[path] for path in expected])
