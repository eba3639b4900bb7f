"""The agents of a pack on the device. The only vmap over seeds is here."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from dualac.agents.agent import make_agent
from dualac.envs.faults.guarded import to_float32
from dualac.machine.cores import helping_cores
from dualac.ops import start_helpers
from dualac.runs.arrays import Arrays
from dualac.training.checkpoint import Snapshot
from dualac.training.evaluation import Policy
from dualac.training.packed_state import (
    AGENT,
    MEMORY,
    Packed,
    PackedState,
    PartlyPacked,
    named_arrays,
    tree_of,
)
from dualac.training.policy import Exploiter
from dualac.training.run import Run
from dualac.types import Agent, Key, Memory, Spec, State, Transition

PIECE = 256  # states whose value is computed at once
NONFINITE = "nonfinite"  # the metric that is 1 where an update met a number that is not finite
# Streams of JAX keys. Never renumber: the numbers of every run depend on it.
INIT, EXPLORE, UPDATE, OBSERVE_RETURN, BEGIN = range(5)
NO_EPISODE = np.uint32(2**32 - 1)  # no memory has begun yet


class UpdateInputs(NamedTuple):
    """What the updates of one step of the environment need: minibatches and the step's number."""

    batches: Transition
    step: Any


class EpisodeMemory(NamedTuple):
    """What exploring remembers, and the number of the episode that it is of."""

    episode: Any
    held: Memory


class Learner:
    """The agents of a pack: their state, the sums of their metrics, and the functions that move it.

    Randomness is a function of the seed and the step, so there is no key to lose. Alone, a seed
    runs without a batch axis: on CPU that is faster.
    """

    def __init__(self, runs: list[Run], spec: Spec, agent: Agent | None = None) -> None:
        """Start from the initial weights; `agent` stands in for the one of the run's row."""
        run = runs[0]
        self.agent = make_agent(run.algorithm, spec) if agent is None else agent
        self.size = len(runs)
        start_helpers(helping_cores())
        self._take_keys(runs)
        self._first_learning = max(run.warmup, 1)
        self._run = run
        self._batch = batch = _blank_batch(run.batch_size, spec)
        # Traced once and inlined wherever they are called: the same programs as without jit.
        self._update = jax.jit(self.agent.update, inline=True)
        init = jax.jit(self.agent.init, inline=True)
        self._blank: State = jax.eval_shape(init, self._init_keys[0])
        self._packed = PackedState(self._blank)
        self._names = self._metric_names(batch)
        self._init = jax.jit(
            lambda key, step: self._packed.pack(init(jax.random.fold_in(key, step)))
        )
        self._prepare_acting(batch, spec)
        self._prepare_learning()
        self.start_over()

    def start_over(self) -> None:
        """Go back to the initial weights, as if nothing had been learned."""
        # One by one, not by vmap: each seed starts from the very weights it has when it runs alone.
        self._held: Packed = self._stack([self._init(key, np.uint32(0)) for key in self._init_keys])
        self._memory = self._stack([self._blank_memory] * self.size)
        self.forget_metrics()
        self._diverged: Any = np.zeros(self.size, np.float32)

    def compile_ahead(self) -> None:
        """Do once, with zeros, all that a run asks for; then start over.

        So what compiling takes can be given back before the replay grows.
        """
        batch = jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), self._batch)
        batches = jax.tree.map(lambda leaf: np.stack([leaf] * self._run.replay_ratio), batch)
        self.learn([batches] * self.size, 0)
        self.explore([batch.obs[0]] * self.size, [0] * self.size, 0)
        self.observe_return([0.0] * self.size, 0)
        if self._run.resets or self._run.reset_every:
            self.reset(0, same_init=False)
        if self._run.algorithm.explorer_restart_every:
            self.restart_explorer(0)
        for index in range(self.size):
            self.diagnose(index, batch)
            self.exploit(index)(0)(batch.obs[0])
            self.value(index)(batch.obs, batch.action)
        self.start_over()

    def explore(self, obs: list[np.ndarray], episodes: list[int], step: int) -> list[np.ndarray]:
        """Return the actions of training, and go on with the memory of each seed's episode.

        A memory begins where its seed's episode is not the one of the last call.
        """
        numbers = [np.uint32(episode) for episode in episodes]
        held = {number: self._held[number] for number in self._explore_reads}
        actions, self._memory = self._explore(
            held,
            self._memory,
            self._together(obs),
            self._together(numbers),
            (self._keys[EXPLORE], self._keys[BEGIN]),
            np.uint32(step),
        )
        actions = np.asarray(actions)
        return list(actions) if self.size > 1 else [actions]

    def exploit(self, index: int) -> Policy:
        """Return how one seed acts at its best now, whatever is learned later."""
        return self._exploiter.policy(self._copied(self._exploiter.reads, index))

    def learn(self, batches: list[Transition], step: int) -> None:
        """Make the updates of a step, one for each minibatch."""
        batch = Transition._make(map(self._together, zip(*batches, strict=True)))
        inputs = UpdateInputs(batch, np.uint32(step))
        self._held, self._tally, self._diverged = self._learn(
            self._held, self._tally, self._keys[UPDATE], inputs
        )

    def observe_return(self, returns: list[float | None], step: int) -> None:
        """Give the agents whose episode ended its return."""
        if any(value is not None for value in returns):
            values = [to_float32(value or 0.0) for value in returns]
            ended = [np.bool_(value is not None) for value in returns]
            self._held = self._observe_return(
                self._held,
                self._together(values),
                self._together(ended),
                self._keys[OBSERVE_RETURN],
                np.uint32(step),
            )

    def reset(self, step: int, *, same_init: bool) -> None:
        """Start networks, scalars and optimisers afresh."""
        self._renew(self._reset, 0 if same_init else step)

    def restart_explorer(self, step: int) -> None:
        """Start the explorer afresh."""
        self._renew(self._restart_explorer, step)

    def diverged(self) -> list[int]:
        """List the seeds whose updates met what is not finite since the last log.

        This waits for the updates to end.
        """
        return np.flatnonzero(np.asarray(self._diverged)).tolist()

    def metrics(self, index: int) -> dict[str, float]:
        """Return one seed's means since they were last forgotten, of what was measured since."""
        return {
            f"train/{name}": float(total / times)
            for name, (total, times) in self.tally(index).items()
            if name != NONFINITE and times
        }

    def tally(self, index: int) -> dict[str, np.ndarray]:
        """Return of each metric the sum since it was last forgotten, and how many were summed."""
        return dict(zip(self._names, np.asarray(self._member(self._tally, index)), strict=True))

    def forget_metrics(self) -> None:
        """Begin the sums of metrics at zero."""
        shape = (len(self._names), 2)
        self._tally = jnp.zeros((self.size, *shape) if self.size > 1 else shape)

    def diagnose(self, index: int, batch: Transition) -> dict[str, float]:
        """Measure what is too expensive for every update."""
        values = self._diagnose(self._member(self._held, index), batch)
        return {f"train/{name}": float(value) for name, value in values.items()}

    def value(self, index: int) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
        """Return the critics' mean now, as a function of many states and actions."""
        held = self._copied(self._value_reads, index)

        def value(obs: np.ndarray, action: np.ndarray) -> np.ndarray:
            # In pieces of one size, so that it is compiled once.
            values = [
                np.asarray(self._value(held, _piece(obs, start), _piece(action, start)))
                for start in range(0, len(obs), PIECE)
            ]
            return np.concatenate(values)[: len(obs)]

        return value

    def save(self, index: int) -> Arrays:
        """Return one seed's share as named arrays, not copied.

        The names are the paths of the tree, so a new part cannot be forgotten.
        """
        tree = {AGENT: self.member_state(index), "tally": self.tally(index)}
        if self._remembers:
            tree[MEMORY] = self._member(self._memory, index)
        return named_arrays(jax.tree.map(np.asarray, tree))

    def restore(self, snapshots: Sequence[Snapshot | None]) -> None:
        """Stand where these snapshots were taken; a seed without one starts over."""
        self.start_over()
        saved = [
            self.save(index) if snapshot is None else snapshot.arrays
            for index, snapshot in enumerate(snapshots)
        ]
        states = [tree_of(AGENT, self._blank, arrays) for arrays in saved]
        unmeasured = np.zeros(2, np.float32)  # by a version that did not know the metric
        tallies = [
            np.stack([arrays.get(f"tally.{name}", unmeasured) for name in self._names])
            for arrays in saved
        ]
        if self._remembers:
            memories = [tree_of(MEMORY, self._blank_memory, arrays) for arrays in saved]
            self._memory = self._stack(memories)
        self._held = self._stack([self._packed.pack(state) for state in states])
        self._tally = self._stack(tallies)

    def member_state(self, index: int) -> State:
        """Return one seed's state as arrays of NumPy.

        On a CPU they are not copied; while one of them is held, the next update copies all.
        """
        return self._packed.unpack([self._member(np.asarray(array), index) for array in self._held])

    def _take_keys(self, runs: list[Run]) -> None:
        roots = [jax.random.key(run.seed) for run in runs]
        keys = [jax.random.split(root, 4) for root in roots]
        self._init_keys = [key[INIT] for key in keys]
        self._keys = {
            purpose: self._stack([key[purpose] for key in keys])
            for purpose in (EXPLORE, UPDATE, OBSERVE_RETURN)
        }
        self._keys[BEGIN] = self._stack([jax.random.fold_in(root, BEGIN) for root in roots])

    def _metric_names(self, batch: Transition) -> list[str]:
        key = self._init_keys[0]
        noise = jax.eval_shape(lambda key: self.agent.noise(key, batch.action.size), key)
        metrics = jax.eval_shape(self._update, self._blank, batch, noise, np.uint32(0))[1]
        return sorted(metrics)

    def _prepare_acting(self, batch: Transition, spec: Spec) -> None:
        key, obs = self._init_keys[0], jax.ShapeDtypeStruct((spec.obs_dim,), jnp.float32)
        begun = jax.eval_shape(self.agent.begin, key)
        blank = jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), begun)
        self._remembers = bool(jax.tree.leaves(begun))
        self._blank_memory = EpisodeMemory(NO_EPISODE, blank)
        self._explore_reads = self._packed.read_by(self.agent.explore, begun, obs, key)
        self._explore = jax.jit(self._lift(self._explore_one, (0, 0, 0, 0, 0, None)))
        self._exploiter = Exploiter(self.agent, self._packed, spec)
        self._value_reads = self._packed.read_by(self.agent.value, batch.obs, batch.action)
        self._value = jax.jit(
            lambda held, obs, action: self.agent.value(self._packed.unpack(held), obs, action)
        )
        self._diagnose = jax.jit(
            lambda held, batch: self.agent.diagnose(self._packed.unpack(held), batch)
        )

    def _prepare_learning(self) -> None:
        self._learn = jax.jit(
            self._lift(self._learn_one, (0, 0, 0, UpdateInputs(0, None))),  # pyright: ignore[reportArgumentType]
            donate_argnums=(0, 1),
        )
        self._observe_return = jax.jit(
            self._lift(self._observe_return_one, (0, 0, 0, 0, None)), donate_argnums=(0,)
        )
        self._reset = jax.jit(self._renewal(only_explorer=False), donate_argnums=(0,))
        self._restart_explorer = jax.jit(self._renewal(only_explorer=True), donate_argnums=(0,))

    def _explore_one(  # noqa: PLR0917  vmap's axes are of positions
        self,
        held: PartlyPacked,
        memory: EpisodeMemory,
        obs: jax.Array,
        episode: jax.Array,
        keys: tuple[Key, Key],
        step: jax.Array,
    ) -> tuple[jax.Array, EpisodeMemory]:
        explore_key, begin_key = keys
        begun = self.agent.begin(jax.random.fold_in(begin_key, episode))
        goes_on = memory.episode == episode
        current = jax.tree.map(lambda old, new: jnp.where(goes_on, old, new), memory.held, begun)
        key = jax.random.fold_in(explore_key, step)
        action, after = self.agent.explore(self._packed.unpack(held), current, obs, key)
        return action, EpisodeMemory(episode, after)

    def _learn_one(
        self, held: Packed, tally: jax.Array, key: Key, inputs: UpdateInputs
    ) -> tuple[Packed, jax.Array, jax.Array]:
        def update(carry: Any, inputs: Any) -> tuple[Any, None]:
            state, tally = carry
            state, metrics = self._update(state, *inputs)
            values = jnp.stack([metrics[name] for name in self._names])
            measured = ~jnp.isnan(values)
            sums = jnp.stack([jnp.where(measured, values, 0.0), measured], axis=-1)
            return (state, tally + sums), None

        batches, step = inputs
        updates = batches.reward.shape[0]
        keys = jax.random.split(jax.random.fold_in(key, step), updates)
        # All at once: a third of the time of one by one.
        noises = jax.vmap(lambda key: self.agent.noise(key, batches.action[0].size))(keys)
        before = (step - np.uint32(self._first_learning)) * np.uint32(updates)
        counts = before + jnp.arange(updates, dtype=jnp.uint32)
        start = self._packed.unpack(held), tally
        state, tally = jax.lax.scan(update, start, (batches, noises, counts))[0]
        return self._packed.pack(state), tally, tally[self._names.index(NONFINITE), 0]

    def _observe_return_one(
        self, held: Packed, value: jax.Array, ended: jax.Array, key: Key, step: jax.Array
    ) -> Packed:
        state = self._packed.unpack(held)
        after = self.agent.observe_return(state, value, jax.random.fold_in(key, step))
        pairs = zip(self._packed.pack(after), held, strict=True)
        return [jnp.where(ended, new, old) for new, old in pairs]

    def _renewal(self, *, only_explorer: bool) -> Callable[..., Packed]:
        def renew(held: Packed, key: Key, step: jax.Array) -> Packed:
            state, key = self._packed.unpack(held), jax.random.fold_in(key, step)
            return self._packed.pack(self.agent.reset(state, key, only_explorer=only_explorer))

        return renew

    def _renew(self, renewal: Callable[..., Packed], step: int) -> None:
        self._held = self._stack(
            [
                renewal(self._member(self._held, index), key, np.uint32(step))
                for index, key in enumerate(self._init_keys)
            ]
        )

    def _copied(self, numbers: list[int], index: int) -> PartlyPacked:
        """Copy some packed arrays of one seed, which stay as they are now."""
        arrays = {number: np.asarray(self._held[number]) for number in numbers}
        return {number: jnp.array(self._member(arrays[number], index)) for number in numbers}

    def _lift(self, function: Callable, axes: tuple[Any, ...]) -> Callable:
        return jax.vmap(function, in_axes=axes) if self.size > 1 else function

    def _stack(self, trees: list[Any]) -> Any:
        """Put what the seeds have each on the device, as one.

        The host's arrays are copied: JAX may alias what it is given, and then learn in it.
        """
        stacked = jax.tree.map(lambda *leaves: self._together(leaves), *trees)
        return jax.tree.map(
            lambda leaf: leaf if isinstance(leaf, jax.Array) else jnp.array(leaf), stacked
        )

    def _together(self, items: Sequence[Any]) -> Any:
        """Stack what the seeds have each where it already is, on the host or on the device."""
        if self.size == 1:
            return items[0]
        on_host = isinstance(items[0], np.ndarray | np.generic)
        return (np if on_host else jnp).stack(items)

    def _member(self, tree: Any, index: int) -> Any:
        return jax.tree.map(lambda leaf: leaf[index], tree) if self.size > 1 else tree


def _piece(rows: np.ndarray, start: int) -> np.ndarray:
    """Return PIECE rows, with zeros behind the last."""
    piece = rows[start : start + PIECE]
    missing = PIECE - len(piece)
    zeros = np.zeros((missing, rows.shape[1]), rows.dtype)
    return np.concatenate([piece, zeros]) if missing else piece


def _blank_batch(size: int, spec: Spec) -> Any:
    obs = jax.ShapeDtypeStruct((size, spec.obs_dim), jnp.float32)
    action = jax.ShapeDtypeStruct((size, spec.action_dim), jnp.float32)
    number = jax.ShapeDtypeStruct((size,), jnp.float32)
    return Transition(obs, action, number, number, obs)  # pyright: ignore[reportArgumentType]
