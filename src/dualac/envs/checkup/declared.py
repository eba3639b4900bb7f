"""What an environment returns, compared with the spaces that it declares."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, final

import gymnasium
import numpy as np
from gymnasium import spaces

from dualac.machine.messages import Finding

MOST = 4  # findings that are kept


@final
class Witness(gymnasium.Wrapper):
    """A wrapper between the adapter and the task, which notes what is not as declared."""

    def __init__(self, env: gymnasium.Env) -> None:
        super().__init__(env)
        self.findings: dict[Finding, None] = {}
        self.old_limit = False  # whether a time limit was reported in the old way

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        answer = self.env.reset(seed=seed, options=options)
        if isinstance(answer, tuple):
            self._look(answer[0])
        return answer

    def step(self, action: Any) -> Any:
        answer = self.env.step(action)
        self._look(answer[0])
        info = answer[-1]
        if isinstance(info, dict) and info.get("TimeLimit.truncated"):
            self.old_limit = True
        return answer

    def _look(self, observation: Any) -> None:
        if len(self.findings) >= MOST:
            return
        try:
            self.findings |= dict.fromkeys(compare(self.env.observation_space, observation))
        except (KeyError, IndexError, TypeError, ValueError):
            return  # so far from what was declared that the adapter refuses it


def compare(space: spaces.Space[Any], value: Any, place: str = "") -> Iterator[Finding]:
    """Find in what an observation is not of its space, part by part."""
    if isinstance(space, spaces.Dict):
        yield from _compare_parts(space.spaces, value, place)
    elif isinstance(space, spaces.Tuple):
        yield from _compare_parts(dict(enumerate(space.spaces)), value, place)
    elif isinstance(space, spaces.Box):
        yield from _compare_box(space, np.asarray(value), _at(place))


def _compare_parts(
    parts: dict[Any, spaces.Space[Any]], value: Any, place: str
) -> Iterator[Finding]:
    extra = [str(key) for key in value if key not in parts] if isinstance(value, dict) else []
    if extra:
        names = ", ".join(extra)
        text = f"{names}{_at(place)} is not declared in its space, and so not learned from"
        yield Finding("warning", "observed", text)
    for key, part in parts.items():
        yield from compare(part, value[key], f"{place}.{key}" if place else str(key))


def _compare_box(space: spaces.Box, array: np.ndarray, at: str) -> Iterator[Finding]:
    if array.shape != space.shape:
        text = f"shape {array.shape}{at}, while its space declares {space.shape}"
        yield Finding("warning", "observed", text)
    elif ((array < space.low) | (array > space.high)).any():  # neither holds for NaN
        text = f"beyond the bounds that its space declares{at}: correct the one or the other"
        yield Finding("warning", "observed", text)
    if not np.can_cast(array.dtype, space.dtype):
        text = (
            f"{array.dtype}{at}, while its space declares {space.dtype} (no matter here: all "
            "become float32)"
        )
        yield Finding("note", "observed", text)


def _at(place: str) -> str:
    return f" at {place}" if place else ""
