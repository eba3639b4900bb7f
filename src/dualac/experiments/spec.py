"""What is compared: agents x tasks x seeds x replay ratios, as data. Plans are never stored."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, final

from dualac.agents.algorithm import Algorithm
from dualac.errors import UsageError
from dualac.parts.fields import check_fields
from dualac.parts.paths import replaced
from dualac.runs.layout import NAME
from dualac.training.presets import find_algorithm

SEE = "docs/experiments.md shows an experiment file"
LONGEST = 200  # characters of an error's text that are worth repeating
# Fields of a run that the grid sets for all of its runs.
TAKEN = {"name", "algorithm", "task", "pack", "seed", "steps", "replay_ratio"}


@final
@dataclass(frozen=True)
class Contender:
    """An agent under a name of its own: a row of the table, changed by `explorer.target_kl`."""

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
        base = self.algorithm or self.name
        row = find_algorithm(base) if isinstance(base, str) else base
        return replaced(row, dict(self.changes))


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
    """which runs begin first: the longest, or the plan's first, always a fair comparison"""

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
        message = str(error)
        if len(message) >= LONGEST:
            message = message[: LONGEST - 1] + "…"
        raise UsageError(f"in the {type(thing).__name__}, {message}; {SEE}") from None


def _require_free(run: Mapping[str, Any]) -> None:
    """Refuse a setting that the grid makes for all its runs: two runs would be one."""
    taken = sorted(set(run) & TAKEN)
    if taken:
        raise UsageError(
            f"run={{...}} cannot set {taken[0]!r}: the Grid says it for all its runs; {SEE}"
        )


def contenders_of(grid: Grid) -> list[Contender]:
    """Return the agents of a grid; a name alone is the row of that name."""
    return [Contender(one) if isinstance(one, str) else one for one in grid.contenders]
