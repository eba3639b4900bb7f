"""Suites as packages: imported in silence, and compared with the versions that were tested."""

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

LOGGER = logging.getLogger("dualac.envs")
MUJOCO = logging.getLogger("mujoco")
# MuJoCo's warnings of bad positions, velocities, accelerations and controls.
BLOWN_UP = slice(3, 7)


class Range(NamedTuple):
    """The versions of a package with which every task was tested."""

    first: str
    below: str


# The bounds of pyproject.toml; a test holds them equal. Every suite simulates with MuJoCo, and
# Meta-World breaks with 3.17.
TESTED = {
    "dm_control": Range("1.0.49", "1.0.50"),
    "metaworld": Range("3.0.0", "3.0.1"),
    "myosuite": Range("3.0.0", "3.0.1"),
    "mujoco": Range("3.16", "3.17"),
}

# The packages that decide what an episode is, for each suite. A gym task may be one of MuJoCo's.
SIMULATORS = {
    "dmc": ("dm_control", "mujoco"),
    "metaworld": ("metaworld", "gymnasium", "mujoco"),
    "myosuite": ("myosuite", "gymnasium", "mujoco"),
    "gym": ("gymnasium", "mujoco"),
}


def simulators(task: str) -> tuple[str, ...]:
    """Return the packages whose versions decide the episodes of a task, by its canonical name."""
    return SIMULATORS[task.partition("/")[0]]


def imported(suite: str, module: str) -> Any:
    """Import a module of a suite's package, or say what to install or to set."""
    package = module.partition(".")[0]
    try:
        with silence():
            # The package first: a submodule that is loaded already would be returned without it.
            import_module(package)
            answer = import_module(module)
            _tame_mujoco(import_module("mujoco"))
    except ModuleNotFoundError as error:
        advice = f"pip install 'dualac[{suite}]'"
        if (error.name or "").partition(".")[0] == package:
            raise UsageError(f"{suite} tasks need {package}: {advice}") from error
        raise UsageError(f"{package} does not import: {error}; {advice}") from error
    except (ImportError, RuntimeError, AttributeError) as error:
        # An OpenGL that MUJOCO_GL names and the machine lacks.
        raise UsageError(
            f"{package} does not import: {error}; is MUJOCO_GL right for this machine?"
        ) from error
    for name in (package, "mujoco"):
        warn_if_untested(name)
    return answer


@functools.cache  # said once, not at every task
def warn_if_untested(package: str) -> None:
    """Warn of an installed version with which the tasks were not tested."""
    installed, tested = version(package), TESTED[package]
    if installed is None:
        return
    if not _ordered(tested.first) <= _ordered(installed) < _ordered(tested.below):
        LOGGER.warning(
            "%s %s is installed, but tasks were tested with %s up to, not including, %s: episodes "
            "may differ",
            package,
            installed,
            *tested,
        )


def version(package: str) -> str | None:
    """Return the version of a package, or None where it is not installed."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _ordered(version: str) -> tuple[int, ...]:
    release = version.partition("+")[0]
    return tuple(int(number) for number in re.findall(r"\d+", release)[:3])


@contextlib.contextmanager
def silence() -> Iterator[None]:
    """Keep from the terminal what Python or C prints at an import or a build."""
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
        # A handler that was added meanwhile writes where nobody reads; our own warnings would too.
        logging.root.handlers[:] = handlers
        for logger, level in levels.items():
            logger.setLevel(level)


@contextlib.contextmanager
def _closed(descriptor: int) -> Iterator[None]:
    """Send what C writes to a descriptor nowhere, after what Python wrote before."""
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
    """Have MuJoCo log its warnings, and keep nothing of the files that it read.

    Else it writes its warnings to MUJOCO_LOG.TXT of the current folder, and keeps 115 MB of the
    dog's files, to read them faster the next time: a run reads them once.
    """
    if mujoco.get_mju_user_warning() is None:
        mujoco.set_mju_user_warning(MUJOCO.warning)
    mujoco.mj_setCacheCapacity(mujoco.mj_getCache(), 0)


def release_after_build() -> None:
    """Free what building a model took, 170 MB for the dog."""
    if mujoco := sys.modules.get("mujoco"):
        # MuJoCo keeps the plan of the last model; from now on that is this empty one.
        mujoco.MjModel.from_xml_string("<mujoco/>")


def diverged(data: Any) -> bool:
    """Say whether a simulation blew up since its reset; MuJoCo starts again and only counts."""
    return bool(data.warning.number[BLOWN_UP].any())
