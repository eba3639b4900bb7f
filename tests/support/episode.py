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
    """Return what each of these actions showed, after the first observation.

    The episode may end before them.
    """
    return [env.reset(seed=seed)[0].tobytes(), *go_on(env, steps)]


def go_on(env, steps):
    shown = []
    for action in steps:
        observation, reward, terminated, truncated, info = env.step(action)
        assert observation.dtype == np.float32
        assert observation.shape == env.observation_space.shape
        shown.append(
            observation.tobytes()
            + np.float64(reward).tobytes()
            + bytes([terminated, truncated, info.get("success", False)])
        )
        if terminated or truncated:
            break
    return shown


def digest(shown):
    return hashlib.sha256(b"".join(shown)).hexdigest()


if __name__ == "__main__":
    for task in sys.argv[1:]:
        env = make(task)
        print(task, digest(play(env, 2, actions(env, 2))))
        env.close()
