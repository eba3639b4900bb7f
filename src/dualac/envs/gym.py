"""Any task of Gymnasium's registry, the user's own among them."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from importlib import import_module
from typing import Any

import gymnasium
from gymnasium.envs.registration import EnvSpec

from dualac.envs.adapt import Loaded
from dualac.errors import UsageError

LOGGER = logging.getLogger("mujoco")


def load(name: str, render: bool) -> Loaded:
    """The environment of a registered id; `canonical` has imported the module of a `module:id` and found the id.

    Gymnasium's own time limit and checker are left off: the limit is handed on, so that one place counts steps and sees what the task really answers.
    """
    spec = gymnasium.registry[name.rpartition(":")[2]]
    simulated = str(spec.entry_point).startswith("gymnasium.envs.mujoco")
    with _tame_mujoco(name) if simulated else nullcontext():
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


@contextmanager
def _tame_mujoco(name: str) -> Iterator[None]:
    """MuJoCo writes its warnings into MUJOCO_LOG.TXT of the current folder: log them instead, and drop those about Gymnasium's own models."""
    try:
        mujoco: Any = import_module("mujoco")
    except ModuleNotFoundError as error:
        raise UsageError(f"gym/{name} needs MuJoCo: pip install 'dualac[mujoco]'") from error
    before = mujoco.get_mju_user_warning()
    mujoco.set_mju_user_warning(lambda message: None)
    try:
        yield
    finally:
        mujoco.set_mju_user_warning(before or LOGGER.warning)
