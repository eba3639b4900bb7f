"""Any task of Gymnasium's registry, the user's own among them."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any, final

import gymnasium
from gymnasium.envs.registration import EnvSpec

from dualac.envs.adapter import PORT_IT, Loaded
from dualac.envs.foreign import ENDINGS
from dualac.envs.protocol import Protocol
from dualac.envs.suites.packages import diverged, imported, silence
from dualac.errors import BrokenEpisodeError, UsageError


@final
class Simulated(gymnasium.Wrapper):
    """A MuJoCo task, which would go on in silence from its first state where its simulation blew
    up.
    """

    def __init__(self, env: gymnasium.Env, name: str) -> None:
        super().__init__(env)
        self._name, self._simulation = name, env.unwrapped

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        answer = self.env.step(action)
        if diverged(self._simulation.data):  # pyright: ignore[reportAttributeAccessIssue]
            raise BrokenEpisodeError(f"{self._name}: the simulation diverged")
        return answer


def load(name: str, protocol: Protocol, render: bool) -> Loaded:
    """The environment of a registered id; `canonical` has imported the module of a `module:id` and
    found the id.

    Gymnasium's own time limit and checker are left off: the limit is handed on, so that one place
    counts steps and sees what the task really answers.
    """
    spec = gymnasium.registry[name.rpartition(":")[2]]
    simulated = str(spec.entry_point).startswith("gymnasium.envs.mujoco")
    if simulated:
        imported("mujoco", "mujoco")
    with (
        silence() if simulated else nullcontext()
    ):  # its models' old spelling; what a user's own environment says is theirs to see
        env = _make(name, spec, render)
    if render and env.render_mode != "rgb_array":
        env.close()
        raise UsageError(f"gym/{name} cannot be drawn: it offers no rgb_array frames")
    return Loaded(
        Simulated(env, f"gym/{name}")
        if hasattr(getattr(env.unwrapped, "data", None), "warning")
        else env,
        spec.max_episode_steps or 0,
    )


def _make(name: str, spec: EnvSpec, render: bool) -> gymnasium.Env:
    try:
        if render:
            return gymnasium.make(
                spec, max_episode_steps=-1, disable_env_checker=True, render_mode="rgb_array"
            )
        return gymnasium.make(spec, max_episode_steps=-1, disable_env_checker=True)
    except ENDINGS:
        raise
    except (
        BaseException
    ) as error:  # under construction: whatever it raises, the sentence must name the task
        advice = f"; {PORT_IT}" if "gymnasium.Env" in str(error) else ""
        raise UsageError(
            f"gym/{name} cannot be made: {' '.join(str(error).split())} "
            f"({type(error).__name__}){advice}"
        ) from error
