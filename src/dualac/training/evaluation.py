"""How good the learned policy is: whole episodes of it, in an environment of their own.

The same policy, task and seeds give the same rows.
"""

import contextlib
import math
import os
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from queue import SimpleQueue
from typing import Any, NamedTuple

import gymnasium
import numpy as np

from dualac.envs.faults.guarded import Guarded
from dualac.envs.protocol import Success
from dualac.errors import BrokenEpisodeError, DualacError
from dualac.machine.cores import borrowed

# The rule that decides on success, and the column that it reads.
DECIDED_BY: dict[Success, str] = {"any": "success", "last": "success_last"}

Act = Callable[[np.ndarray], np.ndarray]  # an observation -> an action
Policy = Callable[[int], Act]  # an episode's seed -> how the episode is played
Broken = Callable[[int, BrokenEpisodeError], None]  # is given the seed of a broken episode
Played = tuple[dict[str, Any], BrokenEpisodeError | None]
HIDDEN = 0.05  # share of a value that a time limit may hide
COMPARED = 10_000  # first steps of an episode that are kept to compare values with returns
# Seconds left of an evaluation from which on it pays to start more processes; each takes two.
LONG = 5.0
SHORT = 1.0  # seconds of an evaluation up to which it is not worth a process of its own


class StopRequested(Exception):
    """A signal asks to stop. An episode of an evaluation is not played on, and no row counts."""


class ValueComparison(NamedTuple):
    """What the critics make of states and actions, beside what came of them."""

    value: Callable[[np.ndarray, np.ndarray], np.ndarray]
    gamma: float

    def compare(
        self, steps: list[tuple[np.ndarray, np.ndarray, float]], *, ended: bool
    ) -> dict[str, float]:
        """Return mean |Q| and mean |G| of an episode's steps, G the discounted return from there.

        A time limit hides what comes after it: of an episode that it cut only the steps count from
        which on nearly all that matters was observed, and of one too short for that, the first.
        """
        rewards = [reward for _, _, reward in steps]
        returns: list[float] = []
        discounted = 0.0
        for reward in reversed(rewards):
            discounted = reward + self.gamma * discounted
            returns.append(discounted)
        returns.reverse()
        hidden = math.ceil(math.log(HIDDEN) / math.log(self.gamma)) if 0 < self.gamma < 1 else 1
        count = len(steps) if ended else max(1, len(steps) - hidden)
        obs = np.stack([step[0] for step in steps[:count]])
        actions = np.stack([step[1] for step in steps[:count]])
        return {
            "value": float(np.abs(self.value(obs, actions)).mean()),
            "discounted_return": float(np.abs(returns[:count]).mean()),
        }


class PendingEvaluation(NamedTuple):
    """An evaluation that goes on while the learner does."""

    step: int  # of the policy
    rows: Future[list[dict[str, Any]]]
    broken: list[tuple[int, BrokenEpisodeError]]


class Evaluator:
    """Where a run is evaluated: in an environment of its own, and in more where cores are idle."""

    def __init__(
        self,
        env: Guarded,
        others: list[int] | None = None,
        *,
        long: float = LONG,
        short: float = SHORT,
    ) -> None:
        """Evaluate in `env`; the cores `others` may help.

        If they are not named, they are those that this process does not use since it was pinned.
        """
        self.env, self._others = env, others
        self._long, self._short = long, short
        self._beside: list[Guarded] = []
        self._took = 0.0  # seconds of the last evaluation that was waited for
        self._thread = ThreadPoolExecutor(1)
        self._closing = threading.Event()
        self._pending: PendingEvaluation | None = None

    def evaluate(
        self,
        policy: Policy,
        seeds: list[int],
        broken: Broken,
        comparison: ValueComparison | None = None,
        *,
        stopping: Callable[[], bool] = lambda: False,
    ) -> list[dict[str, Any]]:
        """Play an episode for each seed and wait for the rows.

        The first episode shows how long the others will take, and whether other cores shall help.
        `broken` is called when all have been played. Once it is `stopping`, `StopRequested` is
        raised.
        """
        began = time.monotonic()
        policy = unless(stopping, StopRequested, policy)
        errors: list[tuple[int, BrokenEpisodeError]] = []

        def note(seed: int, error: BrokenEpisodeError) -> None:
            errors.append((seed, error))

        first = evaluate([self.env], policy, seeds[:1], note, comparison)
        left = seeds[1:]
        is_long = (time.monotonic() - began) * len(left) > self._long
        with borrowed(len(left) - 1 if is_long else 0, self._others) as cores:
            more = evaluate([self.env, *self._on(cores)], policy, left, note, comparison)
        self._took = time.monotonic() - began
        for seed, error in errors:
            broken(seed, error)
        return first + [{**row, "episode": index} for index, row in enumerate(more, 1)]

    def begin(
        self,
        step: int,
        policy: Policy,
        seeds: list[int],
        comparison: ValueComparison | None = None,
    ) -> bool:
        """Begin the same evaluation on idle cores alone, while the caller goes on.

        Return whether it has begun: not where no core is idle, nor where it takes but a moment.
        """
        lease = contextlib.ExitStack()
        wanted = len(seeds) if self._took > self._short else 0
        cores = lease.enter_context(borrowed(wanted, self._others))
        if not cores:
            lease.close()
            return False
        broken: list[tuple[int, BrokenEpisodeError]] = []

        def note(seed: int, error: BrokenEpisodeError) -> None:
            broken.append((seed, error))

        def played() -> list[dict[str, Any]]:
            with lease:
                os.sched_setaffinity(0, cores)  # of this thread, and of those that it starts
                players = self._on(cores) or [self.env]
                return evaluate(players, self._unless_closing(policy), seeds, note, comparison)

        self._pending = PendingEvaluation(step, self._thread.submit(played), broken)
        return True

    @property
    def pending(self) -> int | None:
        """The step whose policy is being evaluated beside the learner, if any."""
        return self._pending.step if self._pending else None

    @property
    def ready(self) -> bool:
        """Whether `collect` need not wait."""
        return self._pending is None or self._pending.rows.done()

    def collect(self, broken: Broken) -> list[dict[str, Any]]:
        """Wait for the pending evaluation and return its rows."""
        assert self._pending is not None
        pending, self._pending = self._pending, None
        rows = pending.rows.result()
        for seed, error in pending.broken:
            broken(seed, error)
        return rows

    def close(self) -> None:
        """Leave a pending evaluation unfinished, and close all environments."""
        self._closing.set()
        self._thread.shutdown()
        for env in (self.env, *self._beside):
            env.close()

    def _unless_closing(self, policy: Policy) -> Policy:
        return unless(
            self._closing.is_set, lambda: BrokenEpisodeError("was left unfinished"), policy
        )

    def _on(self, cores: list[int]) -> list[Guarded]:
        """Return environments in processes of their own, one on each of these cores.

        Where one cannot be made, those that could.
        """
        with contextlib.suppress(DualacError):
            while len(self._beside) < len(cores):
                self._beside.append(self.env.elsewhere())
        ready = self._beside[: len(cores)]
        for env, core in zip(ready, cores, strict=False):
            env.move_to(core)
        return ready


def unless(leaving: Callable[[], bool], error: Callable[[], Exception], policy: Policy) -> Policy:
    """Return a policy that raises an error at the first step at which its player is leaving."""

    def begin_episode(seed: int) -> Act:
        act = policy(seed)

        def act_unless_leaving(obs: np.ndarray) -> np.ndarray:
            if leaving():
                raise error()
            return act(obs)

        return act_unless_leaving

    return begin_episode


def evaluate(
    players: Sequence[gymnasium.Env],
    policy: Policy,
    seeds: Iterable[int],
    broken: Broken = lambda seed, error: None,
    comparison: ValueComparison | None = None,
) -> list[dict[str, Any]]:
    """Return a row for each episode: its seed, return, length, and success if the task defines it.

    Several environments play at once; an episode is a function of its seed, so the rows do not
    depend on how many. `broken` is called for each episode that breaks.
    """
    seeds = list(seeds)
    idle: SimpleQueue[gymnasium.Env] = SimpleQueue()
    for env in players:
        idle.put(env)

    def play_next(seed: int) -> Played:
        env = idle.get()
        try:
            return play(env, policy(seed), seed, comparison=comparison)
        finally:
            idle.put(env)

    if len(players) == 1:
        played = [play_next(seed) for seed in seeds]
    else:
        with ThreadPoolExecutor(len(players)) as threads:
            played = list(threads.map(play_next, seeds))
    rows = []
    for index, (seed, (row, error)) in enumerate(zip(seeds, played, strict=True)):
        rows.append({"episode": index, "seed": seed, **row})
        if error:
            broken(seed, error)
    return rows


def play(
    env: gymnasium.Env,
    act: Act,
    seed: int,
    each_step: Callable[[], None] = lambda: None,
    comparison: ValueComparison | None = None,
) -> Played:
    """Play one episode of a `Guarded` environment.

    Where the environment breaks the episode ends, the row says so, and the error comes with it.
    """
    total, length, terminated = 0.0, 0, False
    success: dict[str, bool] = {}
    steps: list[tuple[np.ndarray, np.ndarray, float]] = []
    broken: BrokenEpisodeError | None = None
    try:
        obs, _ = env.reset(seed=seed)
        each_step()
        over = False
        while not over:
            action = act(obs)
            length += 1
            before = obs
            obs, reward, terminated, truncated, info = env.step(action)
            over = terminated or truncated
            if comparison and length <= COMPARED:
                steps.append((before, action, float(reward)))
            total += float(reward)
            if "success" in info:
                last = bool(info["success"])
                success = {"success": success.get("success", False) or last, "success_last": last}
            each_step()
    except BrokenEpisodeError as error:
        broken = error
    row: dict[str, Any] = {"return": total, "length": length, **success}
    if comparison and steps and not broken:
        row |= comparison.compare(steps, ended=terminated and length <= COMPARED)
    if broken:
        row |= {"bad": True, "reason": str(broken)}
    return row, broken


def summary(rows: list[dict[str, Any]], success: Success = "any") -> dict[str, float]:
    """Return the means of an evaluation, by Stable-Baselines3's names.

    Broken episodes do not count; where all broke there are no means. Which step decides on success
    is in the protocol.
    """
    rows = whole(rows)
    if not rows:
        return {}
    returns = np.array([row["return"] for row in rows])
    means = {
        "eval/mean_reward": float(returns.mean()),
        "eval/std_reward": float(returns.std()),
        "eval/mean_ep_length": float(np.mean([row["length"] for row in rows])),
    }
    successes = [row[DECIDED_BY[success]] for row in rows if "success" in row]
    if successes:
        means["eval/success_rate"] = float(np.mean(successes))
    compared = [row for row in rows if "value" in row]
    observed = sum(row["discounted_return"] for row in compared)
    if observed > 0:
        means["train/overestimation"] = sum(row["value"] for row in compared) / observed
    return means


def whole(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows of the episodes that did not break."""
    return [row for row in rows if not row.get("bad")]


def count_broken(rows: list[dict[str, Any]], step: int) -> str:
    """Say how many episodes of a step's evaluation broke, or nothing."""
    broken = len(rows) - len(whole(rows))
    if not broken:
        return ""
    rest = f"the mean is of the other {len(rows) - broken}" if whole(rows) else "there is no mean"
    return f"{broken} of {len(rows)} episodes of the evaluation at step {step} broke; {rest}"
