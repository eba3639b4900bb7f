"""A trained agent, and its policy as a function of NumPy observations."""

from pathlib import Path
from typing import Any, NamedTuple, final

import jax
import jax.numpy as jnp
import numpy as np

from dualac import envs
from dualac.agents.agent import make_agent
from dualac.envs.adapter import Adapted
from dualac.errors import DataError, UsageError
from dualac.training.checkpoint import Checkpoints
from dualac.training.evaluation import Act, Policy
from dualac.training.packed_state import AGENT, PackedState, PartlyPacked, tree_of
from dualac.training.rollout import EPISODE
from dualac.training.run import Run, load, require_same_task
from dualac.types import Agent, Spec, State

ONE_EPISODE = "this agent remembers within an episode: act = policy.begin_episode(seed), act(obs)"


class Exploiter:
    """The compiled functions by which an agent's states act at their best."""

    def __init__(self, agent: Agent, packed: PackedState, spec: Spec) -> None:
        """Compile nothing yet; find which of the packed arrays acting reads."""

        def begin(seed: Any) -> Any:
            return agent.begin(jax.random.key(seed))

        obs = jax.ShapeDtypeStruct((spec.obs_dim,), jnp.float32)
        memory = jax.eval_shape(begin, np.uint32(0))
        self.remembers = bool(jax.tree.leaves(memory))
        self.reads = packed.read_by(agent.exploit, memory, obs)
        self._begin = jax.jit(begin)
        self._exploit = jax.jit(
            lambda held, memory, obs: agent.exploit(packed.unpack(held), memory, obs)
        )

    def policy(self, held: PartlyPacked) -> Policy:
        """Return how a state plays episodes; `held` are the packed arrays in `reads`."""

        def begin_episode(seed: int) -> Act:
            memory = self._begin(np.uint32(seed)) if self.remembers else ()

            def act(obs: np.ndarray) -> np.ndarray:
                nonlocal memory
                action, memory = self._exploit(held, memory, obs)
                return np.asarray(action)

            return act

        return begin_episode


class LoadedAgent(NamedTuple):
    """All that a run had learned at a checkpoint."""

    run: Run
    step: int
    spec: Spec
    agent: Agent
    state: State
    damaged: list[str]  # a sentence for each newer checkpoint that cannot be read
    path: Path


def load_agent(path: Path, step: int | None = None, *, trust: bool = False) -> LoadedAgent:
    """Load the agent of a run's newest checkpoint, or of the one at `step`."""
    run = load(path, trust=trust)
    snapshot, damaged = Checkpoints(path, *run.identities()).peek(step)
    obs, actions = (snapshot.arrays.get(EPISODE + name) for name in ("obs", "actions"))
    if obs is None or actions is None or (obs.ndim, actions.ndim) != (1, 2):
        raise DataError(f"the checkpoint of {path} at step {snapshot.step} has no episode")
    spec = Spec(len(obs), actions.shape[1])
    agent = make_agent(run.algorithm, spec)
    template = jax.eval_shape(agent.init, jax.random.key(0))
    state = tree_of(AGENT, template, snapshot.arrays)
    return LoadedAgent(run, snapshot.step, spec, agent, state, damaged, path)


@final
class LoadedPolicy:
    """The deterministic policy of a run (for DAC the pessimist).

    It takes observations of shape (obs,) or (batch, obs) to actions in [-1, 1]. They are for
    `policy.make_env()`, which scales them to the task's own range.
    """

    def __init__(self, loaded: LoadedAgent) -> None:
        """Hold what acting reads of the agent's state."""
        self.run, self.step, self.spec = loaded.run, loaded.step, loaded.spec
        self.damaged, self.path = loaded.damaged, loaded.path
        packed = PackedState(loaded.state)
        exploiter = Exploiter(loaded.agent, packed, loaded.spec)
        arrays = packed.pack(loaded.state)
        self._policy = exploiter.policy({n: jnp.asarray(arrays[n]) for n in exploiter.reads})
        self._act = None if exploiter.remembers else self._policy(0)

    def make_env(self, seed: int | None = None, *, render: bool = False) -> Adapted:
        """Make the environment that the policy was trained in; refuse one that has changed."""
        env = envs.make(self.run.task, seed, self.run.protocol, render)
        require_same_task(self.path, env.describe())
        return env

    def begin_episode(self, seed: int) -> Act:
        """Return how the policy acts within one episode, with a memory of its own.

        The seed decides what an agent draws at an episode's start; today's rows draw nothing.
        """
        act = self._policy(seed)
        return lambda obs: act(self._checked(obs))

    def __call__(self, obs: np.ndarray) -> np.ndarray:
        """Return the action of an agent that remembers nothing within an episode."""
        if self._act is None:
            raise UsageError(ONE_EPISODE)
        return self._act(self._checked(obs))

    def _checked(self, obs: np.ndarray) -> np.ndarray:
        obs = np.asarray(obs, np.float32)
        if obs.ndim not in (1, 2) or obs.shape[-1] != self.spec.obs_dim:
            raise UsageError(
                f"this policy takes observations of shape ({self.spec.obs_dim},) or (batch, "
                f"{self.spec.obs_dim}), not {obs.shape}"
            )
        if not np.isfinite(obs).all():
            raise DataError("the observation holds NaN or infinity")
        return obs


def load_policy(path: str | Path, step: int | None = None, *, trust: bool = False) -> LoadedPolicy:
    """Load the policy of a run's newest checkpoint, or of the one at `step`.

    A run that was made elsewhere may name code of its own, which is run only with `trust`.
    """
    return LoadedPolicy(load_agent(Path(path), step, trust=trust))
