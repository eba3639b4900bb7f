"""An episode played, and what it was, to the bit.

python -m tests.support.episode TASK... prints a digest of an episode of each task.
"""

import hashlib
import sys

import numpy as np

from dualac.envs import make

STEPS, RESUMED_AT = 60, 37


def actions(env, seed):
    return (
        np.random.default_rng(seed)
        .uniform(-1, 1, (STEPS, env.action_space.shape[0]))
        .astype(np.float32)
    )


def play(env, seed, steps):
    """What each of these actions showed, from the episode's first observation on; the episode may
    end before them.
    """
    seen = [env.reset(seed=seed)[0].tobytes()]
    return seen + go_on(env, steps)


def go_on(env, steps):
    seen = []
    for action in steps:
        observation, reward, terminated, truncated, info = env.step(action)
        assert observation.dtype == np.float32
        assert observation.shape == env.observation_space.shape
        seen.append(
            observation.tobytes()
            + np.float64(reward).tobytes()
            + bytes([terminated, truncated, info.get("success", False)])
        )
        if terminated or truncated:
            break
    return seen


def digest(seen):
    return hashlib.sha256(b"".join(seen)).hexdigest()


if __name__ == "__main__":
    for task in sys.argv[1:]:
        env = make(task)
        print(task, digest(play(env, 2, actions(env, 2))))
        env.close()
