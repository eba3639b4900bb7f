"""One seed of a run on the host's side: its environment, its replay, the episode it is in, its log and its checkpoints."""

import math
from collections import deque
from pathlib import Path
from typing import Any

import numpy as np

from dualac import envs
from dualac.errors import BrokenEpisodeError, RunFailedError
from dualac.training.checkpoint import Arrays, Checkpoints, Facts, Snapshot
from dualac.training.log import Log
from dualac.training.machine import require_memory
from dualac.training.replay import Replay, replay_bytes, to_float32
from dualac.training.run import Run, load
from dualac.types import Spec

EPISODES, EVALUATIONS, WARMUP, SAMPLER, BASELINE = range(1, 6)  # streams of random numbers; never renumber: runs depend on it
EPISODE = "episode."  # what a snapshot's names of the episode in flight begin with
RECENT = 100  # episodes in the running means, as in Stable-Baselines3
BAD_LIMIT, BAD_WINDOW = 10, 10_000  # more broken transitions than this within so many steps, and the environment is called broken


def stream(seed: int, purpose: int, *index: int) -> np.random.SeedSequence:
    """Random numbers as a function of what they are for, so that none depends on how many others were drawn."""
    return np.random.SeedSequence([seed, purpose, *index])


def episode_seed(seed: int, purpose: int, *index: int) -> int:
    return int(stream(seed, purpose, *index).generate_state(1)[0] >> 1)


class Member:
    def __init__(self, path: Path, *, together: int = 1, tensorboard: bool = False) -> None:
        """`together`: how many seeds have their replay in this process."""
        self.path = path
        self.run: Run = load(path)
        self.env = envs.make(self.run.task, protocol=self.run.protocol)
        self.eval_env = envs.make(self.run.task, protocol=self.run.protocol)
        self.spec = Spec(self.env.observation_space.shape[0], self.env.action_space.shape[0])  # pyright: ignore[reportOptionalSubscript]
        capacity = min(self.run.capacity, self.run.steps)
        replays = f"the replay of {together} seeds" if together > 1 else "a replay"
        require_memory(together * replay_bytes(capacity, self.spec), f"{replays} of {capacity} transitions")
        self._capacity = capacity
        self.start_over()
        self.log = Log(path, tensorboard=tensorboard)
        self.recent: deque[dict[str, Any]] = deque(maxlen=RECENT)
        self.episodes = 0
        self.bad_steps: list[int] = []
        self.bad_total = 0
        self.seconds = 0.0  # spent on this run before this process took it up

    def start_over(self) -> None:
        """Nothing lived yet, and nothing known of earlier checkpoints."""
        self.replay = Replay(self._capacity, self.spec, stream(self.run.seed, SAMPLER))
        self.checkpoints = Checkpoints(self.path, self.run.identity())

    def begin_episode(self, step: int) -> None:
        """Play the next episode; one that is broken from its first observation is passed over."""
        while True:
            obs, _ = self.env.reset(seed=episode_seed(self.run.seed, EPISODES, self.episodes))
            self.obs = obs
            self.actions: list[np.ndarray] = []
            self.total = 0.0
            self.succeeded: bool | None = None
            if np.isfinite(obs).all():
                return
            self._count_bad(step, "reset")
            self.episodes += 1

    def random_action(self, step: int) -> np.ndarray:
        draw = np.random.default_rng(stream(self.run.seed, WARMUP, step)).uniform(-1.0, 1.0, self.spec.action_dim)
        return draw.astype(np.float32)

    def step(self, action: np.ndarray, step: int) -> float | None:
        """Act, remember, and go on to the next episode where this one ends; its return then."""
        self.actions.append(action)
        try:
            obs, reward, terminated, truncated, info = self.env.step(action)
        except BrokenEpisodeError:
            obs, reward, terminated, truncated, info = self.obs, math.nan, False, False, {}
        if "success" in info:
            self.succeeded = self.run.protocol.succeeded(self.succeeded, info["success"])
        if not (np.isfinite(obs).all() and np.isfinite(to_float32(reward))):
            # Not stored, and the episode is cut like a time limit: the last good transition bootstraps from its own next observation.
            self._count_bad(step, "step")
            return self._end_episode(step)
        self.replay.add(self.obs, action, reward, 0.0 if terminated else 1.0, obs)
        self.obs = obs
        self.total += float(reward)
        return self._end_episode(step) if terminated or truncated else None

    def _end_episode(self, step: int) -> float:
        total = self.total
        self.recent.append({"return": total, "length": len(self.actions), "success": self.succeeded})
        self.episodes += 1
        self.begin_episode(step)
        return total

    def _count_bad(self, step: int, where: str) -> None:
        self.bad_total += 1
        self.bad_steps = [earlier for earlier in self.bad_steps if earlier > step - BAD_WINDOW] + [step]
        self.log.event("bad_transition", step, where=where, episode=self.episodes, seed=episode_seed(self.run.seed, EPISODES, self.episodes))
        if len(self.bad_steps) > BAD_LIMIT:
            times = f"{len(self.bad_steps)} times within {BAD_WINDOW} steps, last at step {step}"
            raise RunFailedError(f"environment broken: {self.run.task} gave NaN or infinity {times}")

    def eval_seeds(self, step: int) -> list[int]:
        return [episode_seed(self.run.seed, EVALUATIONS, step, episode) for episode in range(self.run.eval_episodes)]

    def rollout_metrics(self) -> dict[str, float]:
        metrics: dict[str, float] = {"time/episodes": self.episodes, "rollout/bad_transitions": self.bad_total}
        if self.recent:
            metrics["rollout/ep_rew_mean"] = float(np.mean([episode["return"] for episode in self.recent]))
            metrics["rollout/ep_len_mean"] = float(np.mean([episode["length"] for episode in self.recent]))
            success = [episode["success"] for episode in self.recent if episode["success"] is not None]
            if success:
                metrics["rollout/success_rate"] = float(np.mean(success))
        return metrics

    def save(self, step: int, learned: Arrays, fingerprint: Facts, seconds: float) -> None:
        actions = np.array(self.actions, np.float32).reshape(len(self.actions), self.spec.action_dim)
        arrays = learned | {EPISODE + "actions": actions, EPISODE + "obs": np.asarray(self.obs, np.float32)}
        facts = {
            "fingerprint": fingerprint, "positions": self.log.positions(), "episodes": self.episodes, "total": self.total,
            "succeeded": self.succeeded, "recent": list(self.recent), "bad_steps": self.bad_steps, "bad_total": self.bad_total, "seconds": seconds,
        }  # fmt: skip
        self.checkpoints.save(Snapshot(step, arrays, facts), self.replay)

    def restore(self, snapshot: Snapshot) -> str | None:
        """Stand where the snapshot was taken, in the middle of an episode: play its actions again from its seed. Says so if that ends elsewhere."""
        facts = snapshot.facts
        self.log.rewind(facts["positions"], snapshot.step)
        self.episodes, self.bad_steps, self.bad_total = facts["episodes"], list(facts["bad_steps"]), facts["bad_total"]
        self.recent.extend(facts["recent"])
        self.seconds = facts["seconds"]
        self.begin_episode(snapshot.step)
        over = False
        for action in snapshot.arrays[EPISODE + "actions"]:
            if over:
                break
            self.obs, _, terminated, truncated, _ = self.env.step(action)
            self.actions.append(action)
            over = terminated or truncated
        self.total, self.succeeded = facts["total"], facts["succeeded"]
        if not over and np.array_equal(self.obs, snapshot.arrays[EPISODE + "obs"]):
            return None
        self.episodes += 1
        self.begin_episode(snapshot.step)
        return f"{self.run.task} does not play the same episode again from its seed: the episode in flight was cut, and the run is no longer exact"

    def close(self) -> None:
        self.log.close()
        self.env.close()
        self.eval_env.close()
