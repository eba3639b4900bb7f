"""What a run's fingerprint holds, and how an earlier one is compared with it."""

from dualac.envs.suites.packages import simulators
from dualac.machine.fingerprint import changes, fingerprint, versions_of


def test_a_fingerprint_names_the_arithmetic_and_the_simulators_of_the_run_s_task_alone():
    decisive = fingerprint(simulators("dmc/cheetah-run"), "native 0")
    installed = versions_of(("jax", "jaxlib", "numpy", "dm_control", "mujoco"))
    assert decisive["versions"] == installed
    assert decisive["kernels"] == "native 0"


def test_versions_that_decide_nothing_any_more_are_passed_over():
    here = fingerprint(("mujoco",), "xla")
    there = here | {"versions": here["versions"] | {"flax": "0.12.8", "optax": "0.2.8"}}
    assert changes(here, there) == []


def test_a_version_that_decides_bits_is_named():
    here = fingerprint((), "xla")
    there = here | {"versions": here["versions"] | {"jax": "0.4.0", "flax": "0.12.8"}}
    assert changes(here, there) == [
        f"versions.jax: '0.4.0' there, {here['versions']['jax']!r} here"
    ]


def test_another_device_or_other_kernels_are_named():
    here = fingerprint((), "native 1")
    assert changes(here, here | {"kernels": "xla"}) == ["kernels: 'xla' there, 'native 1' here"]
