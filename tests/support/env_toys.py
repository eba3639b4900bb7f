"""Environments small enough to know by heart, each with one thing right or wrong; registered with
Gymnasium as a user's would be.
"""

from __future__ import annotations

import signal
from collections import OrderedDict
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

UNIT = spaces.Box(-1.0, 1.0, (2,), np.float32)
PAIR = spaces.Box(-np.inf, np.inf, (2,), np.float64)


class Toy(gymnasium.Env):
    """Echoes: it observes what its class says and remembers the action it was given."""

    observation_space: spaces.Space[Any] = PAIR
    action_space: spaces.Space[Any] = UNIT
    render_mode = None
    info: dict[str, Any] = {}  # noqa: RUF012
    reward: Any = 1.0

    def __init__(
        self,
        observation_space: spaces.Space[Any] | None = None,
        action_space: spaces.Space[Any] | None = None,
    ) -> None:
        self.observation_space = (
            type(self).observation_space if observation_space is None else observation_space
        )
        self.action_space = type(self).action_space if action_space is None else action_space
        self.steps = 0
        self.action: Any = None

    def observe(self) -> Any:
        return np.full(2, self.steps, np.float64)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.steps = 0
        return self.observe(), {"seed": seed}

    def step(self, action: Any) -> Any:
        self.action = action
        self.steps += 1
        return self.observe(), self.reward, False, False, dict(self.info)


class Nested(Toy):
    observation_space = spaces.Dict(
        OrderedDict(
            z=spaces.Box(-9, 9, (), np.float64),
            a=spaces.Tuple(
                (spaces.Box(-9, 9, (2, 2), np.float32), spaces.Box(-9, 9, (1,), np.int64))
            ),
        )
    )

    def observe(self) -> Any:
        return {"a": (np.array([[1, 2], [3, 4]], np.float32), np.array([5])), "z": np.float64(-1)}


class Reusing(Toy):
    """Answers with one buffer, as many simulators do."""

    def observe(self) -> Any:
        self.buffer = getattr(self, "buffer", np.zeros(2))
        self.buffer[:] = self.steps
        return self.buffer


class Lying(Toy):
    def observe(self) -> Any:
        return np.zeros(2 if self.steps == 0 else 3)


class LyingParts(Nested):
    """The right count of numbers, the wrong parts."""

    def observe(self) -> Any:
        return {"a": (np.zeros((2, 2)), np.zeros(0)), "z": np.zeros(2)}


class Keyless(Nested):
    def observe(self) -> Any:
        return {"z": 0.0}


class OldStep(Toy):
    def step(self, action: Any) -> Any:
        return self.observe(), 0.0, False, {}


class OldReset(Toy):
    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        return self.observe()


class Seedless(Toy):
    def reset(self) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        return self.observe(), {}


class Ending(Toy):
    def step(self, action: Any) -> Any:
        observation, reward, _, _, info = super().step(action)
        return observation, reward, np.bool_(self.steps >= 3), np.bool_(False), info


class Solved(Toy):
    info = {"solved": np.array([1.0])}  # noqa: RUF012


class Failed(Toy):
    info = {"is_success": 0.0, "solved": True}  # noqa: RUF012


class RewardArray(Toy):
    reward = np.array([2.5], np.float32)


class RewardNone(Toy):
    reward = None


class Settling(Toy):
    """Knows what it observes only when it is reset."""

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        self.observation_space = spaces.Box(-np.inf, np.inf, (3,), np.float64)
        return super().reset(seed=seed)


class InPlace(Toy):
    """Changes the bounds of its actions in the very box that it declared."""

    def __init__(self) -> None:
        super().__init__(action_space=spaces.Box(-1, 1, (2,), np.float32))

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        self.action_space.high[:] = 5.0  # pyright: ignore[reportAttributeAccessIssue]
        return super().reset(seed=seed)


class Exchanging(Nested):
    """Once it is played, its parts have other sizes, and as many numbers in all."""

    def step(self, action: Any) -> Any:
        _, *rest = super().step(action)
        return ({"a": (np.ones((2, 2), np.float32), np.zeros(0)), "z": np.zeros(2)}, *rest)


class Equal(Toy):
    """Declares its spaces anew, and no others."""

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        self.action_space = spaces.Box(-1.0, 1.0, (2,), np.float32)
        return super().reset(seed=seed)


class Interrupts(Toy):
    """Raises what ends a program, at the fourth step of an episode."""

    error: type[BaseException] = KeyboardInterrupt

    def step(self, action: Any) -> Any:
        if self.steps == 3:
            raise self.error
        return super().step(action)


class Exits(Interrupts):
    error = SystemExit


class EndsGenerators(Interrupts):
    error = GeneratorExit


class PressesCtrlC(Toy):
    """Gets the user's Ctrl-C at the fourth step of an episode."""

    def step(self, action: Any) -> Any:
        if self.steps == 3:
            signal.raise_signal(signal.SIGINT)
        return super().step(action)


class Texts(Toy):
    reward = "-0.3"


class Raising(Toy):
    def __init__(self) -> None:
        raise ValueError("no licence\nfor this")


TOYS = (
    Toy,
    Nested,
    Reusing,
    Lying,
    LyingParts,
    Keyless,
    OldStep,
    OldReset,
    Seedless,
    Ending,
    Solved,
    Failed,
    RewardArray,
    RewardNone,
    Settling,
    Equal,
    InPlace,
    Exchanging,
    Interrupts,
    Exits,
    EndsGenerators,
    PressesCtrlC,
    Texts,
    Raising,
)


def register(
    name: str, entry_point: Any, cap: int | None = None, **spaces_given: spaces.Space[Any]
) -> str:
    """Register a task, anew where it was before; return its name."""
    gymnasium.registry.pop(f"toys/{name}", None)
    gymnasium.register(f"toys/{name}", entry_point, max_episode_steps=cap, kwargs=spaces_given)
    return f"gym/toys/{name}"


for toy in TOYS:
    register(f"{toy.__name__}-v0", toy)
register("Capped-v0", Toy, cap=5)
register("Limited-v0", lambda: gymnasium.wrappers.TimeLimit(Toy(), 12_000))
