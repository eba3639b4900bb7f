"""Every row of the table, small, quick and compiled once. What needs jax is imported late: tests/conftest.py configures it first."""

import functools

import pytest


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "each" in metafunc.fixturenames:
        from dualac.agents.algorithms import ALGORITHMS

        metafunc.parametrize("each", list(ALGORITHMS), indirect=True)


@functools.cache
def _learner(name: str):
    import tiny

    from dualac.agents.algorithms import ALGORITHMS

    return tiny.learner(tiny.quick(tiny.small(ALGORITHMS[name])))


@pytest.fixture
def each(request: pytest.FixtureRequest):
    """Each row of the table."""
    return _learner(request.param)


@pytest.fixture
def dac():
    return _learner("dac")


@pytest.fixture
def sac():
    return _learner("sac")
