"""What a reader should know before believing a number."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from dualac.analysis.data.completeness import cells
from dualac.analysis.data.frame import RunRecord
from dualac.analysis.data.groups import Group, short
from dualac.analysis.statistics import FEW_SEEDS
from dualac.analysis.summary.panel import Panel
from dualac.analysis.summary.summarise import Summary
from dualac.analysis.summary.wording import format_count, join_names
from dualac.parts.text import format_steps

MOST_LISTED = 50  # in a page
MOST_OVERRIDES = 12  # that are named


class Problem(NamedTuple):
    kind: str
    text: str


def problems(summary: Summary) -> list[Problem]:
    runs = [run for group in summary.groups for run in group.runs]
    rows = [Problem("damaged", str(damage)) for damage in summary.frame.damaged]
    for run, reason in summary.grouped.refused:
        rows.append(Problem("refused", f"{run.path}: {reason}; --unlike separate keeps it apart"))
    rows += [Problem("copy", note) for note in summary.grouped.notes]
    rows += [_of_settings(group) for group in summary.groups if group.overrides]
    for run in runs:
        rows += _of_run(run)
    rows += _of_missing_runs(summary)
    for panel in summary.panels:
        rows += _of_panel(panel)
    if summary.unscaled:
        text = (
            f"{join_names(summary.unscaled)}: no bounds are known, so returns are plotted and "
            "enter no aggregate; --bounds LOW,HIGH gives bounds"
        )
        rows.append(Problem("no bounds", text))
    return rows + _of_machines(runs)


def _of_settings(group: Group) -> Problem:
    settings = [
        f"{path.removeprefix('algorithm.')}={short(value)}"
        for path, value in group.overrides.items()
    ]
    changed = join_names(settings, MOST_OVERRIDES)
    return Problem(
        "settings", f"{group.label} departs from the {group.name} of the table: {changed}"
    )


def _of_run(run: RunRecord) -> list[Problem]:
    name = f"{run.path} ({run.name}, {run.task}, seed {run.seed})"
    rows = []
    if run.status.state in ("failed", "interrupted"):
        reason = f": {run.status.reason}" if run.status.reason else ""
        where = f"at step {format_steps(run.status.step)} of {format_steps(run.steps)}"
        rows.append(Problem(run.status.state, f"{name} {where}{reason}"))
    resumed = run.count("resumed")
    if resumed:
        rows.append(Problem("resumed", f"{name}: {format_count(resumed, 'time')}"))
    if run.count("inexact_resume"):
        text = "resumed on another machine or version, no longer exact to the bit"
        rows.append(Problem("inexact", f"{name}: {text}"))
    broken = run.count("bad_transition", "bad_evaluation")
    if broken:
        rows.append(Problem("bad episodes", f"{name}: {format_count(broken, 'episode')} broke"))
    played = np.isfinite(run.evaluations["length"])  # of a broken episode nothing counts
    lost = int((played & ~np.isfinite(run.evaluations["return"])).sum())
    if lost:
        episodes = format_count(lost, "evaluation episode")
        rows.append(Problem("diverged", f"{name}: {episodes} without a finite return"))
    if not len(run.evaluations["step"]):
        rows.append(Problem("no evaluation", f"{name} has none yet"))
    return rows


def _of_missing_runs(summary: Summary) -> list[Problem]:
    rows = []
    for cell in cells(summary.groups, summary.frame.missing):
        seeds = [str(seed) for seed, state in cell.seeds.items() if state == "missing"]
        if seeds and cell.runs:
            without = f"without seed{'s' * (len(seeds) > 1)} {join_names(seeds)}"
            counts = f"n = {len(cell.runs)} of {len(cell.seeds)}"
            rows.append(Problem("missing", f"{cell.label} on {cell.task}: {without}, {counts}"))
    if summary.frame.missing:
        runs = format_count(len(summary.frame.missing), "run")
        names = sorted({f"{plan.name} on {plan.task}" for plan in summary.frame.missing})
        rows.append(Problem("missing", f"{runs} of the plan not begun: {join_names(names)}"))
    return rows


def _of_panel(panel: Panel) -> Iterator[Problem]:
    few = [
        group.label
        for group in panel.groups
        if panel.tasks and min(panel.seeds(group.label)) < FEW_SEEDS
    ]
    if few:
        seeds = f"fewer than {FEW_SEEDS} seeds of {join_names(few)}"
        advice = "bootstrap intervals of so few are too narrow (docs/report.md)"
        yield Problem("few seeds", f"{panel.title}: {seeds}; {advice}")
    if panel.left_out:
        text = f"not every algorithm has come so far on {join_names(panel.left_out)}"
        yield Problem("tasks left out", f"{panel.title}: {text}")
    if panel.apart:
        behind = join_names([group.label for group in panel.apart])
        text = f"{behind} too far behind to be compared with the others"
        yield Problem("not compared", f"{panel.title}: {text}")
    if panel.title.startswith("unlike"):
        text = (
            "algorithms are compared across replay ratios: more updates, not only another algorithm"
        )
        yield Problem("unlike replay ratios", text)


def _of_machines(runs: Sequence[RunRecord]) -> list[Problem]:
    """List versions that differ between runs. Unlike simulators were refused before."""
    versions: dict[str, set[str]] = defaultdict(set)
    for run in runs:
        facts = dict(run.versions)
        facts |= {name: str(run.machine.get(name) or "") for name in ("dualac", "cpu")}
        facts["commit"] = str(run.machine.get("commit") or "")[:12]
        for name, version in facts.items():
            versions[name].add(version)
    rows = []
    for name, values in sorted(versions.items()):
        values.discard("")
        if len(values) > 1:
            listed = join_names(sorted(values))
            rows.append(Problem("versions", f"{name} differs between runs: {listed}"))
    dirty = sum(bool(run.machine.get("dirty")) for run in runs)
    if dirty:
        of = format_count(dirty, "run")
        rows.append(Problem("versions", f"{of} of a working tree with changes that no commit has"))
    unknown = sum(not run.machine for run in runs)
    if unknown:
        rows.append(Problem("versions", f"{format_count(unknown, 'run')} without a machine.json"))
    return rows
