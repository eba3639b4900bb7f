"""The tables of a page."""

import math
from typing import Any, NamedTuple

from dualac.analysis.figures.paper import REFERENCE
from dualac.analysis.report.exports import task_rows
from dualac.analysis.statistics import AGGREGATES, MOST_SEEDS
from dualac.analysis.summary import wording
from dualac.analysis.summary.panel import Panel
from dualac.analysis.summary.summarise import Summary
from dualac.analysis.summary.tables import costs, differences
from dualac.parts.text import format_steps


class Text(NamedTuple):
    """A cell of a table, and the number to sort it by if it is one."""

    text: str
    value: float | None = None


class Table(NamedTuple):
    titles: list[str]
    rows: list[list[Text]]


def aggregate_table(panel: Panel) -> Table:
    names = panel.names()
    rows = []
    for group in panel.ranked():
        intervals = [panel.aggregates[group.label][name] for name in AGGREGATES]
        numbers = [
            Text(wording.format_interval(each), _finite(each.estimate)) for each in intervals
        ]
        seeds = Text(wording.format_range(panel.seeds(group.label)))
        rows.append([Text(names[group.label]), seeds, *numbers])
    return Table(["algorithm", "seeds", *AGGREGATES], rows)


def comparison_table(panel: Panel) -> Table:
    names = panel.names()
    best = names[panel.ranked()[0].label]
    rows = [
        [
            Text(names[one.theirs]),
            Text(wording.format_interval(one.difference.interval)),
            Text(wording.format_interval(one.probability)),
            Text("apart" if one.difference.separable else _more(one.difference.more_seeds)),
            Text("by seed" if one.difference.paired else "no"),
        ]
        for one in panel.comparisons
    ]
    titles = ["algorithm", f"{best} minus it", f"P({best} beats it)", "more seeds", "paired"]
    return Table(titles, rows)


def _more(seeds: float) -> str:
    if math.isnan(seeds):
        return "one seed: unknown"
    return f"over {MOST_SEEDS}" if math.isinf(seeds) else f"about {seeds:.0f} each"


def reached_table(panel: Panel) -> Table:
    names = panel.names()
    rows = [
        [
            Text(names[one.label]),
            Text(f"{wording.format_number(one.target)} ({names[one.other]})"),
            Text(wording.format_steps_to_reach(one.steps), _finite(one.steps.estimate)),
            Text(f"{one.share:.0%}" if math.isfinite(one.share) else "-"),
        ]
        for one in panel.reached
    ]
    return Table(["algorithm", "score", "steps [95 %]", "share of all steps"], rows)


def task_table(summary: Summary) -> Table:
    titles = ["task", "algorithm", "RR", "seeds", "step", "unit", "mean", "95 %", "best seed"]
    rows = []
    for row in task_rows(summary):
        ends = "one seed" if row["seeds"] else "no score"
        if math.isfinite(row["low"]):
            ends = wording.format_ends(row["low"], row["high"])
        rows.append(
            [
                Text(row["task"]),
                Text(row["algorithm"]),
                Text(str(row["replay_ratio"]), row["replay_ratio"]),
                Text(f"{row['seeds']} of {row['of']}"),
                Text(format_steps(row["step"]), row["step"]),
                Text(row["unit"]),
                _number(row["estimate"]),
                Text(ends),
                _number(row["best"]),
            ]
        )
    return Table(titles, sorted(rows))


def share_table(chart: dict[str, Any]) -> Table:
    rows = []
    for row in chart["rows"]:
        estimate, low, high = row["estimate"], row["low"], row["high"]
        number = "none" if estimate is None else wording.format_number(estimate)
        ends = "-" if low is None or high is None else wording.format_ends(low, high)
        rows.append([Text(row["name"]), Text(number, estimate), Text(ends)])
    return Table(["", chart["x"], "95 %"], rows)


def cost_table(summary: Summary) -> Table | None:
    rows = [
        [
            Text(cost.label),
            Text(str(cost.runs), cost.runs),
            _number(cost.steps_per_second),
            _number(cost.ms_per_update),
            _number(cost.hours),
            _number(cost.against),
            Text(wording.join_names(cost.cpus)),
        ]
        for cost in costs(summary.groups, REFERENCE)
        if cost.runs
    ]
    over = f"time over {REFERENCE}"
    titles = ["algorithm", "runs", "steps/s", "ms an update", "hours a run", over, "CPU"]
    return Table(titles, rows) if rows else None


def settings_table(summary: Summary) -> Table | None:
    titles, rows = differences(summary.groups)
    return Table(titles, [[Text(cell) for cell in row] for row in rows]) if rows else None


def _number(value: float) -> Text:
    return Text(wording.format_number(value), _finite(value))


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
