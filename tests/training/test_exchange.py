"""How the devices of a run exchange what they found."""

import shutil

import pytest
from tests.training.runs import python

pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")

THREE = """
from dualac.training import machine
machine.pin(1)
import jax, jax.numpy as jnp, numpy as np
jax.config.update("jax_num_cpu_devices", 3)
from jax.sharding import Mesh, PartitionSpec
from dualac.agents.trained import MEETING, PARTS, exchanged, shared
from dualac.training.exchange import native
assert native()

def on_three(function, axis):
    mesh = Mesh(np.array(jax.devices()), (axis,))
    return jax.jit(jax.shard_map(function, mesh=mesh, in_specs=PartitionSpec(axis), out_specs=PartitionSpec(axis), check_vma=False))
"""
MEANS = (
    THREE
    + """
numbers = np.random.default_rng(0).normal(size=(3, 5000)).astype(np.float32)
def both(x):
    def again(carry, _):
        (mean, single), kept = exchanged((carry, carry[:, 0]), x)
        return mean + kept, single
    return jax.lax.scan(again, x, None, length=50)
met, pooled = (on_three(both, axis)(numbers) for axis in (MEETING, PARTS))
assert np.isfinite(met[0]).all() and met[0].shape == (3, 5000)
print([bool((a == b).all()) for a, b in zip(met, pooled)])
"""
)
DIFFERENT = (
    THREE
    + """
def meet(x):
    return jax.lax.cond(jax.lax.axis_index(MEETING) == 0, lambda: shared(x[:, :1]).sum(), lambda: shared(x).sum())[None]
try:
    jax.block_until_ready(on_three(meet, MEETING)(np.ones((3, 4), np.float32)))
except Exception as error:
    print(error)
"""
)


def test_devices_that_meet_take_the_mean_that_xla_takes_to_the_bit():
    """Three of them, on one core, over and over."""
    told = python("-c", MEANS)
    assert told.stdout.strip() == "[True, True]", told.stderr


def test_devices_that_meet_for_different_things_are_told_so():
    told = python("-c", DIFFERENT)
    assert "the devices of a run met for different things" in told.stdout, told.stderr


def test_without_a_compiler_xla_exchanges(tmp_path):
    code = "from dualac.training.exchange import native; print(native())"
    assert python("-c", code, JAX_COMPILATION_CACHE_DIR=str(tmp_path)).stdout.strip() == "True"
    assert [file.suffix for file in tmp_path.iterdir()] == [".so"]
    assert python("-c", code, CC="no-such-compiler", JAX_COMPILATION_CACHE_DIR=str(tmp_path)).stdout.strip() == "True"  # it was kept
    assert python("-c", code, CC="no-such-compiler", JAX_COMPILATION_CACHE_DIR="").stdout.strip() == "False"
    assert python("-c", code, CC="false", JAX_COMPILATION_CACHE_DIR="").stdout.strip() == "False"
    assert python("-c", code, JAX_COMPILATION_CACHE_DIR="").stdout.strip() == "True"


def test_how_cores_exchange_is_part_of_what_decides_the_bits(tmp_path):
    code = "from dualac.training import machine; machine.pin({cores}); print(machine.fingerprint().get('exchange'))"
    split = "import jax; jax.config.update('jax_num_cpu_devices', 2); " + code.format(cores=1)
    assert python("-c", code.format(cores=1)).stdout.strip() == "None"
    assert python("-c", split).stdout.strip() == "own"
    assert python("-c", split, CC="no-such-compiler", JAX_COMPILATION_CACHE_DIR="").stdout.strip() == "xla"
