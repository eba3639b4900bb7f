"""Messages between processes: typed at both ends, a line of JSON between."""

import math
import signal

import pytest

from dualac.errors import DataError, DualacError, Interrupted, RunFailedError, TryAgainError
from dualac.machine.messages import (
    Answer,
    Assignment,
    ErrorMessage,
    Failed,
    Finding,
    Finished,
    Message,
    Progress,
    Question,
    Retried,
    RunWarning,
    from_line,
)

MESSAGES = [
    Progress("a/run", 3, 7, 9, 1.5, "evaluated", 60.0, {"eval/mean_reward": -1.0}, 0.25),
    Progress("a/run", 3, 0, 9, 0.0),
    RunWarning(3, "two\nlines"),
    Failed("a/run", "ended", final=False),
    Retried("a/run", 1, "was ended by SIGKILL"),
    Assignment(("a/run", "another/run")),
    Question("module:name", {"rounds": 2}),
    Answer([{"ms": 1.0}]),
    Finding("wrong", "played", "it hangs"),
    Finished(),
    ErrorMessage("DataError", "damaged"),
]


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_a_message_is_one_line_and_is_read_back_as_it_was(message: Message):
    line = message.to_line()
    assert line.endswith("\n") and line.count("\n") == 1
    assert from_line(line) == message


def test_a_metric_that_is_not_a_number_crosses():
    message = from_line(Progress("a/run", 0, 1, 2, 0.0, metrics={"train/kl": math.nan}).to_line())
    assert isinstance(message, Progress) and math.isnan(message.metrics["train/kl"])


def test_a_line_that_is_no_message_is_refused():
    with pytest.raises(DataError, match="Nonsense"):
        from_line('{"part": "Nonsense"}')


@pytest.mark.parametrize("error", [TryAgainError("full"), RunFailedError("diverged")])
def test_an_error_keeps_its_class_and_its_text(error: DualacError):
    again = ErrorMessage.of(error).as_error()
    assert (type(again), str(again), again.code) == (type(error), str(error), error.code)


def test_an_error_whose_class_does_not_cross_is_the_nearest_that_does():
    class Narrow(RunFailedError):
        pass

    assert type(ErrorMessage.of(Narrow("diverged")).as_error()) is RunFailedError


def test_an_interruption_keeps_its_signal():
    again = ErrorMessage.of(Interrupted("stopped", signal.SIGTERM)).as_error()
    assert isinstance(again, Interrupted)
    assert (again.signal, again.code) == (15, 143)
