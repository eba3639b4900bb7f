"""What can go wrong and be said in one line: exceptions, and the exit code of each.

Every error that a user can cause or meet is one of these: its text names the cause and the next
step, its code is the exit code of the command that raised it.
"""

from typing import Self

LONGEST = 500  # characters of a foreign error's text that are worth repeating


class DualacError(Exception):
    """An error that is shown in one line, without a traceback."""

    code = 70


class UsageError(DualacError):
    """A request makes no sense: an unknown name, a value out of range."""

    code = 64


class DataError(DualacError):
    """What was found on disk, or came out of an environment or a loss, cannot be used."""

    code = 65


class BrokenEpisodeError(DataError):
    """The simulation blew up. The episode is lost, the environment is not: reset it and go on."""


class LostEnvironmentError(BrokenEpisodeError):
    """The environment raised, hung or died, and its state cannot be trusted: make it anew and go
    on.
    """

    @classmethod
    def caused_by(cls, error: BaseException) -> Self:
        """Make one that repeats, shortened, what the environment raised."""
        return cls(f"raised {type(error).__name__}: {' '.join(str(error).split())}"[:LONGEST])


class RunFailedError(DataError):
    """A run went wrong in a way that trying again would repeat: its loss diverged, its environment
    is broken. Its directory is marked FAILED.
    """


class LockedError(DualacError):
    """Another process owns this run."""

    code = 73


class TryAgainError(DualacError):
    """The machine, not the request, stood in the way: rerun the same command later."""

    code = 75


class Interrupted(DualacError):
    """A signal stopped the run, after a checkpoint."""

    def __init__(self, text: str, signal: int) -> None:
        super().__init__(text)
        self.signal = signal
        self.code = 128 + signal
