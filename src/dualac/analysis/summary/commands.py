"""The commands that would make the runs of a summary again."""

import json
import shlex
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from dualac.analysis.data.frame import RunRecord
from dualac.analysis.data.groups import Group
from dualac.analysis.summary.summarise import Summary
from dualac.runs.versions import ADDED

SPELT_OUT = ("steps", "replay_ratio", "eval_every")  # in a command, whatever their defaults


def commands(summary: Summary) -> list[str]:
    """Write a command for each algorithm and task, or several for unlike seeds."""
    lines = []
    for group in summary.groups:
        for task in sorted(group.tasks):
            alike: dict[tuple[int, str], list[RunRecord]] = defaultdict(list)
            for run in group.runs:
                if run.task == task:
                    alike[run.steps, str(run.spec.get("eval_every"))].append(run)
            lines += [_command(group, runs) for runs in alike.values()]
    return lines


def _command(group: Group, runs: Sequence[RunRecord]) -> str:
    first = runs[0]
    seeds = ["--seed", str(first.seed)]
    if len(runs) > 1:
        seeds = ["--seeds", ",".join(str(run.seed) for run in runs)]
    options: dict[str, Any] = {name: first.spec[name] for name in SPELT_OUT if name in first.spec}
    defaults = {"time_limit": 0, **ADDED["Protocol"]}
    options |= {
        f"protocol.{name}": value
        for name, value in first.spec["protocol"].items()
        if name in defaults and value != defaults[name]
    }
    options |= {path.removeprefix("algorithm."): value for path, value in _settings(group).items()}
    argv = ["dualac", "train", group.name, first.task, *seeds]
    for name, value in options.items():
        argv += [f"--{name.replace('_', '-')}", _spelt(value)]
    return shlex.join(argv)


def _settings(group: Group) -> dict[str, Any]:
    """Return what is to be set, by path. A part that was exchanged is written whole."""
    overrides = {path: value for path, value in group.overrides.items() if path in group.settings}
    parts = [path.removesuffix(".part") for path in overrides if path.endswith(".part")]
    single = {
        path: value
        for path, value in overrides.items()
        if not path.endswith(".part") and path.rpartition(".")[0] not in parts
    }
    return {part: _part(group, part) for part in parts} | single


def _part(group: Group, path: str) -> str:
    """Write a part as a call: `Fixed(beta=-0.2)`."""
    values = {
        name: value
        for where, value in group.settings.items()
        for home, _, name in [where.rpartition(".")]
        if home == path
    }
    kind = values.pop("part")
    values.pop("source", None)
    return f"{kind}({', '.join(f'{name}={_literal(value)}' for name, value in values.items())})"


def _literal(value: Any) -> str:
    """Write a value as Python does, with quotes that a shell leaves alone."""
    return json.dumps(value) if isinstance(value, str) else repr(value)


def _spelt(value: Any) -> str:
    """Write a value as an option takes it."""
    if value is None:
        return "none"
    if isinstance(value, list):
        return ",".join(map(str, value))
    if isinstance(value, int) and not isinstance(value, bool) and value and value % 1_000 == 0:
        return f"{value // 1_000_000}M" if value % 1_000_000 == 0 else f"{value // 1_000}k"
    return str(value)
