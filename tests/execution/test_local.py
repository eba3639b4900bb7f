"""What a launcher makes of signals and of processes that end."""

import signal

import pytest
from tests.support.runs import environment

from dualac.errors import Interrupted
from dualac.execution.local import Effort, ProcessDied, Work, launch
from dualac.machine.messages import Failed
from dualac.training.run import USUAL


def launched(path, entry, monkeypatch, flags=USUAL):
    """Launch one work; return its failure, and what was reported."""
    monkeypatch.setenv("PYTHONPATH", environment()["PYTHONPATH"])  # its process finds the tests
    path.mkdir()
    reports = []
    effort = Effort(entry=f"tests.support.toy_ends:{entry}")
    (failure,) = launch([Work([path])], reports.append, flags, effort)
    return failure, reports


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("SIGHUP", 129),
        *(
            pytest.param(name, code, marks=pytest.mark.kill)
            for name, code in (("SIGINT", 130), ("SIGQUIT", 131), ("SIGTERM", 143))
        ),
    ],
)
def test_a_signal_ends_a_process_that_has_not_begun_at_once(name, code, tmp_path, monkeypatch):
    before = signal.getsignal(signal.Signals[name])
    failure, reports = launched(tmp_path / name, "ask_to_stop", monkeypatch)
    assert isinstance(failure.error, Interrupted)
    assert (failure.error.code, failure.final) == (code, False)
    assert "stopped at once; dualac resume" in str(failure.error)
    assert not [report for report in reports if isinstance(report, Failed)]
    assert signal.getsignal(signal.Signals[name]) is before


ISOLATE = "--isolate-env makes an environment's exit or crash cost an episode"


@pytest.mark.parametrize(
    ("entry", "code", "advised"),
    [
        ("exit_by_itself", 7, True),
        ("crash", 134, True),
        pytest.param("run_out_of_memory", 137, False, marks=pytest.mark.kill),
    ],
)
def test_of_a_process_that_an_environment_may_have_ended_it_says_how_to_isolate_it(
    entry, code, advised, tmp_path, monkeypatch
):
    failure, _ = launched(tmp_path / "run", entry, monkeypatch)
    assert isinstance(failure.error, ProcessDied)
    assert failure.error.code == code
    assert (ISOLATE in str(failure.error)) is advised


@pytest.mark.kill
def test_of_one_whose_environment_is_isolated_it_does_not(tmp_path, monkeypatch):
    flags = USUAL._replace(isolated=60.0)
    failure, _ = launched(tmp_path / "run", "exit_by_itself", monkeypatch, flags)
    assert ISOLATE not in str(failure.error)
