"""What processes say to each other: frozen dataclasses, each of which travels as a line of JSON."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Self

from dualac.errors import (
    DataError,
    DualacError,
    Interrupted,
    LockedError,
    RunFailedError,
    TryAgainError,
    UsageError,
)
from dualac.parts.as_json import from_json, to_json

Stage = Literal["started", "resumed", "progress", "evaluated", "done", "interrupted"]
Verdict = Literal["ok", "note", "warning", "wrong"]


class Message:
    """What one process says to another."""

    def to_line(self) -> str:
        return json.dumps(to_json(self)) + "\n"


def from_line(line: str) -> Message:
    """Read the message that `to_line` wrote."""
    return from_json(Message, json.loads(line))


# What is reported of runs, by a training or by those who carry out many of them.


@dataclass(frozen=True)
class Progress(Message):
    """How far a run has come, and how fast."""

    path: str
    seed: int
    step: int
    steps: int
    fps: float
    stage: Stage = "progress"
    eta: float | None = None
    metrics: Mapping[str, float] = field(default_factory=dict)
    target_kl: float | None = None


@dataclass(frozen=True)
class RunWarning(Message):
    """What a user should know of a run that goes on."""

    seed: int
    text: str


@dataclass(frozen=True)
class Failed(Message):
    """A run did not come to its end; `final` where it would not if it were begun again."""

    path: str
    text: str
    final: bool


@dataclass(frozen=True)
class Retried(Message):
    """An attempt of a run failed; another one will be made."""

    path: str
    attempt: int
    text: str


@dataclass(frozen=True)
class Stopping(Message):
    """A signal asked to stop: the runs under way do so when a step is whole, at another at once."""

    signal: int


RunEvent = Progress | RunWarning | Failed | Retried | Stopping
Report = Callable[[RunEvent], None]


# What is said to a process that works for another, and what it answers.


@dataclass(frozen=True)
class Assignment(Message):
    """The directories of a run, or of the seeds of one pack, that are next."""

    paths: tuple[str, ...]


@dataclass(frozen=True)
class Question(Message):
    """A function to be called, as `module:name`, and its keyword arguments."""

    function: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True)
class Answer(Message):
    """What the function of a `Question` returned."""

    value: Any


@dataclass(frozen=True)
class Finding(Message):
    """What an examination of a task found.

    `wrong`: training would fail. `warning`: it works, but not as it should. `note`: good to know.
    """

    verdict: Verdict
    about: str
    text: str


@dataclass(frozen=True)
class Finished(Message):
    """What was to be done is done."""


@dataclass(frozen=True)
class ErrorMessage(Message):
    """An error, by its class, that ended the work of the process."""

    error: str
    text: str
    signal: int = 0

    @classmethod
    def of(cls, error: DualacError) -> Self:
        """Make the message of an error, by the narrowest class that crosses."""
        kind = next(kind for kind in type(error).__mro__ if kind.__name__ in ERRORS)
        number = error.signal if isinstance(error, Interrupted) else 0
        return cls(kind.__name__, str(error), number)

    def as_error(self) -> DualacError:
        """Make the error again that the other process met."""
        if self.error == Interrupted.__name__:
            return Interrupted(self.text, self.signal)
        return ERRORS[self.error](self.text)


ERRORS: dict[str, type[DualacError]] = {
    kind.__name__: kind
    for kind in (
        DualacError,
        UsageError,
        DataError,
        RunFailedError,
        LockedError,
        TryAgainError,
        Interrupted,
    )
}
