"""The one wrapper around every suite's environment, which makes true what the library relies on."""

from __future__ import annotations

import copy
import inspect
import os
import sys
from ctypes.util import find_library
from typing import Any, NamedTuple, final

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.error import DependencyNotInstalled, ResetNeeded
from gymnasium.wrappers import TimeLimit

from dualac.envs.actions import Scaling
from dualac.envs.observations import Layout
from dualac.errors import BrokenEpisodeError, DataError, UsageError

SEEDS = 2**32  # NumPy's RandomState, and so dm_control, takes seeds below this
SUCCESS = ("success", "is_success", "solved")  # the suites' names for it; the first present counts
STEP_VALUES = 5
LONGEST_UNLIMITED = 10_000  # steps of an episode for which nothing names a limit
PORT_IT = (
    "port it to Gymnasium's API: reset(seed=, options=) -> (observation, info), step -> "
    "(observation, reward, terminated, truncated, info)"
)


class Loaded(NamedTuple):
    """What a suite's `load` returns."""

    env: gymnasium.Env
    cap: int  # steps after which its episodes are to be cut; 0 where it ends them itself


class Episodes(NamedTuple):
    """How an environment's episodes begin and end."""

    seed: int | None  # of the first reset that brings none
    cap: int  # steps of the simulator that an episode may last; 0 is no cap
    repeat: int = 1  # steps of the simulator that an action lasts


@final
class Adapted(gymnasium.Wrapper):
    """Vector observations, actions in [-1, 1], episodes capped. NaN passes: training judges it."""

    def __init__(self, env: gymnasium.Env, task: str, episodes: Episodes) -> None:
        super().__init__(env)
        self.task = task
        try:
            _check_reset(env, task)
            self._layout = Layout(env.observation_space, task)
            self._scaling = Scaling(env.action_space, task)
        except UsageError:
            env.close()
            raise
        self.observation_space = spaces.Box(-np.inf, np.inf, (self._layout.size,), np.float32)
        self.action_space = spaces.Box(-1.0, 1.0, (self._scaling.size,), np.float32)
        # A copy, because boxes may be changed in place.
        self._declared = copy.deepcopy((env.observation_space, env.action_space))
        self._first_seed = _check_seed(episodes.seed)
        self.cap = episodes.cap
        self.unlimited = not (episodes.cap or _names_a_limit(env))
        self._longest = LONGEST_UNLIMITED if self.unlimited else episodes.cap
        self._repeat = episodes.repeat
        self._steps = 0
        self._playing = False

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        self._playing = False
        seed = self._first_seed if seed is None else _check_seed(seed)
        self._first_seed = None
        answer = self.env.reset(seed=seed, options=options)
        if not (isinstance(answer, tuple) and len(answer) == 2 and isinstance(answer[1], dict)):
            raise DataError(
                f"{self.task} speaks an old API: its reset answers with no (observation, info) "
                f"pair; {PORT_IT}"
            )
        self._require_the_same_spaces()
        vector = self._layout.flat(answer[0])
        self._layout.check(answer[0])
        self._steps, self._playing = 0, True
        return vector, answer[1]

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        if not self._playing:  # dm_control would start another episode in silence
            raise ResetNeeded(f"{self.task}: reset() first, no episode is under way")
        scaled = self._scaling(action)
        observation, reward, terminated, truncated, info = (
            self._simulate(scaled) if self._repeat == 1 else self._repeated(scaled)
        )
        return self._layout.flat(observation), reward, terminated, truncated, info

    def _repeated(self, action: np.ndarray) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Take several steps of the simulator as one: a sum of rewards, any success."""
        observation, total, terminated, truncated, info = self._simulate(action)
        for _ in range(1, self._repeat):
            if not self._playing:
                break
            succeeded = info.get("success", False)
            observation, reward, terminated, truncated, info = self._simulate(action)
            total += reward
            if succeeded:
                info = {**info, "success": True}
        return observation, total, terminated, truncated, info

    def _simulate(self, action: np.ndarray) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        answer = self.env.step(action)
        if len(answer) != STEP_VALUES:
            raise DataError(
                f"{self.task} speaks an old API: its step answers with {len(answer)} values; "
                f"{PORT_IT}"
            )
        observation, reward, terminated, truncated, info = answer
        self._steps += 1
        terminated = bool(terminated)
        truncated = bool(truncated) or self._steps == self._longest
        self._playing = not (terminated or truncated)
        number = reward if type(reward) is float else self._number(reward)
        return observation, number, terminated, truncated, _with_success(info) if info else {}

    def describe(self) -> dict[str, Any]:
        """Describe what a policy of this task takes and returns; it is stored with every run.

        It serves whoever uses the policy without this library. The parts of the observation are
        `[name, first, end]`; an action's bounds are what -1 and 1 stand for.
        """
        box = self._declared[1]
        bounds = {}
        if isinstance(box, spaces.Box):
            bounds = {"low": box.low.reshape(-1).tolist(), "high": box.high.reshape(-1).tolist()}
        return {
            "task": self.task,
            "observation": [list(part) for part in self._layout.parts()],
            "action": bounds,
            "cap": self.cap,
        }

    def _require_the_same_spaces(self) -> None:
        """Refuse spaces that changed at a reset: networks and replay have the old sizes."""
        observed, acted = self._declared
        for verb, before, now in (
            ("observes", observed, self.env.observation_space),
            ("acts in", acted, self.env.action_space),
        ):
            if now != before:
                raise DataError(
                    f"{self.task} {verb} {now} after reset and declared {before} when it was "
                    "made: set its spaces in __init__ for good"
                )

    def render(self) -> Any:
        try:
            return self.env.render()
        except DependencyNotInstalled as error:
            raise UsageError(f"cannot draw {self.task}: {error}") from error
        except Exception as error:  # drivers fail in many ways
            raise UsageError(
                f"cannot draw {self.task}: {error}; without a display set MUJOCO_GL=egl, or "
                "osmesa where that is installed"
            ) from error

    def _number(self, reward: Any) -> float:
        try:
            if isinstance(reward, np.generic) and not isinstance(reward, np.character):
                return float(reward)
            number = np.asarray(reward).item()
            if isinstance(number, str | bytes):  # "-0.3" would do for float()
                raise TypeError("a text is no number")
            return float(number)
        except (TypeError, ValueError) as error:
            raise BrokenEpisodeError(
                f"{self.task} gave the reward {reward!r}, which is not a number"
            ) from error


def no_limit(task: str) -> str:
    """Say what happens to the episodes of a task for which nothing names a limit."""
    return (
        f"{task} names no time limit: an episode that does not end by itself is cut after "
        f"{LONGEST_UNLIMITED} steps; register it with max_episode_steps=N, or train with "
        "--time-limit N"
    )


def prepare_drawing() -> None:
    """Have MuJoCo draw through EGL where there is no display and the machine has EGL.

    It must be set before MuJoCo is imported. A choice the user made stands.
    """
    displays = os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    if sys.platform == "linux" and not displays and find_library("EGL"):
        os.environ.setdefault("MUJOCO_GL", "egl")


def _names_a_limit(env: gymnasium.Env) -> bool:
    """Tell whether an environment brings Gymnasium's time limit along, among its wrappers."""
    while isinstance(env, gymnasium.Wrapper):
        if isinstance(env, TimeLimit):
            return True
        env = env.env
    return False


def _check_reset(env: gymnasium.Env, task: str) -> None:
    """Refuse an environment whose reset takes no seed: its episodes would not be reproducible."""
    parameters = inspect.signature(env.unwrapped.reset).parameters
    takes_any = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())
    if "seed" not in parameters and not takes_any:
        raise UsageError(f"{task} speaks an old API: its reset takes no seed; {PORT_IT}")


def _check_seed(seed: int | None) -> int | None:
    if seed is not None and not 0 <= seed < SEEDS:
        raise UsageError(f"seed {seed}: an episode's seed lies between 0 and {SEEDS - 1}")
    return None if seed is None else int(seed)


def _with_success(info: dict[str, Any]) -> dict[str, Any]:
    for name in SUCCESS:
        if name in info:
            return {**info, "success": bool(info[name])}
    return info
