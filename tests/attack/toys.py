"""Environments of the attack, registered on import: `tests.attack.toys:Drift-v0`.

Drift is well. The others do what the text of each says.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces


class Drift(gymnasium.Env):
    """Three numbers that drift; seven steps an episode. Each step adds a byte to $ATTACK_PULSE."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 30}  # noqa: RUF012
    observation_space: spaces.Space[Any] = spaces.Box(-np.inf, np.inf, (3,), np.float32)
    action_space: spaces.Space[Any] = spaces.Box(-1.0, 1.0, (2,), np.float32)

    def __init__(self, render_mode: str | None = None) -> None:
        self.render_mode = render_mode
        self.where = np.zeros(3, np.float32)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.where = self.np_random.uniform(-1, 1, 3).astype(np.float32)
        return self.where.copy(), {}

    def step(self, action: Any) -> Any:
        pulse()
        push = np.resize(np.asarray(action, np.float32), 3)
        self.where = (0.9 * self.where + 0.3 * push).astype(np.float32)
        self.where += self.np_random.normal(0, 0.01, 3).astype(np.float32)
        distance = float(np.abs(self.where).max())
        return self.where.copy(), 1.0 - distance, False, False, {"success": distance < 0.2}

    def render(self) -> Any:
        return np.zeros((16, 16, 3), np.uint8)


def pulse() -> None:
    if place := os.environ.get("ATTACK_PULSE"):
        file = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.write(file, b".")
        os.close(file)


class Endless(Drift):
    """Registered without a time limit."""


class Faulty(Drift):
    """Does one thing at some steps. `where`: step, reset or close."""

    taken = 0
    resets = 0

    def __init__(self, what: str, where: str = "step", every: int = 23, **options: Any) -> None:
        super().__init__(**options)
        self.what, self.place, self.every = what, where, every

    def step(self, action: Any) -> Any:
        Faulty.taken += 1
        obs, reward, *rest = super().step(action)
        if self.place == "step" and Faulty.taken % self.every == 0:
            obs, reward = self.misbehave(obs, reward)
        return obs, reward, *rest

    def reset(self, **options: Any) -> Any:
        Faulty.resets += 1
        obs, info = super().reset(**options)
        if self.place == "reset" and Faulty.resets % self.every == 0:
            obs, _ = self.misbehave(obs, 0.0)
        return obs, info

    def close(self) -> None:
        if self.place == "close":
            self.misbehave(None, 0.0)

    def misbehave(self, obs: Any, reward: float) -> tuple[Any, float]:
        match self.what:
            case "nan reward":
                return obs, np.nan
            case "nan observation":
                return obs * np.nan, reward
            case "another shape":
                return np.zeros(5, np.float32), reward
            case "huge reward":
                return obs, 1e38
        leave(self.what)
        return obs, reward


def leave(how: str) -> None:
    match how:
        case "raise":
            raise ZeroDivisionError("of the environment's\nown \x1b[31mred\x00")
        case "SystemExit":
            sys.exit(9)
        case "KeyboardInterrupt":
            raise KeyboardInterrupt
        case "GeneratorExit":
            raise GeneratorExit
        case "_exit":
            os._exit(9)
        case "abort":
            os.abort()
        case "SIGSEGV":
            os.kill(os.getpid(), signal.SIGSEGV)
        case "null pointer":
            ctypes.string_at(0)
        case "print":
            sys.stdout.write("x" * 200_000 + "\n\x1b]0;title\x07")
        case "slow":
            time.sleep(0.05)
        case "recursion":
            leave(how)
        case "MemoryError":
            raise MemoryError


class Undrawable(Drift):
    """Raises when it is to be drawn."""

    def render(self) -> Any:
        raise RuntimeError("no screen\nhere")


class Keyed(Drift):
    """Observes a dictionary, whose keys $ATTACK_SWAPPED exchanges."""

    swapped = bool(os.environ.get("ATTACK_SWAPPED"))
    observation_space = spaces.Dict(
        {
            "far": spaces.Box(-np.inf, np.inf, (2,), np.float32),
            "near": spaces.Box(-np.inf, np.inf, (1,), np.float32),
        }
    )

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        if os.environ.get("ATTACK_SWAPPED") == "keys":
            inner = dict(self.observation_space.spaces)  # type: ignore[attr-defined]
            self.observation_space = spaces.Dict({"a": inner["near"], "far": inner["far"]})
        if os.environ.get("ATTACK_SWAPPED") == "range":
            self.action_space = spaces.Box(-3.0, 3.0, (2,), np.float32)

    def reset(self, **options: Any) -> Any:
        obs, info = super().reset(**options)
        return self.named(obs), info

    def step(self, action: Any) -> Any:
        obs, *rest = super().step(action)
        return self.named(obs), *rest

    def named(self, obs: Any) -> dict[str, Any]:
        near = "a" if "a" in self.observation_space.spaces else "near"  # type: ignore[attr-defined]
        return {"far": obs[:2], near: obs[2:]}


LIMIT = 7
FAULTS = {
    "NanReward": ("nan reward", "step"),
    "NanObservation": ("nan observation", "step"),
    "AnotherShape": ("another shape", "step"),
    "HugeReward": ("huge reward", "step"),
    "Raises": ("raise", "step"),
    "RaisesInReset": ("raise", "reset"),
    "RaisesInClose": ("raise", "close"),
    "SystemExits": ("SystemExit", "step"),
    "SystemExitsInReset": ("SystemExit", "reset"),
    "Interrupts": ("KeyboardInterrupt", "step"),
    "GeneratorExits": ("GeneratorExit", "step"),
    "Exits": ("_exit", "step"),
    "Aborts": ("abort", "step"),
    "Crashes": ("SIGSEGV", "step"),
    "ReadsNull": ("null pointer", "step"),
    "Prints": ("print", "step"),
    "Slow": ("slow", "step"),
    "Recurses": ("recursion", "step"),
    "RunsOutOfMemory": ("MemoryError", "step"),
}


def register() -> None:
    for kind in (Drift, Undrawable, Keyed):
        gymnasium.registry.pop(f"{kind.__name__}-v0", None)
        gymnasium.register(f"{kind.__name__}-v0", kind, max_episode_steps=LIMIT)
    gymnasium.registry.pop("Endless-v0", None)
    gymnasium.register("Endless-v0", Endless)
    for name, (what, where) in FAULTS.items():
        gymnasium.registry.pop(f"{name}-v0", None)
        every = 23 if where == "step" else 5
        options = {"what": what, "where": where, "every": every}
        gymnasium.register(f"{name}-v0", Faulty, max_episode_steps=LIMIT, kwargs=options)


register()
