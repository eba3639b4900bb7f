"""The library as Python sees it: `train`, `load_policy`, `make_env`, `make_agent`."""

import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

from rich.console import Console

from dualac import envs
from dualac.agents.agent import make_agent as _agent
from dualac.agents.algorithm import Algorithm
from dualac.cli.progress import Display
from dualac.envs import Protocol
from dualac.envs.foreign import ignoring_errors
from dualac.errors import UsageError
from dualac.parts.paths import replaced
from dualac.runs.state import read_status, require_resumable
from dualac.training.loop import train as _train
from dualac.training.policy import LoadedPolicy, load_policy
from dualac.training.presets import default_run, find_algorithm
from dualac.training.run import Run, describe_edits, prepare
from dualac.types import Agent, Spec

__all__ = ["FinishedRun", "LoadedPolicy", "load_policy", "make_agent", "make_env", "train"]

make_env = envs.make


@final
@dataclass(frozen=True)
class FinishedRun:
    """A run that reached its last step, and where it is."""

    run: Run
    path: Path

    @property
    def score(self) -> float:
        """Mean return of the last evaluation."""
        from dualac.analysis.data.curves import evaluation_curve

        return float(evaluation_curve(self.path).returns[-1])


def make_agent(algorithm: str | Algorithm, obs_dim: int, action_dim: int) -> Agent:
    """Make the pure functions of a row, such as init, update and explore, for a task of these
    sizes.
    """
    if obs_dim < 1 or action_dim < 1:
        raise UsageError(
            f"a task has at least one observation and one action, not {obs_dim} and {action_dim}"
        )
    return _agent(
        find_algorithm(algorithm) if isinstance(algorithm, str) else algorithm,
        Spec(obs_dim, action_dim),
    )


def train(
    algorithm: str | Algorithm,
    task: str,
    *,
    name: str | None = None,
    seed: int | None = None,
    steps: int | None = None,
    warmup: int | None = None,
    replay_ratio: int | None = None,
    batch_size: int | None = None,
    capacity: int | None = None,
    resets: tuple[int, ...] | None = None,
    reset_every: int | None = None,
    reset_same_init: bool | None = None,
    eval_every: int | None = None,
    eval_episodes: int | None = None,
    log_every: int | None = None,
    checkpoint_every: int | None = None,
    protocol: Protocol | None = None,
    out: str | Path = "runs/default",
    trust: bool = False,
    quiet: bool = False,
) -> FinishedRun:
    """Train one seed in this process, or continue it if `out` already holds this very run.

    `algorithm` is a row of the table or a preset by name, or a row of your own (then give it a
    `name`). What is None has the default of `Run`, or the preset's. The bits depend on how many
    cores this process may use; the command line confines each seed to one. SIGINT and SIGTERM
    write a checkpoint and raise `Interrupted`. `trust` runs the code of a run in `out` that was
    made elsewhere.
    """
    values = {
        "seed": seed,
        "steps": steps,
        "warmup": warmup,
        "replay_ratio": replay_ratio,
        "batch_size": batch_size,
        "capacity": capacity,
        "resets": resets,
        "reset_every": reset_every,
        "reset_same_init": reset_same_init,
        "eval_every": eval_every,
        "log_every": log_every,
        "checkpoint_every": checkpoint_every,
        "protocol": protocol,
        "protocol.eval_episodes": eval_episodes,
    }
    return _finish(_make_run(algorithm, task, name, values), Path(out), trust=trust, quiet=quiet)


def _make_run(
    algorithm: str | Algorithm, task: str, name: str | None, values: dict[str, Any]
) -> Run:
    """Return the run of these values; one that is None has the default."""
    if isinstance(algorithm, str):
        run = default_run(algorithm, envs.canonical(task))
    else:
        run = Run("custom", algorithm, envs.canonical(task))
    values = {"name": name, **values}
    return replaced(run, {key: value for key, value in values.items() if value is not None})


def _finish(run: Run, out: Path, *, trust: bool, quiet: bool) -> FinishedRun:
    """Take a run to its end, from wherever it is."""
    # A task that cannot be made leaves nothing behind.
    env = envs.make(run.task, protocol=run.protocol)
    with ignoring_errors():
        env.close()
    path = prepare(run, out, trust=trust)
    if edits := describe_edits(run, out):
        warnings.warn(edits, stacklevel=3)
    require_resumable(path)
    if read_status(path, run.steps).state != "done":
        with Display(Console(markup=False), quiet=quiet) as display:
            _train([path], display)
    return FinishedRun(run, path)
