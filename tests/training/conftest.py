"""Runs that are trained once in a session of tests."""

from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(scope="session")
def golden(tmp_path_factory: pytest.TempPathFactory):
    """Return the directory of a run that was never interrupted, trained once in a session."""
    from tests.support.runs import trained  # JAX may be imported only now

    directories: dict[Any, Path] = {}

    def find(run: Any) -> Path:
        if run not in directories:
            directories[run] = trained(run, tmp_path_factory.mktemp("golden"))
        return directories[run]

    return find
