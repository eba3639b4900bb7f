"""What is wrong with an environment, found by playing it: a finding a line, in plain words, with
what to do about it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any, final

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.utils.env_checker import check_env

from dualac.envs import THE_PAPERS, Protocol, canonical, make
from dualac.envs.adapter import SUCCESS, Adapted
from dualac.envs.checkup.plays import (
    USUAL,
    FailedError,
    Limits,
    Play,
    Record,
    one_line,
    play_all,
    quietly,
)
from dualac.envs.foreign import ENDINGS, ignoring_errors
from dualac.errors import DualacError
from dualac.machine.children import open_answers
from dualac.machine.messages import Finding, Finished

RESUMED_AT = 37
LARGE, HUGE, ABSURD = 1e3, 1e6, 1e18  # float32 cannot hold the square of the last
SLOW = 200  # steps a second; below, it is the simulator that training waits for
MOST = 4  # things of a kind that are listed

# What Gymnasium's checker says and this library takes care of, by a phrase of it; and what is our
# doing, not the user's.
MENDED = {
    "symmetric and normalized space": (
        "it would have actions in [-1, 1]; no matter here: they are scaled to your box"
    ),
    "probably too low": (
        "it would have finite bounds; no matter here: those of observations are not used"
    ),
    "probably too high": (
        "it would have finite bounds; no matter here: those of observations are not used"
    ),
}
OURS = "different from the unwrapped version"

AS_TRUNCATED = (
    "answer truncated=True and terminated=False there, or leave it to max_episode_steps: learning "
    "counts nothing after a termination"
)
DRAW = (
    "draw from self.np_random only, after super().reset(seed=seed), not from np.random, random or "
    "the clock"
)
INEXACT = "a stopped run still resumes, but the episode it was in is cut off, and the bits differ"
BROKEN = "training cuts such an episode, and fails when there are many"


@final
class Witness(gymnasium.Wrapper):
    """Stands between the adapter and the task, and notes what in its answers is not as declared."""

    def __init__(self, env: gymnasium.Env) -> None:
        super().__init__(env)
        self.complaints: dict[Finding, None] = {}
        self.old_limit = False

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        answer = self.env.reset(seed=seed, options=options)
        if isinstance(answer, tuple):
            self._look(answer[0])
        return answer

    def step(self, action: Any) -> Any:
        answer = self.env.step(action)
        self._look(answer[0])
        self.old_limit |= isinstance(answer[-1], dict) and bool(
            answer[-1].get("TimeLimit.truncated")
        )
        return answer

    def _look(self, observation: Any) -> None:
        if len(self.complaints) >= MOST:
            return
        try:
            self.complaints |= dict.fromkeys(undeclared(self.env.observation_space, observation))
        except (KeyError, IndexError, TypeError, ValueError):
            return  # so far from what was declared that the adapter refuses it


def checkup(
    task: str, protocol: Protocol = THE_PAPERS, limits: Limits = USUAL
) -> Iterator[Finding]:
    """Every finding about a task, in the order of the checks. Where playing fails, what a play
    would have shown is left out.
    """
    name, heard = canonical(task), []
    try:
        env = quietly(lambda: make(name, protocol=protocol), heard)
    except DualacError as error:
        yield Finding("wrong", "made", one_line(error))
        return
    yield Finding("ok", "made", _sizes(env))
    if name.startswith("gym/"):
        yield from gymnasiums_own(lambda: make(name, protocol=protocol))
    witness = env.env = Witness(env.env)
    try:
        record = quietly(
            lambda: play_all(env, lambda: make(name, protocol=protocol), limits), heard
        )
    except FailedError as error:
        yield Finding("wrong", "played", str(error))
        return
    finally:
        with ignoring_errors():
            quietly(env.close)
    yield from ends(record.plays, env.cap, witness.old_limit)
    yield from seeding(record)
    yield from resume(record)
    if record.lowest.parts_from(record.highest) is None:
        yield Finding(
            "warning",
            "actions",
            f"the lowest and the highest give the same {record.lowest.length} steps: does step() "
            "use its action?",
        )
    yield from observations(env, record.plays, list(witness.complaints))
    yield rewards(record.plays)
    yield success(record.plays)
    yield speed(record.elsewhere)
    for text in list(dict.fromkeys(heard))[:MOST]:
        yield Finding("note", "says", text)


def main() -> None:
    """Send the findings to the parent: the environment may hang or crash this process."""
    send = open_answers()
    for finding in checkup(sys.argv[1], Protocol(time_limit=int(sys.argv[2]))):
        send(finding)
    send(Finished())


def gymnasiums_own(another: Callable[[], Adapted]) -> Iterator[Finding]:
    """Gymnasium's checker, on an environment of its own. Its word is a warning: what stops training
    is found by playing.
    """
    heard: list[str] = []
    stopped = None
    try:
        env = quietly(another)
        without_optimizers = (
            env.unwrapped if getattr(env.env, "env", None) is env.unwrapped else env.env
        )  # as it was written, with wrappers of the user's own
        quietly(
            lambda: check_env(without_optimizers, skip_render_check=True, skip_close_check=True),
            heard,
        )
        with ignoring_errors():
            quietly(env.close)
    except ENDINGS:
        raise
    except BaseException as error:  # assertions for the most part, and whatever foreign code raises
        stopped = one_line(error) or type(error).__name__
        yield Finding("warning", "gymnasium", f"its checker stops: {stopped}")
    said = [
        next((ours for phrase, ours in MENDED.items() if phrase in text), text)
        for text in heard
        if OURS not in text
    ]
    for text in dict.fromkeys(said):
        yield Finding("note", "gymnasium", text)
    if not stopped and not said:
        yield Finding("ok", "gymnasium", "its checker has nothing to say")


def ends(plays: list[Play], cap: int, old_limit: bool) -> Iterator[Finding]:
    """Whether episodes end, and whether a time limit is told from an end."""
    over = [play for play in plays if play.over]
    lengths = sorted(play.length for play in over)
    terminated = sum(play.terminated for play in over)
    if not over and cap:
        yield Finding(
            "ok",
            "ends",
            f"episodes are cut at {cap} steps; none ended before {plays[0].length}, where this "
            "examination left them",
        )
    elif not over:
        longest = max(play.length for play in plays)
        advice = "register it with max_episode_steps=N, or train with --protocol.time-limit N"
        yield Finding(
            "wrong",
            "ends",
            f"nothing ended an episode within {longest} steps, so an evaluation might never end: "
            f"{advice}",
        )
    elif terminated == len(plays) and lengths[0] == lengths[-1]:
        cause = (
            f"each of {len(plays)} episodes terminated at step {lengths[0]}, whatever the actions"
        )
        yield Finding("warning", "ends", f"{cause}: if that is a time limit, {AS_TRUNCATED}")
    elif terminated and old_limit:
        yield Finding(
            "warning",
            "ends",
            "info['TimeLimit.truncated'] is the old way to tell of a time limit, and not read: "
            f"{AS_TRUNCATED}",
        )
    else:
        span = f"{lengths[0]}" if lengths[0] == lengths[-1] else f"{lengths[0]} to {lengths[-1]}"
        yield Finding(
            "ok",
            "ends",
            f"{len(over)} of {len(plays)} episodes ended, after {span} steps: {terminated} "
            f"terminated, {len(over) - terminated} truncated",
        )


def seeding(record: Record) -> Iterator[Finding]:
    """Whether an episode is a function of its seed and its actions: at once, and after others, one
    of them left in its middle.
    """
    first = record.plays[0]
    parted = _first_of(first.parts_from(record.at_once), first.parts_from(record.later))
    if (
        parted is not None and first.parts_from(record.elsewhere) is None
    ):  # as long as it has lived through nothing, it does give the same
        cause = f"after other episodes the same seed and actions gave another {_where(parted)}"
        yield Finding(
            "warning",
            "seeding",
            f"{cause}: something is left from before; set every variable of an episode in reset()",
        )
    elif parted is not None:
        yield Finding(
            "warning", "seeding", f"the same seed and actions gave another {_where(parted)}: {DRAW}"
        )
    elif first.parts_from(record.other_seed) is None:
        yield Finding(
            "note",
            "seeding",
            "same seed, same episode; but another seed gives no other one: well if nothing in the "
            "task is random",
        )
    else:
        yield Finding(
            "ok",
            "seeding",
            "same seed, same episode, also after others; another seed, another episode",
        )


def resume(record: Record) -> Iterator[Finding]:
    """Whether an episode can be taken up in its middle by playing its actions again in a new
    environment, as a resumed run does.
    """
    first = record.plays[0]
    middle, parted = min(RESUMED_AT, first.length // 2), first.parts_from(record.elsewhere)
    if _first_of(first.parts_from(record.at_once), first.parts_from(record.later)) is not None:
        yield Finding("warning", "resume", f"not to the bit, for want of seeding: {INEXACT}")
    elif parted is not None:
        cause = f"a new environment gave another {_where(parted)} for the same seed and actions"
        yield Finding(
            "warning",
            "resume",
            f"{cause}: nothing of an episode may depend on what __init__ drew or on other "
            f"instances; {INEXACT}",
        )
    else:
        yield Finding(
            "ok",
            "resume",
            f"{middle} actions played again in a new environment led to the same bits, and the "
            "rest went on alike",
        )


def observations(env: Adapted, plays: list[Play], complaints: list[Finding]) -> Iterator[Finding]:
    """Whether they are finite, as declared, and of a size that a network likes."""
    seen = np.concatenate([play.observations for play in plays])
    finite = np.isfinite(seen)
    if not finite.all():
        yield Finding(
            "wrong",
            "observed",
            f"NaN or infinity in {_named(env, (~finite).any(axis=0))}: {BROKEN}",
        )
    yield from complaints[:MOST]
    seen = np.where(finite, seen, 0.0)
    large = np.abs(seen).max(axis=0) > LARGE
    if large.any():
        advice = "nothing here normalises observations; bring them near [-1, 1] yourself"
        yield Finding(
            "warning",
            "observed",
            f"up to {np.abs(seen).max():.3g} in {_named(env, large)}: {advice}",
        )
    still = np.ptp(seen, axis=0) == 0
    if still.any():
        yield Finding(
            "note",
            "observed",
            f"always the same in {_named(env, still)}: nothing can be learned from that",
        )
    if finite.all() and not complaints and not large.any():
        yield Finding(
            "ok",
            "observed",
            f"finite and as declared, between {seen.min():.3g} and {seen.max():.3g}",
        )


def rewards(plays: list[Play]) -> Finding:
    paid = np.concatenate([play.rewards for play in plays])
    if not np.isfinite(paid).all():
        return Finding("wrong", "rewards", f"NaN or infinity: {BROKEN}")
    low, high = float(paid.min()), float(paid.max())
    largest = max(-low, high)
    if largest > ABSURD:
        return Finding(
            "wrong",
            "rewards",
            f"up to {largest:.3g}: their squares are beyond float32, and learning diverges",
        )
    if largest > LARGE:
        advice = "learning may diverge; divide them, 1 a step is plenty"
        return Finding(
            "warning" if largest > HUGE else "note",
            "rewards",
            f"between {low:.3g} and {high:.3g} a step: {advice}",
        )
    if low == high:
        return Finding(
            "note",
            "rewards",
            f"always {low:.3g} under random actions: chance must find another one before there is "
            "anything to learn",
        )
    return Finding("ok", "rewards", f"between {low:.3g} and {high:.3g} a step")


def success(plays: list[Play]) -> Finding:
    told = [play for play in plays if play.successes]
    if told:
        return Finding(
            "ok",
            "success",
            f"told in info; {sum(any(play.successes) for play in told)} of {len(told)} episodes "
            "had one",
        )
    names = " or ".join(f"info[{name!r}]" for name in SUCCESS[:2])
    return Finding(
        "note",
        "success",
        f"not told: with {names} at each step, evaluations would show a success rate beside the "
        "return",
    )


def speed(play: Play) -> Finding:
    pace = play.length / max(play.seconds, 1e-9)
    return Finding(
        "note" if pace < SLOW else "ok",
        "speed",
        f"{pace:.0f} steps/s; 100k steps take {100_000 / pace / 60:.1f} minutes, learning apart",
    )


def undeclared(space: spaces.Space[Any], value: Any, place: str = "") -> Iterator[Finding]:
    """In what an observation is not of its space, part by part."""
    here = f" at {place}" if place else ""
    if isinstance(space, spaces.Dict | spaces.Tuple):
        inner = space.spaces if isinstance(space, spaces.Dict) else dict(enumerate(space.spaces))
        extra = [str(key) for key in value if key not in inner] if isinstance(value, dict) else []
        if extra:
            yield Finding(
                "warning",
                "observed",
                f"{', '.join(extra)}{here} is not declared in its space, and so not learned from",
            )
        for key, part in inner.items():
            yield from undeclared(part, value[key], f"{place}.{key}" if place else str(key))
    elif isinstance(space, spaces.Box):
        array = np.asarray(value)
        if array.shape != space.shape:
            yield Finding(
                "warning",
                "observed",
                f"shape {array.shape}{here}, while its space declares {space.shape}",
            )
        elif (
            (array < space.low) | (array > space.high)
        ).any():  # NaN is neither, and told elsewhere
            yield Finding(
                "warning",
                "observed",
                f"beyond the bounds that its space declares{here}: correct the one or the other",
            )
        if not np.can_cast(array.dtype, space.dtype):
            yield Finding(
                "note",
                "observed",
                f"{array.dtype}{here}, while its space declares {space.dtype} (no matter here: "
                "all become float32)",
            )


def _sizes(env: Adapted) -> str:
    told = env.describe()
    parts = [f"{name} {stop - start}" for name, start, stop in told["observation"] if name]
    listed = f" ({', '.join(parts[:MOST])}{', ...' * (len(parts) > MOST)})" if parts else ""
    low, high = min(told["action"]["low"]), max(told["action"]["high"])
    count = len(told["action"]["low"])
    cap = f"{env.cap} steps an episode at most" if env.cap else "nothing but itself ends an episode"
    (observations,) = env.observation_space.shape or (0,)
    return (
        f"{observations} observations{listed}, {count} action{'s' * (count > 1)} "
        f"in [{low:g}, {high:g}]; {cap}"
    )


def _named(env: Adapted, which: Any) -> str:
    """Numbers of the vector by the parts they belong to."""
    parts = env.describe()["observation"]
    names = [
        f"{name}[{index - start}]" if name else f"number {index}"
        for name, start, stop in parts
        for index in range(start, stop)
        if which[index]
    ]
    return ", ".join(names[:MOST]) + f" and {len(names) - MOST} more" * (len(names) > MOST)


def _first_of(*steps: int | None) -> int | None:
    return min((step for step in steps if step is not None), default=None)


def _where(step: int) -> str:
    return "first observation" if step == 0 else f"step {step}"


if __name__ == "__main__":
    main()
