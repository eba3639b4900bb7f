"""The agents of a pack on the device. The only vmap over seeds is here."""

import operator
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from dualac.agents.agent import make_agent
from dualac.envs.faults.guarded import to_float32
from dualac.errors import DataError
from dualac.machine.compilation import compiled
from dualac.machine.cores import helping_cores
from dualac.ops import start_helpers
from dualac.training.checkpoint import Arrays, Snapshot
from dualac.training.packed_state import Bundle
from dualac.training.run import Run
from dualac.types import Agent, Key, Spec, State, Transition

PIECE = 256  # states that are judged at once
NONFINITE = "nonfinite"  # the metric that is 1 where an update saw what is not a number
INIT, EXPLORE, UPDATE, OBSERVE_RETURN = range(
    4
)  # streams of JAX keys; never renumber: runs depend on it


Held = list[jax.Array]  # a state in the arrays of its bundle


class UpdateInputs(NamedTuple):
    """What a step of the environment has to teach: minibatches, what is seen now, and the step's
    number.
    """

    batches: Any
    obs: Any
    step: Any


class Foreseen(NamedTuple):
    """Actions that were decided ahead, with what was learned, and for what."""

    held: Held
    obs: list[np.ndarray]
    step: int

    def meets(self, held: Held, obs: list[np.ndarray], step: int) -> bool:
        return step == self.step and held is self.held and all(map(operator.is_, obs, self.obs))


class Learner:
    """The agents of a pack on the device: their state, the sums of their metrics, and the compiled
    functions that move them.

    Randomness is a function of the seed and the step, so there is no key to lose. Alone, a seed
    runs without a batch axis: on CPU that is faster.
    """

    def __init__(self, runs: list[Run], spec: Spec) -> None:
        run = runs[0]
        self.agent: Agent = make_agent(run.algorithm, spec)
        self.size = len(runs)
        start_helpers(helping_cores())
        keys = [jax.random.split(jax.random.key(run.seed), 4) for run in runs]
        self._init_keys = [key[INIT] for key in keys]
        self._keys = {
            purpose: self._stack([key[purpose] for key in keys])
            for purpose in (EXPLORE, UPDATE, OBSERVE_RETURN)
        }
        self._learning_keys = self._keys[UPDATE], self._keys[EXPLORE]
        self._first_learning = max(run.warmup, 1)
        # Traced once and inlined wherever they are called: the same programs as without jit.
        init, self._act, self._update = (
            jax.jit(function, inline=True)
            for function in (self.agent.init, self.agent.explore, self.agent.update)
        )
        self._blank: State = jax.eval_shape(init, self._init_keys[0])
        self._bundle = Bundle(self._blank)
        self._init = compiled(
            lambda key, step: self._bundle.tie(init(jax.random.fold_in(key, step)))
        )
        self._reset, self._restart = map(
            self._renewal, (self.agent.reset, self.agent.restart_explorer)
        )
        self._diagnose = compiled(lambda held, batch: self.agent.diagnose(self._state(held), batch))
        self._value = compiled(self.agent.value)
        self._explored = self._bundle.numbers(self.agent.exploring)
        # Alike: what `_learn` foresees must be what `_explore` would have decided.
        self._explore = compiled(self._lift(self._explore_held, (0, 0, 0, None)))
        self._exploit = compiled(lambda state, obs: self.agent.exploit(state, (), obs)[0])
        self._learn = compiled(
            self._lift(self._learn_one, (0, 0, 0, UpdateInputs(0, 0, None))), donate_argnums=(0, 1)
        )
        self._observe_return = compiled(
            self._lift(self._observe_return_one, (0, 0, 0, 0, None)), donate_argnums=(0,)
        )
        self._run, self._batch = run, _blank_batch(run.batch_size, spec)
        noise = jax.eval_shape(
            lambda key: self.agent.noise(key, self._batch.action.size), self._init_keys[0]
        )
        metrics = jax.eval_shape(self._update, self._blank, self._batch, noise, np.uint32(0))[1]
        self._names = sorted(metrics)
        self.begin()

    def begin(self) -> None:
        """As if nothing had been learned."""
        # One by one, not by vmap: each seed starts from the very weights it has when it runs alone.
        self._held: Held = self._stack([self._init(key, np.uint32(0)) for key in self._init_keys])
        self.forget_metrics()
        self._foreseen: Foreseen | None = None
        self._answer: jax.Array | None = (
            # of the last call that learned: the actions that it foresaw, and whether it diverged
            None
        )

    def compile_ahead(self) -> Iterator[None]:
        """Do all that a run will ask for once, with zeros, and go back: then nothing of the agent
        is left to compile. It pauses where compiling has taken most, so that this can be given
        back.
        """
        self._init.clear_cache()  # a run begins once: 28 MB
        yield
        before = [
            Snapshot(0, {name: array.copy() for name, array in self.save(index).items()}, {})
            for index in range(self.size)
        ]
        batch: Any = jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), self._batch)
        obs, step = [batch.obs[0]] * self.size, self._first_learning
        self.learn(
            [jax.tree.map(lambda leaf: np.stack([leaf] * self._run.replay_ratio), batch)]
            * self.size,
            obs,
            step,
        )
        yield
        self.explore(obs, step)
        self.observe_return([0.0] * self.size, step)
        if self._run.resets or self._run.reset_every:
            self.reset(step, same_init=False)
            yield
        if self._run.algorithm.explorer_restart_every:
            self.restart_explorer(step)
            yield
        for index in range(self.size):
            self.diagnose(index, batch)
        yield
        for index in range(self.size):
            self.exploit(index)(obs[index])
            self.value(index)(batch.obs, batch.action)
        self.restore(before)
        self._foreseen = self._answer = None
        del before
        yield

    def explore(self, obs: list[np.ndarray], step: int) -> list[np.ndarray]:
        if self._foreseen and self._foreseen.meets(self._held, obs, step):
            actions = np.asarray(self._answer)[..., :-1]
        else:
            held = {number: self._held[number] for number in self._explored}
            actions = np.asarray(
                self._explore(held, self._together(obs), self._keys[EXPLORE], np.uint32(step))
            )
        return list(actions) if self.size > 1 else [actions]

    def exploit(self, index: int) -> Callable[[np.ndarray], np.ndarray]:
        """How one seed acts at its best now, whatever is learned later."""
        state = self._copied(self.agent.judged, index)
        return lambda obs: np.asarray(self._exploit(state, obs))

    def learn(self, batches: list[Transition], obs: list[np.ndarray], step: int) -> None:
        """A step's updates; and in the same call, since one more would cost more, the actions that
        `explore` will be asked for if nothing changes.
        """
        batch = Transition._make(map(self._together, zip(*batches, strict=True)))
        lesson = UpdateInputs(batch, self._together(obs), np.uint32(step))
        self._held, self._tally, self._answer = self._learn(
            self._held, self._tally, self._learning_keys, lesson
        )
        self._foreseen = Foreseen(self._held, obs, step + 1)

    def observe_return(self, returns: list[float | None], step: int) -> None:
        """Tell those whose episode ended what it returned."""
        if any(value is not None for value in returns):
            heard = [to_float32(value or 0.0) for value in returns]
            ended = [np.bool_(value is not None) for value in returns]
            self._held = self._observe_return(
                self._held,
                self._together(heard),
                self._together(ended),
                self._keys[OBSERVE_RETURN],
                np.uint32(step),
            )

    def reset(self, step: int, *, same_init: bool) -> None:
        self._renew(self._reset, 0 if same_init else step)

    def restart_explorer(self, step: int) -> None:
        self._renew(self._restart, step)

    def diverged(self) -> list[int]:
        """Those of the pack in whose losses or values something was not finite since the last log.
        Waits for what they learn.
        """
        return (
            []
            if self._answer is None
            else np.flatnonzero(np.asarray(self._answer)[..., -1]).tolist()
        )

    def metrics(self, index: int) -> dict[str, float]:
        """One seed's means since they were last forgotten, of what was measured since then."""
        return {
            f"train/{name}": float(total / times)
            for name, (total, times) in self.tally(index).items()
            if name != NONFINITE and times
        }

    def tally(self, index: int) -> dict[str, np.ndarray]:
        """Of each metric the sum since it was last forgotten, and how often it was measured."""
        return dict(zip(self._names, np.asarray(self._member(self._tally, index)), strict=True))

    def diagnose(self, index: int, batch: Transition) -> dict[str, float]:
        return {
            f"train/{name}": float(value)
            for name, value in self._diagnose(self._member(self._held, index), batch).items()
        }

    def value(self, index: int) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
        """The critics' mean now, as a function of many states and actions. They are judged in
        pieces of one size, so that it is compiled once.
        """
        state = self._copied(self.agent.valuing, index)

        def judged(obs: np.ndarray, action: np.ndarray) -> np.ndarray:
            pieces = range(0, len(obs), PIECE)
            values = [
                self._value(
                    state,
                    _padded(obs[start : start + PIECE]),
                    _padded(action[start : start + PIECE]),
                )
                for start in pieces
            ]
            return np.concatenate([np.asarray(value) for value in values])[: len(obs)]

        return judged

    def forget_metrics(self) -> None:
        shape = (len(self._names), 2)
        self._tally = jnp.zeros((self.size, *shape) if self.size > 1 else shape)

    def save(self, index: int) -> Arrays:
        """One seed's share as named arrays, not copied. The names are the paths of the tree, so a
        new part cannot be forgotten.
        """
        return _named({"agent": self.member_state(index), "tally": self.tally(index)})

    def restore(self, snapshots: list[Snapshot]) -> None:
        agents = [rebuilt_agent(self._blank, snapshot.arrays) for snapshot in snapshots]
        # before the others come: both at once would be the most that a learner ever takes
        self._held = []
        self._held = self._stack([self._bundle.tie(agent) for agent in agents])
        never = np.zeros(2, np.float32)  # measured, by a version that did not know it
        self._tally = self._stack(
            [
                np.stack([snapshot.arrays.get(f"tally.{name}", never) for name in self._names])
                for snapshot in snapshots
            ]
        )

    def member_state(self, index: int) -> State:
        """One seed's agent as the host sees it. On a CPU that is where it lies: to hold on to it
        would have the next update move a copy.
        """
        return self._state([self._member(np.asarray(array), index) for array in self._held])

    def _copied(self, part: Callable[[State], State], index: int) -> State:
        """Of one seed's agent this part, which stays as it is now."""
        held = {
            number: self._member(np.asarray(self._held[number]), index)
            for number in self._bundle.numbers(part)
        }
        return jax.tree.map(jnp.array, part(self._bundle.untie(held)))

    def _state(self, held: Sequence[Any]) -> State:
        return self._bundle.untie(dict(enumerate(held)))

    def _explore_held(
        self, held: dict[int, jax.Array], obs: jax.Array, key: jax.Array, step: jax.Array
    ) -> jax.Array:
        return self._explore_one(self._bundle.untie(held), obs, key, step)

    def _explore_one(
        self, state: State, obs: jax.Array, key: jax.Array, step: jax.Array
    ) -> jax.Array:
        return self._act(self.agent.exploring(state), (), obs, jax.random.fold_in(key, step))[0]

    def _learn_one(
        self, held: Held, tally: jax.Array, keys: tuple[Key, Key], lesson: UpdateInputs
    ) -> tuple[Held, jax.Array, jax.Array]:
        def body(
            carry: tuple[State, jax.Array], inputs: tuple[Transition, Any, jax.Array]
        ) -> tuple[tuple[State, jax.Array], None]:
            state, metrics = self._update(carry[0], *inputs)
            values = jnp.stack([metrics[name] for name in self._names])
            measured = ~jnp.isnan(values)
            return (
                state,
                carry[1] + jnp.stack([jnp.where(measured, values, 0.0), measured], axis=-1),
            ), None

        batches, obs, step = lesson
        updates = batches.reward.shape[0]
        update_keys = jax.random.split(jax.random.fold_in(keys[0], step), updates)
        noises = jax.vmap(lambda key: self.agent.noise(key, batches.action[0].size))(
            update_keys
        )  # all at once: a third of the time of one by one
        counts = (step - np.uint32(self._first_learning)) * np.uint32(updates) + jnp.arange(
            updates, dtype=jnp.uint32
        )
        state, tally = jax.lax.scan(body, (self._state(held), tally), (batches, noises, counts))[0]
        state = jax.lax.optimization_barrier(
            state
        )  # so that it acts by the same program as where it only acts
        action = self._explore_one(state, obs, keys[1], step + 1)
        return (
            self._bundle.tie(state),
            tally,
            jnp.append(action, tally[self._names.index(NONFINITE), 0]),
        )

    def _observe_return_one(
        self, held: Held, heard: jax.Array, ended: jax.Array, key: jax.Array, step: jax.Array
    ) -> Held:
        told = self._bundle.tie(
            self.agent.observe_return(self._state(held), heard, jax.random.fold_in(key, step))
        )
        return [jnp.where(ended, new, old) for new, old in zip(told, held, strict=True)]

    def _renewal(self, renew: Callable[[State, Key], State]) -> Callable:
        """As a program that moves what is held where it lies."""
        return compiled(
            lambda held, key, step: self._bundle.tie(
                renew(self._state(held), jax.random.fold_in(key, step))
            ),
            donate_argnums=(0,),
        )

    def _renew(self, renewal: Callable, step: int) -> None:
        self._held = self._stack(
            [
                renewal(self._member(self._held, index), key, np.uint32(step))
                for index, key in enumerate(self._init_keys)
            ]
        )

    def _lift(self, function: Callable, axes: tuple[Any, ...]) -> Callable:
        return jax.vmap(function, in_axes=axes) if self.size > 1 else function

    def _stack(self, trees: list[Any]) -> Any:
        """On the device. The host's arrays are copied: JAX may alias what it is given, and then
        learn in it.
        """
        stacked = jax.tree.map(lambda *leaves: self._together(leaves), *trees)
        return jax.tree.map(
            lambda leaf: leaf if isinstance(leaf, jax.Array) else jnp.array(leaf), stacked
        )

    def _together(self, items: Sequence[Any]) -> Any:
        """What the seeds have each, as one; where it already is, on the host or on the device."""
        return (
            (np if isinstance(items[0], np.ndarray | np.generic) else jnp).stack(items)
            if self.size > 1
            else items[0]
        )

    def _member(self, tree: Any, index: int) -> Any:
        return jax.tree.map(lambda leaf: leaf[index], tree) if self.size > 1 else tree


def _padded(rows: np.ndarray) -> np.ndarray:
    return (
        np.concatenate([rows, np.zeros((PIECE - len(rows), rows.shape[1]), rows.dtype)])
        if len(rows) < PIECE
        else rows
    )


def _named(tree: Any) -> dict[str, Any]:
    return {
        jax.tree_util.keystr(path, simple=True, separator="."): leaf
        for path, leaf in jax.tree_util.tree_leaves_with_path(tree)
    }


def rebuilt_agent(template: State, arrays: Arrays) -> State:
    """The agent that was saved as these arrays among others; what does not fit is named."""
    tree = {"agent": template}
    wanted = {name: (leaf.shape, leaf.dtype) for name, leaf in _named(tree).items()}
    given = {
        name: (array.shape, array.dtype)
        for name, array in arrays.items()
        if name.startswith("agent.")
    }
    if wanted != given:
        wrong = sorted(name for name in {*wanted, *given} if wanted.get(name) != given.get(name))[0]
        raise DataError(
            f"the checkpoint's {wrong} is {given.get(wrong, 'missing')}, this version has "
            f"{wanted.get(wrong, 'no such thing')}"
        )
    return jax.tree.unflatten(jax.tree.structure(template), [arrays[name] for name in wanted])


def _blank_batch(size: int, spec: Spec) -> Any:
    wide, flat = (
        jax.ShapeDtypeStruct((size, spec.obs_dim), jnp.float32),
        jax.ShapeDtypeStruct((size,), jnp.float32),
    )
    actions = jax.ShapeDtypeStruct((size, spec.action_dim), jnp.float32)
    return Transition._make((wide, actions, flat, flat, wide))
