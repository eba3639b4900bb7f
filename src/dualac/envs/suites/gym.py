"""Tasks of Gymnasium's registry, a user's own among them."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any, final

import gymnasium
from gymnasium.envs.registration import EnvSpec

from dualac.envs.adapter import PORT_IT, Loaded
from dualac.envs.foreign import is_ctrl_c
from dualac.envs.protocol import Protocol
from dualac.envs.suites.packages import diverged, imported, silence
from dualac.errors import BrokenEpisodeError, UsageError


@final
class Simulated(gymnasium.Wrapper):
    """A MuJoCo task whose episode breaks where the simulation blew up; MuJoCo only starts again."""

    def __init__(self, env: gymnasium.Env, name: str) -> None:
        super().__init__(env)
        self._name, self._simulation = name, env.unwrapped

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        answer = self.env.step(action)
        if diverged(self._simulation.data):  # pyright: ignore[reportAttributeAccessIssue]
            raise BrokenEpisodeError(f"{self._name}: the simulation diverged")
        return answer


def load(name: str, protocol: Protocol, render: bool) -> Loaded:
    """Build the environment of an id that `canonical` found in the registry.

    Gymnasium's own time limit and checker are left off. The limit is handed on, so that one place
    counts steps and sees what the task itself returns.
    """
    spec = gymnasium.registry[name.rpartition(":")[2]]
    simulated = str(spec.entry_point).startswith("gymnasium.envs.mujoco")
    if simulated:
        imported("mujoco", "mujoco")
    # Gymnasium's own models warn of an old spelling. What a user's environment prints is shown.
    with silence() if simulated else nullcontext():
        env = _make(name, spec, render)
    if render and env.render_mode != "rgb_array":
        env.close()
        raise UsageError(f"gym/{name} cannot be drawn: it offers no rgb_array frames")
    if hasattr(getattr(env.unwrapped, "data", None), "warning"):
        env = Simulated(env, f"gym/{name}")
    return Loaded(env, spec.max_episode_steps or 0)


def _make(name: str, spec: EnvSpec, render: bool) -> gymnasium.Env:
    options = {"render_mode": "rgb_array"} if render else {}
    try:
        return gymnasium.make(spec, max_episode_steps=-1, disable_env_checker=True, **options)
    except BaseException as error:  # the user's own code may raise anything
        if is_ctrl_c(error):
            raise
        advice = f"; {PORT_IT}" if "gymnasium.Env" in str(error) else ""
        raise UsageError(
            f"gym/{name} cannot be made: {' '.join(str(error).split())} "
            f"({type(error).__name__}){advice}"
        ) from error
