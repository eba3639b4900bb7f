"""The plan of an experiment: its runs, each once."""

import dataclasses
from collections.abc import Iterator
from typing import Any

from dualac import envs
from dualac.agents.algorithm import Algorithm
from dualac.errors import UsageError
from dualac.experiments.spec import SEE, Experiment, Grid, contenders_of
from dualac.parts.paths import replaced
from dualac.training.run import Run

MOST_RUNS = 1_000_000


def expand(experiment: Experiment) -> list[Run]:
    """Return the runs of an experiment, each once, or refuse two that share a directory."""
    runs: dict[tuple[str, str, int, int], Run] = {}
    for grid in experiment.grids:
        for run in _runs(grid):
            cell = (run.name, run.task, run.replay_ratio, run.seed)
            if runs.setdefault(cell, run) != run:
                raise UsageError(
                    f"experiment {experiment.name} has two different runs of {run.name} on "
                    f"{run.task}, seed {run.seed}: name one otherwise"
                )
            if len(runs) > MOST_RUNS:
                raise UsageError(f"experiment {experiment.name} has more than {MOST_RUNS} runs")
    return list(runs.values())


def _runs(grid: Grid) -> Iterator[Run]:
    tasks = list(dict.fromkeys(resolve_tasks(grid.tasks)))
    seeds = _seeds(grid.seeds)
    for contender in contenders_of(grid):
        row = contender.row()
        for ratio in contender.replay_ratios or grid.replay_ratios:
            settings = {
                "seed": seeds[0],
                "steps": grid.steps,
                "replay_ratio": ratio,
                # Those behind its end too: a run that is extended comes to them.
                "resets": grid.resets.get(ratio, ()),
                **grid.run,
                **contender.run,
            }
            for task in tasks:
                first = _make_run(contender.name, row, task, settings)
                for seed in seeds:
                    yield first if seed == first.seed else _other_seed(first, seed)


def _make_run(name: str, row: Algorithm, task: str, settings: dict[str, Any]) -> Run:
    """Make the run of these settings, of which some are paths (`protocol.eval_episodes`)."""
    paths = {key: value for key, value in settings.items() if "." in key}
    fields = {key: value for key, value in settings.items() if key not in paths}
    unknown = sorted(set(fields) - {field.name for field in dataclasses.fields(Run)})
    if unknown:
        raise UsageError(
            f"a run of {name} has no {unknown[0]!r} that an experiment could set; {SEE}"
        )
    return replaced(Run(name, row, task, **fields), paths)


def _other_seed(run: Run, seed: int) -> Run:
    """Return the same run with another seed, without the checks that held for the first."""
    if not 0 <= seed < 2**31:
        raise UsageError(f"--seeds must be between 0 and {2**31 - 1}, not {seed}")
    other = object.__new__(Run)
    other.__dict__.update(run.__dict__, seed=seed)
    return other


def resolve_tasks(names: tuple[str, ...]) -> list[str]:
    """Return the canonical names of tasks; a set of tasks is taken apart."""
    tasks: list[str] = []
    for name in names:
        tasks += envs.TASK_SETS[name] if name in envs.TASK_SETS else [envs.canonical(name)]
    return tasks


def _seeds(seeds: int | tuple[int, ...]) -> list[int]:
    numbers = list(range(seeds)) if isinstance(seeds, int) else list(seeds)
    if not numbers or len(set(numbers)) != len(numbers):
        raise UsageError(
            f"an experiment has each of its seeds once, and at least one: {seeds} is not that; "
            "--seeds 3 would be 0, 1 and 2"
        )
    return numbers
