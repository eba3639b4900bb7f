"""What there is: the table of algorithms, how two rows differ, the tasks, the experiments."""

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rich.console import Console

from dualac import envs
from dualac.agents import ALGORITHMS, Algorithm, Bandit, DualDescent, Learnt
from dualac.envs import Protocol
from dualac.parts.paths import changes, options
from dualac.parts.text import to_python
from dualac.training.presets import PRESETS

SYMBOLS = {"temperature": "alpha", "optimism": "beta_o", "kl_weight": "tau"}
PARTS = ("pessimism", "policy", "explorer", "critic")


def learned_scalars(part: Any) -> Iterator[str]:
    """List the scalars of a row that learn, by the paper's symbols."""
    for field in dataclasses.fields(part):
        value = getattr(part, field.name)
        if isinstance(value, Learnt):
            yield SYMBOLS.get(field.name, field.name)
        elif isinstance(value, Bandit):
            yield "arms"
        elif isinstance(value, DualDescent):
            yield "b"
        elif dataclasses.is_dataclass(value):
            yield from learned_scalars(value)


def base_of(name: str) -> str | None:
    """Find the row that a variant is best read against: `dac` for `dac-ln` and `dac:no-kl`."""
    base = name.replace(":", "-").split("-")[0]
    return base if base != name and base in ALGORITHMS else None


def show_algorithms(console: Console) -> None:
    """Print the family, a line each; variants by what they change."""
    rows: list[tuple[str, ...]] = [("", *PARTS, "learns")]
    variants: list[tuple[str, ...]] = [("", "learns", "")]
    for name, row in ALGORITHMS.items():
        base, learns = base_of(name), " ".join(learned_scalars(row))
        if base is None:
            rows.append((name, *(_in_short(getattr(row, part)) for part in PARTS), learns))
        else:
            differences = changes(ALGORITHMS[base], row)
            changed = ", ".join(f"{path}={to_python(value)}" for path, _, value in differences)
            variants.append((name, learns, f"{base} with {changed}"))
    for name, (base, values) in PRESETS.items():
        changed = ", ".join(f"{key}={value}" for key, value in values.items())
        learns = " ".join(learned_scalars(ALGORITHMS[base]))
        variants.append((name, learns, f"{base} with {changed}, of the run"))
    _print_columns(console, rows)
    console.print()
    _print_columns(console, variants)


def _in_short(part: Any) -> str:
    """Write a part as in Python, with its main field even where that is the default."""
    kind, field, text = type(part), part.headline, to_python(part)
    if field is None or getattr(part, field) != kind.__dataclass_fields__[field].default:
        return text
    others = text.partition("(")[2]
    separator = "" if others == ")" else ", "
    return f"{kind.__name__}({field}={getattr(part, field)!r}{separator}{others}"


def show_difference(
    console: Console, names: tuple[str, str], rows: tuple[Algorithm, Algorithm]
) -> None:
    lines = [(path, to_python(mine), to_python(theirs)) for path, mine, theirs in changes(*rows)]
    if lines:
        _print_columns(console, [("", *names), *lines])
    else:
        console.print(f"{names[0]} and {names[1]} are the same")


def show_algorithm(console: Console, name: str, row: Algorithm) -> None:
    """Print one row, then every value of it with what it means, by the path that changes it."""
    console.print(f"{name} = {to_python(row)}\n", soft_wrap=True)
    values = [(option.path, to_python(option.value), option.help) for option in options(row)]
    _print_columns(console, values)


def _print_columns(console: Console, rows: list[tuple[str, ...]]) -> None:
    """Print a line a row, however narrow the terminal: lines are made to be searched."""
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
        console.print("  ".join(cells).rstrip(), soft_wrap=True)


def show_experiments(console: Console) -> None:
    """Print the experiments that are shipped, with what they would take here."""
    from dualac.experiments.adapt import at_scale
    from dualac.experiments.find import find_experiment, shipped

    lines: list[tuple[str, ...]] = [("", "runs", "core-hours", "disk", "")]
    for name in shipped():
        experiment = find_experiment(name)
        lines.append(_costs(experiment, experiment.about))
        if experiment.small:
            small = at_scale(experiment, "small")
            lines.append(_costs(small, f"dualac sweep {name} --scale small"))
    _print_columns(console, lines)


def _costs(experiment: Any, about: str) -> tuple[str, ...]:
    from dualac.experiments.cost import estimate, rough
    from dualac.experiments.expand import expand
    from dualac.experiments.survey import Unit

    units = [Unit(run, Path(), "missing") for run in expand(experiment)]
    needs = estimate(units, rough)
    form = "{:.2g}" if needs.core_hours < 10 else "{:.0f}"
    disk = f"{needs.disk / 1e9:.1f} GB"
    return experiment.name, str(len(units)), form.format(needs.core_hours), disk, about


def show_tasks(console: Console, protocol: Protocol | None) -> None:
    """Print a task a line, with a protocol also what is known of each without building it."""
    if protocol is None:
        console.print("\n".join(envs.all_tasks()), soft_wrap=True)
        return
    form = "{:<44}{:>5}{:>9}{:>7}  {:<8} {}"
    lines = [form.format("task", "obs", "actions", "cap", "score", "sets")]
    for task in envs.all_tasks():
        sizes, cap, score, sets = envs.about(task, protocol)
        row = form.format(task, *(sizes or ("-", "-")), cap or "own", score, " ".join(sets))
        lines.append(row.rstrip())
    values = [
        f"{field.name} {getattr(protocol, field.name)}" for field in dataclasses.fields(protocol)
    ]
    lines.append(f"protocol: {', '.join(values)}")
    console.print("\n".join(lines), soft_wrap=True)
