"""Meta-World's arm, one task at a time, the goal in sight and drawn for each episode."""

from __future__ import annotations

from typing import Any, final

import gymnasium
import numpy as np

from dualac.envs.adapter import Loaded
from dualac.envs.protocol import Protocol
from dualac.envs.suites.packages import diverged, imported, silence
from dualac.errors import BrokenEpisodeError, UsageError

VERSION = "v3"
CAMERA = "corner2"


@final
class Sawyer(gymnasium.Wrapper):
    """One task, without the MT1 wrapper, whose 50 goals cannot be seeded at a reset."""

    def __init__(self, name: str, render: bool) -> None:
        self._name = f"metaworld/{name}"
        classes = imported("metaworld", "metaworld.env_dict").ALL_V3_ENVIRONMENTS
        options = {"render_mode": "rgb_array", "camera_name": CAMERA} if render else {}
        with silence():
            env = classes[f"{name}-{VERSION}"](**options)
        # Each episode has another goal and start, drawn from its seed, not from NumPy's global
        # generator.
        env._freeze_rand_vec = False
        env.seeded_rand_vec = True
        env._set_task_called = True
        env._partially_observable = False
        # The space was computed and kept while the goal was hidden: its bounds there are zero, and
        # every step would clip the goal to them.
        del env.sawyer_observation_space
        env.observation_space = env.sawyer_observation_space
        super().__init__(env)
        self._suite = env

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        if options:
            raise UsageError(
                f"{self._name}: Meta-World's reset has no options, not even {', '.join(options)}"
            )
        if seed is not None:  # without one it draws on from where it is, as Gymnasium has it
            self._suite.seed(seed)
        return self._suite.reset()

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        answer = self._suite.step(action)
        if diverged(self._suite.data):
            raise BrokenEpisodeError(f"{self._name}: the simulation diverged")
        return answer

    def render(self) -> Any:
        # The camera hangs upside down.
        return np.ascontiguousarray(self._suite.render()[::-1, ::-1])


def load(name: str, protocol: Protocol, render: bool) -> Loaded:
    """Build the task; the protocol's own cap ends its episodes."""
    return Loaded(Sawyer(name, render), 0)
