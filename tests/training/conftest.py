"""Runs that are trained once in a session of tests, and what they have compiled."""

from pathlib import Path
from typing import Any

import pytest

_compiled: dict[Any, Any] = {}


@pytest.fixture(autouse=True)
def compiled_once(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs of one algorithm, seed and size share their compiled functions within a session of
    tests: a run then costs its steps, not its tracing.

    A test that asks for `compiled_afresh` gets what a user gets.
    """
    if "compiled_afresh" in request.fixturenames:
        return
    from dualac.training import learner, loop

    def shared(runs: list[Any], spec: Any) -> learner.Learner:
        key = (runs[0].algorithm, tuple(run.seed for run in runs), spec)
        if key not in _compiled:
            _compiled[key] = learner.Learner(runs, spec)
            _compiled[key].compile_ahead = lambda: iter(
                ()
            )  # it would forget how to begin, to save memory
        found = _compiled[key]
        found.begin()
        return found

    monkeypatch.setattr(loop, "Learner", shared)


@pytest.fixture
def compiled_afresh() -> None:
    """Nothing compiled is shared."""


@pytest.fixture(scope="session")
def golden(tmp_path_factory: pytest.TempPathFactory):
    """The directory of a run that was never interrupted; each is trained once in a session."""
    from tests.support.runs import trained

    known: dict[Any, Path] = {}

    def find(run: Any) -> Path:
        if run not in known:
            known[run] = trained(run, tmp_path_factory.mktemp("golden"))
        return known[run]

    return find
