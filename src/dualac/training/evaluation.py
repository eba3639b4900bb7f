"""How good the learned policy is: whole episodes of it, in an environment of their own. Pure: the
same policy, task and seeds give the same rows.
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

DECIDED_BY: dict[Success, str] = {
    "any": "success",
    "last": "success_last",
}  # the rule, and the column that it reads

Act = Callable[[np.ndarray], np.ndarray]
Broken = Callable[[int, BrokenEpisodeError], None]
Played = tuple[dict[str, Any], BrokenEpisodeError | None]
HIDDEN = 0.05  # share of a value that a time limit may hide
# seconds left of an evaluation from which on it pays to have others help: they take about two to be
# there
LONG = 5.0
SHORT = 1.0  # seconds of an evaluation up to which it is not worth a process of its own


class ValueComparison(NamedTuple):
    """What the critics make of states and actions, to be held against what came of them."""

    value: Callable[[np.ndarray, np.ndarray], np.ndarray]
    gamma: float

    def compare(
        self, steps: list[tuple[np.ndarray, np.ndarray, float]], *, ended: bool
    ) -> dict[str, float]:
        """Mean |Q| and mean |G| of an episode's steps, G the discounted return seen from there.

        A time limit hides what comes after it: of an episode that it cut only the steps count from
        which on nearly all that matters was seen, and of one too short for that, the first.
        """
        observed, rewards = 0.0, [reward for _, _, reward in steps]
        returns = [observed := reward + self.gamma * observed for reward in reversed(rewards)][::-1]
        hidden = math.ceil(math.log(HIDDEN) / math.log(self.gamma)) if 0 < self.gamma < 1 else 1
        count = len(steps) if ended else max(1, len(steps) - hidden)
        obs, actions = (np.stack([step[which] for step in steps[:count]]) for which in (0, 1))
        return {
            "value": float(np.abs(self.value(obs, actions)).mean()),
            "discounted_return": float(np.abs(returns[:count]).mean()),
        }


def evaluate(
    players: Sequence[gymnasium.Env],
    act: Act,
    seeds: Iterable[int],
    broken: Broken = lambda seed, error: None,
    judge: ValueComparison | None = None,
) -> list[dict[str, Any]]:
    """A row an episode: its seed, return, length, and success at any step and at the last one where
    the task defines success.

    Several environments play at once; an episode is a function of its seed, so the rows do not
    depend on how many. `broken` is told of each episode that breaks.
    """
    seeds = list(seeds)
    if len(players) == 1:
        played = [play(players[0], act, seed, judge=judge) for seed in seeds]
    else:
        idle: SimpleQueue[gymnasium.Env] = SimpleQueue()
        for env in players:
            idle.put(env)

        def next_player(seed: int) -> Played:
            env = idle.get()
            try:
                return play(env, act, seed, judge=judge)
            finally:
                idle.put(env)

        with ThreadPoolExecutor(len(players)) as threads:
            played = list(threads.map(next_player, seeds))
    for seed, (_, error) in zip(seeds, played, strict=True):
        if error:
            broken(seed, error)
    return [
        {"episode": index, "seed": seed, **row}
        for index, (seed, (row, _)) in enumerate(zip(seeds, played, strict=True))
    ]


class PendingEvaluation(NamedTuple):
    """An evaluation that goes on while the learner does."""

    rows: Future[list[dict[str, Any]]]
    broken: list[tuple[int, BrokenEpisodeError]]

    def wait(self, broken: Broken) -> list[dict[str, Any]]:
        """Its rows. What broke is told here, by whoever asked and not by the thread that played."""
        rows = self.rows.result()
        for seed, error in self.broken:
            broken(seed, error)
        return rows


class Evaluator:
    """Where a run is evaluated: in an environment of its own, and, where that takes long and other
    cores are idle, in further ones on those.
    """

    def __init__(self, env: Guarded, others: list[int] | None = None) -> None:
        """`others`: the cores that may help; those that this process keeps off since it was pinned,
        unless told otherwise.
        """
        self.env, self._others = env, others
        self._beside: list[Guarded] = []
        self._took = 0.0  # seconds of the last evaluation that was waited for
        self._thread = ThreadPoolExecutor(1)
        self._closing = threading.Event()

    def evaluate(
        self, act: Act, seeds: list[int], broken: Broken, judge: ValueComparison | None = None
    ) -> list[dict[str, Any]]:
        """The first episode tells how long the others will take."""
        began = time.monotonic()
        rows = evaluate([self.env], act, seeds[:1], broken, judge)
        left = seeds[1:]
        with borrowed(
            len(left) - 1 if (time.monotonic() - began) * len(left) > LONG else 0, self._others
        ) as cores:
            more = evaluate([self.env, *self._on(cores)], act, left, broken, judge)
        self._took = time.monotonic() - began
        return rows + [{**row, "episode": index} for index, row in enumerate(more, 1)]

    def aside(
        self, act: Act, seeds: list[int], judge: ValueComparison | None = None
    ) -> PendingEvaluation | None:
        """The same rows from idle cores alone, while the caller goes on. None where no core is
        idle, or where waiting is a matter of a moment.
        """
        held = contextlib.ExitStack()
        cores = held.enter_context(borrowed(len(seeds) if self._took > SHORT else 0, self._others))
        if not cores:
            held.close()
            return None
        heard: list[tuple[int, BrokenEpisodeError]] = []

        def unless_closing(obs: np.ndarray) -> np.ndarray:
            if self._closing.is_set():
                raise BrokenEpisodeError("was left unfinished")
            return act(obs)

        def played() -> list[dict[str, Any]]:
            with held:
                os.sched_setaffinity(0, cores)  # of this thread, and of those that it starts
                return evaluate(
                    self._on(cores) or [self.env],
                    unless_closing,
                    seeds,
                    lambda *told: heard.append(told),
                    judge,
                )

        return PendingEvaluation(self._thread.submit(played), heard)

    def close(self) -> None:
        self._closing.set()
        self._thread.shutdown()
        for env in (self.env, *self._beside):
            env.close()

    def _on(self, cores: list[int]) -> list[Guarded]:
        """An environment in a process of its own on each of these cores; where one cannot be had,
        those that could.
        """
        with contextlib.suppress(DualacError):
            while len(self._beside) < len(cores):
                self._beside.append(self.env.elsewhere())
        ready = self._beside[: len(cores)]
        for env, core in zip(ready, cores, strict=False):
            env.move_to(core)
        return ready


def play(
    env: gymnasium.Env,
    act: Act,
    seed: int,
    each_step: Callable[[], None] = lambda: None,
    judge: ValueComparison | None = None,
) -> Played:
    """One episode. Where the environment breaks it ends, the row says so, and the error is handed
    over. Give it a `Guarded` environment.
    """
    total, length, success, steps, terminated = 0.0, 0, [], [], False
    broken: BrokenEpisodeError | None = None
    try:
        obs, _ = env.reset(seed=seed)
        each_step()
        over = False
        while not over:
            action = act(obs)
            length += 1
            seen = obs
            obs, reward, terminated, truncated, info = env.step(action)
            over = terminated or truncated
            if judge:
                steps.append((seen, action, float(reward)))
            total += float(reward)
            if "success" in info:
                success.append(bool(info["success"]))
            each_step()
    except BrokenEpisodeError as error:
        broken = error
    row: dict[str, Any] = {"return": total, "length": length}
    if success:
        row |= {"success": any(success), "success_last": success[-1]}
    if judge and steps and not broken:
        row |= judge.compare(steps, ended=terminated)
    return row | ({"bad": True, "reason": str(broken)} if broken else {}), broken


def summary(rows: list[dict[str, Any]], success: Success = "any") -> dict[str, float]:
    """The means of an evaluation, by Stable-Baselines3's names; which step decides on success is
    the protocol's to say.
    """
    returns = np.array([row["return"] for row in rows])
    means = {
        "eval/mean_reward": float(returns.mean()),
        "eval/std_reward": float(returns.std()),
        "eval/mean_ep_length": float(np.mean([row["length"] for row in rows])),
    }
    judged = [row[DECIDED_BY[success]] for row in rows if "success" in row]
    if judged:
        means["eval/success_rate"] = float(np.mean(judged))
    observed = sum(row["discounted_return"] for row in rows if "value" in row)
    if observed > 0:
        means["train/overestimation"] = (
            sum(row["value"] for row in rows if "value" in row) / observed
        )
    return means
