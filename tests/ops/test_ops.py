"""The native passes beside the reference in JAX, of the same layers and optimisers."""

import itertools
import re
import shutil
from typing import Any

import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from tests.support.runs import python

from dualac import ops
from dualac.machine.cores import usable_cores
from dualac.ops import native

pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")


def some_networks(
    sizes: list[int], seed: int = 0, rows: int = 9, networks: int = 1
) -> tuple[jax.Array, list[list[ops.Layer]]]:
    draw = np.random.default_rng(seed)

    def normal(*shape: int) -> jax.Array:
        return jnp.asarray(draw.normal(size=shape), jnp.float32)

    return normal(rows, sizes[0]), [
        [(normal(n, m) / n**0.5, normal(m)) for n, m in itertools.pairwise(sizes)]
        for _ in range(networks)
    ]


def slopes(x: jax.Array, stacks: list[list[ops.Layer]]) -> Any:
    """Those of inputs, kernels and biases, and the outputs."""

    def loss(x, stacks):
        y = ops.layers([x], stacks)
        return (jnp.sin(y) * jnp.arange(1.0, 1.0 + y.size).reshape(y.shape)).sum(), y

    return jax.grad(loss, argnums=(0, 1), has_aux=True)(x, stacks)


def everything(x: jax.Array, stacks: list[list[ops.Layer]]) -> list[np.ndarray]:
    """Return the outputs, and the slopes of inputs, kernels and biases."""
    anew = lambda *given: slopes(*given)  # noqa: E731, PLW0108  JAX would know `slopes` again, whoever is to compute it now
    of_all, y = jax.jit(anew)(x, stacks)
    return [np.asarray(leaf) for leaf in jax.tree.leaves((y, of_all))]


def test_where_there_is_a_compiler_the_passes_are_had():
    assert ops.uses_native(), ops.why_not_native()


@settings(max_examples=12)
@given(
    st.lists(st.integers(1, 70), min_size=2, max_size=4),
    st.integers(8, 60),
    st.integers(1, 3),
    st.integers(0, 1000),
)
def test_layers_are_those_of_xla(sizes: list[int], rows: int, networks: int, seed: int):
    given = some_networks(sizes, seed, rows, networks)
    ours = everything(*given)
    with ops.reference_only():
        theirs = everything(*given)
    for one, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-4 * max(1.0, np.abs(other).max()))


@pytest.mark.parametrize(
    "networks", [2, 40], ids=lambda count: f"{count} networks"
)  # the latter by two passes
def test_networks_that_go_together_are_what_each_is_alone_to_the_bit(networks: int):
    x, stacks = some_networks([6, 40, 33, 2], rows=24, networks=networks)
    y, of_input, *of_layers = everything(x, stacks)
    slope = jax.jit(
        jax.grad(
            lambda x, stacks, weights: (jnp.sin(ops.layers([x], stacks)) * weights).sum(),
            argnums=(0, 1),
        )
    )
    weights = jnp.arange(1.0, 1.0 + y.size).reshape(y.shape)
    alone = [slope(x, [stack], weights[index][None]) for index, stack in enumerate(stacks)]
    for one, found in zip(jax.tree.leaves([of_one for _, of_one in alone]), of_layers, strict=True):
        np.testing.assert_array_equal(one, found)
    np.testing.assert_allclose(sum(of_one for of_one, _ in alone), of_input, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (2, 40)], ids=str)
def test_axes_before_the_last_are_as_they_were(shape: tuple[int, ...]):
    x, stacks = some_networks([5, 7, 3], networks=2)
    y = ops.layers([jnp.broadcast_to(x[0], (*shape, 5))], stacks)
    assert y.shape == (2, *shape, 3)
    for one, found in zip(ops.layers([x], stacks)[:, 0], y, strict=True):
        np.testing.assert_allclose(found, np.broadcast_to(one, found.shape), rtol=1e-5, atol=1e-5)


def test_seeds_of_a_pack_are_what_each_is_alone_to_the_bit():
    packs = [some_networks([6, 40, 33, 2], seed, rows=24, networks=2) for seed in range(3)]
    together = jax.tree.map(lambda *leaves: jnp.stack(leaves), *packs)
    slope = jax.grad(lambda x, stacks: ops.layers([x], stacks).sum(), argnums=(0, 1))
    slopes = jax.jit(jax.vmap(slope))(*together)
    for index, (x, stacks) in enumerate(packs):
        alone = jax.jit(slope)(x, stacks)
        for one, all_ in zip(jax.tree.leaves(alone), jax.tree.leaves(slopes), strict=True):
            np.testing.assert_array_equal(one, all_[index])


@pytest.mark.parametrize("sizes", [[40, 40], [40, 64, 64], [40, 64, 1], [40, 64, 5]], ids=str)
def test_what_is_no_number_stays_none(sizes: list[int]):
    """A run that diverges must be seen to: no ReLU and no minimum may swallow it."""
    x, stacks = some_networks(sizes, rows=32)
    y = ops.layers([x.at[3, 2].set(jnp.nan)], stacks)[0]
    assert np.isnan(y[3]).all() and np.isfinite(np.delete(np.asarray(y), 3, axis=0)).all()


def test_slopes_that_nobody_asks_for_are_not_computed():
    x, stacks = some_networks([17, 256, 256, 1], rows=256, networks=2)
    loss = lambda obs, action, stacks: ops.layers([obs, action], stacks).sum()  # noqa: E731

    def calls(argnums: int) -> list[str]:
        program = (
            jax.jit(jax.grad(loss, argnums=argnums))
            .lower(x[:, :11], x[:, 11:], stacks)
            .compile()
            .as_text()
        )
        return sorted(re.findall(r'custom_call_target="dualac_(\w+)"', program))

    assert calls(0) == calls(1) == ["layers_backward", "layers_backward", "layers_forward"]
    assert calls(2) == ["layers_backward", "layers_forward", "layers_gradients"]


def some_parameters(seed: int) -> dict[str, jax.Array]:
    draw = np.random.default_rng(seed)
    return {
        name: jnp.asarray(draw.normal(size=shape) ** 2, jnp.float32)
        for name, shape in {"a": (90, 111), "b": (3,), "c": (20_001,), "d": ()}.items()
    }


def test_adam_and_polyak_are_those_of_xla():
    learned, grads = tuple(map(some_parameters, range(3))), some_parameters(3)
    step, least = jnp.float32(3e-2), jnp.float32(1e-3)
    moved = jax.jit(
        lambda: (
            ops.adam(learned, grads, step, least, b1=0.5, b2=0.99),
            ops.polyak_average(*learned[:2], 0.005),
        )
    )
    text = moved.lower().as_text()
    assert "dualac_adam" in text and "dualac_polyak_average" in text
    ours = moved()
    with ops.reference_only():
        theirs = jax.jit(
            lambda: (
                ops.adam(learned, grads, step, least, b1=0.5, b2=0.99),
                ops.polyak_average(*learned[:2], 0.005),
            )
        )()
    for one, other in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-6)


@settings(max_examples=10)
@given(st.lists(st.integers(0, 3 * native.STRETCH), min_size=1, max_size=5), st.integers(0, 999))
def test_the_length_of_the_gradient_is_measured_on_the_way(sizes: list[int], seed: int):
    draw = np.random.default_rng(seed)
    grads = [jnp.asarray(draw.normal(size=size), jnp.float32) for size in (*sizes, native.SMALL)]
    grads[0] = jnp.append(grads[0], 1e3)  # seen wherever it is
    zeros = jax.tree.map(jnp.zeros_like, grads)
    found = ops.adam((zeros, zeros, zeros), grads, jnp.float32(1), jnp.float32(1), b1=0.5, b2=0.99)[
        1
    ]
    assert float(found) == pytest.approx(
        np.linalg.norm(np.concatenate(grads).astype(np.float64)), rel=1e-5
    )


def some_quantiles(
    critics: int, rows: int, quantiles: int, targets: int, seed: int = 0
) -> tuple[jax.Array, jax.Array]:
    draw = np.random.default_rng(seed)
    return jnp.asarray(draw.normal(size=(critics, rows, quantiles)), jnp.float32), jnp.asarray(
        draw.normal(size=(rows, targets)), jnp.float32
    )


@settings(max_examples=10)
@given(
    st.tuples(*(st.integers(1, most) for most in (3, 9, 70, 40, 1000))),
    st.floats(0.125, 3.0, width=32),
)
def test_the_loss_of_quantiles_and_its_slopes_are_those_of_xla(
    sizes_and_seed: tuple[int, ...], kappa: float
):
    given = some_quantiles(*sizes_and_seed)
    assert (
        "dualac_quantile_loss"
        in jax.jit(lambda: ops.quantile_loss(*given, kappa)).lower().as_text()
    )
    ours = ops.quantile_loss(*given, kappa)
    with ops.reference_only():
        theirs = ops.quantile_loss(*given, kappa)
    for one, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-4 * max(1.0, np.abs(other).max()))


@pytest.mark.parametrize(
    "shapes",
    [((2, 8, 5), (1, 5)), ((2, 8, 5), (9, 5)), ((8, 5), (8, 5)), ((2, 8, 5), (5,))],
    ids=str,
)
def test_quantiles_that_do_not_fit_their_targets_are_refused(
    shapes: tuple[tuple[int, ...], tuple[int, ...]],
):
    with pytest.raises(TypeError, match="unlike"):
        ops.quantile_loss(*map(jnp.ones, shapes), 1.0)


@pytest.mark.parametrize("whose", ["a value's", "a target's"])
def test_a_quantile_that_is_no_number_is_seen_in_its_own_row_alone(whose: str):
    zs, target = some_quantiles(2, 5, 40, 30)
    zs, target = (
        (zs.at[1, 3, 35].set(jnp.nan), target)
        if whose == "a value's"
        else (zs, target.at[3, 7].set(jnp.nan))
    )
    for found in jax.jit(lambda zs, target: ops.quantile_loss(zs, target, 1.0))(zs, target):
        of_rows = np.isnan(np.asarray(found)).reshape(2, 5, -1).any(axis=-1)
        assert np.argwhere(of_rows).tolist() == (
            [[1, 3]] if whose == "a value's" else [[0, 3], [1, 3]]
        )


TEAM = """
import threading, time
from dualac.machine.cores import pin
pin(1)
import jax, jax.numpy as jnp, numpy as np
from dualac import ops
from tests.ops.test_ops import slopes, some_networks, some_parameters, some_quantiles

given = [some_networks(sizes, rows=rows, networks=count) for sizes, rows, count in (
    ([23, 256, 250, 12], 256, 1), ([5, 300, 1], 100, 1),
    ([23, 256, 256, 1], 256, 2), ([7, 90, 40], 30, 5))]
learned, grads = tuple(map(some_parameters, range(3))), some_parameters(3)
rates = np.float32(3e-2), np.float32(1e-3)
descend = lambda learned, grads: ops.adam(learned, grads, *rates, b1=0.5, b2=0.99)
# What is below the smallest normal number XLA takes for zero, and so must whoever helps.
x, (stack,) = some_networks([30, 64, 64], rows=256)
tiny = lambda: ops.layers([x * 1e-20], [[(kernel * 1e-20, 0 * bias) for kernel, bias in stack]])
fading = jax.tree.map(lambda leaf: 0 * leaf + 1e-38, learned)
moved = lambda: (descend(learned, grads), ops.polyak_average(*learned[:2], 0.005))
programs = [jax.jit(lambda: ([slopes(*one) for one in given], moved())), jax.jit(tiny)]
quantiles = [some_quantiles(critics, 99, 50, 60) for critics in (1, 2, 5)]
programs.append(jax.jit(lambda: [ops.quantile_loss(*some, 1.0) for some in quantiles]))
programs.append(jax.jit(lambda: descend(fading, jax.tree.map(jnp.zeros_like, grads))))

def all_of_it():
    found = [program() for program in programs]
    assert (np.asarray(found[-1][0][1]["c"]) == 0).all()
    return [np.asarray(leaf) for leaf in jax.tree.leaves(found)]

alone = all_of_it()
def same(): return all((a == b).all() for a, b in zip(alone, all_of_it(), strict=True))
assert ops.start_helpers({cores})
assert all(same() for _ in range(20)), "shared"
time.sleep(0.1)  # in which helpers fall asleep
assert same(), "woken"
found = []
often = lambda: found.extend(same() for _ in range(10))
threads = [threading.Thread(target=often) for _ in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
assert found == [True] * 40, "at the same time"
print("the same bits")
"""


@pytest.mark.parametrize("helpers", [1, 3])
def test_how_many_threads_share_a_pass_changes_no_bit(helpers: int):
    """Helpers on other cores, or on one that all share; asleep or awake; and passes that other
    threads ask for meanwhile.
    """
    cores = usable_cores()[-1:] * helpers
    done = python("-c", TEAM.replace("{cores}", str(cores)))
    assert done.stdout.strip() == "the same bits", done.stderr


def test_without_a_compiler_it_is_all_xla_s(tmp_path):
    code = (
        "from dualac import ops\n"
        "print(ops.uses_native(), ops.start_helpers([0]), ops.why_not_native())"
    )
    assert python("-c", code, JAX_COMPILATION_CACHE_DIR=str(tmp_path)).stdout.strip() == "True True"
    (kept,) = tmp_path.glob("*.so")
    kept.write_bytes(kept.read_bytes()[:1000])
    assert (
        python("-c", code, JAX_COMPILATION_CACHE_DIR=str(tmp_path)).stdout.strip() == "True True"
    )  # made anew
    for compiler, why in (
        ("no-such-compiler", "No such file or directory: 'no-such-compiler'"),
        ("false", "false could not compile the kernels"),
    ):
        answer = python("-c", code, CC=compiler, JAX_COMPILATION_CACHE_DIR="").stdout.strip()
        assert answer.startswith("False False ") and why in answer
    assert (
        python("-c", code, DUALAC_KERNELS="xla").stdout.strip()
        == "False False DUALAC_KERNELS is xla"
    )
    assert (
        "DUALAC_KERNELS may be xla or not be set, not 'eigen'"
        in python("-c", code, DUALAC_KERNELS="eigen").stderr
    )
    assert "No closing quotation" in python("-c", code, CC='cc "').stderr


def test_what_does_not_fit_is_refused():
    x, (stack, *_) = some_networks([5, 40, 3])
    _, (other, *_) = some_networks([5, 30, 3])
    for inputs, stacks in (
        ([x, x], [stack]),
        ([x], [stack[::-1]]),
        ([x], [[(stack[0][0], jnp.zeros(1)), stack[1]]]),
    ):
        with pytest.raises(TypeError, match="does not fit its input"):
            ops.layers(inputs, stacks)
    for stacks in ([stack, other], [stack, stack[:1]], [], [[]]):
        with pytest.raises(TypeError, match="have the same layers, at least one"):
            ops.layers([x], stacks)
    with pytest.raises(TypeError, match=r"unlike \(2, 8, 4\), \(8, 2, 1\)"):
        ops.layers([jnp.ones((2, 8, 4)), jnp.ones((8, 2, 1))], [stack])
    (of_layer,) = jax.grad(lambda stack: ops.layers([jnp.ones((16, 0))], [stack]).sum())(
        [(jnp.ones((0, 40)), jnp.ones(40))]
    )
    assert (of_layer[1] == 16).all()  # what sees nothing still has a bias
    learned, grads = tuple(map(some_parameters, range(3))), some_parameters(3)
    with pytest.raises(ValueError, match=r"structure|arity|keys|dict"):
        ops.adam(
            learned,
            {name: grads[name] for name in "abc"},
            jnp.float32(1),
            jnp.float32(1),
            b1=0.5,
            b2=0.99,
        )
    halves = jax.tree.map(lambda leaf: leaf.astype(jnp.bfloat16), grads)
    moved = ops.adam(
        learned, halves, jnp.int32(1), jnp.float32(1), b1=0.5, b2=0.99
    )  # as XLA has it
    np.testing.assert_allclose(
        moved[0][1]["a"],
        0.5 * learned[1]["a"] + 0.5 * np.asarray(halves["a"], np.float32),
        rtol=2e-2,
    )


def test_which_kernels_a_run_has_is_part_of_what_decides_its_bits():
    code = (
        "from dualac.machine.cores import pin\nfrom dualac import ops\n"
        "pin(1); print(ops.identity())"
    )
    one, again = (
        python("-c", code, JAX_COMPILATION_CACHE_DIR="").stdout.strip() for _ in range(2)
    )  # compiled twice
    assert one == again and re.fullmatch("native [0-9a-f]{16}", one)
    assert python("-c", code, DUALAC_KERNELS="xla").stdout.strip() == "xla"
