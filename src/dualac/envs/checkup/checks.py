"""The checks of a checkup: each finds in what was played what would hinder training."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from dualac.envs.adapter import LONGEST_UNLIMITED, SUCCESS, Adapted
from dualac.envs.checkup.plays import Play, Record
from dualac.machine.messages import Finding

RESUMED_AT = 37
LARGE, HUGE, ABSURD = 1e3, 1e6, 1e18  # float32 cannot hold the square of the last
SLOW = 200  # steps a second; below, it is the simulator that training waits for
MOST = 4  # things of a kind that are listed

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


def check_sizes(env: Adapted) -> Finding:
    """Report the sizes of a task that could be made."""
    described = env.describe()
    parts = [f"{name} {stop - start}" for name, start, stop in described["observation"] if name]
    listed = f" ({_shorten(parts, ', ...')})" if parts else ""
    low, high = described["action"]["low"], described["action"]["high"]
    actions = f"{len(low)} action{'s' * (len(low) > 1)} in [{min(low):g}, {max(high):g}]"
    cap = f"{env.cap} steps an episode at most" if env.cap else "nothing but itself ends an episode"
    (count,) = env.observation_space.shape or (0,)
    return Finding("ok", "made", f"{count} observations{listed}, {actions}; {cap}")


def check_ends(env: Adapted, plays: list[Play], old_limit: bool) -> Finding:
    """Check that episodes end, and that a time limit is not reported as a termination."""
    over = [play for play in plays if play.over and not _was_cut_by_us(env, play)]
    lengths = sorted(play.length for play in over)
    terminated = sum(play.terminated for play in over)
    if not over and not env.unlimited:
        text = (
            f"{_longest(env)}; none ended before {plays[0].length}, where this "
            "examination left them"
        )
        return Finding("ok", "ends", text)
    if not over:
        longest = max(play.length for play in plays)
        text = (
            f"nothing ended an episode within {longest} steps, and training cuts it after "
            f"{LONGEST_UNLIMITED}: register it with max_episode_steps=N, or train with "
            "--time-limit N"
        )
        return Finding("warning", "ends", text)
    if terminated == len(plays) and lengths[0] == lengths[-1]:
        text = (
            f"each of {len(plays)} episodes terminated at step {lengths[0]}, whatever the "
            f"actions: if that is a time limit, {AS_TRUNCATED}"
        )
        return Finding("warning", "ends", text)
    if terminated and old_limit:
        text = (
            "info['TimeLimit.truncated'] is the old way to report a time limit, and not read: "
            f"{AS_TRUNCATED}"
        )
        return Finding("warning", "ends", text)
    span = f"{lengths[0]}" if lengths[0] == lengths[-1] else f"{lengths[0]} to {lengths[-1]}"
    text = (
        f"{len(over)} of {len(plays)} episodes ended, after {span} steps: {terminated} "
        f"terminated, {len(over) - terminated} truncated"
    )
    return Finding("ok", "ends", text)


def _was_cut_by_us(env: Adapted, play: Play) -> bool:
    return env.unlimited and play.length == LONGEST_UNLIMITED and not play.terminated


def _longest(env: Adapted) -> str:
    return f"episodes are cut at {env.cap} steps" if env.cap else "episodes have a time limit"


def check_seeding(record: Record) -> Finding:
    """Check that an episode is a function of seed and actions: at once, and after others."""
    first = record.plays[0]
    differs = _first_difference(record)
    if differs is not None and first.parts_from(record.elsewhere) is None:
        # A new environment, which has played nothing before, does give the same episode.
        text = (
            f"after other episodes the same seed and actions gave another {_where(differs)}: "
            "something is left from before; set every variable of an episode in reset()"
        )
        return Finding("warning", "seeding", text)
    if differs is not None:
        text = f"the same seed and actions gave another {_where(differs)}: {DRAW}"
        return Finding("warning", "seeding", text)
    if first.parts_from(record.other_seed) is None:
        text = (
            "same seed, same episode; but another seed gives no other one: well if nothing in the "
            "task is random"
        )
        return Finding("note", "seeding", text)
    text = "same seed, same episode, also after others; another seed, another episode"
    return Finding("ok", "seeding", text)


def check_resume(record: Record) -> Finding:
    """Check that a new environment comes to an episode's middle by its actions, as resumes do."""
    first = record.plays[0]
    middle = min(RESUMED_AT, first.length // 2)
    differs = first.parts_from(record.elsewhere)
    if _first_difference(record) is not None:
        return Finding("warning", "resume", f"not to the bit, for want of seeding: {INEXACT}")
    if differs is not None:
        text = (
            f"a new environment gave another {_where(differs)} for the same seed and actions: "
            "nothing of an episode may depend on what __init__ drew or on other instances; "
            f"{INEXACT}"
        )
        return Finding("warning", "resume", text)
    text = (
        f"{middle} actions played again in a new environment led to the same bits, and the rest "
        "went on alike"
    )
    return Finding("ok", "resume", text)


def check_actions(record: Record) -> Iterator[Finding]:
    """Check that actions have an effect."""
    if record.lowest.parts_from(record.highest) is None:
        text = (
            f"the lowest and the highest give the same {record.lowest.length} steps: does step() "
            "use its action?"
        )
        yield Finding("warning", "actions", text)


def check_observations(
    env: Adapted, plays: list[Play], undeclared: list[Finding]
) -> Iterator[Finding]:
    """Check that observations are finite, as declared, and of a size that a network likes."""
    rows = np.concatenate([play.observations for play in plays])
    finite = np.isfinite(rows)
    if not finite.all():
        names = _names(env, (~finite).any(axis=0))
        yield Finding("wrong", "observed", f"NaN or infinity in {names}: {BROKEN}")
    yield from undeclared[:MOST]
    rows = np.where(finite, rows, 0.0)
    large = np.abs(rows).max(axis=0) > LARGE
    if large.any():
        text = (
            f"up to {np.abs(rows).max():.3g} in {_names(env, large)}: nothing here normalises "
            "observations; bring them near [-1, 1] yourself"
        )
        yield Finding("warning", "observed", text)
    constant = np.ptp(rows, axis=0) == 0
    if constant.any():
        names = _names(env, constant)
        text = f"always the same in {names}: nothing can be learned from that"
        yield Finding("note", "observed", text)
    if finite.all() and not undeclared and not large.any():
        text = f"finite and as declared, between {rows.min():.3g} and {rows.max():.3g}"
        yield Finding("ok", "observed", text)


def check_rewards(plays: list[Play]) -> Finding:
    """Check that rewards are finite, vary, and are of a size that can be learned from."""
    rewards = np.concatenate([play.rewards for play in plays])
    if not np.isfinite(rewards).all():
        return Finding("wrong", "rewards", f"NaN or infinity: {BROKEN}")
    low, high = float(rewards.min()), float(rewards.max())
    largest = max(-low, high)
    if largest > ABSURD:
        text = f"up to {largest:.3g}: their squares are beyond float32, and learning diverges"
        return Finding("wrong", "rewards", text)
    if largest > LARGE:
        text = (
            f"between {low:.3g} and {high:.3g} a step: learning may diverge; divide them, 1 a step "
            "is plenty"
        )
        return Finding("warning" if largest > HUGE else "note", "rewards", text)
    if low == high:
        text = (
            f"always {low:.3g} under random actions: chance must find another one before there is "
            "anything to learn"
        )
        return Finding("note", "rewards", text)
    return Finding("ok", "rewards", f"between {low:.3g} and {high:.3g} a step")


def check_success(plays: list[Play]) -> Finding:
    """Check that the task reports success."""
    judged = [play for play in plays if play.successes]
    if judged:
        count = sum(any(play.successes) for play in judged)
        text = f"reported in info; {count} of {len(judged)} episodes had one"
        return Finding("ok", "success", text)
    names = " or ".join(f"info[{name!r}]" for name in SUCCESS[:2])
    text = (
        f"not reported: with {names} at each step, evaluations would show a success rate beside "
        "the return"
    )
    return Finding("note", "success", text)


def check_speed(play: Play) -> Finding:
    """Report how fast the environment steps."""
    pace = play.length / max(play.seconds, 1e-9)
    minutes = 100_000 / pace / 60
    text = f"{pace:.0f} steps/s; 100k steps take {minutes:.1f} minutes, learning apart"
    return Finding("note" if pace < SLOW else "ok", "speed", text)


def _names(env: Adapted, which: Any) -> str:
    """Name numbers of the vector by the parts they belong to."""
    names = [
        f"{name}[{index - start}]" if name else f"number {index}"
        for name, start, stop in env.describe()["observation"]
        for index in range(start, stop)
        if which[index]
    ]
    return _shorten(names, f" and {len(names) - MOST} more")


def _shorten(names: list[str], rest: str) -> str:
    return ", ".join(names[:MOST]) + rest * (len(names) > MOST)


def _first_difference(record: Record) -> int | None:
    """Find the step at which the first episode, played again, is another."""
    first = record.plays[0]
    steps = [first.parts_from(record.at_once), first.parts_from(record.later)]
    return min((step for step in steps if step is not None), default=None)


def _where(step: int) -> str:
    return "first observation" if step == 0 else f"step {step}"
