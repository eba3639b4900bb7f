"""MyoSuite's muscles, by the paper's names and by MyoSuite's ids."""

from __future__ import annotations

import os
import weakref
from typing import Any, final

import gymnasium
import numpy as np

from dualac.envs.adapter import Loaded
from dualac.envs.protocol import Protocol
from dualac.envs.suites.packages import diverged, imported, silence
from dualac.envs.tasks import MYOSUITE
from dualac.errors import BrokenEpisodeError, UsageError

# What the model of a task was built from, 94 MB for a hand. Some tasks read it at each reset, none
# writes it: the environments of one task share it.
_plans: weakref.WeakValueDictionary[str, Any] = weakref.WeakValueDictionary()
# Used where the model has it: MyoSuite's own shows the whole room, and a hand as a few pixels.
CAMERA = "hand_side_inter"


@final
class Muscles(gymnasium.Wrapper):
    """One registered task, whose own end may not count. A simulation that blows up breaks it."""

    def __init__(self, env: gymnasium.Env, name: str, ends: bool) -> None:
        super().__init__(env)
        self._name, self._ends = name, ends
        self._data: Any = getattr(env.unwrapped, "data", None)
        model = getattr(env.unwrapped, "model", None)
        self._as_built = [(array, array.copy()) for array in (_changeable(model) if model else ())]
        cameras = {model.camera(number).name for number in range(model.ncam)} if model else set()
        if CAMERA in cameras:
            env.unwrapped.render_camera = CAMERA  # pyright: ignore[reportAttributeAccessIssue]
        env.reset()  # some tasks draw less at their first reset than at every other

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        if options:
            raise UsageError(
                f"{self._name}: MyoSuite's reset has no options, not even {', '.join(options)}"
            )
        # Some tasks change their model at a reset by adding to what the reset before left.
        for array, as_built in self._as_built:
            array[...] = as_built
        return self.env.reset(seed=seed)

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = self.env.step(action)
        if terminated and diverged(self._data):
            raise BrokenEpisodeError(f"{self._name}: the simulation diverged")
        return observation, float(reward), terminated and self._ends, truncated, info


def load(name: str, protocol: Protocol, render: bool) -> Loaded:
    """Build the task; refuse one that does not build, whatever it raises."""
    # Two tasks would fetch motions from the network.
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    imported("myosuite", "myosuite")
    spec = gymnasium.registry[MYOSUITE[name].id if name in MYOSUITE else name]
    options = {"render_mode": "rgb_array"} if render else {}
    try:
        with silence():
            env = gymnasium.make(spec, max_episode_steps=-1, disable_env_checker=True, **options)
            if (plan := getattr(env.unwrapped, "_mj_spec", None)) is not None:
                env.unwrapped._mj_spec = _plans.setdefault(name, plan)  # pyright: ignore[reportAttributeAccessIssue]
            muscles = Muscles(env, f"myosuite/{name}", protocol.myosuite_termination == "end")
    except Exception as error:  # a part that is not installed may raise anything
        raise UsageError(
            f"myosuite/{name} cannot be made: {' '.join(str(error).split())} "
            f"({type(error).__name__})"
        ) from error
    return Loaded(muscles, spec.max_episode_steps or 0)


def _changeable(model: Any) -> list[np.ndarray]:
    """List the arrays of a model that a task may change and go on from.

    Left out is half of the model: the shapes of meshes and skins, which tasks change, if at all,
    from what they were built as. Of the boxes around shapes only those of bodies move.
    """
    names = [name for name in dir(model) if not name.startswith(("_", "mesh_", "skin_", "bvh_"))]
    values = [getattr(model, name) for name in names]
    arrays = [
        value for value in values if isinstance(value, np.ndarray) and value.dtype.kind == "f"
    ]
    around_bodies = model.bvh_aabb[: (model.body_bvhadr + model.body_bvhnum).max()]
    return [*arrays, around_bodies]
