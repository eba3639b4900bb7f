"""What a report says in words: the headline, what is wrong, and the commands that would make the
runs again.
"""

import json
import math
import shlex
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from dualac.analysis.data.completeness import cells
from dualac.analysis.data.frame import RunRecord
from dualac.analysis.data.groups import Group, short
from dualac.analysis.statistics import FEW_SEEDS
from dualac.analysis.summary.summarise import Comparison, Panel, Summary
from dualac.analysis.summary.wording import (
    describe_difference,
    format_count,
    format_interval,
    format_number,
    format_range,
    format_steps,
    join_names,
)
from dualac.runs.versions import ADDED

MOST_LISTED = 50
SPELT_OUT = ("steps", "replay_ratio", "eval_every")  # of a command, whatever their defaults


class Problem(NamedTuple):
    kind: str
    text: str


def headline(summary: Summary) -> list[str]:
    """What the numbers say, in sentences; first of all what they cannot say."""
    if not summary.frame.runs:
        return ["No run was found here. dualac train makes some."]
    if not summary.groups:
        return ["Every run that was found was left out; the problems below say why."]
    told = []
    if not any(panel.tasks for panel in summary.panels):
        if summary.unscaled and len(summary.unscaled) == len(summary.tasks):
            told.append(
                "No task here has known bounds, so there are no scores to aggregate: the curves "
                "show returns. --bounds LOW,HIGH gives bounds."
            )
        else:
            told.append(
                "No task was evaluated by all algorithms yet, so nothing is aggregated: the "
                "curves show what there is."
            )
    for panel in summary.panels:
        if panel.tasks:
            told.append(_about(panel))
    if summary.grouped.apart:
        told.append(
            f"{join_names(summary.grouped.apart)}: under other rules than the rest, so a "
            "difference from it may be the rules', not the agent's."
        )
    states = Counter(run.status.state for one in summary.groups for run in one.runs)
    going = [f"{states[state]} {state}" for state in ("running", "interrupted") if states[state]]
    going += (
        [f"{len(summary.frame.missing)} of the plan not begun"] if summary.frame.missing else []
    )
    told += [f"Not finished: {join_names(going)}. These numbers will change."] if going else []
    told += (
        [
            f"{format_count(states['failed'], 'run')} failed, and "
            f"count{'s' * (states['failed'] == 1)} only up to where."
        ]
        if states["failed"]
        else []
    )
    return told


def _about(panel: Panel) -> str:
    best, names = panel.ranked()[0], panel.names()
    found, first = panel.aggregates[best.label]["IQM"], names[best.label]
    what = "the mean score up to" if panel.area else "the score at"
    start = (
        f"{panel.title[:1].upper()}{panel.title[1:]} ({what} {format_steps(panel.at)} steps, "
        f"{format_count(len(panel.tasks), 'task')}): "
    )
    if not math.isfinite(found.estimate):
        return f"{start}no run has a score."
    if len(panel.groups) == 1:
        told = (
            f"{start}{first} has an IQM of {format_interval(found)}, seeds: "
            f"{format_range(panel.seeds(best.label))}."
        )
        return " ".join([told, *_uncounted(panel), "There is nothing to compare it with."])
    words = [f"{start}{first} has the highest IQM, {format_interval(found)}."]
    words += _uncounted(panel)
    above = [one for one in panel.comparisons if one.difference.separable]
    near = [one for one in panel.comparisons if not one.difference.separable]
    if above:
        chance = min(one.probability.estimate for one in above)
        by = [
            f"{names[one.theirs]} by {format_interval(one.difference.interval)} with "
            f"{_seeds(panel, one)} seeds"
            for one in above
        ]
        words.append(
            f"It is above {join_names(by)}; a run of it beats one of theirs with probability "
            f"{chance:.2f} at least."
        )
    for one in near[:3]:
        few = (
            min([*panel.seeds(one.ours), *panel.seeds(one.theirs)]) < FEW_SEEDS
        )  # whose interval may be a point, and mean nothing
        chance = (
            format_number(one.probability.estimate) if few else format_interval(one.probability)
        )
        chance = (
            f" P({first} beats {names[one.theirs]}) is {chance}." if one.probability.defined else ""
        )
        words.append(
            describe_difference(first, names[one.theirs], one.difference, _seeds(panel, one))
            + chance
        )
    if len(near) > 3:
        words.append(
            f"Nor is it separable from {join_names([names[one.theirs] for one in near[3:]])}."
        )
    if min(count for one in panel.groups for count in panel.seeds(one.label)) < FEW_SEEDS:
        words.append(f"Intervals of fewer than {FEW_SEEDS} seeds are narrower than they should be.")
    reached = next(
        (
            one
            for one in panel.reached
            if one.label == best.label and math.isfinite(one.steps.estimate)
        ),
        None,
    )
    if reached and not panel.area and math.isfinite(reached.share):
        words.append(
            f"It reaches the final score of {names[reached.other]}, "
            f"{format_number(reached.target)}, in {reached.share:.0%} of the steps."
        )
    return " ".join(words)


def _seeds(panel: Panel, one: Comparison) -> str:
    return format_range([*panel.seeds(one.ours), *panel.seeds(one.theirs)])


def _uncounted(panel: Panel) -> list[str]:
    names = panel.names()
    lost = {
        names[label]: (sum(of - some for some, of in tasks), sum(of for _, of in tasks))
        for label, tasks in panel.counts().items()
    }
    told = [f"{name} {none} of {of}" for name, (none, of) in lost.items() if none]
    return [f"Runs without a score there, and not counted: {join_names(told)}."] if told else []


def problems(summary: Summary) -> list[Problem]:
    """Everything a reader should know before believing a number."""
    runs = [run for one in summary.groups for run in one.runs]
    found = [Problem("damaged", str(one)) for one in summary.frame.damaged]
    found += [
        Problem("refused", f"{run.path}: {reason}; --unlike separate keeps it apart")
        for run, reason in summary.grouped.refused
    ]
    found += [Problem("copy", note) for note in summary.grouped.notes]
    for one in summary.groups:
        if one.overrides:
            told = join_names(
                [
                    f"{path.removeprefix('algorithm.')}={short(value)}"
                    for path, value in one.overrides.items()
                ],
                12,
            )
            found.append(
                Problem("settings", f"{one.label} departs from the {one.name} of the table: {told}")
            )
    for run in runs:
        found += _about_run(run)
    for cell in cells(summary.groups, summary.frame.missing):
        if cell.counts()["missing"] and cell.runs:
            gone = [str(seed) for seed, state in cell.seeds.items() if state == "missing"]
            found.append(
                Problem(
                    "missing",
                    f"{cell.label} on {cell.task}: without seed{'s' * (len(gone) > 1)} "
                    f"{join_names(gone)}, n = {len(cell.runs)} of {len(cell.seeds)}",
                )
            )
    if summary.frame.missing:
        names = sorted({f"{one.name} on {one.task}" for one in summary.frame.missing})
        found.append(
            Problem(
                "missing",
                f"{format_count(len(summary.frame.missing), 'run')} of the plan not begun: "
                f"{join_names(names)}",
            )
        )
    for panel in summary.panels:
        found += _about_panel(panel)
    if summary.unscaled:
        told = (
            f"{join_names(summary.unscaled)}: no bounds are known, so returns are plotted and "
            "enter no aggregate; --bounds LOW,HIGH gives bounds"
        )
        found.append(Problem("no bounds", told))
    return found + _about_machines(runs)


def _about_run(run: RunRecord) -> list[Problem]:
    name = f"{run.path} ({run.name}, {run.task}, seed {run.seed})"
    found = []
    if run.status.state in ("failed", "interrupted"):
        reason = f": {run.status.reason}" if run.status.reason else ""
        found.append(
            Problem(
                run.status.state,
                f"{name} at step {format_steps(run.status.step)} of {format_steps(run.steps)}"
                f"{reason}",
            )
        )
    resumed = run.count("resumed")
    if resumed:
        found.append(Problem("resumed", f"{name}: {format_count(resumed, 'time')}"))
    if run.count("inexact_resume"):
        found.append(
            Problem(
                "inexact",
                f"{name}: resumed on another machine or version, no longer exact to the bit",
            )
        )
    bad = run.count("bad_transition", "bad_evaluation")
    if bad:
        found.append(Problem("bad episodes", f"{name}: {format_count(bad, 'episode')} broke"))
    lost = int((~np.isfinite(run.evaluations["return"])).sum())
    if lost:
        found.append(
            Problem(
                "diverged",
                f"{name}: {format_count(lost, 'evaluation episode')} without a finite return",
            )
        )
    if not len(run.evaluations["step"]):
        found.append(Problem("no evaluation", f"{name} has none yet"))
    return found


def _about_panel(panel: Panel) -> list[Problem]:
    found = []
    few = [
        one.label for one in panel.groups if panel.tasks and min(panel.seeds(one.label)) < FEW_SEEDS
    ]
    if few:
        told = (
            f"{panel.title}: fewer than {FEW_SEEDS} seeds of {join_names(few)}; bootstrap "
            "intervals of so few are too narrow (docs/report.md)"
        )
        found.append(Problem("few seeds", told))
    if panel.left_out:
        found.append(
            Problem(
                "tasks left out",
                f"{panel.title}: not every algorithm has come so far on "
                f"{join_names(panel.left_out)}",
            )
        )
    if panel.apart:
        told = (
            f"{panel.title}: {join_names([one.label for one in panel.apart])} too far behind to be "
            "compared with the others"
        )
        found.append(Problem("not compared", told))
    if panel.title.startswith("unlike"):
        found.append(
            Problem(
                "unlike replay ratios",
                "algorithms are compared across replay ratios: more updates, not only another "
                "algorithm",
            )
        )
    return found


def _about_machines(runs: Sequence[RunRecord]) -> list[Problem]:
    """Versions that differ between runs and are not the simulator's, which would have been
    refused.
    """
    seen: dict[str, set[str]] = defaultdict(set)
    for run in runs:
        for name, version in run.versions.items():
            seen[name].add(str(version))
        for fact in ("dualac", "commit", "cpu"):
            if run.machine.get(fact):
                seen[fact].add(
                    str(run.machine[fact])[:12] if fact == "commit" else str(run.machine[fact])
                )
    found = [
        Problem("versions", f"{name} differs between runs: {join_names(sorted(some))}")
        for name, some in sorted(seen.items())
        if len(some) > 1
    ]
    dirty = sum(bool(run.machine.get("dirty")) for run in runs)
    unknown = sum(not run.machine for run in runs)
    found += (
        [
            Problem(
                "versions",
                f"{format_count(dirty, 'run')} of a working tree with changes that no commit has",
            )
        ]
        if dirty
        else []
    )
    return found + (
        [Problem("versions", f"{format_count(unknown, 'run')} without a machine.json")]
        if unknown
        else []
    )


def commands(summary: Summary) -> list[str]:
    """What would make these runs again: a line an algorithm and task, several where seeds are
    unlike in length or in how often they are judged.
    """
    lines = []
    for one in summary.groups:
        for task in sorted(one.tasks):
            alike: dict[tuple[int, str], list[RunRecord]] = defaultdict(list)
            for run in one.runs:
                if run.task == task:
                    alike[run.steps, str(run.spec.get("eval_every"))].append(run)
            lines += [_command(one, runs) for runs in alike.values()]
    return lines


def _command(one: Group, runs: Sequence[RunRecord]) -> str:
    first = runs[0]
    words = [
        "dualac",
        "train",
        one.name,
        first.task,
        "--seeds",
        ",".join(str(run.seed) for run in runs),
    ]
    if len(runs) == 1:
        words[-2:] = ["--seed", str(first.seed)]
    options: dict[str, Any] = {name: first.spec[name] for name in SPELT_OUT if name in first.spec}
    usual = {"time_limit": 0, **ADDED["Protocol"]}
    options |= {
        f"protocol.{name}": value
        for name, value in first.spec["protocol"].items()
        if name in usual and value != usual[name]
    }
    options |= {path.removeprefix("algorithm."): value for path, value in _overridden(one).items()}
    for name, value in options.items():
        words += [f"--{name.replace('_', '-')}", _spelt(value)]
    return shlex.join(words)


def _overridden(one: Group) -> dict[str, Any]:
    """What is to be set, by path. Where a whole part is another, the part as one would write it,
    and not its values one by one.
    """
    parts = [
        path.removesuffix(".part")
        for path in one.overrides
        if path.endswith(".part") and path in one.settings
    ]
    found = {}
    for part in parts:
        values = {
            path.rpartition(".")[2]: value
            for path, value in one.settings.items()
            if path.rpartition(".")[0] == part
        }
        kind = values.pop("part")
        values.pop("source", None)
        fields = (f"{name}={_literal(value)}" for name, value in values.items())
        found[part] = f"{kind}({', '.join(fields)})"
    single = [
        path
        for path in one.overrides
        if path in one.settings
        and not path.endswith(".part")
        and path.rpartition(".")[0] not in parts
    ]
    return found | {path: one.overrides[path] for path in single}


def _literal(value: Any) -> str:
    """As Python has it, in quotes that a shell leaves alone."""
    return json.dumps(value) if isinstance(value, str) else repr(value)


def _spelt(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, list):
        return ",".join(map(str, value))
    if isinstance(value, int) and not isinstance(value, bool) and value and value % 1_000 == 0:
        return f"{value // 1_000_000}M" if value % 1_000_000 == 0 else f"{value // 1_000}k"
    return str(value)
