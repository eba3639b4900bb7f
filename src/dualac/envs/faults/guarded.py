"""An environment that may break without taking the run with it."""

from typing import Any, SupportsFloat, final

import gymnasium
import numpy as np

from dualac import envs
from dualac.envs import Protocol
from dualac.envs.adapter import no_limit
from dualac.envs.faults.isolated import Isolated
from dualac.envs.foreign import ignoring_errors, is_ctrl_c
from dualac.errors import BrokenEpisodeError, DataError, DualacError, LostEnvironmentError

PATIENCE = 60.0  # seconds for an answer of an isolated environment, unless a user chose
NOT_FINITE = "gave NaN or infinity"


@final
class Guarded(gymnasium.Wrapper):
    """An environment in which whatever goes wrong in an episode is a `BrokenEpisodeError`.

    `reset` then goes on with the next episode.

    An environment that raised may have been left half-way, so it is made anew for the next episode,
    as it is when a run is resumed: an episode is a function of its seed, so that changes nothing
    else. A task that cannot be used at all is no broken episode: those errors pass.
    """

    def __init__(
        self, task: str, protocol: Protocol, *, isolated: float | None = None, render: bool = False
    ) -> None:
        """Make the environment of a task; `isolated` are its seconds for an answer."""
        self._make = lambda: envs.make(task, protocol=protocol, render=render, isolated=isolated)
        self.elsewhere = lambda: Guarded(task, protocol, isolated=isolated or PATIENCE)
        super().__init__(self._make())
        self._lost = False
        self.core: int | None = None
        self._proven = False  # whether it ever observed what it declares

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Begin an episode, in a new environment if the last was lost."""
        try:
            if self._lost:
                self._make_anew()
            obs, info = self.env.reset(seed=seed, options=options)
        except BaseException as error:
            if is_ctrl_c(error):
                raise
            if (
                isinstance(error, BrokenEpisodeError)
                and not isinstance(error, LostEnvironmentError)
                and not self._proven
            ):
                raise DataError(str(error)) from error
            raise self._broken(error)  # noqa: B904  which has its cause already
        self._proven = True
        if not np.isfinite(obs).all():
            raise BrokenEpisodeError(NOT_FINITE)
        return obs, info

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Take a step, whose answer is finite."""
        try:
            obs, reward, terminated, truncated, info = self.env.step(action)
        except BaseException as error:
            if is_ctrl_c(error):
                raise
            raise self._broken(error)  # noqa: B904  which has its cause already
        if not (np.isfinite(obs).all() and np.isfinite(to_float32(reward))):
            raise BrokenEpisodeError(NOT_FINITE)
        return obs, float(reward), terminated, truncated, info

    def close(self) -> None:
        """Close the environment; errors of a broken one are ignored."""
        with ignoring_errors():
            self.env.close()

    def describe(self) -> dict[str, Any]:
        """Return what the environment says of itself."""
        return self.env.describe()  # pyright: ignore[reportAttributeAccessIssue]

    def warning(self) -> str:
        """Return what a user should know of its episodes, or nothing."""
        unlimited = self.env.unlimited  # pyright: ignore[reportAttributeAccessIssue]
        return no_limit(self.env.task) if unlimited else ""  # pyright: ignore[reportAttributeAccessIssue]

    def move_to(self, core: int) -> None:
        """Play on this core from now on, where the environment has a process of its own."""
        self.core = core
        if isinstance(self.env, Isolated) and not self._lost:
            self.env.move_to(core)

    def _broken(self, error: BaseException) -> DualacError:
        """Return what to raise instead, and give up an environment that may be half-way."""
        if isinstance(error, DualacError) and not isinstance(error, LostEnvironmentError):
            return error
        self._lost = True
        self.close()
        if isinstance(error, LostEnvironmentError):
            return error
        lost = LostEnvironmentError.caused_by(error)
        lost.__cause__ = error
        return lost

    def _make_anew(self) -> None:
        before = self.observation_space, self.action_space
        try:
            env = self._make()
        except DualacError as error:  # it could be made once
            raise LostEnvironmentError(f"could not be made anew: {error}") from error
        if (env.observation_space, env.action_space) != before:
            env.close()
            raise LostEnvironmentError("has other spaces since it was made anew")
        self.env, self._lost = env, False
        if self.core is not None:
            self.move_to(self.core)


def to_float32(number: SupportsFloat) -> np.float32:
    """Round to float32, without a warning where that is infinite."""
    with np.errstate(over="ignore"):
        return np.float32(float(number))
