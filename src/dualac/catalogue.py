"""What there is, as a reader wants to see it: the table of algorithms, the tasks."""

import dataclasses

from rich.console import Console
from rich.table import Table

from dualac import envs, spelling
from dualac.agents.algorithms import ALGORITHMS
from dualac.envs import Protocol


def show_algorithms(console: Console) -> None:
    table = Table(box=None, pad_edge=False)
    for title in ("", "pessimism", "policy", "explorer", "critic"):
        table.add_column(title)
    for name, row in ALGORITHMS.items():
        table.add_row(name, *(spelling.to_python(part) for part in (row.pessimism, row.policy, row.explorer, row.critic)))
    console.print(table)


def show_tasks(protocol: Protocol | None) -> None:
    """A task a line; with a protocol also what is known of each without building it. Lines, not a table: they are made to be searched."""
    if protocol is None:
        print("\n".join(envs.all_tasks()))
        return
    form = "{:<44}{:>5}{:>9}{:>7}  {:<8} {}"
    print(form.format("task", "obs", "actions", "cap", "score", "sets"))
    for task in envs.all_tasks():
        sizes, cap, score, sets = envs.about(task, protocol)
        print(form.format(task, *(sizes or ("-", "-")), cap or "own", score, " ".join(sets)).rstrip())
    print("protocol: " + ", ".join(f"{field.name} {getattr(protocol, field.name)}" for field in dataclasses.fields(protocol)))
