"""What is compared: agents x tasks x seeds x replay ratios, as data. A plan is the list of runs it
comes to; it is never stored, only made again.
"""

import dataclasses
import importlib
import pkgutil
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, final

from dualac import envs
from dualac.agents.algorithm import Algorithm
from dualac.errors import UsageError
from dualac.parts import user_files
from dualac.parts.fields import check_fields
from dualac.parts.paths import replaced
from dualac.parts.text import nearest, to_python
from dualac.runs.layout import NAME
from dualac.training.presets import find_algorithm
from dualac.training.run import Run

SHIPPED = "dualac.experiments.shipped"
MOST_RUNS = 1_000_000
SEE = "docs/experiments.md shows an experiment file"
TAKEN = {
    "name",
    "algorithm",
    "task",
    "pack",
    "seed",
    "steps",
    "replay_ratio",
}  # of a run, by the grid it is in


@final
@dataclass(frozen=True)
class Contender:
    """An agent under a name of its own: a row of the table, changed by path as on the command line
    (`explorer.target_kl`).
    """

    name: str
    """what it is called in directories and figures"""
    algorithm: str | Algorithm = ""
    """a row of the table, by name, or one of your own; by default the row of the same name"""
    changes: Mapping[str, Any] = field(default_factory=dict)
    """what differs from the row, by path"""
    run: Mapping[str, Any] = field(default_factory=dict)
    """what differs in the run: `resets`, `warmup`, ..."""
    replay_ratios: tuple[int, ...] = ()
    """replay ratios of its own, in place of the grid's"""

    def __post_init__(self) -> None:
        _check_fields(self)
        _require_free(self.run)

    def row(self) -> Algorithm:
        base = (
            find_algorithm(self.algorithm or self.name)
            if isinstance(self.algorithm, str)
            else self.algorithm
        )
        return replaced(base, dict(self.changes))


@final
@dataclass(frozen=True)
class Grid:
    """Every contender on every task with every seed at every replay ratio."""

    contenders: tuple[Contender | str, ...]
    """agents; a name alone is the row of that name"""
    tasks: tuple[str, ...]
    """tasks and sets of tasks (`dac-15`)"""
    seeds: int | tuple[int, ...] = 10
    """how many, or which"""
    steps: int = 1_000_000
    """environment steps of each run"""
    replay_ratios: tuple[int, ...] = (2,)
    """updates for each environment step"""
    run: Mapping[str, Any] = field(default_factory=dict)
    """what else differs from a run's defaults: `eval_every`, ..."""
    resets: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    """at these replay ratios, full resets after these steps"""

    def __post_init__(self) -> None:
        _check_fields(self)
        _require_free(self.run)
        for axis in ("contenders", "tasks", "replay_ratios"):
            if not getattr(self, axis):
                raise UsageError(f"a Grid without {axis.replace('_', ' ')} has no runs; {SEE}")


@final
@dataclass(frozen=True)
class Experiment:
    """A question, the runs that answer it, and the pictures the answer is shown in."""

    name: str
    """the directory of its runs, runs/NAME"""
    about: str
    """the question, in a sentence"""
    grids: tuple[Grid, ...]
    """the runs"""
    figures: tuple[str, ...] = ()
    """names of the figures that show it"""
    small: "Scale | None" = None
    """what `--scale small` makes of it: an evening on one small machine instead of a cluster"""
    order: Literal["longest-first", "as-planned"] = "longest-first"
    """which runs begin first: the longest, so that no core waits at the end, or the plan's first,
    so that what is done is always a fair comparison
    """

    def __post_init__(self) -> None:
        _check_fields(self)
        if not NAME.fullmatch(self.name):
            raise UsageError(
                "an experiment's name is 1 to 64 letters, digits and . _ : + -, not starting "
                f"with a mark: {self.name[:80]!r} is not one"
            )
        if not self.grids:
            raise UsageError(f"experiment {self.name} has no runs: give it a Grid; {SEE}")


@final
@dataclass(frozen=True)
class Scale:
    """A smaller version of an experiment, or what someone asks of it: what is not given stays."""

    tasks: tuple[str, ...] = ()
    contenders: tuple[str, ...] = ()
    seeds: int | tuple[int, ...] | None = None
    steps: int | None = None
    replay_ratios: tuple[int, ...] = ()
    run: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _check_fields(self)
        _require_free(self.run)


def _check_fields(thing: Any) -> None:
    """Every field as one of its type: seeds=2.0 and NumPy's numbers are what people write."""
    try:
        check_fields(thing)
    except UsageError as error:
        told = str(error)
        raise UsageError(
            f"in the {type(thing).__name__}, {told if len(told) < 200 else told[:199] + '…'}; {SEE}"
        ) from None


def _require_free(run: Mapping[str, Any]) -> None:
    """What a grid is made of is not set beside it: two runs would be one."""
    taken = sorted(set(run) & TAKEN)
    if taken:
        raise UsageError(
            f"run={{...}} cannot set {taken[0]!r}: the Grid says it for all its runs; {SEE}"
        )


def scaled(experiment: Experiment, scale: Scale) -> Experiment:
    """Narrowed to what a scale names, and extended where it asks for more: other tasks, seeds or
    steps.
    """
    known = {contender.name for grid in experiment.grids for contender in _contenders(grid)}
    unknown = [name for name in scale.contenders if name not in known]
    if unknown:
        raise UsageError(
            f"experiment {experiment.name} has no agent "
            f"{unknown[0]!r}{nearest(unknown[0], sorted(known))}; it has "
            f"{', '.join(sorted(known))}"
        )
    grids = []
    for grid in experiment.grids:
        contenders = tuple(
            one for one in _contenders(grid) if not scale.contenders or one.name in scale.contenders
        )
        if scale.replay_ratios:
            contenders = tuple(dataclasses.replace(one, replay_ratios=()) for one in contenders)
        given = {
            key: value
            for key in ("tasks", "seeds", "steps", "replay_ratios")
            if (value := getattr(scale, key)) not in (None, ())
        }
        if contenders:
            grids.append(
                dataclasses.replace(
                    grid, contenders=contenders, run={**grid.run, **scale.run}, **given
                )
            )
    return dataclasses.replace(experiment, grids=tuple(grids))


def overridden(
    experiment: Experiment,
    run: Mapping[str, Any],
    changes: Callable[[Contender], Mapping[str, Any]],
) -> Experiment:
    """With other settings, of every run and of each agent. An agent that they change is another,
    and is called by them: `dac+target_kl0.1`.
    """

    def other(one: Contender) -> Contender:
        changed = changes(one)
        new = dataclasses.replace(
            one,
            algorithm=one.algorithm or one.name,
            changes={**one.changes, **changed},
            run={**one.run, **run},
        )
        return (
            new
            if new.row() == one.row()
            else dataclasses.replace(new, name=_called(one.name, changed))
        )

    grids = (
        dataclasses.replace(grid, contenders=tuple(map(other, _contenders(grid))))
        for grid in experiment.grids
    )
    return dataclasses.replace(experiment, grids=tuple(grids))


def _called(name: str, changes: Mapping[str, Any]) -> str:
    """An agent by what was changed of it: by the last word of each path, where no other path ends
    with it.
    """
    last = [path.rpartition(".")[2] for path in changes]
    words = [
        (end if last.count(end) == 1 else path) + to_python(value)
        for end, (path, value) in zip(last, changes.items(), strict=True)
    ]
    called = re.sub(r"[^A-Za-z0-9._:+-]+", "-", "+".join([name, *words]))
    if not NAME.fullmatch(called):
        raise UsageError(
            f"{called[:80]} is too long for a directory: write an experiment file, with a "
            "Contender under a name of its own"
        )
    return called


def agents(experiment: Experiment) -> list[Contender]:
    """Each once, by name."""
    return list({one.name: one for grid in experiment.grids for one in _contenders(grid)}.values())


def at_scale(experiment: Experiment, name: str | None) -> Experiment:
    """The experiment as it is, or the small version under a name that says so."""
    if name is None:
        return experiment
    if name != "small" or experiment.small is None:
        instead = (
            "it has: --scale small"
            if experiment.small
            else "leave out --scale, or narrow it: --tasks, --seeds, --steps"
        )
        raise UsageError(f"experiment {experiment.name} has no scale {name!r}; {instead}")
    return dataclasses.replace(
        scaled(experiment, experiment.small), name=f"{experiment.name}-small"
    )


def expand(experiment: Experiment) -> list[Run]:
    """Its runs, each once, in the order of the grids. Two different runs that would share a
    directory are refused.
    """
    found: dict[tuple[str, str, int, int], Run] = {}
    for grid in experiment.grids:
        for run in _runs(grid):
            key = (run.name, run.task, run.replay_ratio, run.seed)
            if found.setdefault(key, run) != run:
                raise UsageError(
                    f"experiment {experiment.name} has two different runs of {run.name} on "
                    f"{run.task}, seed {run.seed}: name one otherwise"
                )
            if len(found) > MOST_RUNS:
                raise UsageError(f"experiment {experiment.name} has more than {MOST_RUNS} runs")
    return list(found.values())


def _runs(grid: Grid) -> Iterator[Run]:
    tasks, seeds = list(dict.fromkeys(resolve_tasks(grid.tasks))), _seeds(grid.seeds)
    for contender in _contenders(grid):
        row, changes = contender.row(), {**grid.run, **contender.run}
        for ratio in contender.replay_ratios or grid.replay_ratios:
            resets = grid.resets.get(
                ratio, ()
            )  # those behind its end too: a run that is extended comes to them
            for task in tasks:
                first = _run(
                    contender.name,
                    row,
                    task,
                    {
                        "seed": seeds[0],
                        "steps": grid.steps,
                        "replay_ratio": ratio,
                        "resets": resets,
                        **changes,
                    },
                )
                yield from (
                    first if seed == first.seed else _other_seed(first, seed) for seed in seeds
                )


def _run(name: str, row: Algorithm, task: str, changes: dict[str, Any]) -> Run:
    """The run with these fields, of which some are paths (`protocol.eval_episodes`)."""
    flat = {key: value for key, value in changes.items() if "." not in key}
    unknown = sorted(set(flat) - {f.name for f in dataclasses.fields(Run)})
    if unknown:
        raise UsageError(
            f"a run of {name} has no {unknown[0]!r} that an experiment could set; {SEE}"
        )
    return replaced(
        Run(name, row, task, **flat), {key: value for key, value in changes.items() if "." in key}
    )


def _other_seed(run: Run, seed: int) -> Run:
    """The same with another seed. What was checked of the first holds for all but the seed, so a
    plan of a hundred thousand runs takes seconds.
    """
    if not 0 <= seed < 2**31:
        raise UsageError(f"--seeds must be between 0 and {2**31 - 1}, not {seed}")
    other = object.__new__(Run)
    other.__dict__.update(run.__dict__, seed=seed)
    return other


def resolve_tasks(names: tuple[str, ...]) -> list[str]:
    """Tasks by their canonical names, sets of tasks taken apart."""
    return [
        task
        for name in names
        for task in (envs.TASK_SETS[name] if name in envs.TASK_SETS else [envs.canonical(name)])
    ]


def _contenders(grid: Grid) -> list[Contender]:
    return [Contender(one) if isinstance(one, str) else one for one in grid.contenders]


def _seeds(seeds: int | tuple[int, ...]) -> list[int]:
    chosen = list(range(seeds)) if isinstance(seeds, int) else list(seeds)
    if not chosen or len(set(chosen)) != len(chosen):
        raise UsageError(
            f"an experiment has each of its seeds once, and at least one: {seeds} is not that; "
            "--seeds 3 would be 0, 1 and 2"
        )
    return chosen


def shipped() -> list[str]:
    """The experiments that come with the library, by name."""
    folder = importlib.import_module(SHIPPED)
    return sorted(module.name.replace("_", "-") for module in pkgutil.iter_modules(folder.__path__))


def find_experiment(name: str) -> Experiment:
    """One that is shipped, by name; or one of a user's own file: `mine.py`, or `mine.py:mine` where
    it has several.
    """
    path, _, variable = (
        name.rpartition(":") if name.rpartition(":")[0].endswith(".py") else (name, "", "")
    )
    if path.endswith(".py"):
        module = vars(user_files.load(Path(path)))
    elif name in shipped():
        module = vars(importlib.import_module(f"{SHIPPED}.{name.replace('-', '_')}"))
    else:
        raise UsageError(
            f"no experiment is called {name[:80]!r}{nearest(name, shipped())}; dualac list "
            "experiments shows them, or give a file: mine.py"
        )
    found = {key: value for key, value in module.items() if isinstance(value, Experiment)}
    chosen = {key: value for key, value in found.items() if variable in ("", key)}
    if len(chosen) != 1:
        what = (
            f"has no Experiment called {variable!r}"
            if variable
            else f"has {len(found) or 'no'} experiments"
        )
        raise UsageError(
            f"{path} {what}; {f'name one: {path}:' + f' or {path}:'.join(found) if found else SEE}"
        )
    (experiment,) = chosen.values()
    if path.endswith(".py") and experiment.figures:
        _require_figures(experiment)
    return experiment


def _require_figures(experiment: Experiment) -> None:
    from dualac.analysis.figures.paper import (
        FIGURES,
    )  # it draws: half a second that no other plan should wait for

    unknown = [name for name in experiment.figures if name not in FIGURES]
    if unknown:
        raise UsageError(
            f"no figure is called {unknown[0]!r}{nearest(unknown[0], list(FIGURES))}; there are "
            f"{', '.join(FIGURES)}"
        )
