"""Every row of the table, small, quick and compiled once. What needs jax is imported late: tests/conftest.py configures it first."""

import functools

import pytest

# Rows that together have every part; the others are these with other numbers, and wait for `make test-table`.
QUICK = ("dac", "sac", "td3", "oac", "top", "gpl", "redq", "dac-both")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    from dualac.agents.algorithms import ALGORITHMS

    rows = [name if name in QUICK else pytest.param(name, marks=pytest.mark.table) for name in ALGORITHMS]
    if "each" in metafunc.fixturenames:
        metafunc.parametrize("each", rows, indirect=True)
    if "every" in metafunc.fixturenames:
        metafunc.parametrize("every", rows)


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


@pytest.fixture
def td3():
    return _learner("td3")


@pytest.fixture
def top():
    return _learner("top")


@pytest.fixture
def gpl():
    return _learner("gpl")


@pytest.fixture
def redq():
    return _learner("redq")
