"""What there is, as a reader wants to see it: the table of algorithms, how two of its rows differ,
the tasks, the experiments.
"""

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rich.console import Console

from dualac import envs
from dualac.agents.algorithm import Algorithm
from dualac.agents.algorithms import ALGORITHMS
from dualac.agents.bandit import Bandit
from dualac.agents.duals import Learnt
from dualac.agents.pessimism import DualDescent
from dualac.envs import Protocol
from dualac.parts.paths import changes, options
from dualac.parts.text import to_python
from dualac.training.presets import PRESETS

SYMBOLS = {"temperature": "alpha", "optimism": "beta_o", "kl_weight": "tau"}
PARTS = ("pessimism", "policy", "explorer", "critic")


def learned_scalars(thing: Any) -> Iterator[str]:
    """The scalars of a row that learn, by the paper's symbols."""
    for f in dataclasses.fields(thing):
        value = getattr(thing, f.name)
        if isinstance(value, Learnt):
            yield SYMBOLS.get(f.name, f.name)
        elif isinstance(value, Bandit):
            yield "arms"
        elif isinstance(value, DualDescent):
            yield "b"
        elif dataclasses.is_dataclass(value):
            yield from learned_scalars(value)


def base_of(name: str) -> str | None:
    """The row that a variant is best read against: `dac` for `dac-ln` and `dac:no-kl`."""
    base = name.replace(":", "-").split("-")[0]
    return base if base != name and base in ALGORITHMS else None


def show_algorithms(console: Console) -> None:
    """The family a line each; variants by what they change."""
    rows: list[tuple[str, ...]] = [("", *PARTS, "learns")]
    variants: list[tuple[str, ...]] = []
    for name, row in ALGORITHMS.items():
        base = base_of(name)
        if base:
            changed = ", ".join(
                f"{path}={to_python(value)}" for path, _, value in changes(ALGORITHMS[base], row)
            )
            variants.append((name, " ".join(learned_scalars(row)), f"{base} with {changed}"))
        else:
            rows.append(
                (
                    name,
                    *(_in_short(getattr(row, part)) for part in PARTS),
                    " ".join(learned_scalars(row)),
                )
            )
    for name, (base, values) in PRESETS.items():
        told = ", ".join(f"{key}={value}" for key, value in values.items())
        variants.append(
            (name, " ".join(learned_scalars(ALGORITHMS[base])), f"{base} with {told}, of the run")
        )
    _print_columns(console, rows)
    console.print()
    _print_columns(console, [("", "learns", ""), *variants])


def _in_short(part: Any) -> str:
    """As one would write it, with what says most about its kind even where it is the default."""
    field = part.headline
    if field is None or getattr(part, field) != type(part).__dataclass_fields__[field].default:
        return to_python(part)
    others = to_python(part).partition("(")[2]
    return f"{type(part).__name__}({field}={getattr(part, field)!r}{', ' * (others != ')')}{others}"


def show_difference(
    console: Console, names: tuple[str, str], rows: tuple[Algorithm, Algorithm]
) -> None:
    """How one row differs from another, a line a choice."""
    lines = [(path, to_python(mine), to_python(theirs)) for path, mine, theirs in changes(*rows)]
    if lines:
        _print_columns(console, [("", *names), *lines])
    else:
        console.print(f"{names[0]} and {names[1]} are the same")


def show_algorithm(console: Console, name: str, row: Algorithm) -> None:
    """One row, as one would write it, then every value of it with what it means, by the path that
    changes it.
    """
    console.print(f"{name} = {to_python(row)}\n", soft_wrap=True)
    _print_columns(
        console, [(option.path, to_python(option.value), option.help) for option in options(row)]
    )


def _print_columns(console: Console, rows: list[tuple[str, ...]]) -> None:
    """A line a row, however narrow the terminal: lines are made to be searched."""
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    for row in rows:
        console.print(
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip(),
            soft_wrap=True,
        )


def show_experiments(console: Console) -> None:
    """The experiments that are shipped, with what they would take here."""
    from dualac.experiments.adapt import at_scale
    from dualac.experiments.cost import estimate, rough
    from dualac.experiments.expand import expand
    from dualac.experiments.find import find_experiment, shipped
    from dualac.experiments.survey import Unit

    lines: list[tuple[str, ...]] = [("", "runs", "core-hours", "disk", "")]
    for name in shipped():
        experiment = find_experiment(name)
        for one in [experiment] + ([at_scale(experiment, "small")] if experiment.small else []):
            units = [Unit(run, Path(), "missing") for run in expand(one)]
            needs = estimate(units, rough)
            about = experiment.about if one is experiment else f"dualac sweep {name} --scale small"
            lines.append(
                (
                    one.name,
                    str(len(units)),
                    f"{needs.core_hours:.2g}"
                    if needs.core_hours < 10
                    else f"{needs.core_hours:.0f}",
                    f"{needs.disk / 1e9:.1f} GB",
                    about,
                )
            )
    _print_columns(console, lines)


def show_tasks(protocol: Protocol | None) -> None:
    """A task a line; with a protocol also what is known of each without building it. Lines, not a
    table: they are made to be searched.
    """
    if protocol is None:
        print("\n".join(envs.all_tasks()))
        return
    form = "{:<44}{:>5}{:>9}{:>7}  {:<8} {}"
    print(form.format("task", "obs", "actions", "cap", "score", "sets"))
    for task in envs.all_tasks():
        sizes, cap, score, sets = envs.about(task, protocol)
        print(
            form.format(task, *(sizes or ("-", "-")), cap or "own", score, " ".join(sets)).rstrip()
        )
    print(
        "protocol: "
        + ", ".join(
            f"{field.name} {getattr(protocol, field.name)}"
            for field in dataclasses.fields(protocol)
        )
    )
