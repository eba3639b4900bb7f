"""Suites as packages: imported when a task is made and not before, in silence, and compared with
the versions that were tested.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.metadata
import io
import logging
import os
import re
import sys
import warnings
from collections.abc import Iterator
from importlib import import_module
from typing import Any, NamedTuple

from dualac.errors import UsageError
from dualac.machine.memory import give_back

LOGGER = logging.getLogger("dualac.envs")
MUJOCO = logging.getLogger("mujoco")
BLOWN_UP = slice(3, 7)  # MuJoCo's warnings of bad positions, velocities, accelerations and controls


class Range(NamedTuple):
    """The versions of a package with which every task was tested: from the first on, below the
    second.
    """

    first: str
    below: str


# The bounds of pyproject.toml; a test holds them equal. MuJoCo is everybody's simulator, and
# Meta-World breaks with 3.17.
TESTED = {
    "dm_control": Range("1.0.49", "1.0.50"),
    "metaworld": Range("3.0.0", "3.0.1"),
    "myosuite": Range("3.0.0", "3.0.1"),
    "mujoco": Range("3.16", "3.17"),
}


def imported(suite: str, module: str) -> Any:
    """A module of a suite's package; a sentence with the command where the package is missing or
    does not import.
    """
    package = module.partition(".")[0]
    try:
        with silence():
            import_module(
                package
            )  # first by itself: a submodule that is loaded already would be found without it
            found = import_module(module)
            _tame_mujoco(import_module("mujoco"))
    except ModuleNotFoundError as error:
        advice = f"pip install 'dualac[{suite}]'"
        if (error.name or "").partition(".")[0] == package:
            raise UsageError(f"{suite} tasks need {package}: {advice}") from error
        raise UsageError(f"{package} does not import: {error}; {advice}") from error
    except (
        ImportError,
        RuntimeError,
        AttributeError,
    ) as error:  # an OpenGL that MUJOCO_GL asks for and the machine has not
        raise UsageError(
            f"{package} does not import: {error}; is MUJOCO_GL right for this machine?"
        ) from error
    for one in (package, "mujoco"):
        compare(one)
    return found


@functools.cache  # said once, not at every task
def compare(package: str) -> None:
    """Warn of a version that was not tested."""
    found, tested = version(package), TESTED[package]
    if found is not None and not _ordered(tested.first) <= _ordered(found) < _ordered(tested.below):
        LOGGER.warning(
            "%s %s is installed, but tasks were tested with %s up to, not including, %s: %s",
            package,
            found,
            *tested,
            "episodes may differ",
        )


def version(package: str) -> str | None:
    """That of the installed package, if one is."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _ordered(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", version.partition("+")[0])[:3])


@contextlib.contextmanager
def silence() -> Iterator[None]:
    """Nothing reaches the terminal, be it printed by Python, by C or as a warning: for imports and
    builds, whose banners nobody can act on.
    """
    levels = {logger: logger.level for logger in (logging.getLogger("absl"), MUJOCO)}
    handlers = logging.root.handlers[:]
    for logger in levels:
        logger.setLevel(logging.ERROR)
    try:
        with (
            warnings.catch_warnings(),
            contextlib.redirect_stdout(io.StringIO()),
            contextlib.redirect_stderr(io.StringIO()),
            _closed(1),
            _closed(2),
        ):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.root.handlers[:] = (
            # one that was added meanwhile writes where nobody reads, and so would our own warnings
            handlers
        )
        for logger, level in levels.items():
            logger.setLevel(level)


@contextlib.contextmanager
def _closed(descriptor: int) -> Iterator[None]:
    """What C writes to it goes nowhere. What Python wrote before it is written first."""
    stream = sys.__stdout__ if descriptor == 1 else sys.__stderr__
    try:
        if stream is not None:
            stream.flush()
        kept = os.dup(descriptor)
    except (OSError, ValueError):  # a program without standard streams has nothing to keep quiet
        yield
        return
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, descriptor)
    os.close(nowhere)
    try:
        yield
    finally:
        os.dup2(kept, descriptor)
        os.close(kept)


def _tame_mujoco(mujoco: Any) -> None:
    """It would write its warnings into MUJOCO_LOG.TXT of the current folder: log them instead,
    unless someone listens already. And it would keep what it read from files, to read it faster
    again, of the dog 115 MB: a run does so once.
    """
    if mujoco.get_mju_user_warning() is None:
        mujoco.set_mju_user_warning(MUJOCO.warning)
    mujoco.mj_setCacheCapacity(mujoco.mj_getCache(), 0)


def let_go() -> None:
    """Give back what building a model took, 170 MB of the dog: MuJoCo keeps the plan of the last
    one.
    """
    if mujoco := sys.modules.get("mujoco"):
        mujoco.MjModel.from_xml_string("<mujoco/>")  # the last one from now on
    give_back()


def diverged(data: Any) -> bool:
    """Whether a simulation blew up since its reset: MuJoCo then starts it again from its first
    state, amid the episode, and only counts.
    """
    return bool(data.warning.number[BLOWN_UP].any())
