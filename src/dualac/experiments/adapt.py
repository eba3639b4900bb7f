"""An experiment as it is asked for: smaller, narrower, or with other settings."""

import dataclasses
import re
from collections.abc import Callable, Mapping
from typing import Any

from dualac.errors import UsageError
from dualac.experiments.spec import Contender, Experiment, Grid, Scale, contenders_of
from dualac.parts.text import nearest, to_python
from dualac.runs.layout import NAME


def scaled(experiment: Experiment, scale: Scale) -> Experiment:
    """Narrow an experiment to what a scale names, and extend it where the scale asks for more."""
    names = sorted(contender.name for contender in agents(experiment))
    unknown = [name for name in scale.contenders if name not in names]
    if unknown:
        raise UsageError(
            f"experiment {experiment.name} has no agent {unknown[0]!r}{nearest(unknown[0], names)}"
            f"; it has {', '.join(names)}"
        )
    grids = (_scale_grid(grid, scale) for grid in experiment.grids)
    return dataclasses.replace(experiment, grids=tuple(grid for grid in grids if grid))


def _scale_grid(grid: Grid, scale: Scale) -> Grid | None:
    """Return the grid that a scale leaves of this one; None where it leaves no agent."""
    contenders = contenders_of(grid)
    if scale.contenders:
        contenders = [one for one in contenders if one.name in scale.contenders]
    if scale.replay_ratios:
        contenders = [dataclasses.replace(one, replay_ratios=()) for one in contenders]
    if not contenders:
        return None
    axes = {name: getattr(scale, name) for name in ("tasks", "seeds", "steps", "replay_ratios")}
    return dataclasses.replace(
        grid,
        contenders=tuple(contenders),
        run={**grid.run, **scale.run},
        **{name: value for name, value in axes.items() if value not in (None, ())},
    )


def overridden(
    experiment: Experiment,
    run: Mapping[str, Any],
    changes: Callable[[Contender], Mapping[str, Any]],
) -> Experiment:
    """Give other settings to every run and agent; an agent is named after its changes."""

    def override(contender: Contender) -> Contender:
        settings = changes(contender)
        new = dataclasses.replace(
            contender,
            algorithm=contender.algorithm or contender.name,
            changes={**contender.changes, **settings},
            run={**contender.run, **run},
        )
        if new.row() == contender.row():
            return new
        return dataclasses.replace(new, name=_name_after(contender.name, settings))

    grids = (
        dataclasses.replace(grid, contenders=tuple(map(override, contenders_of(grid))))
        for grid in experiment.grids
    )
    return dataclasses.replace(experiment, grids=tuple(grids))


def _name_after(name: str, changes: Mapping[str, Any]) -> str:
    """Name an agent after its changes, by the last word of a path where that is unique."""
    ends = [path.rpartition(".")[2] for path in changes]
    settings = [
        (end if ends.count(end) == 1 else path) + to_python(value)
        for end, (path, value) in zip(ends, changes.items(), strict=True)
    ]
    label = re.sub(r"[^A-Za-z0-9._:+-]+", "-", "+".join([name, *settings]))
    if not NAME.fullmatch(label):
        raise UsageError(
            f"{label[:80]} is too long for a directory: write an experiment file, with a "
            "Contender under a name of its own"
        )
    return label


def agents(experiment: Experiment) -> list[Contender]:
    """Return the agents of an experiment, each once by its name."""
    contenders = [one for grid in experiment.grids for one in contenders_of(grid)]
    return list({contender.name: contender for contender in contenders}.values())


def at_scale(experiment: Experiment, name: str | None) -> Experiment:
    """Return the experiment as it is, or the small version under a name that says so."""
    if name is None:
        return experiment
    if name != "small" or experiment.small is None:
        instead = "leave out --scale, or narrow it: --tasks, --seeds, --steps"
        if experiment.small:
            instead = "it has: --scale small"
        raise UsageError(f"experiment {experiment.name} has no scale {name!r}; {instead}")
    small = scaled(experiment, experiment.small)
    return dataclasses.replace(small, name=f"{experiment.name}-small")
