"""Episodes played for a checkup, and what an environment raises, prints or warns of meanwhile."""

from __future__ import annotations

import itertools
import logging
import re
import time
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, final

import numpy as np

from dualac.envs.adapter import Adapted
from dualac.envs.foreign import ignoring_errors, is_ctrl_c
from dualac.envs.suites.packages import LOGGER, silence
from dualac.errors import DualacError

BRIEF = 50  # steps, where a glance is enough
TERMINAL_COLOUR = re.compile(r"\x1b\[[0-9;]*m")

T = TypeVar("T")


class Limits(NamedTuple):
    """How long a play lasts at most, by steps and by the clock."""

    steps: int = 1000  # what can be seen is seen by then
    seconds: float = 0.5
    # An episode that nothing caps is called endless only after these; one that is played again has
    # as many seconds.
    uncapped_steps: int = 10_000
    uncapped_seconds: float = 3.0
    clock: Callable[[], float] = time.perf_counter


USUAL = Limits()


class Play(NamedTuple):
    """An episode, or its beginning: actions, what followed, how it ended, how long it took."""

    actions: np.ndarray
    observations: np.ndarray
    rewards: np.ndarray
    successes: list[bool]
    terminated: bool
    truncated: bool
    seconds: float

    @property
    def length(self) -> int:
        return len(self.rewards)

    @property
    def over(self) -> bool:
        return self.terminated or self.truncated

    def parts_from(self, other: Play) -> int | None:
        """Find the first step (0: reset) at which two plays differ in a bit, if any."""
        common = min(self.length, other.length)
        for step in range(common + 1):
            if self.observations[step].tobytes() != other.observations[step].tobytes():
                return step
            if step and self.rewards[step - 1].tobytes() != other.rewards[step - 1].tobytes():
                return step
        ends = [
            (play.terminated, play.truncated) if play.length == common else (False, False)
            for play in (self, other)
        ]
        return None if ends[0] == ends[1] else common


class Record(NamedTuple):
    """All that was played."""

    plays: list[Play]  # episodes of several seeds; the first of them is played again below
    at_once: Play
    later: Play  # after other episodes
    elsewhere: Play  # in a new environment
    other_seed: Play  # the same actions after another seed
    lowest: Play  # the beginning of an episode under the lowest actions
    highest: Play


class FailedError(Exception):
    """The environment raised; the text says where and what."""


@final
class Listener(logging.Handler):
    """A handler that keeps what is logged."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(one_line(record.getMessage()))


def play_all(env: Adapted, another: Callable[[], Adapted], limits: Limits) -> Record:
    """Play every episode that the checks look at, the first one also in `another` environment."""
    size: Any = env.action_space.shape
    patient = limits._replace(seconds=limits.uncapped_seconds)
    endless = patient._replace(steps=limits.uncapped_steps)
    first = _play(env, 0, _random(0, size), endless if env.unlimited else limits)
    plays = [first, *(_play(env, seed, _random(seed, size), limits) for seed in (1, 2))]
    plays += [
        _play(env, 3, itertools.repeat(np.full(size, value, np.float32)), limits)
        for value in (0.0, 1.0)
    ]
    actions = first.actions[: limits.steps]
    at_once = _play(env, 0, actions, patient)
    _play(env, 1, actions[:5], limits)  # left in its middle, as training leaves a broken one
    later = _play(env, 0, actions, patient)
    other_seed = _play(env, 1, actions[:BRIEF], limits)
    lowest, highest = (
        _play(env, 0, np.full((BRIEF, *size), value, np.float32), limits) for value in (-1, 1)
    )
    try:
        fresh = another()
    except DualacError as error:
        raise FailedError(
            "a second one cannot be made beside it, and training needs two, one to evaluate in: "
            f"{one_line(error)}"
        ) from error
    elsewhere = _play(fresh, 0, actions, patient)
    with ignoring_errors():
        fresh.close()
    return Record(plays, at_once, later, elsewhere, other_seed, lowest, highest)


def _play(env: Adapted, seed: int, actions: Iterable[np.ndarray], limits: Limits) -> Play:
    """Play from a reset until the episode, the actions or a limit ends."""
    observations = [_naming_the_place("reset()", lambda: env.reset(seed=seed))[0]]
    taken: list[np.ndarray] = []
    rewards: list[float] = []
    successes: list[bool] = []
    terminated = truncated = False
    began = limits.clock()
    for action in itertools.islice(actions, limits.steps):
        obs, reward, terminated, truncated, info = _naming_the_place(
            f"step {len(taken) + 1}", lambda action=action: env.step(action)
        )
        taken.append(action)
        observations.append(obs)
        rewards.append(reward)
        if "success" in info:
            successes.append(info["success"])
        if terminated or truncated or limits.clock() - began > limits.seconds:
            break
    return Play(
        np.array(taken),
        np.array(observations),
        np.array(rewards, np.float64),
        successes,
        terminated,
        truncated,
        limits.clock() - began,
    )


def _naming_the_place(place: str, call: Callable[[], T]) -> T:
    """Call the environment; say in which of its calls and lines it failed, if it does."""
    try:
        return call()
    except DualacError as error:
        raise FailedError(f"{place}: {one_line(error)}") from error
    except BaseException as error:  # the user's own code
        if is_ctrl_c(error):
            raise
        last = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{Path(last.filename).name}, line {last.lineno}"
        raise FailedError(
            f"{place} raised {type(error).__name__}: {one_line(error)} ({where}); mend it, or end "
            "the episode there"
        ) from error


def quietly(work: Callable[[], T], notices: list[str] | None = None) -> T:
    """Run `work` without its prints; add to `notices` what it, or this library, warns of."""
    caught: list[warnings.WarningMessage] = []
    listener = Listener()
    LOGGER.addHandler(listener)
    try:
        with silence(), warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            # Garbage may be collected meanwhile that is not of this work.
            warnings.simplefilter("ignore", ResourceWarning)
            return work()
    finally:
        LOGGER.removeHandler(listener)
        if notices is not None:
            notices += listener.texts
            notices += [one_line(warning.message).removeprefix("WARN: ") for warning in caught]


def _random(seed: int, size: tuple[int, ...]) -> Iterator[np.ndarray]:
    draw = np.random.default_rng(seed)
    while True:
        yield draw.uniform(-1, 1, size).astype(np.float32)


def one_line(error: object) -> str:
    """Write an error, or anything else, on one line and without colours."""
    return " ".join(TERMINAL_COLOUR.sub("", str(error)).split())
