"""Many arrays held as few."""

import jax
import jax.numpy as jnp
import numpy as np

from dualac.training.packed_state import SMALL, Bundle

TREE = {
    "large": jnp.arange(SMALL + 1, dtype=jnp.float32),
    "bias": jnp.arange(3.0),
    "kernel": jnp.arange(6.0).reshape(2, 3) + 10,
    "seen": jnp.array(7, jnp.int32),
    "scalar": jnp.array(2.5),
    "key": jax.random.key(0),
}


def test_what_was_tied_comes_back_as_it_was():
    bundle = Bundle(TREE)
    held = jax.jit(bundle.tie)(TREE)
    assert len(held) == len(bundle.numbers()) == 4  # the large one, and one of each kind
    back = jax.jit(bundle.untie)(dict(enumerate(held)))
    assert jax.tree.structure(back) == jax.tree.structure(TREE)
    for name, leaf in TREE.items():
        assert (back[name].shape, back[name].dtype) == (leaf.shape, leaf.dtype), name
        assert np.array_equal(
            *(jax.random.key_data(one) if name == "key" else one for one in (back[name], leaf))
        ), name


def test_a_part_needs_only_the_arrays_that_have_it():
    bundle = Bundle(TREE)
    held = dict(enumerate(bundle.tie(TREE)))
    numbers = bundle.numbers(lambda tree: (tree["bias"], tree["kernel"]))
    assert len(numbers) == 1
    some = bundle.untie({number: held[number] for number in numbers})
    assert np.array_equal(some["kernel"], TREE["kernel"])
    assert some["large"] is None


def test_seeds_are_bundled_one_by_one():
    bundle = Bundle(TREE)
    two = jax.tree.map(lambda leaf: jnp.stack([leaf, leaf]), TREE)
    held = jax.vmap(bundle.tie)(two)
    assert all(len(array) == 2 for array in held)
    assert np.array_equal(jax.vmap(bundle.untie)(dict(enumerate(held)))["kernel"], two["kernel"])
