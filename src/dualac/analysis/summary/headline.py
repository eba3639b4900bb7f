"""What the numbers say in a few sentences, and first of all what they cannot say."""

import math
from collections import Counter

from dualac.analysis.statistics import FEW_SEEDS
from dualac.analysis.summary import wording
from dualac.analysis.summary.panel import Comparison, Panel
from dualac.analysis.summary.summarise import Summary
from dualac.parts.text import format_steps

MOST_NEAR = 3  # agents that are not separable from the best and get a sentence of their own


def headline(summary: Summary) -> list[str]:
    """Say what the numbers say, a sentence or more for each panel."""
    if not summary.frame.runs:
        return ["No run was found here. dualac train makes some."]
    if not summary.groups:
        return ["Every run that was found was left out; the problems below say why."]
    scored = [panel for panel in summary.panels if panel.tasks]
    sentences = [_describe(panel) for panel in scored] or [_why_no_scores(summary)]
    if summary.grouped.apart:
        sentences.append(
            f"{wording.join_names(summary.grouped.apart)}: under other rules than the rest, so a "
            "difference from it may be the rules', not the agent's."
        )
    return sentences + _unfinished(summary)


def _why_no_scores(summary: Summary) -> str:
    if summary.unscaled and len(summary.unscaled) == len(summary.tasks):
        return (
            "No task here has known bounds, so there are no scores to aggregate: the curves show "
            "returns. --bounds LOW,HIGH gives bounds."
        )
    return (
        "No task was evaluated by all algorithms yet, so nothing is aggregated: the curves show "
        "what there is."
    )


def _unfinished(summary: Summary) -> list[str]:
    states = Counter(run.status.state for group in summary.groups for run in group.runs)
    going = [f"{states[state]} {state}" for state in ("running", "interrupted") if states[state]]
    if summary.frame.missing:
        going.append(f"{len(summary.frame.missing)} of the plan not begun")
    sentences = []
    if going:
        sentences.append(f"Not finished: {wording.join_names(going)}. These numbers will change.")
    if states["failed"]:
        runs = wording.format_count(states["failed"], "run")
        counts = "counts" if states["failed"] == 1 else "count"
        sentences.append(f"{runs} failed, and {counts} only up to where.")
    return sentences


def _describe(panel: Panel) -> str:
    """Say who is best in a panel, above whom, and from whom it is not separable."""
    best, names = panel.ranked()[0], panel.names()
    score, first = panel.aggregates[best.label]["IQM"], names[best.label]
    what = "the mean score up to" if panel.area else "the score at"
    start = (
        f"{panel.title[:1].upper()}{panel.title[1:]} ({what} {format_steps(panel.at)} steps, "
        f"{wording.format_count(len(panel.tasks), 'task')}): "
    )
    if not math.isfinite(score.estimate):
        return f"{start}no run has a score."
    if len(panel.groups) == 1:
        seeds = wording.format_range(panel.seeds(best.label))
        sentence = f"{start}{first} has an IQM of {wording.format_interval(score)}, seeds: {seeds}."
        return " ".join([sentence, *_uncounted(panel), "There is nothing to compare it with."])
    sentences = [f"{start}{first} has the highest IQM, {wording.format_interval(score)}."]
    sentences += _uncounted(panel) + _separable(panel) + _near(panel, first)
    if min(count for group in panel.groups for count in panel.seeds(group.label)) < FEW_SEEDS:
        sentences.append(
            f"Intervals of fewer than {FEW_SEEDS} seeds are narrower than they should be."
        )
    return " ".join(sentences + _reached(panel, best.label))


def _separable(panel: Panel) -> list[str]:
    above = [one for one in panel.comparisons if one.difference.separable]
    if not above:
        return []
    names = panel.names()
    by = [
        f"{names[one.theirs]} by {wording.format_interval(one.difference.interval)} with "
        f"{_seeds(panel, one)} seeds"
        for one in above
    ]
    chance = min(one.probability.estimate for one in above)
    return [
        f"It is above {wording.join_names(by)}; a run of it beats one of theirs with probability "
        f"{chance:.2f} at least."
    ]


def _near(panel: Panel, best: str) -> list[str]:
    """Say from whom the best is not separable, and what that would take."""
    names = panel.names()
    near = [one for one in panel.comparisons if not one.difference.separable]
    sentences = []
    for one in near[:MOST_NEAR]:
        theirs = names[one.theirs]
        sentence = wording.describe_difference(best, theirs, one.difference, _seeds(panel, one))
        if one.probability.defined:
            sentence += f" P({best} beats {theirs}) is {_format_chance(panel, one)}."
        sentences.append(sentence)
    if len(near) > MOST_NEAR:
        others = wording.join_names([names[one.theirs] for one in near[MOST_NEAR:]])
        sentences.append(f"Nor is it separable from {others}.")
    return sentences


def _format_chance(panel: Panel, comparison: Comparison) -> str:
    """Write a chance; of few seeds without its interval, which may be a point and mean nothing."""
    seeds = [*panel.seeds(comparison.ours), *panel.seeds(comparison.theirs)]
    if min(seeds) < FEW_SEEDS:
        return wording.format_number(comparison.probability.estimate)
    return wording.format_interval(comparison.probability)


def _reached(panel: Panel, label: str) -> list[str]:
    """Say in what share of the steps the best came to the score of the next."""
    for reached in panel.reached:
        if reached.label != label or not math.isfinite(reached.steps.estimate):
            continue
        if panel.area or not math.isfinite(reached.share):
            return []
        return [
            f"It reaches the final score of {panel.names()[reached.other]}, "
            f"{wording.format_number(reached.target)}, in {reached.share:.0%} of the steps."
        ]
    return []


def _seeds(panel: Panel, comparison: Comparison) -> str:
    return wording.format_range([*panel.seeds(comparison.ours), *panel.seeds(comparison.theirs)])


def _uncounted(panel: Panel) -> list[str]:
    names = panel.names()
    uncounted = []
    for label, tasks in panel.counts().items():
        without = sum(runs - seeds for seeds, runs in tasks)
        if without:
            uncounted.append(f"{names[label]} {without} of {sum(runs for _, runs in tasks)}")
    if not uncounted:
        return []
    return [f"Runs without a score there, and not counted: {wording.join_names(uncounted)}."]
