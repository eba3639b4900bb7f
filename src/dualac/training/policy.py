"""A trained agent, and its policy as a function of NumPy observations."""

from pathlib import Path
from typing import NamedTuple, final

import jax
import numpy as np

from dualac.agents.agent import make_agent
from dualac.errors import DataError, UsageError
from dualac.machine.compilation import compiled
from dualac.training.checkpoint import Checkpoints
from dualac.training.learner import rebuilt_agent
from dualac.training.rollout import EPISODE
from dualac.training.run import Run, load
from dualac.types import Agent, Spec, State


class LoadedAgent(NamedTuple):
    """All that a run had learned at a checkpoint."""

    run: Run
    step: int
    spec: Spec
    agent: Agent
    state: State
    damaged: list[str]  # what stood in the way of a newer one


def load_agent(path: Path, step: int | None = None) -> LoadedAgent:
    """The agent of a run's newest checkpoint, or of the one at `step`."""
    run = load(path)
    snapshot, damaged = Checkpoints(path, *run.identities()).peek(step)
    spec = Spec(
        snapshot.arrays[EPISODE + "obs"].shape[0], snapshot.arrays[EPISODE + "actions"].shape[1]
    )
    agent = make_agent(run.algorithm, spec)
    template = jax.eval_shape(agent.init, jax.random.key(0))
    return LoadedAgent(
        run, snapshot.step, spec, agent, rebuilt_agent(template, snapshot.arrays), damaged
    )


@final
class LoadedPolicy:
    """The deterministic policy of a run (for DAC the pessimist): observations of shape (obs,) or
    (batch, obs) to actions in [-1, 1].

    Actions are for `dualac.make_env(policy.run.task)`, which scales them to the task's own range.
    """

    def __init__(self, path: Path, step: int | None = None) -> None:
        loaded = load_agent(path, step)
        self.run, self.step, self.spec, self.damaged = (
            loaded.run,
            loaded.step,
            loaded.spec,
            loaded.damaged,
        )
        agent = loaded.agent
        self._state = jax.device_put(agent.judged(loaded.state))
        self._exploit = compiled(lambda state, obs: agent.exploit(state, (), obs)[0])

    def __call__(self, obs: np.ndarray) -> np.ndarray:
        given = np.asarray(obs, np.float32)
        if given.ndim not in (1, 2) or given.shape[-1] != self.spec.obs_dim:
            raise UsageError(
                f"this policy takes observations of shape ({self.spec.obs_dim},) or (batch, "
                f"{self.spec.obs_dim}), not {given.shape}"
            )
        if not np.isfinite(given).all():
            raise DataError("the observation holds NaN or infinity")
        return np.asarray(self._exploit(self._state, given))


def load_policy(path: str | Path, step: int | None = None) -> LoadedPolicy:
    """The policy of a run's newest checkpoint, or of the one at `step`."""
    return LoadedPolicy(Path(path), step)
