"""How an observation of any shape becomes one float32 vector."""

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

# What float32 cannot hold becomes infinite, which the training loop notices. A filter, not
# np.errstate: that costs every step of a simulator 8 %.
warnings.filterwarnings(
    "ignore", "overflow encountered in cast", RuntimeWarning, re.escape(__name__)
)

# an array of this rank is a picture whatever its dtype; one rank less is a picture only in bytes
IMAGE_RANK = 3


class Part(NamedTuple):
    """One box of the observation, by its keys joined with dots ("" where it is the whole), and the
    numbers of the vector it fills.
    """

    name: str
    start: int
    stop: int


@final
class Layout:
    """Where each part of an observation lies in the vector: the order is the space's own, and a
    part of another size than declared is an error.
    """

    def __init__(self, space: spaces.Space[Any], task: str) -> None:
        self._task = task
        self._trusted = not task.startswith(
            "gym/"
        )  # the suites declare what they observe; whoever else may change parts amid an episode
        boxes = list(_boxes(space, (), task))
        self._paths = [path for path, _ in boxes]
        self._sizes = [math.prod(box.shape) for _, box in boxes]
        self.size = sum(self._sizes)
        self._parts = _getter(self._paths)
        if self.size == 0:
            raise UsageError(f"{task} observes nothing ({space}): there is nothing to learn from")

    def parts(self) -> list[Part]:
        """What lies where, for whoever reads a run, or feeds its policy, later."""
        ends = np.cumsum(self._sizes).tolist()
        return [
            Part(".".join(map(str, path)), end - size, end)
            for path, size, end in zip(self._paths, self._sizes, ends, strict=True)
        ]

    def flat(self, observation: Any) -> np.ndarray:
        """A fresh vector: callers keep observations, and environments reuse their buffers."""
        try:
            vector = np.concatenate(
                self._parts(observation), axis=None, dtype=np.float32, casting="unsafe"
            )
        except RuntimeWarning:  # where someone wants warnings raised
            with np.errstate(over="ignore"):
                vector = np.concatenate(
                    self._parts(observation), axis=None, dtype=np.float32, casting="unsafe"
                )
        except (KeyError, IndexError, TypeError, ValueError) as error:
            raise BrokenEpisodeError(
                f"{self._task} observed what its space does not declare: {type(error).__name__}: "
                f"{error}"
            ) from error
        if vector.size != self.size or not self._trusted:
            self.check(observation)
        return vector

    def check(self, observation: Any) -> None:
        """Part by part, where `flat` counts only the whole: of a suite's task once an episode."""
        for path, size in zip(self._paths, self._sizes, strict=True):
            found = np.size(_part(observation, path))
            if found != size:
                raise BrokenEpisodeError(
                    f"{self._task} observed {found} numbers{_at(path)} where its space declares "
                    f"{size}"
                )


def _getter(paths: list[tuple[Any, ...]]) -> Callable[[Any], Sequence[Any]]:
    """All parts in order. One level of keys is what simulators have, and they take 30 microseconds
    a step: it is worth a faster way.
    """
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
