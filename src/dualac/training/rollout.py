"""One seed of a run on the host: environment, replay, episode in flight, log, checkpoints."""

import traceback
from collections import deque
from pathlib import Path
from typing import Any

import numpy as np

from dualac.envs.faults.guarded import Guarded
from dualac.errors import BrokenEpisodeError, DataError, RunFailedError
from dualac.machine.memory import require_memory
from dualac.parts.as_json import difference
from dualac.runs.arrays import Arrays
from dualac.runs.files import write_text
from dualac.runs.layout import TRACEBACK, WORKER_LOG
from dualac.runs.lock import Attempt
from dualac.runs.state import mark_done, mark_failed
from dualac.training.checkpoint import Checkpoints, Facts, Snapshot
from dualac.training.evaluation import Evaluator
from dualac.training.log import Log
from dualac.training.replay import Replay, replay_bytes
from dualac.training.run import USUAL, Flags, Run, load, record_task
from dualac.training.storage import DeviceRing, Ring
from dualac.training.streams import (
    EPISODES,
    EVALUATIONS,
    PEEKED,
    REPLAYED,
    SAMPLER,
    WARMUP,
    episode_seed,
    stream,
)
from dualac.types import Spec, Transition

NOT_AGAIN = "{} does not play the same episode again from its seed"
EPISODE = "episode."  # what a snapshot's names of the episode in flight begin with
RECENT = 100  # episodes in the running means, as in Stable-Baselines3
# More broken episodes than this within so many steps, and the environment is called broken.
BAD_LIMIT, BAD_WINDOW = 10, 10_000
TEST_STEPS = 5  # of the episode that is played twice at the start of a run


class Rollout:
    """A seed that acts: it steps its environment and adds what happens to its replay."""

    def __init__(self, path: Path, flags: Flags = USUAL, *, together: int = 1) -> None:
        """Make the environments and the replay; `together` seeds have theirs in this process."""
        self.path, self._flags = path, flags
        self.attempt = Attempt.begin(path)
        with self.attempt.fencing():
            self._open(together)

    def _open(self, together: int) -> None:
        path, flags = self.path, self._flags
        self.run: Run = load(path, trust=flags.trust)
        self.env = Guarded(self.run.task, self.run.protocol, isolated=flags.isolated)
        self.eval_env = Guarded(self.run.task, self.run.protocol, isolated=flags.isolated)
        self.evaluator = Evaluator(self.eval_env)
        self._record_task()
        self.spec = Spec(self.env.observation_space.shape[0], self.env.action_space.shape[0])  # pyright: ignore[reportOptionalSubscript]
        self._capacity = min(self.run.capacity, self.run.steps)
        self._require_memory(together)
        self.start_over()
        self.log = Log(path, self.attempt.require, tensorboard=flags.tensorboard)
        self.recent: deque[dict[str, Any]] = deque(maxlen=RECENT)
        self.obs = np.zeros(self.spec.obs_dim, np.float32)
        self.episodes = 0
        self.bad_steps: list[int] = []
        self.bad_total = 0
        self.bad_evaluations: list[int] = []
        self.owed: set[int] = set()  # the steps whose policy is still here, to be evaluated
        self.replays = True  # whether an episode can be played again
        self.seconds = 0.0  # spent on this run before this process took it up

    def start_over(self) -> None:
        """Begin with an empty replay, and with no knowledge of earlier checkpoints."""
        if self._flags.replay_in == "device":
            ring: Ring = DeviceRing(self._capacity, self.spec)
        else:
            ring = Ring(
                self._capacity, self.spec, self.path if self._flags.replay_in == "disk" else None
            )
        self.replay = Replay(self._capacity, self.spec, stream(self.run.seed, SAMPLER), ring)
        self.checkpoints = Checkpoints(
            self.path, *self.run.identities(), spec=self.spec, attempt=self.attempt
        )

    def begin_episode(self, step: int) -> None:
        """Play the next episode; one that is broken from its first observation is passed over."""
        while True:
            try:
                return self._reset()
            except BrokenEpisodeError as error:
                self._count_bad(step, "reset", error)
            self.episodes += 1

    def _record_task(self) -> None:
        task, again = self.env.describe(), self.eval_env.describe()
        if task != again:
            raise DataError(
                f"{self.run.task} is another task each time it is made "
                f"({'; '.join(difference(task, again))})"
            )
        record_task(self.path, task, self.attempt.require)

    def _require_memory(self, together: int) -> None:
        if self._flags.replay_in == "memory":
            replays = f"the replay of {together} seeds" if together > 1 else "a replay"
            require_memory(
                together * replay_bytes(self._capacity, self.spec),
                f"{replays} of {self._capacity} transitions",
            )

    def _reset(self) -> None:
        self.obs, _ = self.env.reset(seed=episode_seed(self.run.seed, EPISODES, self.episodes))
        self.actions: list[np.ndarray] = []
        self.total = 0.0
        self.succeeded: bool | None = None

    def random_action(self, step: int) -> np.ndarray:
        """Draw the action of a step of the warm-up."""
        generator = np.random.default_rng(stream(self.run.seed, WARMUP, step))
        return generator.uniform(-1.0, 1.0, self.spec.action_dim).astype(np.float32)

    def step(self, action: np.ndarray, step: int) -> float | None:
        """Take a step and store it, and begin the next episode where this one ends.

        Return the return of the episode that ended; of one that broke there is none.
        """
        self.actions.append(action)
        try:
            obs, reward, terminated, truncated, info = self.env.step(action)
        except BrokenEpisodeError as error:
            # Not stored, and the episode is cut like a time limit: the last good transition
            # bootstraps from its own next observation.
            self._count_bad(step, "step", error)
            self._end_episode(step)
            return None
        if "success" in info:
            self.succeeded = self.run.protocol.succeeded(self.succeeded, info["success"])
        self.replay.add(self.obs, action, reward, 0.0 if terminated else 1.0, obs)
        self.obs = obs
        self.total += float(reward)
        return self._end_episode(step) if terminated or truncated else None

    def _end_episode(self, step: int) -> float:
        total = self.total
        self.recent.append(
            {"return": total, "length": len(self.actions), "success": self.succeeded}
        )
        self.episodes += 1
        self.begin_episode(step)
        return total

    def _count_bad(self, step: int, where: str, error: BrokenEpisodeError) -> None:
        self.bad_total += 1
        seed = episode_seed(self.run.seed, EPISODES, self.episodes)
        self.log.event(
            "bad_transition", step, where=where, episode=self.episodes, seed=seed, reason=str(error)
        )
        self.bad_steps = self._counted(self.bad_steps, step, error)

    def count_bad_evaluation(self, step: int, seed: int, error: BrokenEpisodeError) -> None:
        """Count a broken episode of an evaluation, apart from those of training."""
        self.log.event("bad_evaluation", step, where="evaluation", seed=seed, reason=str(error))
        self.bad_evaluations = self._counted(self.bad_evaluations, step, error)

    def _counted(self, earlier: list[int], step: int, error: BrokenEpisodeError) -> list[int]:
        """Return the steps of the broken episodes that still count; too many fail the run."""
        counted = [before for before in earlier if before >= step - BAD_WINDOW] + [step]
        if len(counted) > BAD_LIMIT:
            times = f"{len(counted)} times within {BAD_WINDOW} steps, last at step {step}"
            raise RunFailedError(
                f"environment broken: {self.run.task} broke {times}: {error}"
            ) from error.__cause__
        return counted

    def test_replay(self, step: int) -> str | None:
        """Test whether an episode can be played again from its seed; return a sentence if not.

        That is how a run is resumed amid an episode. The test uses the environment of evaluations;
        one that breaks meanwhile has shown nothing.
        """
        seed = episode_seed(self.run.seed, REPLAYED)
        try:
            self.replays = self._first_steps(seed) == self._first_steps(seed)
        except BrokenEpisodeError as error:
            self.log.event("bad_evaluation", step, where="self-test", seed=seed, reason=str(error))
        if self.replays:
            return None
        return (
            f"{NOT_AGAIN.format(self.run.task)}: where it is stopped and resumed, the episode in "
            "flight will be cut"
        )

    def _first_steps(self, seed: int) -> bytes:
        """Return the first steps of an episode of fixed actions, as bytes."""
        generator = np.random.default_rng(seed)
        actions = generator.uniform(-1.0, 1.0, (TEST_STEPS, self.spec.action_dim))
        steps = [self.eval_env.reset(seed=seed)[0].tobytes()]
        for action in actions.astype(np.float32):
            obs, reward, terminated, truncated, _ = self.eval_env.step(action)
            steps += [obs.tobytes(), np.float64(reward).tobytes(), bytes([terminated, truncated])]
            if terminated or truncated:
                break
        return b"".join(steps)

    def eval_seeds(self, step: int) -> list[int]:
        """Return the seeds of the episodes of a step's evaluation."""
        return [
            episode_seed(self.run.seed, EVALUATIONS, step, episode)
            for episode in range(self.run.protocol.eval_episodes)
        ]

    def peek_batch(self, step: int) -> Transition:
        """Return a minibatch without advancing the sampler."""
        generator = np.random.default_rng(stream(self.run.seed, PEEKED, step))
        return self.replay.peek_batch(generator, self.run.batch_size)

    def rollout_metrics(self) -> dict[str, float]:
        """Return the means of the last episodes, by Stable-Baselines3's names."""
        metrics: dict[str, float] = {
            "time/episodes": self.episodes,
            "rollout/bad_transitions": self.bad_total,
        }
        columns = {"rollout/ep_rew_mean": "return", "rollout/ep_len_mean": "length"}
        if self.recent:
            for name, column in columns.items():
                metrics[name] = float(np.mean([episode[column] for episode in self.recent]))
        successes = [episode["success"] for episode in self.recent]
        decided = [success for success in successes if success is not None]
        if decided:
            metrics["rollout/success_rate"] = float(np.mean(decided))
        return metrics

    def save(self, step: int, learned: Arrays, fingerprint: Facts, seconds: float) -> None:
        """Write a checkpoint of this seed, with what it has learned."""
        actions = np.array(self.actions, np.float32)
        arrays = learned | {
            EPISODE + "actions": actions.reshape(len(self.actions), self.spec.action_dim),
            EPISODE + "obs": np.asarray(self.obs, np.float32),
        }
        facts = {
            "fingerprint": fingerprint,
            "positions": self.log.positions(),
            "digests": self.log.digests(),
            "episodes": self.episodes,
            "total": self.total,
            "succeeded": self.succeeded,
            "recent": list(self.recent),
            "bad_steps": self.bad_steps,
            "bad_total": self.bad_total,
            "bad_evaluations": self.bad_evaluations,
            "owes_evaluation": step in self.owed or self.evaluator.pending == step,
            "owes_initial_evaluation": 0 in self.owed,
            "seconds": seconds,
        }
        regular = step % self.run.checkpoint_every == 0
        self.checkpoints.save(Snapshot(step, arrays, facts, regular), self.replay)

    def restore(self, snapshot: Snapshot) -> str | None:
        """Stand where the snapshot was taken, in the middle of an episode.

        Where that cannot be, the episode is cut, and the sentence that is returned says so.
        """
        facts = snapshot.facts
        self.log.rewind(facts["positions"], snapshot.step, facts.get("digests"))
        self.episodes = facts["episodes"]
        self.bad_steps, self.bad_total = list(facts["bad_steps"]), facts["bad_total"]
        self.bad_evaluations = list(facts.get("bad_evaluations", []))
        owed = {0: "owes_initial_evaluation", snapshot.step: "owes_evaluation"}
        self.owed = {step for step, fact in owed.items() if facts.get(fact, False)}
        self.recent.extend(facts["recent"])
        self.seconds = facts["seconds"]
        trouble = self._play_again(snapshot) if self.replays else NOT_AGAIN.format(self.run.task)
        if trouble is None:
            self.total, self.succeeded = facts["total"], facts["succeeded"]
            return None
        self.episodes += 1
        self.begin_episode(snapshot.step)
        return f"{trouble}: the episode in flight was cut, and the run is no longer exact"

    def _play_again(self, snapshot: Snapshot) -> str | None:
        """Play the episode in flight from its seed and actions.

        Return a sentence if it ends elsewhere than before.
        """
        try:
            self._reset()
            over = False
            for action in snapshot.arrays[EPISODE + "actions"]:
                if over:
                    break
                self.obs, _, terminated, truncated, _ = self.env.step(action)
                self.actions.append(action)
                over = terminated or truncated
        except BrokenEpisodeError as error:
            return f"{NOT_AGAIN.format(self.run.task)} ({error})"
        same = not over and np.array_equal(self.obs, snapshot.arrays[EPISODE + "obs"])
        return None if same else NOT_AGAIN.format(self.run.task)

    def done(self, step: int) -> None:
        """Say on disk that the run has reached its last step."""
        self.attempt.require()
        with self.attempt.fencing():
            mark_done(self.path, step, self.run.identity(), self.attempt.require)

    def write_failure(self, step: int, error: Exception) -> None:
        """Say on disk why the run ended, so that nobody averages over it unaware."""
        permit = self.attempt.require
        mark_failed(self.path, step, str(error), type(error).__name__, permit)
        # With what the environment raised, which is the cause of the failure.
        trace = "".join(traceback.format_exception(error))
        log = f"What the run's process, and an environment's own, wrote is in {WORKER_LOG}."
        write_text(self.path / TRACEBACK, f"{trace}\n{log}\n", permit)
        self.log.event("failed", step, reason=str(error))

    def close(self) -> None:
        """Close the log and all environments."""
        self.log.close()
        self.env.close()
        self.evaluator.close()
