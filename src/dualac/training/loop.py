"""The loop: act, remember, learn, and now and then log, evaluate, checkpoint. A pack of seeds is one program: the only vmap over seeds is here."""

import contextlib
import signal
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dualac.agents.actor_critic import make_agent
from dualac.errors import DataError, DualacError, RunFailedError, TryAgainError
from dualac.spelling import difference
from dualac.training import machine
from dualac.training.checkpoint import Arrays, Snapshot
from dualac.training.evaluate import evaluate, summary
from dualac.training.lock import owned
from dualac.training.log import REWOUND
from dualac.training.member import EPISODE, Member
from dualac.training.run import Run, write_json
from dualac.types import Agent, Metrics, Spec, State, Transition

INIT, EXPLORE, UPDATE, HEAR = range(4)  # streams of JAX keys; never renumber: runs depend on it
TICK = 0.5  # seconds between signs of life

Report = Callable[[dict[str, Any]], None]


class Interrupted(DualacError):
    """Stopped by a signal, after a checkpoint."""


class Learner:
    """The agents of a pack on the device: their state, the sums of their metrics, and the compiled functions that move them.

    Randomness is a function of the seed and the step, so there is no key to lose. Alone, a seed runs without a batch axis: on CPU that is faster.
    """

    def __init__(self, runs: list[Run], spec: Spec) -> None:
        run = runs[0]
        self.agent: Agent = make_agent(run.algorithm, spec)
        self.size = len(runs)
        keys = [jax.random.split(jax.random.key(run.seed), 4) for run in runs]
        self._init_keys = [key[INIT] for key in keys]
        self._keys = {purpose: self._stack([key[purpose] for key in keys]) for purpose in (EXPLORE, UPDATE, HEAR)}
        self._init = jax.jit(lambda key, step: self.agent.init(jax.random.fold_in(key, step)))
        self._explore = jax.jit(self._lift(self._explore_one, (0, 0, 0, None)))
        self._exploit = jax.jit(lambda state, obs: self.agent.exploit(state, (), obs)[0])
        self._learn = jax.jit(self._lift(self._learn_one, (0, 0, 0, 0, None)), donate_argnums=(0, 1))
        self._hear = jax.jit(self._lift(self._hear_one, (0, 0, 0, 0, None)))
        self.state: State = self._fresh(0)
        metrics = jax.eval_shape(self.agent.update, self.member_state(0), _blank_batch(spec), jax.random.key(0))[1]
        self._names = sorted(metrics)
        self.tally = self._zeros()

    def explore(self, obs: list[np.ndarray], step: int) -> list[np.ndarray]:
        actions = np.asarray(self._explore(self.state, self._host_stack(obs), self._keys[EXPLORE], np.uint32(step)))
        return list(actions) if self.size > 1 else [actions]

    def exploit(self, index: int) -> Callable[[np.ndarray], np.ndarray]:
        state = self.member_state(index)
        return lambda obs: np.asarray(self._exploit(state, obs))

    def learn(self, batches: list[Transition], step: int) -> None:
        batch = batches[0] if self.size == 1 else Transition(*(np.stack(leaves) for leaves in zip(*batches, strict=True)))  # pyright: ignore[reportArgumentType]
        self.state, self.tally = self._learn(self.state, self.tally, batch, self._keys[UPDATE], np.uint32(step))

    def hear(self, returns: list[float | None], step: int) -> None:
        """Tell those whose episode ended what it returned."""
        if any(value is not None for value in returns):
            heard = [np.float32(value if value is not None else 0.0) for value in returns]
            ended = [np.bool_(value is not None) for value in returns]
            self.state = self._hear(self.state, self._host_stack(heard), self._host_stack(ended), self._keys[HEAR], np.uint32(step))

    def reset(self, step: int, *, same_init: bool) -> None:
        self.state = self._fresh(0 if same_init else step)

    def diverged(self) -> bool:
        return bool(np.any(np.asarray(self.tally["nonfinite"]) > 0))

    def metrics(self) -> list[dict[str, float]]:
        """Means since the last call, one dict a seed."""
        sums = {name: np.atleast_1d(np.asarray(value)) for name, value in self.tally.items()}
        self.tally = self._zeros()
        names = [name for name in self._names if name != "nonfinite"]
        return [{f"train/{name}": float(sums[name][i] / max(sums["updates"][i], 1.0)) for name in names} for i in range(self.size)]

    def save(self, index: int) -> Arrays:
        """One seed's share as named arrays. The names are the paths of the tree, so a new part cannot be forgotten."""
        tree = {"agent": self.member_state(index), "tally": self._member(self.tally, index)}
        return {name: np.array(leaf, order="C") for name, leaf in _named(tree).items()}

    def restore(self, snapshots: list[Snapshot]) -> None:
        template = {"agent": self.member_state(0), "tally": self._member(self.tally, 0)}
        trees = [rebuilt(template, {n: a for n, a in snapshot.arrays.items() if not n.startswith(EPISODE)}) for snapshot in snapshots]
        whole = self._stack(trees)
        self.state, self.tally = whole["agent"], whole["tally"]

    def member_state(self, index: int) -> State:
        return self._member(self.state, index)

    def _explore_one(self, state: State, obs: jax.Array, key: jax.Array, step: jax.Array) -> jax.Array:
        return self.agent.explore(state, (), obs, jax.random.fold_in(key, step))[0]

    def _learn_one(self, state: State, tally: Metrics, batches: Transition, key: jax.Array, step: jax.Array) -> tuple[State, Metrics]:
        def body(carry: tuple[State, Metrics], inputs: tuple[Transition, jax.Array]) -> tuple[tuple[State, Metrics], None]:
            state, tally = carry
            state, metrics = self.agent.update(state, *inputs)
            counted = metrics | {"updates": jnp.ones((), jnp.float32)}
            return (state, {name: tally[name] + counted[name] for name in tally}), None

        keys = jax.random.split(jax.random.fold_in(key, step), batches.reward.shape[0])
        return jax.lax.scan(body, (state, tally), (batches, keys))[0]

    def _hear_one(self, state: State, heard: jax.Array, ended: jax.Array, key: jax.Array, step: jax.Array) -> State:
        told = self.agent.hear(state, heard, jax.random.fold_in(key, step))
        return jax.tree.map(lambda new, old: jnp.where(ended, new, old), told, state)

    def _fresh(self, step: int) -> State:
        """Initialised one by one, not by vmap: each seed starts from the very weights it has when it runs alone."""
        return self._stack([self._init(key, np.uint32(step)) for key in self._init_keys])

    def _zeros(self) -> Metrics:
        zero = np.zeros((self.size,) if self.size > 1 else (), np.float32)
        return {name: jnp.array(zero) for name in [*self._names, "updates"]}

    def _lift(self, function: Callable, axes: tuple[int | None, ...]) -> Callable:
        return jax.vmap(function, in_axes=axes) if self.size > 1 else function

    def _stack(self, trees: list[Any]) -> Any:
        return jax.tree.map(lambda *leaves: jnp.stack(leaves), *trees) if self.size > 1 else jax.tree.map(jnp.array, trees[0])

    def _host_stack(self, items: list[Any]) -> Any:
        return np.stack(items) if self.size > 1 else items[0]

    def _member(self, tree: Any, index: int) -> Any:
        return jax.tree.map(lambda leaf: leaf[index], tree) if self.size > 1 else tree


def train(paths: list[Path], report: Report, *, allow_inexact: bool = False, tensorboard: bool = False) -> None:
    """Take runs, one or a pack of seeds, from wherever they are to their last step."""
    with contextlib.ExitStack() as stack, _signals() as asked:
        for path in paths:
            stack.enter_context(owned(path))
        session = _Session(paths, report, tensorboard=tensorboard)
        stack.callback(session.close)
        session.start(allow_inexact=allow_inexact)
        for member in session.members:
            (member.path / "FAILED").unlink(missing_ok=True)
        try:
            for _ in session.steps():
                if asked:
                    session.checkpoint()
                    session.tell("interrupted")
                    raise _interruption(asked[0], session)
        except (Interrupted, TryAgainError):
            raise
        except Exception as error:
            session.fail(error)
            raise
        session.done()


class _Session:
    """A pack of runs in this process: members on the host's side, a learner on the device's."""

    def __init__(self, paths: list[Path], report: Report, *, tensorboard: bool) -> None:
        machine.use_compilation_cache()
        self.members = [Member(path, tensorboard=tensorboard) for path in paths]
        self.run = self.members[0].run
        self.learner = Learner([member.run for member in self.members], self.members[0].spec)
        self.fingerprint = machine.fingerprint()
        self.step = 0
        self._report = report
        self._began = time.monotonic()
        self._pace = _Pace()
        self._shown: list[dict[str, Any]] = [{} for _ in self.members]

    def start(self, *, allow_inexact: bool) -> None:
        """Stand at the last whole checkpoint, or at the first step."""
        found = self._restore()
        for member, (_, damaged) in zip(self.members, found, strict=True):
            for sentence in damaged:
                self._warn(member, "damaged_checkpoint", sentence)
        snapshots = [snapshot for snapshot, _ in found if snapshot is not None]
        if snapshots:
            self._resume(snapshots, allow_inexact=allow_inexact)
        else:
            self._begin()
        if self.step == 0:
            self.evaluate()

    def steps(self) -> Iterator[int]:
        run, learner = self.run, self.learner
        last = self._began
        for step in range(self.step + 1, run.steps + 1):
            if run.resets_after(step - 1):
                learner.reset(step - 1, same_init=run.reset_same_init)
                self._event("reset")
            random = step < run.warmup
            actions = (
                [member.random_action(step) for member in self.members] if random else learner.explore([member.obs for member in self.members], step)
            )
            learner.hear([member.step(action, step) for member, action in zip(self.members, actions, strict=True)], step)
            if not random and all(member.replay.size for member in self.members):
                learner.learn([member.replay.sample(run.replay_ratio, run.batch_size) for member in self.members], step)
                if learner.diverged():
                    raise RunFailedError(f"diverged: a loss or a value is no longer finite at step {step}; the last checkpoint is from before")
            self.step = step
            if step % run.log_every == 0:
                self.log()
            if step % run.eval_every == 0 or step == run.steps:
                self.evaluate()
            if step % run.checkpoint_every == 0 or step == run.steps:
                self.checkpoint()
            if time.monotonic() - last > TICK:
                last = time.monotonic()
                self.tell("progress")
            yield step

    def log(self) -> None:
        for i, (member, learned) in enumerate(zip(self.members, self.learner.metrics(), strict=True)):
            row = member.rollout_metrics() | learned if self.step >= self.run.warmup else member.rollout_metrics()
            clock = {"time/total_timesteps": self.step, "time/fps": self._pace.speed(self.step), "time/time_elapsed": self._seconds(member)}
            member.log.training(row | clock | {"train/n_updates": self._updates()}, self.step)
            self._shown[i] |= row
        self.tell("progress")

    def evaluate(self) -> None:
        for i, member in enumerate(self.members):
            rows = evaluate(member.eval_env, self.learner.exploit(i), member.eval_seeds(self.step))
            member.log.evaluation([{"step": self.step, **row} for row in rows], summary(rows), self.step)
            self._shown[i] |= summary(rows)
        self.tell("evaluated")

    def checkpoint(self) -> None:
        for i, member in enumerate(self.members):
            member.save(self.step, self.learner.save(i), self.fingerprint, self._seconds(member))

    def done(self) -> None:
        for member in self.members:
            write_json(member.path / "DONE", {"step": self.step, "identity": member.run.identity()})
        self._event("done")
        self.tell("done")

    def fail(self, error: Exception) -> None:
        """Say on disk why the run ended, so that nobody averages over it unaware."""
        for member in self.members:
            write_json(member.path / "FAILED", {"step": self.step, "reason": str(error), "error": type(error).__name__})
            if not isinstance(error, DualacError):
                (member.path / "traceback.txt").write_text("".join(traceback.format_exception(error)))
            member.log.event("failed", self.step, reason=str(error))

    def tell(self, kind: str) -> None:
        speed = self._pace.speed(self.step)
        learning = self.step > self.run.warmup and speed > 0
        left = (self.run.steps - self.step) / speed if learning else None  # warm-up is fast and says nothing about the rest
        for member, shown in zip(self.members, self._shown, strict=True):
            about = {"seed": member.run.seed, "path": str(member.path), "step": self.step, "steps": self.run.steps}
            self._report({"kind": kind, **about, "fps": speed, "eta": left, "metrics": shown})

    def close(self) -> None:
        for member in self.members:
            member.close()

    def _restore(self) -> list[tuple[Snapshot | None, list[str]]]:
        """The newest checkpoint that all seeds of the pack have: a kill may fall between two seeds' writing of the same step."""
        newest = None
        while True:
            found = [member.checkpoints.restore(member.replay, newest) for member in self.members]
            steps = [-1 if snapshot is None else snapshot.step for snapshot, _ in found]
            if len(set(steps)) == 1:
                return found
            newest = min(steps)

    def _begin(self) -> None:
        for member in self.members:
            if any((member.path / name).stat().st_size for name in REWOUND):
                raise DataError(f"{member.path} has results but no checkpoint to continue from; move it away or choose another --out")
            write_json(member.path / "machine.json", machine.describe())
            member.begin_episode(0)
        self._event("started")
        self.checkpoint()
        self.tell("started")

    def _resume(self, snapshots: list[Snapshot], *, allow_inexact: bool) -> None:
        self.learner.restore(snapshots)
        self.step = snapshots[0].step
        for member, snapshot in zip(self.members, snapshots, strict=True):
            changed = difference(self.fingerprint, snapshot.facts["fingerprint"])
            if changed and not allow_inexact:
                raise DataError(f"{member.path} cannot be resumed to the bit here ({'; '.join(changed)}); --allow-inexact resumes it all the same")
            trouble = member.restore(snapshot)
            for sentence in [*changed, *([trouble] if trouble else [])]:
                self._warn(member, "inexact_resume", sentence)
        self._event("resumed")
        self.tell("resumed")

    def _warn(self, member: Member, kind: str, sentence: str) -> None:
        member.log.event(kind, self.step, reason=sentence)
        self._report({"kind": "warning", "seed": member.run.seed, "text": sentence})

    def _event(self, kind: str) -> None:
        for member in self.members:
            member.log.event(kind, self.step)

    def _seconds(self, member: Member) -> float:
        return member.seconds + time.monotonic() - self._began

    def _updates(self) -> int:
        return max(0, self.step - max(self.run.warmup, 1) + 1) * self.run.replay_ratio


class _Pace:
    """Steps a second over the last ten seconds or so."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, int]] = deque()

    def speed(self, step: int) -> float:
        now = time.monotonic()
        self._seen.append((now, step))
        while len(self._seen) > 2 and now - self._seen[1][0] > 10.0:
            self._seen.popleft()
        then, earlier = self._seen[0]
        return (step - earlier) / (now - then) if now > then else 0.0


@contextlib.contextmanager
def _signals() -> Iterator[list[int]]:
    """Collects SIGINT and SIGTERM instead of dying of them; a second one is obeyed at once. Outside the main thread Python cannot do that."""
    asked: list[int] = []

    def note(number: int, frame: object) -> None:
        asked.append(number)
        signal.signal(number, signal.SIG_DFL)

    if threading.current_thread() is not threading.main_thread():
        yield asked
        return
    before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _interruption(number: int, session: _Session) -> Interrupted:
    paths = " ".join(str(member.path) for member in session.members)
    error = Interrupted(f"stopped at step {session.step}, checkpoint written; continue with: dualac resume {paths}")
    error.code = 128 + number
    return error


def _named(tree: Any) -> dict[str, Any]:
    return {jax.tree_util.keystr(path, simple=True, separator="."): leaf for path, leaf in jax.tree_util.tree_leaves_with_path(tree)}


def rebuilt(template: Any, arrays: Arrays) -> Any:
    """The tree whose leaves `_named` would give these names; what does not fit is named."""
    wanted = {name: (leaf.shape, leaf.dtype) for name, leaf in _named(template).items()}
    given = {name: (array.shape, array.dtype) for name, array in arrays.items()}
    if wanted != given:
        wrong = sorted(name for name in {*wanted, *given} if wanted.get(name) != given.get(name))[0]
        raise DataError(f"the checkpoint's {wrong} is {given.get(wrong, 'missing')}, this version has {wanted.get(wrong, 'no such thing')}")
    return jax.tree.unflatten(jax.tree.structure(template), [arrays[name] for name in _named(template)])


def _blank_batch(spec: Spec) -> Transition:
    wide, flat = jnp.zeros((1, spec.obs_dim)), jnp.zeros((1,))
    return Transition(wide, jnp.zeros((1, spec.action_dim)), flat, flat, wide)
