"""Flattening of observations of any shape into one float32 vector."""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from operator import itemgetter
from typing import Any, NamedTuple, final

import numpy as np
from gymnasium import spaces

from dualac.errors import BrokenEpisodeError, UsageError

# What float32 cannot hold becomes infinite, which the training loop notices. A filter, because
# np.errstate would cost every step of a simulator 8 %.
warnings.filterwarnings(
    "ignore", "overflow encountered in cast", RuntimeWarning, re.escape(__name__)
)

# An array of this rank is a picture whatever its dtype; one rank less is a picture only in bytes.
IMAGE_RANK = 3


class Part(NamedTuple):
    """One box of the observation, and the numbers of the vector that it fills."""

    name: str  # its keys joined with dots; empty where the box is the whole observation
    start: int
    stop: int


@final
class Layout:
    """Where each part of an observation lies in the vector, in the order of the space."""

    def __init__(self, space: spaces.Space[Any], task: str) -> None:
        self._task = task
        # The suites observe what they declare. Others may change their parts amid an episode.
        self._trusted = not task.startswith("gym/")
        boxes = list(_boxes(space, (), task))
        self._paths = [path for path, _ in boxes]
        self._sizes = [math.prod(box.shape) for _, box in boxes]
        self.size = sum(self._sizes)
        self._parts = _getter(self._paths)
        if self.size == 0:
            raise UsageError(f"{task} observes nothing ({space}): there is nothing to learn from")

    def parts(self) -> list[Part]:
        """List what lies where, for whoever reads a run, or feeds its policy, later."""
        ends = np.cumsum(self._sizes).tolist()
        return [
            Part(".".join(map(str, path)), end - size, end)
            for path, size, end in zip(self._paths, self._sizes, ends, strict=True)
        ]

    def flat(self, observation: Any) -> np.ndarray:
        """Return a fresh vector: callers keep it, and environments reuse their buffers."""
        try:
            vector = _concatenate(self._parts(observation))
        except RuntimeWarning:  # where someone wants warnings raised
            with np.errstate(over="ignore"):
                vector = _concatenate(self._parts(observation))
        except (KeyError, IndexError, TypeError, ValueError) as error:
            raise BrokenEpisodeError(
                f"{self._task} observed what its space does not declare: {type(error).__name__}: "
                f"{error}"
            ) from error
        if vector.size != self.size or not self._trusted:
            self.check(observation)
        return vector

    def check(self, observation: Any) -> None:
        """Refuse a part of another size than declared; `flat` compares only the whole."""
        for path, size in zip(self._paths, self._sizes, strict=True):
            observed = np.size(_part(observation, path))
            if observed != size:
                raise BrokenEpisodeError(
                    f"{self._task} observed {observed} numbers{_at(path)} where its space declares "
                    f"{size}"
                )


def _concatenate(parts: Sequence[Any]) -> np.ndarray:
    return np.concatenate(parts, axis=None, dtype=np.float32, casting="unsafe")


def _getter(paths: list[tuple[Any, ...]]) -> Callable[[Any], Sequence[Any]]:
    """Return a function that takes an observation apart, fast where it has one level of keys."""
    if len(paths) > 1 and all(len(path) == 1 for path in paths):
        return itemgetter(*(path[0] for path in paths))
    return lambda observation: [_part(observation, path) for path in paths]


def _part(observation: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        observation = observation[key]
    return observation


def _boxes(
    space: spaces.Space[Any], path: tuple[Any, ...], task: str
) -> Iterator[tuple[tuple[Any, ...], spaces.Box]]:
    """List the boxes of a space with their keys, or refuse a space that cannot be learned from."""
    if isinstance(space, spaces.Dict):
        for key, inner in space.spaces.items():
            yield from _boxes(inner, (*path, key), task)
    elif isinstance(space, spaces.Tuple):
        for key, inner in enumerate(space.spaces):
            yield from _boxes(inner, (*path, key), task)
    elif not isinstance(space, spaces.Box):
        raise UsageError(
            f"{task} observes {space}{_at(path)}: only boxes of numbers can be learned from here, "
            "and dicts and tuples of them"
        )
    elif len(space.shape) >= IMAGE_RANK or (
        len(space.shape) == IMAGE_RANK - 1 and space.dtype == np.uint8
    ):
        raise UsageError(
            f"{task} observes an image{_at(path)} ({space.dtype} of shape {space.shape}): "
            "learning from pixels is not supported"
        )
    else:
        yield path, space


def _at(path: tuple[Any, ...]) -> str:
    return f" at {'.'.join(map(str, path))}" if path else ""
