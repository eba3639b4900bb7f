"""Any task of Gymnasium's registry, the user's own among them."""

from __future__ import annotations

from contextlib import nullcontext

import gymnasium
from gymnasium.envs.registration import EnvSpec

from dualac.envs.adapt import Loaded
from dualac.envs.protocol import Protocol
from dualac.envs.suites import imported, silence
from dualac.errors import UsageError


def load(name: str, protocol: Protocol, render: bool) -> Loaded:
    """The environment of a registered id; `canonical` has imported the module of a `module:id` and found the id.

    Gymnasium's own time limit and checker are left off: the limit is handed on, so that one place counts steps and sees what the task really answers.
    """
    spec = gymnasium.registry[name.rpartition(":")[2]]
    simulated = str(spec.entry_point).startswith("gymnasium.envs.mujoco")
    if simulated:
        imported("mujoco", "mujoco")
    with silence() if simulated else nullcontext():  # its models' old spelling; what a user's own environment says is theirs to see
        env = _make(name, spec, render)
    if render and env.render_mode != "rgb_array":
        env.close()
        raise UsageError(f"gym/{name} cannot be drawn: it offers no rgb_array frames")
    return Loaded(env, spec.max_episode_steps or 0)


def _make(name: str, spec: EnvSpec, render: bool) -> gymnasium.Env:
    try:
        if render:
            return gymnasium.make(spec, max_episode_steps=-1, disable_env_checker=True, render_mode="rgb_array")
        return gymnasium.make(spec, max_episode_steps=-1, disable_env_checker=True)
    except Exception as error:  # foreign code under construction: whatever it raises, the sentence must name the task
        raise UsageError(f"gym/{name} cannot be made: {' '.join(str(error).split())} ({type(error).__name__})") from error
