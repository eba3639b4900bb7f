"""The loop: act, remember, learn, and now and then log, evaluate, checkpoint."""

import contextlib
import functools
import gc
import shlex
import signal
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np

from dualac import ops
from dualac.envs.suites.packages import simulators
from dualac.errors import DataError, DualacError, Interrupted, RunFailedError, TryAgainError
from dualac.machine.compilation import use_compilation_cache
from dualac.machine.cores import helping_cores
from dualac.machine.disk import is_disk_trouble
from dualac.machine.fingerprint import changes, describe, fingerprint, origin
from dualac.machine.memory import give_back, give_back_heap
from dualac.machine.messages import Progress, Report, RunWarning, Stage
from dualac.runs.files import write_json
from dualac.runs.layout import MACHINE, TRACEBACK, WORKER_LOG
from dualac.runs.lock import owned
from dualac.runs.state import clear_failed, mark_done, mark_failed
from dualac.training.checkpoint import Snapshot
from dualac.training.evaluation import Broken, PendingEvaluation, ValueComparison, summary
from dualac.training.learner import Learner
from dualac.training.rollout import Rollout
from dualac.training.run import USUAL, Flags

STARTED, FIRST_CHECKPOINT = (
    "started",
    "first_checkpoint",
)  # events: where the second is the later one, a run without checkpoints has lost them
TICK = 0.5  # seconds between signs of life


def train(paths: list[Path], report: Report, flags: Flags = USUAL) -> None:
    """Take runs, one or a pack of seeds, from wherever they are to their last step."""
    with contextlib.ExitStack() as stack, _signals() as asked:
        for path in paths:
            stack.enter_context(owned(path))
        session = Session(paths, report, flags)
        stack.callback(session.close)
        try:
            session.start(allow_inexact=flags.allow_inexact)
            for rollout in session.rollouts:
                clear_failed(rollout.path)  # DONE stays, to be compared with what comes now
            session.running = True
            for step in session.steps():
                if asked and step < session.run.steps:
                    session.checkpoint()
                    session.interrupted()
                    raise _interruption(asked[0], session)
        except Exception as error:
            if isinstance(error, OSError) and is_disk_trouble(error):
                told = f"step {session.step} could not be written down ({error.strerror})"
                raise TryAgainError(f"{told}; free space, then: {session.resumption()}") from None
            spoilt = session.running and isinstance(
                error, DataError
            )  # what was going right went wrong; before, it is only refused
            if spoilt or isinstance(error, RunFailedError) or not isinstance(error, DualacError):
                session.fail(error)
            raise
        session.done()


class Session:
    """A pack of runs in this process: members on the host's side, a learner on the device's."""

    def __init__(self, paths: list[Path], report: Report, flags: Flags) -> None:
        use_compilation_cache()
        self.rollouts = [Rollout(path, flags, together=len(paths)) for path in paths]
        self.run = self.rollouts[0].run
        self.fingerprint = fingerprint(simulators(self.run.task), ops.identity())
        self.step = 0
        self.running = False  # whether it came as far as to its first step
        self._report = report
        self._began = time.monotonic()
        self._pace = _Pace()
        self._fresh = False  # whether the initial policy is still to be evaluated
        self._shown: list[dict[str, Any]] = [{} for _ in self.rollouts]
        self._aside: dict[
            int, tuple[int, PendingEvaluation]
        ] = {}  # of a member, the step whose policy is being evaluated while it learns on

    def start(self, *, allow_inexact: bool) -> None:
        """Stand at the last whole checkpoint, or at the first step."""
        for rollout in self.rollouts:
            if (
                not rollout.checkpoints.steps()
                and rollout.log.last_event(STARTED, FIRST_CHECKPOINT) == FIRST_CHECKPOINT
            ):
                raise DataError(
                    f"{rollout.path} has lost its checkpoints; move it away or choose another --out"
                )
        found = self._restore()
        for rollout, (_, damaged) in zip(self.rollouts, found, strict=True):
            for sentence in damaged:
                self._warn(rollout, "damaged_checkpoint", sentence)
        if jax.default_backend() == "cpu" and (reason := ops.why_not_native()):
            idle = f", and {len(helping_cores())} of its cores stay idle" if helping_cores() else ""
            self._warn(
                self.rollouts[0],
                "slow_kernels",
                f"layers are computed by XLA, which is slower{idle}: {reason}",
            )
        snapshots = [snapshot for snapshot, _ in found if snapshot is not None]
        if snapshots:
            self._resume(snapshots, allow_inexact=allow_inexact)
        else:
            self._begin()

    @functools.cached_property
    def learner(self) -> Learner:
        """Built when first needed, not before the first steps: that a task works is seen at once,
        while compiling takes seconds. Nor later: what compiling needs is given back before the
        replay grows.
        """
        learner = Learner([rollout.run for rollout in self.rollouts], self.rollouts[0].spec)
        if self.step < self.run.steps:
            for _ in learner.compile_ahead():
                gc.collect()  # tracing leaves cycles behind
                give_back()
        return learner

    def steps(self) -> Iterator[int]:
        run, last = self.run, self._began
        give_back_heap()  # what it took to come here
        for step in range(self.step + 1, run.steps + 1):
            if run.resets_after(step - 1):
                self.evaluate_initial_policy()
                self.learner.reset(step - 1, same_init=run.reset_same_init)
                self._event("reset")
            if run.restarts_explorer_after(step - 1):
                self.evaluate_initial_policy()
                self.learner.restart_explorer(step - 1)
                self._event("explorer_restarted")
            if step < run.warmup:
                returns = self._interact(
                    [rollout.random_action(step) for rollout in self.rollouts], step
                )
            else:
                self.evaluate_initial_policy()
                returns = self._interact(
                    self.learner.explore([rollout.obs for rollout in self.rollouts], step), step
                )
                self._learn(step)
            self._observe_return(
                returns, step
            )  # last: an episode's last updates are still of its own attitude
            self.step = step
            if step % run.log_every == 0:
                self._tidily(self.log)
            if step % run.eval_every == 0 or step == run.steps:
                self._tidily(self.evaluate)
            if step % run.checkpoint_every == 0 or step == run.steps:
                self._tidily(self.checkpoint)
            if time.monotonic() - last > TICK:
                last = time.monotonic()
                self.report_progress("progress")
                if self._aside and all(aside.rows.done() for _, aside in self._aside.values()):
                    self.collect_evaluations()
            yield step

    def _tidily(self, act: Callable[[], None]) -> None:
        """Each of these takes tens of megabytes for a moment: given back, they do not add up."""
        act()
        give_back_heap()

    def _interact(self, actions: list[np.ndarray], step: int) -> list[float | None]:
        return [
            rollout.step(action, step)
            for rollout, action in zip(self.rollouts, actions, strict=True)
        ]

    def _observe_return(self, returns: list[float | None], step: int) -> None:
        if any(value is not None for value in returns):
            self.evaluate_initial_policy()
            self.learner.observe_return(returns, step)

    def _learn(self, step: int) -> None:
        if not all(rollout.replay.size for rollout in self.rollouts):
            return  # all that was lived so far was broken
        batches = [
            rollout.replay.sample(self.run.replay_ratio, self.run.batch_size)
            for rollout in self.rollouts
        ]
        self.learner.learn(batches, [rollout.obs for rollout in self.rollouts], step)
        diverged = [str(self.rollouts[index].run.seed) for index in self.learner.diverged()]
        if diverged:
            raise RunFailedError(
                f"diverged: a loss or a value of seed {', '.join(diverged)} is no longer finite "
                f"at step {step}"
            )

    def evaluate_initial_policy(self) -> None:
        """Evaluate the initial policy, as step 0, before anything can change it; a run that has a
        checkpoint has done so.
        """
        if self._fresh:
            self._fresh = False
            self._evaluate_at(0)

    def log(self) -> None:
        learning = self.step >= self.run.warmup
        for i, rollout in enumerate(self.rollouts):
            row = rollout.rollout_metrics() | (
                self._learning_metrics(i, rollout) if learning else {}
            )
            clock = {
                "time/total_timesteps": self.step,
                "time/fps": self._pace.speed(self.step),
                "time/time_elapsed": self._seconds(rollout),
            }
            rollout.log.training(row | clock | {"train/n_updates": self._updates()}, self.step)
            self._shown[i] |= row
        if learning:
            self.learner.forget_metrics()
        self.report_progress("progress")

    def _learning_metrics(self, index: int, rollout: Rollout) -> dict[str, float]:
        """Means over the updates since the last row, and what one batch shows now."""
        if not rollout.replay.size:
            return {}
        return self.learner.metrics(index) | self.learner.diagnose(
            index, rollout.peek_batch(self.step)
        )

    def evaluate(self) -> None:
        self.evaluate_initial_policy()
        self.collect_evaluations()
        self._evaluate_at(self.step, aside=self.step < self.run.steps)

    def _evaluate_at(
        self, step: int, *, owing: list[int] | None = None, aside: bool = False
    ) -> None:
        """Of all members, or of those that owe it. `aside`: on idle cores while learning goes on,
        where there are any.
        """
        for i in range(len(self.rollouts)) if owing is None else owing:
            rollout = self.rollouts[i]
            seeds, judge = (
                rollout.eval_seeds(step),
                ValueComparison(self.learner.value(i), rollout.run.algorithm.gamma),
            )
            begun = rollout.stage.aside(self.learner.exploit(i), seeds, judge) if aside else None
            if begun:
                self._aside[i] = step, begun
            else:
                self._evaluated(
                    i,
                    step,
                    rollout.stage.evaluate(
                        self.learner.exploit(i), seeds, self._broken(i, step), judge
                    ),
                )
        if not self._aside:
            self.report_progress("evaluated")

    def collect_evaluations(self) -> None:
        """Write down what was evaluated meanwhile, waiting for it if need be."""
        while self._aside:
            i, (step, begun) = self._aside.popitem()
            self._evaluated(i, step, begun.wait(self._broken(i, step)))
            if not self._aside:
                self.report_progress("evaluated")

    def _broken(self, index: int, step: int) -> Broken:
        return functools.partial(self.rollouts[index].count_bad_evaluation, step)

    def _evaluated(self, index: int, step: int, rows: list[dict[str, Any]]) -> None:
        means = summary(rows, self.run.protocol.success)
        self.rollouts[index].log.evaluation([{"step": step, **row} for row in rows], means, step)
        self._shown[index] |= means

    def checkpoint(self) -> None:
        self.evaluate_initial_policy()
        if any(step < self.step for step, _ in self._aside.values()):
            self.collect_evaluations()
        for i, rollout in enumerate(self.rollouts):
            first = not rollout.checkpoints.steps()
            rollout.owes_evaluation = (
                i in self._aside
            )  # of this very step: whoever resumes here evaluates again
            rollout.save(self.step, self.learner.save(i), self.fingerprint, self._seconds(rollout))
            if first:
                rollout.log.event(FIRST_CHECKPOINT, self.step)

    def done(self) -> None:
        for rollout in self.rollouts:
            rollout.attempt.require()
            mark_done(rollout.path, self.step, rollout.run.identity())
        self._event("done")
        self.report_progress("done")

    def interrupted(self) -> None:
        self._event("interrupted")
        self.report_progress("interrupted")

    def fail(self, error: Exception) -> None:
        """Say on disk why the run ended, so that nobody averages over it unaware."""
        for rollout in self.rollouts:
            mark_failed(rollout.path, self.step, str(error), type(error).__name__)
            trace = "".join(
                traceback.format_exception(error)
            )  # what the environment raised is the cause of the failure
            (rollout.path / TRACEBACK).write_text(
                f"{trace}\nWhat the run's process, and an environment's own, wrote is in "
                f"{WORKER_LOG}.\n"
            )
            rollout.log.event("failed", self.step, reason=str(error))

    def resumption(self) -> str:
        """The command that goes on from the last checkpoint."""
        return f"dualac resume {shlex.join(str(rollout.path) for rollout in self.rollouts)}"

    def report_progress(self, stage: Stage) -> None:
        speed = self._pace.speed(self.step)
        # Warm-up is fast and says nothing about the rest.
        learning = self.step > self.run.warmup and speed > 0
        eta = (self.run.steps - self.step) / speed if learning else None
        target = self.run.algorithm.explorer.kl_target
        for rollout, shown in zip(self.rollouts, self._shown, strict=True):
            path, seed = str(rollout.path), rollout.run.seed
            sizes = (self.step, self.run.steps, speed)
            self._report(Progress(path, seed, *sizes, stage, eta, dict(shown), target))

    def close(self) -> None:
        for rollout in self.rollouts:
            rollout.close()

    def _restore(self) -> list[tuple[Snapshot | None, list[str]]]:
        """The newest checkpoint that all seeds of the pack have: a kill may fall between two seeds'
        writing of the same step.
        """
        newest, damaged = None, [[] for _ in self.rollouts]
        while True:
            found = [rollout.checkpoints.restore(newest) for rollout in self.rollouts]
            for told, (_, sentences) in zip(damaged, found, strict=True):
                told.extend(sentences)
            steps = [-1 if snapshot is None else snapshot.step for snapshot, _ in found]
            if len(set(steps)) == 1:
                break
            newest = min(steps)
        if steps[0] < 0 and all(rollout.checkpoints.steps() for rollout in self.rollouts):
            told = "; ".join(sentence for sentences in damaged for sentence in sentences)
            raise DataError(
                f"the seeds of {self.rollouts[0].path.parent} have no whole checkpoint of one "
                f"step ({told}); move them away or choose another --out"
            )
        for rollout in self.rollouts:
            rollout.checkpoints.forget_after(steps[0])
        return [(snapshot, told) for (snapshot, _), told in zip(found, damaged, strict=True)]

    def _begin(self) -> None:
        """From the first step: a new run, or one that was killed before it came to its first
        checkpoint.
        """
        for rollout in self.rollouts:
            rollout.start_over()
            rollout.log.rewind({})
            write_json(rollout.path / MACHINE, describe(self.fingerprint))
            self._test_replay(rollout)
            rollout.begin_episode(0)
        self._fresh = True
        self._event(STARTED)
        self.report_progress("started")

    def _resume(self, snapshots: list[Snapshot], *, allow_inexact: bool) -> None:
        changed_lines = [
            changes(self.fingerprint, snapshot.facts["fingerprint"]) for snapshot in snapshots
        ]
        for rollout, changed in zip(self.rollouts, changed_lines, strict=True):
            if changed and not allow_inexact:
                raise DataError(
                    f"{rollout.path} cannot be resumed to the bit here ({'; '.join(changed)}); "
                    "--allow-inexact resumes it all the same"
                )
        self.step = snapshots[0].step
        self.learner.restore(snapshots)  # first: all is compiled before the replays are read
        give_back_heap()
        for rollout, snapshot, changed in zip(self.rollouts, snapshots, changed_lines, strict=True):
            rollout.checkpoints.refill(rollout.replay)
            self._test_replay(rollout)
            trouble = rollout.restore(snapshot)
            for sentence in [*changed, *([trouble] if trouble else [])]:
                self._warn(rollout, "inexact_resume", sentence)
        self._event("resumed", **origin())
        self.report_progress("resumed")
        owing = [i for i, rollout in enumerate(self.rollouts) if rollout.owes_evaluation]
        if owing:
            self._evaluate_at(self.step, owing=owing)

    def _test_replay(self, rollout: Rollout) -> None:
        trouble = rollout.test_replay(self.step)
        if trouble:
            self._warn(rollout, "not_replayable", trouble)

    def _warn(self, rollout: Rollout, kind: str, sentence: str) -> None:
        rollout.log.event(kind, self.step, reason=sentence)
        self._report(RunWarning(rollout.run.seed, sentence))

    def _event(self, kind: str, **facts: Any) -> None:
        for rollout in self.rollouts:
            rollout.log.event(kind, self.step, **facts)

    def _seconds(self, rollout: Rollout) -> float:
        return rollout.seconds + time.monotonic() - self._began

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
    """Collects SIGINT and SIGTERM instead of dying of them; a second one is obeyed at once. Outside
    the main thread Python cannot do that.
    """
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


def _interruption(number: int, session: Session) -> Interrupted:
    return Interrupted(
        f"stopped at step {session.step}, checkpoint written; continue with: "
        f"{session.resumption()}",
        number,
    )
