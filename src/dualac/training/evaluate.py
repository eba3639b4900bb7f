"""How good the learned policy is: whole episodes of it, in an environment of their own. Pure: the same policy, task and seeds give the same rows."""

import math
from collections.abc import Callable, Iterable
from typing import Any

import gymnasium
import numpy as np

from dualac.envs.protocol import Success
from dualac.errors import BrokenEpisodeError
from dualac.training.replay import to_float32

DECIDED_BY: dict[Success, str] = {"any": "success", "last": "success_last"}  # the rule, and the column that it reads

Act = Callable[[np.ndarray], np.ndarray]


def evaluate(env: gymnasium.Env, act: Act, seeds: Iterable[int]) -> list[dict[str, Any]]:
    """A row an episode: its seed, return, length, and success at any step and at the last one where the task defines success."""
    return [{"episode": index, "seed": seed, **play(env, act, seed)} for index, seed in enumerate(seeds)]


def play(env: gymnasium.Env, act: Act, seed: int, each_step: Callable[[], None] = lambda: None) -> dict[str, Any]:
    """One episode. An environment that breaks down (NaN, infinity) ends it there, and the row says so."""
    obs, _ = env.reset(seed=seed)
    bad = over = not np.isfinite(obs).all()
    total, length, success = 0.0, 0, []
    each_step()
    while not over:
        try:
            obs, reward, terminated, truncated, info = env.step(act(obs))
        except BrokenEpisodeError:
            reward, terminated, truncated, info = math.nan, False, False, {}
        bad = not (np.isfinite(obs).all() and np.isfinite(to_float32(reward)))
        over = terminated or truncated or bad
        total += 0.0 if bad else float(reward)
        length += 1
        if "success" in info:
            success.append(bool(info["success"]))
        each_step()
    row: dict[str, Any] = {"return": total, "length": length}
    if success:
        row |= {"success": any(success), "success_last": success[-1]}
    return row | ({"bad": True} if bad else {})


def summary(rows: list[dict[str, Any]], success: Success = "any") -> dict[str, float]:
    """The means of an evaluation, by Stable-Baselines3's names; which step decides on success is the protocol's to say."""
    returns = np.array([row["return"] for row in rows])
    means = {
        "eval/mean_reward": float(returns.mean()),
        "eval/std_reward": float(returns.std()),
        "eval/mean_ep_length": float(np.mean([row["length"] for row in rows])),
    }
    judged = [row[DECIDED_BY[success]] for row in rows if "success" in row]
    return means | ({"eval/success_rate": float(np.mean(judged))} if judged else {})
