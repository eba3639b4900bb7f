"""A puck on a table, to be pushed to a target: a small environment of one's own.

`dualac train dac my_env:Push-v0`, typed in this folder, trains on it.
"""

import gymnasium
import numpy as np
from gymnasium import spaces


class Push(gymnasium.Env):
    """Takes a force; shows the puck's position, its velocity and the way to the target.

    The reward is high near the target. The episode ends where the puck falls off the table.
    """

    def __init__(self):
        # Newtons. Any bounded box will do.
        self.action_space = spaces.Box(-0.5, 0.5, (2,), np.float32)
        self.observation_space = spaces.Dict(
            place=spaces.Box(-2, 2, (2,), np.float64),
            velocity=spaces.Box(-5, 5, (2,), np.float64),
            to_target=spaces.Box(-4, 4, (2,), np.float64),
        )

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)  # seeds self.np_random, the only place to draw from
        self.place, self.target = self.np_random.uniform(-1, 1, (2, 2))
        self.velocity = np.zeros(2)
        return self.observe(), {}

    def step(self, action):
        self.velocity = 0.9 * self.velocity + 0.2 * action
        self.place = self.place + 0.1 * self.velocity
        distance = np.linalg.norm(self.target - self.place)
        reward = float(np.exp(-3 * distance))
        # A fall is a true end: terminated. The time limit below is none: truncated.
        terminated = bool(np.abs(self.place).max() > 1.5)
        truncated = False
        info = {"success": bool(distance < 0.05)}
        return self.observe(), reward, terminated, truncated, info

    def observe(self):
        return {
            "place": self.place,
            "velocity": self.velocity,
            "to_target": self.target - self.place,
        }


gymnasium.register("Push-v0", Push, max_episode_steps=100)
