"""Environments small enough to know by heart, each with one thing to train through; registered on
import, as a user's own would be.
"""

from __future__ import annotations

import os
import sys
import threading
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

HERE = __name__  # the tasks are `gym/<this module>:<id>`


class Drift(gymnasium.Env):
    """A point that drifts: episodes of 5 to 11 steps, by their seed; some are ended by the task
    itself, some by a limit. Near home is success.
    """

    action_space = spaces.Box(-1.0, 1.0, (2,), np.float32)
    observation_space = spaces.Box(-np.inf, np.inf, (3,), np.float64)
    render_mode = None

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        self.length, self.kind, self.steps = (
            int(self.np_random.integers(5, 12)),
            int(self.np_random.integers(2)),
            0,
        )
        self.place = self.np_random.normal(size=3)
        return self.place.copy(), {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        self.steps += 1
        self.place = 0.9 * self.place + 0.1 * self.np_random.normal(size=3)
        self.place[:2] += 0.3 * np.asarray(action, np.float64)
        over = self.steps == self.length
        near = float(np.square(self.place).sum())
        return (
            self.place.copy(),
            -near,
            over and self.kind == 0,
            over and self.kind == 1,
            {"success": near < 1.0},
        )


class Faulty(Drift):
    """Drift, but what it answers at some steps of its life (not of its episode) is replaced; every
    so often, or once.
    """

    def __init__(self, what: str, value: float, at: tuple[int, ...] = (), every: int = 0) -> None:
        self.what, self.value, self.at, self.every, self.lived = what, value, at, every, 0

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        obs, reward, terminated, truncated, info = super().step(action)
        self.lived += 1
        if self.lived in self.at or (self.every and self.lived % self.every == 0):
            if self.what == "reward":
                reward = self.value
            else:
                obs[1] = self.value
        return obs, reward, terminated, truncated, info


class FaultyStart(Drift):
    """The first observation of its second and third episode is broken (`always`: of each)."""

    def __init__(self, always: bool = False) -> None:
        self.always, self.episodes = always, 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        obs, info = super().reset(seed=seed)
        self.episodes += 1
        if self.always or self.episodes in (2, 3):
            obs[0] = np.nan
        return obs, info


class Ending(Drift):
    """Three steps an episode, ended in a chosen way."""

    def __init__(self, terminated: bool, truncated: bool) -> None:
        self.how = terminated, truncated

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        obs, reward, _, _, info = super().step(action)
        over = self.steps == 3
        return obs, reward, over and self.how[0], over and self.how[1], info


class Forgetful(Drift):
    """Its episodes are no function of their seed."""

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        self.np_random = np.random.default_rng()
        self.length, self.kind, self.steps, self.place = 1000, 1, 0, self.np_random.normal(size=3)
        return self.place.copy(), {}


class Fading(Drift):
    """Its episodes are long in the first life of a run and short in every later one: an end comes
    before the last action that is played again.
    """

    made = 0

    def __init__(self) -> None:
        Fading.made += 1
        self.long = Fading.made <= 2  # one to train in, one to evaluate in

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        obs, info = super().reset(seed=seed)
        self.length = 50 if self.long else 2
        return obs, info


class Growing(Drift):
    """A user's own environment which was changed between two starts: it observes as many numbers as
    the variable says.
    """

    def __init__(self) -> None:
        self.size = int(os.environ.get("DUALAC_TEST_GROWN", "3"))
        self.observation_space = spaces.Box(-np.inf, np.inf, (self.size,), np.float64)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        obs, info = super().reset(seed=seed)
        return np.resize(obs, self.size), info

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        obs, *rest = super().step(action)
        return np.resize(obs, self.size), *rest


class SpacesLater(Drift):
    """Declares other observations from its tenth episode on."""

    episodes = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        self.episodes += 1
        if self.episodes == 10:
            self.observation_space = spaces.Box(-1.0, 1.0, (4,), np.float64)
        return super().reset(seed=seed)


class Breaking(Drift):
    """Breaks like foreign code does, at the third step (or the reset) of some episodes, which their
    seeds decide. Once broken it is of no use.
    """

    def __init__(self, how: str, where: str = "step", share: float = 0.3) -> None:
        self.how, self.where, self.share, self.broken = how, where, share, False

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        assert not self.broken, "used although it broke"
        obs, info = super().reset(seed=seed)
        self.unlucky = self.np_random.random() < self.share
        return self._break(obs, 0.0)[0] if self.unlucky and self.where == "reset" else obs, info

    def step(self, action: np.ndarray) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        obs, reward, *rest = super().step(action)
        if self.unlucky and self.where == "step" and self.steps == 3:
            obs, reward = self._break(obs, reward)
        return obs, reward, *rest

    def close(self) -> None:
        if self.broken:
            raise RuntimeError("cannot be closed any more")

    def _break(self, obs: np.ndarray, reward: float) -> tuple[Any, Any]:
        match self.how:
            case "shape":
                return np.zeros(4), reward
            case "structure":
                return {"obs": obs}, reward
            case "word":
                return obs, "a lot"
        self.broken = True
        match self.how:
            case "exit":
                sys.exit("enough")
            case "die":
                os._exit(7)
            case "hang":
                threading.Event().wait()
        raise ZeroDivisionError("of the environment's\nown")


class Printing(Drift):
    """Prints, from Python and from below it."""

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        print("hello from Python", flush=True)
        os.write(1, b"hello from C\n")
        return super().step(action)


def task(name: str) -> str:
    return f"gym/{HERE}:{name}-v0"


def _register(name: str, kind: type[gymnasium.Env], **options: Any) -> None:
    gymnasium.register(f"{name}-v0", kind, kwargs=options)


BREAKS = ("raise", "exit", "shape", "structure", "word", "die")
FAULTS = {
    "NanReward": ("reward", np.nan),
    "InfReward": ("reward", np.inf),
    "HugeReward": ("reward", 1e300),
    "NanObs": ("obs", np.nan),
    "InfObs": ("obs", -np.inf),
    "HugeObs": ("obs", -1e300),
}

if f"{Drift.__name__}-v0" not in gymnasium.registry:
    for each in (Drift, FaultyStart, Forgetful, Fading, Growing, SpacesLater, Printing):
        _register(each.__name__, each)
    for fault, (what, value) in FAULTS.items():
        _register(f"{fault}Once", Faulty, what=what, value=value, at=(15,))
        _register(f"{fault}Often", Faulty, what=what, value=value, every=2)
    for how in BREAKS:
        _register(f"{how.capitalize()}Sometimes", Breaking, how=how)
    for where in ("step", "reset"):
        _register(f"RaiseIn{where.capitalize()}Sometimes", Breaking, how="raise", where=where)
        _register(
            f"RaiseIn{where.capitalize()}Always", Breaking, how="raise", where=where, share=1.0
        )
    _register("HangAlways", Breaking, how="hang", share=1.0)
    _register("ShapeInResetAlways", Breaking, how="shape", where="reset", share=1.0)
    _register("NeverStarts", FaultyStart, always=True)
    _register("Absurd", Faulty, what="reward", value=3e38, every=1)
    _register("Terminated", Ending, terminated=True, truncated=False)
    _register("Truncated", Ending, terminated=False, truncated=True)
    _register("Both", Ending, terminated=True, truncated=True)
