"""Rows of the table, small, quick and compiled once.

What needs jax is imported late: tests/conftest.py configures it first.
"""

import functools

import pytest

# A row costs ten seconds of compiling. These have every kind of policy and critic, of state and of
# branch; the others wait for `make test-table`.
# What is new in REDQ, GPL and OAC is tested by itself, in the fixtures below or as a part.
QUICK = ("dac", "sac", "top", "dac-both")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    from dualac.agents.algorithms import ALGORITHMS

    rows = [
        name if name in QUICK else pytest.param(name, marks=pytest.mark.table)
        for name in ALGORITHMS
    ]
    if "each" in metafunc.fixturenames:
        metafunc.parametrize("each", rows, indirect=True)
    if "every" in metafunc.fixturenames:
        metafunc.parametrize("every", rows)


@functools.cache
def _learner(name: str, updates: int = 20):
    from tests.support import tiny

    from dualac.agents.algorithms import ALGORITHMS

    return tiny.learner(tiny.quick(tiny.small(ALGORITHMS[name])), updates)


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
def top():
    """Its policy and explorer are TD3's."""
    return _learner("top")


@pytest.fixture
def redq():
    return _learner("redq", updates=1)


@pytest.fixture
def gpl():
    """As it starts."""
    return _learner("gpl", updates=0)


@pytest.fixture
def oac():
    """As it starts."""
    return _learner("oac", updates=0)
