"""The one wrapper around every suite's environment: what the rest of the library may rely on is
made true here.
"""

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

from dualac.envs.actions import Scaling
from dualac.envs.observations import Layout
from dualac.errors import BrokenEpisodeError, DataError, UsageError

SEEDS = 2**32  # what NumPy's RandomState, and so dm_control, can take
SUCCESS = ("success", "is_success", "solved")  # what the suites call it; the first present counts
STEP_VALUES = 5
PORT_IT = (
    "port it to Gymnasium's API: reset(seed=, options=) -> (observation, info), step -> "
    "(observation, reward, terminated, truncated, info)"
)


class Loaded(NamedTuple):
    """What a suite hands over: its environment, and the steps its episodes are capped at from
    outside it (0: it ends its episodes itself).
    """

    env: gymnasium.Env
    cap: int


class Episodes(NamedTuple):
    """The seed of the first reset that brings none, the simulator's steps an episode may last (0:
    no cap), and those that an action lasts.
    """

    seed: int | None
    cap: int
    repeat: int = 1


@final
class Adapted(gymnasium.Wrapper):
    """Vector observations, actions in [-1, 1], episodes capped and ended for good; NaN passes
    through, the training loop judges it.
    """

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
        self._declared = copy.deepcopy(
            (env.observation_space, env.action_space)
        )  # a copy: boxes may be changed in place
        self._first_seed = _checked(episodes.seed)
        self.cap = episodes.cap
        self._repeat = episodes.repeat
        self._steps = 0
        self._playing = False

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        self._playing = False
        seed = self._first_seed if seed is None else _checked(seed)
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
        """Several steps of the simulator as one, fewer where the episode ends: rewards summed, a
        success at any of them a success.
        """
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
        """One step of the simulator."""
        answer = self.env.step(action)
        if len(answer) != STEP_VALUES:
            raise DataError(
                f"{self.task} speaks an old API: its step answers with {len(answer)} values; "
                f"{PORT_IT}"
            )
        observation, reward, terminated, truncated, info = answer
        self._steps += 1
        terminated, truncated = bool(terminated), bool(truncated) or self._steps == self.cap
        self._playing = not (terminated or truncated)
        number = reward if type(reward) is float else self._number(reward)
        return observation, number, terminated, truncated, _with_success(info) if info else {}

    def describe(self) -> dict[str, Any]:
        """What a policy of this task must be given and what it answers with, for whoever uses one
        without this library: stored with every run.
        """
        acts = self._declared[1]
        bounds = (
            {"low": acts.low.reshape(-1).tolist(), "high": acts.high.reshape(-1).tolist()}
            if isinstance(acts, spaces.Box)
            else {}
        )
        return {
            "task": self.task,
            "observation": [list(part) for part in self._layout.parts()],  # name, first, end
            "action": bounds,  # what -1 and 1 stand for
            "cap": self.cap,
        }

    def _require_the_same_spaces(self) -> None:
        """Replay and networks have the sizes of what was made, and actions are scaled to its box: a
        reset that declares others comes too late.
        """
        for does, before, now in zip(
            ("observes", "acts in"),
            self._declared,
            (self.env.observation_space, self.env.action_space),
            strict=True,
        ):
            if now != before:
                raise DataError(
                    f"{self.task} {does} {now} after reset and declared {before} when it was "
                    "made: set its spaces in __init__ for good"
                )

    def render(self) -> Any:
        try:
            return self.env.render()
        except DependencyNotInstalled as error:
            raise UsageError(f"cannot draw {self.task}: {error}") from error
        except (
            Exception
        ) as error:  # drivers fail in many ways; all of them mean that this machine cannot draw
            raise UsageError(
                f"cannot draw {self.task}: {error}; without a display set MUJOCO_GL=egl, or "
                "osmesa where that is installed"
            ) from error

    def _number(self, reward: Any) -> float:
        try:
            return (
                float(reward)
                if isinstance(reward, np.generic)
                else float(np.asarray(reward).item())
            )
        except (TypeError, ValueError) as error:
            raise BrokenEpisodeError(
                f"{self.task} gave the reward {reward!r}, which is not a number"
            ) from error


def prepare_drawing() -> None:
    """Without a display MuJoCo draws through EGL, where the machine has it, and must be told before
    it is imported; a choice the user made stands.
    """
    if (
        sys.platform == "linux"
        and not os.environ.get("DISPLAY")
        and not os.environ.get("WAYLAND_DISPLAY")
        and find_library("EGL")
    ):
        os.environ.setdefault("MUJOCO_GL", "egl")


def _check_reset(env: gymnasium.Env, task: str) -> None:
    """An environment whose reset takes no seed has no reproducible episodes; better known before
    the first step than after.
    """
    parameters = inspect.signature(env.unwrapped.reset).parameters
    if "seed" not in parameters and all(
        one.kind is not one.VAR_KEYWORD for one in parameters.values()
    ):
        raise UsageError(f"{task} speaks an old API: its reset takes no seed; {PORT_IT}")


def _checked(seed: int | None) -> int | None:
    if seed is not None and not 0 <= seed < SEEDS:
        raise UsageError(f"seed {seed}: an episode's seed lies between 0 and {SEEDS - 1}")
    return None if seed is None else int(seed)


def _with_success(info: dict[str, Any]) -> dict[str, Any]:
    for name in SUCCESS:
        if name in info:
            return {**info, "success": bool(info[name])}
    return info
