"""How good the learned policy is: whole episodes of it, in an environment of their own. Pure: the same policy, task and seeds give the same rows."""

from collections.abc import Callable, Iterable
from typing import Any

import gymnasium
import numpy as np

from dualac.envs.protocol import Success
from dualac.errors import BrokenEpisodeError

DECIDED_BY: dict[Success, str] = {"any": "success", "last": "success_last"}  # the rule, and the column that it reads

Act = Callable[[np.ndarray], np.ndarray]
Broken = Callable[[int, BrokenEpisodeError], None]


def evaluate(env: gymnasium.Env, act: Act, seeds: Iterable[int], broken: Broken = lambda seed, error: None) -> list[dict[str, Any]]:
    """A row an episode: its seed, return, length, and success at any step and at the last one where the task defines success.

    `broken` is told of each episode that breaks.
    """
    rows = []
    for index, seed in enumerate(seeds):
        row, error = play(env, act, seed)
        rows.append({"episode": index, "seed": seed, **row})
        if error:
            broken(seed, error)
    return rows


def play(env: gymnasium.Env, act: Act, seed: int, each_step: Callable[[], None] = lambda: None) -> tuple[dict[str, Any], BrokenEpisodeError | None]:
    """One episode. Where the environment breaks it ends, the row says so, and the error is handed over. Give it a `Guarded` environment."""
    total, length, success = 0.0, 0, []
    broken: BrokenEpisodeError | None = None
    try:
        obs, _ = env.reset(seed=seed)
        each_step()
        over = False
        while not over:
            action = act(obs)
            length += 1
            obs, reward, terminated, truncated, info = env.step(action)
            over = terminated or truncated
            total += float(reward)
            if "success" in info:
                success.append(bool(info["success"]))
            each_step()
    except BrokenEpisodeError as error:
        broken = error
    row: dict[str, Any] = {"return": total, "length": length}
    if success:
        row |= {"success": any(success), "success_last": success[-1]}
    return row | ({"bad": True, "reason": str(broken)} if broken else {}), broken


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
