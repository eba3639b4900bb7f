"""Numbers and names as people read them, wherever they are shown."""

import math
from collections.abc import Sequence

from dualac.analysis.statistics import FEW_SEEDS, Difference, Interval


def format_steps(number: float) -> str:
    """12400 as 12.4k."""
    for scale, letter in ((1_000_000, "M"), (1_000, "k")):
        if abs(number) >= scale:
            return f"{number / scale:.4g}{letter}"
    return f"{number:.4g}"


def format_number(value: float) -> str:
    if not math.isfinite(value):
        return "none"
    return f"{value:.3f}" if abs(value) < 10 else f"{value:.0f}"


def format_interval(found: Interval) -> str:
    if not math.isfinite(found.estimate):
        return "no score"
    ends = (
        f"[{format_number(found.low)}, {format_number(found.high)}]"
        if found.defined
        else "(one seed: no interval)"
    )
    return f"{format_number(found.estimate)} {ends}"


def format_steps_to_reach(found: Interval) -> str:
    """Steps until a score; an infinite end is beyond what was trained."""
    if not math.isfinite(found.estimate):
        return "not reached"
    ends = [format_steps(end) if math.isfinite(end) else "later" for end in (found.low, found.high)]
    return (
        f"{format_steps(found.estimate)} [{ends[0]}, {ends[1]}]"
        if found.defined
        else format_steps(found.estimate)
    )


def format_count(number: int, thing: str) -> str:
    return f"{number} {thing}{'' if number == 1 else 's'}"


def format_range(counts: Sequence[int]) -> str:
    """Numbers of seeds: 5, or 3 to 5."""
    low, high = min(counts, default=0), max(counts, default=0)
    return f"{low}" if low == high else f"{low} to {high}"


def join_names(names: Sequence[str], most: int = 6) -> str:
    """a, b and c; of many, the first and how many more."""
    shown = [*names[:most], *([f"{len(names) - most} more"] if len(names) > most else [])]
    return " and ".join([", ".join(shown[:-1]), shown[-1]] if len(shown) > 1 else shown)


def describe_difference(ours: str, theirs: str, found: Difference, seeds: str) -> str:
    """The honest sentence about two algorithms."""
    if not math.isfinite(found.interval.estimate):
        return f"{ours} and {theirs} have no task in common."
    if not found.interval.defined:
        return f"{ours} and {theirs} are not separable: one seed has no spread to judge by."
    by = f"{'+' if found.interval.estimate >= 0 else ''}{format_interval(found.interval)}"
    if found.separable:
        return (
            f"{ours} is {'above' if found.interval.estimate > 0 else 'below'} {theirs}: {by} with "
            f"{seeds} seeds."
        )
    if found.flat and math.isfinite(found.more_seeds):
        return (
            f"{ours} and {theirs} are not separable with {seeds} seeds ({by}): fewer than "
            f"{FEW_SEEDS} seeds without any spread are no certainty."
        )
    if math.isinf(found.more_seeds):
        advice = "no number of seeds up to 1000 would separate them at the observed spread"
    else:
        advice = (
            f"about {format_count(int(found.more_seeds), 'more seed')} of each would separate them "
            "at the observed spread"
        )
    return f"{ours} and {theirs} are not separable with {seeds} seeds ({by}); {advice}."


def printable(text: str) -> str:
    """Without what could steer a terminal."""
    return "".join(letter if letter.isprintable() else "�" for letter in text)
