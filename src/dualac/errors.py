"""What can go wrong and be said in one line.

Every error a user can cause or meet is one of these: its text names the cause and the next step,
its code is the exit code of the command that raised it.
"""

import contextlib
import difflib
import errno
from collections.abc import Iterable, Iterator
from typing import Self

ENDINGS = (
    KeyboardInterrupt,
    GeneratorExit,
)  # how a user, or Python, ends things; whatever else foreign code raises is its own trouble

# the environment variable that tells a process which command it was started by
COMMAND = "DUALAC_COMMAND"

LONGEST = 500  # characters of what foreign code has to say that are worth repeating


class DualacError(Exception):
    """An error that is told in one line, without a traceback."""

    code = 70


class UsageError(DualacError):
    """What was asked for makes no sense: an unknown name, a value out of range."""

    code = 64


class DataError(DualacError):
    """What was found on disk, or came out of an environment or a loss, cannot be used."""

    code = 65


class BrokenEpisodeError(DataError):
    """The simulation blew up. The episode is lost, the environment is not: reset it and go on."""


class LostEnvironmentError(BrokenEpisodeError):
    """The environment raised, hung or died, and whatever state it is in is nobody's: make it anew
    and go on.
    """

    @classmethod
    def told_by(cls, error: BaseException) -> Self:
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


@contextlib.contextmanager
def quiet_end() -> Iterator[None]:
    """What foreign code raises when it is closed is of no interest."""
    try:
        yield
    except ENDINGS:
        raise
    except BaseException:
        pass


def one_line(text: str) -> str:
    """Without line ends, and without what could steer the terminal: it may repeat what stood in a
    file.
    """
    return "".join(letter if letter.isprintable() else "�" for letter in " ".join(text.split()))


def is_disk_trouble(error: OSError) -> bool:
    """Whether it is the disk that refused: full, over quota, failing, read-only."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS)


def refusal(place: object, error: OSError, instead: str = "choose another --out") -> DualacError:
    """What to say where the system does not let a place be used: 75 where it is the disk's fault,
    else 64.
    """
    told = f"{place} cannot be used ({error.strerror})"
    if is_disk_trouble(error):
        return TryAgainError(f"{told}; free space and start it again: it goes on")
    return UsageError(f"{told}; {instead}")


def nearest(word: str, known: Iterable[str], count: int = 3) -> str:
    """The end of an error sentence about an unknown name: what the user may have meant. A
    dictionary's values are meant where its keys are near.
    """
    close = difflib.get_close_matches(word, known, n=count, cutoff=0.5)
    meant = dict.fromkeys(known[one] for one in close) if isinstance(known, dict) else close
    return f"; did you mean {' or '.join(meant)}?" if meant else ""
