"""Environments of a user of the command line, registered on import and addressed as
`cli_toys:Point-v0`: one that is well, many that are not.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

UNIT = spaces.Box(-1.0, 1.0, (2,), np.float32)
PAIR = spaces.Box(-np.inf, np.inf, (2,), np.float32)
LENGTH = 10


class Point(gymnasium.Env):
    """A point on a plane that is paid for being near the middle; ten steps an episode."""

    metadata = {"render_modes": [("rgb_array")], "render_fps": 30}  # noqa: RUF012  gymnasium declares it so
    observation_space: spaces.Space[Any] = PAIR
    action_space: spaces.Space[Any] = UNIT

    def __init__(self, render_mode: str | None = None) -> None:
        self.render_mode = render_mode
        self.where = np.zeros(2, np.float32)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.where = self.np_random.uniform(-1, 1, 2).astype(np.float32)
        return self.where.copy(), {}

    def step(self, action: Any) -> Any:
        self.where = np.clip(self.where + 0.3 * np.asarray(action, np.float32), -1, 1)
        distance = float(np.abs(self.where).max())
        return self.where.copy(), 1.0 - distance, False, False, {"success": distance < 0.2}

    def render(self) -> Any:
        frame = np.zeros((32, 32, 3), np.uint8)
        column, row = ((self.where + 1) * 15).astype(int)
        frame[row : row + 2, column : column + 2] = 255
        return frame


class Interrupting(Point):
    """Sends its launcher, once, the signal $TOY_SIGNAL when it has taken $TOY_STEPS steps, and
    waits until the launcher has passed it on.

    So a Ctrl-C always falls on the same step, without a clock. The file $TOY_ONCE remembers that it
    was sent.
    """

    steps = 0

    def step(self, action: Any) -> Any:
        Interrupting.steps += 1
        once = Path(os.environ["TOY_ONCE"])
        if Interrupting.steps == int(os.environ["TOY_STEPS"]) and not once.exists():
            once.touch()
            reading, bell = os.pipe()
            os.set_blocking(bell, False)
            before = signal.set_wakeup_fd(bell)
            os.kill(os.getppid(), signal.Signals[os.environ["TOY_SIGNAL"]])
            os.read(reading, 1)
            signal.set_wakeup_fd(before)
            os.close(reading)
            os.close(bell)
        return super().step(action)


class Broken(Point):
    """NaN at every second step."""

    steps = 0

    def step(self, action: Any) -> Any:
        self.steps += 1
        observation, reward, *rest = super().step(action)
        return observation, np.nan if self.steps % 2 == 0 else reward, *rest


class BrokenOnce(Point):
    """Infinity at its seventh step, and never again."""

    steps = 0

    def step(self, action: Any) -> Any:
        self.steps += 1
        observation, *rest = super().step(action)
        return observation * np.inf if self.steps == 7 else observation, *rest


class BrokenReset(Point):
    """NaN from the first observation on."""

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        return super().reset(seed=seed)[0] * np.nan, {}


class Diverging(Point):
    """Rewards so large that their squares are infinite."""

    def step(self, action: Any) -> Any:
        observation, _, *rest = super().step(action)
        return observation, 1e30, *rest


class Raising(Point):
    """Raises after a while, and from then on always, as foreign code does."""

    steps = 0

    def step(self, action: Any) -> Any:
        Raising.steps += 1
        if Raising.steps > 15:
            raise ZeroDivisionError("the toy fell apart\non two lines")
        return super().step(action)


class Dying(Point):
    """Takes its process with it, as a simulator's segmentation fault does."""

    steps = 0

    def step(self, action: Any) -> Any:
        Dying.steps += 1
        if Dying.steps > 35:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().step(action)


class Exiting(Point):
    """Ends its process, once; the file $TOY_ONCE remembers it."""

    steps = 0

    def step(self, action: Any) -> Any:
        self.steps += 1
        once = Path(os.environ["TOY_ONCE"])
        if self.steps > 35 and not once.exists():
            once.touch()
            os._exit(7)
        return super().step(action)


class Settling(Point):
    """Declares other actions when it is reset than when it was made."""

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        self.action_space = spaces.Box(-2.0, 2.0, (2,), np.float32)
        return super().reset(seed=seed)


class Chatty(Point):
    """Prints, as simulators do."""

    def step(self, action: Any) -> Any:
        print('{"kind": "nonsense"}\nhello from the simulator')
        return super().step(action)


class Blind(Point):
    """Cannot be drawn."""

    metadata = {"render_modes": []}  # noqa: RUF012  gymnasium declares it so


class Discrete(Point):
    action_space = spaces.Discrete(3)


class Unbounded(Point):
    action_space = spaces.Box(-np.inf, np.inf, (2,), np.float32)


class Degenerate(Point):
    action_space = spaces.Box(np.zeros(2, np.float32), np.array([1, 0], np.float32))


class Pixels(Point):
    observation_space = spaces.Box(0, 255, (64, 64, 3), np.uint8)


class Wide(Point):
    """So many observations that no replay of them fits."""

    observation_space = spaces.Box(-1, 1, (4_000_000,), np.float32)


TOYS = (
    Point,
    Interrupting,
    Broken,
    BrokenOnce,
    BrokenReset,
    Diverging,
    Raising,
    Dying,
    Exiting,
    Chatty,
    Blind,
    Discrete,
    Unbounded,
    Degenerate,
    Pixels,
    Wide,
    Settling,
)
for toy in TOYS:
    gymnasium.registry.pop(f"{toy.__name__}-v0", None)
    gymnasium.register(f"{toy.__name__}-v0", toy, max_episode_steps=LENGTH)
