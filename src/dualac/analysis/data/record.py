"""One run as a person wants to see it: what it is, where and from what code it was made, what
became of it.
"""

import json
from collections.abc import Iterator
from typing import Any

import numpy as np

from dualac.analysis.data.collect import ORIGIN
from dualac.analysis.data.frame import RunRecord
from dualac.analysis.summary.compare import sparkline


def describe_run(run: RunRecord) -> Iterator[str]:
    """Yield the lines of `dualac show`."""
    machine, spec = run.machine, run.spec
    yield f"run        {run.path}"
    yield (
        f"what       {run.name} on {run.task}, seed {run.seed}, {run.steps} steps, replay ratio "
        f"{run.replay_ratio}"
    )
    yield (
        f"state      {run.status.state} at step "
        f"{run.status.step}{': ' + run.status.reason if run.status.reason else ''}"
    )
    yield from _curve(run)
    yield f"algorithm  {_spelt(spec['algorithm'])}"
    yield f"protocol   {_spelt(spec['protocol'])}"
    rest = {
        key: value
        for key, value in spec.items()
        if key
        not in ("part", "name", "algorithm", "task", "seed", "steps", "replay_ratio", "protocol")
    }
    yield f"settings   {', '.join(f'{key} {json.dumps(value)}' for key, value in rest.items())}"
    if machine:
        commit = machine.get("commit") or "no repository"
        yield f"command    {machine.get('command') or 'not known'}"
        yield (
            f"code       dualac {machine.get('dualac')}, "
            f"{commit}{' with changes of its own' if machine.get('dirty') else ''}"
        )
        yield f"lock       {machine.get('lock') or 'none'}"
        yield (
            f"machine    {machine.get('host')}, {machine.get('cpu')}, "
            f"{machine.get('cores_of_machine')} cores; {machine.get('system')}"
        )
        yield (
            f"versions   python {machine.get('python')}, "
            f"{', '.join(f'{name} {version}' for name, version in sorted(run.versions.items()))}"
        )
    yield from list(_events(run))[-10:]


def _events(run: RunRecord) -> Iterator[str]:
    """List the events of a run, a line each.

    Where it was resumed, the line says what differs from the session before.
    """
    before = run.machine
    for event in run.events:
        reason = event.get("reason") or ""
        if event in run.origins:
            reason = ", ".join(
                f"{name} {event[name]}"
                for name in ORIGIN
                if name in event and event[name] != before.get(name)
            )
            before = event
        if event.get("event") != "first_checkpoint":
            yield (
                f"event      {event.get('time', '')} {event.get('event')} at step "
                f"{event.get('step')}{f': {reason}' if reason else ''}"
            )


def _curve(run: RunRecord) -> Iterator[str]:
    steps = np.unique(run.evaluations["step"])
    for column, name in (("return", "returns"), ("success", "successes")):
        values = run.evaluations[column]
        means = np.array(
            [
                np.nanmean(values[run.evaluations["step"] == step])
                if np.isfinite(values[run.evaluations["step"] == step]).any()
                else np.nan
                for step in steps
            ]
        )
        if np.isfinite(means).any():
            last = means[np.isfinite(means)][-1]
            yield (
                f"{name:<10} {sparkline(means, means)} {np.nanmin(means):.4g} to "
                f"{np.nanmax(means):.4g}, last {last:.4g}"
            )


def _spelt(tree: Any) -> str:
    """Write a part as a user would: Fixed(beta=-0.2, ...)."""
    if isinstance(tree, dict) and "part" in tree:
        fields = {key: value for key, value in tree.items() if key not in ("part", "source")}
        words = (f"{key}={_spelt(value)}" for key, value in fields.items())
        return f"{tree['part']}({', '.join(words)})"
    return json.dumps(tree)
