"""The DeepMind control suite as Gymnasium environments, with the same numbers as shimmy."""

from __future__ import annotations

import math
import os
from collections import OrderedDict
from importlib import import_module
from typing import Any, final

import gymnasium
import numpy as np
from gymnasium import spaces

from dualac.envs.adapter import Loaded
from dualac.envs.protocol import Protocol
from dualac.envs.suites.packages import imported, silence
from dualac.errors import BrokenEpisodeError, UsageError

# MuJoCo's mjMAXVAL, which dm_control gives as the bound of an actuator that has none.
UNLIMITED = 1e10
SUITE_STEPS = 1000  # the length of every episode of the suite but LQR's
HEIGHT, WIDTH, CAMERA = 480, 640, 0


@final
class ControlSuite(gymnasium.Env):
    """One task of the suite; its observation is the suite's own dictionary."""

    metadata = {"render_modes": ["rgb_array"]}  # noqa: RUF012  gymnasium declares it so

    def __init__(
        self, domain: str, task: str, render: bool = False, height: int = HEIGHT, width: int = WIDTH
    ) -> None:
        self._name = f"dmc/{domain}-{task}"
        suite, self._diverged = _suite()
        # Compared by identity, which is faster: simulators step in 30 microseconds.
        self._last = import_module("dm_env").StepType.LAST
        if render:
            _check_drawing(self._name)
        with silence():
            # LQR draws its model when it is built: a fixed draw makes it one task. Others draw only
            # in reset.
            self._env = suite.load(domain, task, task_kwargs={"random": 0})
        self._env.task._random = np.random.RandomState()
        self.render_mode = "rgb_array" if render else None
        self.metadata = {**self.metadata, "render_fps": round(1 / self._env.control_timestep())}
        if not render:
            # quadruped-escape wants an OpenGL context in reset, to upload its terrain; training
            # must never need one.
            self._env.physics._make_rendering_contexts = lambda: None
        self._frame = {"height": height, "width": width, "camera_id": CAMERA}
        boxes: OrderedDict[str, spaces.Space[Any]] = OrderedDict(
            (name, spaces.Box(-np.inf, np.inf, spec.shape, np.float64))
            for name, spec in self._env.observation_spec().items()
        )
        self.observation_space = spaces.Dict(boxes)
        self.action_space = _actions(self._env.action_spec())
        limit = self._env._step_limit
        self.cap = math.ceil(limit) if math.isfinite(limit) else SUITE_STEPS
        self._open = True

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Begin an episode, of this seed or as the task draws on from where it is."""
        if options:
            raise UsageError(
                f"{self._name}: the control suite's reset has no options, not even "
                f"{', '.join(options)}"
            )
        if seed is not None:
            self._env.task._random = np.random.RandomState(seed)
        return self._env.reset().observation, {}

    def step(self, action: np.ndarray) -> tuple[dict[str, Any], float, bool, bool, dict[str, Any]]:
        try:
            step_type, reward, discount, observation = self._env.step(action)
        except self._diverged as error:
            raise BrokenEpisodeError(
                f"{self._name}: the simulation diverged: {' '.join(str(error).split())}"
            ) from error
        over = step_type is self._last
        return observation, reward, over and discount <= 0, over and discount > 0, {}

    def render(self) -> np.ndarray:
        return self._env.physics.render(**self._frame)

    def close(self) -> None:
        if self._open:
            self._env.physics.free()
            self._env.close()
            self._open = False


def load(name: str, protocol: Protocol, render: bool) -> Loaded:
    domain, _, task = name.partition("-")
    env = ControlSuite(domain, task, render)
    return Loaded(env, env.cap)


def _actions(spec: Any) -> spaces.Box:
    """Return the box of actions, [-1, 1] where an actuator has no limits, as in LQR."""
    limited = np.abs(np.stack([spec.minimum, spec.maximum])).max(axis=0) < UNLIMITED
    low, high = np.where(limited, spec.minimum, -1.0), np.where(limited, spec.maximum, 1.0)
    return spaces.Box(low, high, spec.shape, np.float64)


def _suite() -> tuple[Any, type[RuntimeError]]:
    """Import the suite, and the error that it raises where its physics blew up."""
    control = imported("dmc", "dm_control.rl.control")
    return imported("dmc", "dm_control.suite"), control.PhysicsError


def _check_drawing(name: str) -> None:
    """Refuse to draw otherwise than dm_control chose at its import: the process would abort."""
    from dm_control import _render

    wanted = os.environ.get("MUJOCO_GL", _render.BACKEND)
    if wanted != _render.BACKEND:
        raise UsageError(
            f"cannot draw {name}: dm_control was imported to draw with {_render.BACKEND}; set "
            f"MUJOCO_GL={wanted} before starting Python"
        )
