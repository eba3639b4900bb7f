"""The library as Python sees it: `train`, `load_policy`, `make_env`, `make_agent`."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, final

from rich.console import Console

from dualac import envs
from dualac.agents.agent import make_agent as _agent
from dualac.agents.algorithm import Algorithm
from dualac.agents.algorithms import ALGORITHMS
from dualac.cli.progress import Display
from dualac.envs import Protocol
from dualac.envs.foreign import ignoring_errors
from dualac.errors import UsageError
from dualac.parts import user_files
from dualac.parts.text import nearest
from dualac.runs.state import read_status, require_resumable
from dualac.training.loop import train as _train
from dualac.training.policy import LoadedPolicy, load_policy
from dualac.training.run import Run, prepare
from dualac.types import Agent, Spec

__all__ = ["FinishedRun", "LoadedPolicy", "load_policy", "make_agent", "make_env", "train"]

make_env = envs.make

# Known by a name, and no row of their own: replay ratio and resets belong to a run, whatever its
# algorithm.
PRESETS: dict[str, tuple[str, dict[str, Any]]] = {
    "sr-sac": ("sac", {"replay_ratio": 16, "resets": (160_000, 320_000, 480_000, 640_000, 800_000)})
}


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


def find_algorithm(name: str) -> Algorithm:
    """A row of the table, or one of a user's own file: `mine.py:my_algorithm`."""
    path, colon, variable = name.rpartition(":")
    if colon and path.endswith(".py"):
        module = vars(user_files.load(Path(path)))
        rows = [key for key, value in module.items() if isinstance(value, Algorithm)]
        if variable not in rows:
            raise UsageError(
                f"{path} has no Algorithm called "
                f"{variable!r}"
                + (nearest(variable, rows) or f"; it has {', '.join(rows) or 'none'}")
            )
        return module[variable]
    if name in PRESETS:
        row, values = PRESETS[name]
        told = " and ".join(f"{key}={value}" for key, value in values.items())
        raise UsageError(
            f"{name} is {row} with {told}, which belong to a run, not to an algorithm: give them "
            f"to yours, or type dualac train {name}"
        )
    if name not in ALGORITHMS:
        raise UsageError(
            f"no algorithm is called {name!r}{nearest(name, list(ALGORITHMS))}; dualac list "
            "algorithms shows them"
        )
    return ALGORITHMS[name]


def make_agent(algorithm: str | Algorithm, obs_dim: int, action_dim: int) -> Agent:
    """The pure functions init, update, explore, exploit and hear of a row, for a task of these
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
    seed: int = Run.seed,
    steps: int = Run.steps,
    warmup: int = Run.warmup,
    replay_ratio: int = Run.replay_ratio,
    batch_size: int = Run.batch_size,
    capacity: int = Run.capacity,
    resets: tuple[int, ...] = Run.resets,
    reset_every: int = Run.reset_every,
    reset_same_init: bool = Run.reset_same_init,
    eval_every: int = Run.eval_every,
    eval_episodes: int | None = None,
    log_every: int = Run.log_every,
    checkpoint_every: int = Run.checkpoint_every,
    protocol: Protocol = Run.protocol,
    out: str | Path = "runs/default",
    quiet: bool = False,
) -> FinishedRun:
    """Train one seed in this process, or continue it if `out` already holds this very run.

    `algorithm` is a row of the table by name, or a row of your own (then give it a `name`). The
    bits depend on how many cores this process may use; the command line confines each seed to one.
    SIGINT and SIGTERM write a checkpoint and raise `Interrupted`.
    """
    row = find_algorithm(algorithm) if isinstance(algorithm, str) else algorithm
    label = name or (algorithm.rpartition(".py:")[2] if isinstance(algorithm, str) else "custom")
    run = Run(
        label,
        row,
        envs.canonical(task),
        seed,
        steps,
        warmup,
        replay_ratio,
        batch_size,
        capacity,
        resets,
        reset_every,
        reset_same_init,
        eval_every,
        log_every,
        checkpoint_every,
        protocol if eval_episodes is None else replace(protocol, eval_episodes=eval_episodes),
    )
    env = envs.make(
        run.task, protocol=run.protocol
    )  # a task that cannot be made leaves nothing behind
    with ignoring_errors():
        env.close()
    path = prepare(run, Path(out))
    require_resumable(path)
    if read_status(path, run.steps).state != "done":
        with Display(Console(markup=False), quiet=quiet) as display:
            _train([path], display)
    return FinishedRun(run, path)
