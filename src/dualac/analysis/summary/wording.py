"""Numbers and names as people read them, wherever they are shown."""

import math
from collections.abc import Sequence

from dualac.analysis.statistics import FEW_SEEDS, MOST_SEEDS, Difference, Interval
from dualac.parts.text import format_steps


def format_number(value: float) -> str:
    if not math.isfinite(value):
        return "none"
    return f"{value:.3f}" if abs(value) < 10 else f"{value:.0f}"


def format_ends(low: float, high: float) -> str:
    return f"[{format_number(low)}, {format_number(high)}]"


def format_interval(interval: Interval) -> str:
    if not math.isfinite(interval.estimate):
        return "no score"
    if not interval.defined:
        return f"{format_number(interval.estimate)} (one seed: no interval)"
    return f"{format_number(interval.estimate)} {format_ends(interval.low, interval.high)}"


def format_steps_to_reach(interval: Interval) -> str:
    """Write the steps until a score; an infinite end is beyond what was trained."""
    if not math.isfinite(interval.estimate):
        return "not reached"
    if not interval.defined:
        return format_steps(interval.estimate)
    low, high = (
        format_steps(end) if math.isfinite(end) else "later"
        for end in (interval.low, interval.high)
    )
    return f"{format_steps(interval.estimate)} [{low}, {high}]"


def format_count(number: int, thing: str) -> str:
    return f"{number} {thing}{'' if number == 1 else 's'}"


def format_range(counts: Sequence[int]) -> str:
    """Write numbers of seeds: 5, or 3 to 5."""
    low, high = min(counts, default=0), max(counts, default=0)
    return f"{low}" if low == high else f"{low} to {high}"


def join_names(names: Sequence[str], most: int = 6) -> str:
    """Join names to `a, b and c`; of many, the first and how many more."""
    listed = list(names[:most])
    if len(names) > most:
        listed.append(f"{len(names) - most} more")
    if len(listed) < 2:
        return "".join(listed)
    return f"{', '.join(listed[:-1])} and {listed[-1]}"


def describe_difference(ours: str, theirs: str, difference: Difference, seeds: str) -> str:
    interval = difference.interval
    if not math.isfinite(interval.estimate):
        return f"{ours} and {theirs} have no task in common."
    if not interval.defined:
        return f"{ours} and {theirs} are not separable: one seed has no spread to judge by."
    by = f"{'+' if interval.estimate >= 0 else ''}{format_interval(interval)}"
    if difference.separable:
        side = "above" if interval.estimate > 0 else "below"
        return f"{ours} is {side} {theirs}: {by} with {seeds} seeds."
    start = f"{ours} and {theirs} are not separable with {seeds} seeds ({by})"
    if difference.flat and math.isfinite(difference.more_seeds):
        return f"{start}: fewer than {FEW_SEEDS} seeds without any spread are no certainty."
    if math.isinf(difference.more_seeds):
        advice = f"no number of seeds up to {MOST_SEEDS} would separate them"
    else:
        more = format_count(int(difference.more_seeds), "more seed")
        advice = f"about {more} of each would separate them"
    return f"{start}; {advice} at the observed spread."


def printable(text: str) -> str:
    """Replace what could steer a terminal."""
    return "".join(letter if letter.isprintable() else "�" for letter in text)
