"""A tree of many arrays held as few."""

import jax
import jax.numpy as jnp
import numpy as np

from dualac.training.packed_state import SMALL, PackedState

TREE = {
    "large": jnp.arange(SMALL + 1, dtype=jnp.float32),
    "bias": jnp.arange(3.0),
    "kernel": jnp.arange(6.0).reshape(2, 3) + 10,
    "count": jnp.array(7, jnp.int32),
    "scalar": jnp.array(2.5),
}


def test_what_was_packed_comes_back_as_it_was():
    packed_state = PackedState(TREE)
    packed = jax.jit(packed_state.pack)(TREE)
    assert len(packed) == 3  # the large one, and one of each kind
    back = jax.jit(packed_state.unpack)(packed)
    assert jax.tree.structure(back) == jax.tree.structure(TREE)
    for name, leaf in TREE.items():
        assert (back[name].shape, back[name].dtype) == (leaf.shape, leaf.dtype), name
        assert np.array_equal(back[name], leaf), name


def test_arrays_of_numpy_are_not_copied_by_unpacking():
    packed_state = PackedState(TREE)
    packed = [np.asarray(array) for array in packed_state.pack(TREE)]
    back = packed_state.unpack(packed)
    assert all(any(np.shares_memory(leaf, array) for array in packed) for leaf in back.values())


def test_what_a_function_reads_is_found_by_tracing_it():
    packed_state = PackedState(TREE)
    packed = packed_state.pack(TREE)

    def read(tree, scale):
        unused = tree["large"].sum()
        del unused
        return scale * tree["kernel"] + tree["bias"].reshape(1, 3)

    numbers = packed_state.read_by(read, jnp.float32(2.0))
    assert len(numbers) == 1
    part = packed_state.unpack({number: packed[number] for number in numbers})
    assert np.array_equal(read(part, 2.0), read(TREE, 2.0))
    assert not part["large"].any()
    assert packed_state.read_by(lambda tree: tree["count"] + 1) != numbers
    assert packed_state.read_by(lambda tree: jnp.zeros(3)) == []


def test_seeds_are_packed_one_by_one():
    packed_state = PackedState(TREE)
    two = jax.tree.map(lambda leaf: jnp.stack([leaf, leaf]), TREE)
    packed = jax.vmap(packed_state.pack)(two)
    assert all(len(array) == 2 for array in packed)
    assert np.array_equal(jax.vmap(packed_state.unpack)(packed)["kernel"], two["kernel"])
