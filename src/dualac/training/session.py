"""One process's training of one run, or of a pack of seeds that share a learner."""

import contextlib
import functools
import shlex
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol

import jax

from dualac import ops
from dualac.envs.suites.packages import simulators
from dualac.errors import DataError, RunFailedError
from dualac.machine.compilation import use_compilation_cache
from dualac.machine.cores import helping_cores
from dualac.machine.fingerprint import changes, describe, fingerprint, origin
from dualac.machine.memory import release_memory
from dualac.machine.messages import Report, Stage
from dualac.runs.files import write_json
from dualac.runs.layout import MACHINE
from dualac.runs.state import clear_failed, failed_for_good
from dualac.training.checkpoint import Snapshot, restore_together
from dualac.training.evaluation import Broken, ValueComparison, count_broken, summary
from dualac.training.learner import Learner
from dualac.training.progress import Reporter
from dualac.training.rollout import Rollout
from dualac.training.run import USUAL, Flags, Run
from dualac.types import Spec

# Events. Where the second is the later one, a run without checkpoints has lost them.
STARTED, FIRST_CHECKPOINT = "started", "first_checkpoint"

MakeLearner = Callable[[list[Run], Spec], Learner]


class MakeRollout(Protocol):
    """How a session makes a rollout."""

    def __call__(self, path: Path, flags: Flags, *, together: int) -> Rollout:
        """Make the rollout of a run's directory, one of so many in this process."""
        ...


class Session:
    """A pack of runs in this process: rollouts on the host's side, a learner on the device's.

    A seed of a pack that fails is set aside, and the others go on.
    """

    def __init__(
        self,
        paths: list[Path],
        report: Report,
        flags: Flags = USUAL,
        make_learner: MakeLearner = Learner,
        make_rollout: MakeRollout = Rollout,
        *,
        stopping: Callable[[], bool] = lambda: False,
    ) -> None:
        """Make the environments and the replays; the learner is made when it is needed.

        `stopping` tells whether it was asked to stop, which an evaluation obeys at once.
        """
        use_compilation_cache()
        self.rollouts = [make_rollout(path, flags, together=len(paths)) for path in paths]
        self.run = self.rollouts[0].run
        self.fingerprint = fingerprint(simulators(self.run.task), ops.identity())
        self.step = 0
        self.running = False  # whether it came as far as to its first step
        self.failures: dict[int, RunFailedError] = {}  # in this session, by the seed's index
        self._make_learner = make_learner
        self._reporter = Reporter(report)
        self._began = time.monotonic()
        self._stopping = stopping
        self._acted = 0  # the last step that the environments have taken
        failed = [i for i, rollout in enumerate(self.rollouts) if failed_for_good(rollout.path)]
        # Whoever starts a run that failed, or a pack of which all did, wants to try it again.
        self._set_aside = set(failed) if len(failed) < len(self.rollouts) else set()

    @functools.cached_property
    def learner(self) -> Learner:
        """The agents, made when they are first needed: a task that works is shown to at once."""
        runs = [rollout.run for rollout in self.rollouts]
        with release_memory():
            learner = self._make_learner(runs, self.rollouts[0].spec)
            if self.step < self.run.steps:
                learner.compile_ahead()
        return learner

    @property
    def alive(self) -> list[tuple[int, Rollout]]:
        """The seeds that have not failed, with their index in the learner."""
        return [pair for pair in enumerate(self.rollouts) if pair[0] not in self._set_aside]

    def start(self, *, allow_inexact: bool) -> None:
        """Stand at the last whole checkpoint, or at the first step."""
        for _, rollout in self.alive:
            last = rollout.log.last_event(STARTED, FIRST_CHECKPOINT)
            if not rollout.checkpoints.steps() and last == FIRST_CHECKPOINT:
                raise DataError(
                    f"{rollout.path} has lost its checkpoints; move it away or choose another --out"
                )
        snapshots = self._restore()
        if jax.default_backend() == "cpu" and (reason := ops.why_not_native()):
            idle = f", and {len(helping_cores())} of its cores stay idle" if helping_cores() else ""
            self._warn(
                self.alive[0][1],
                "slow_kernels",
                f"layers are computed by XLA, which is slower{idle}: {reason}",
            )
        if snapshots:
            self._resume(snapshots, allow_inexact=allow_inexact)
        else:
            self._begin()
        for _, rollout in self.alive:
            # DONE stays, to be compared with what comes now.
            rollout.attempt.require()
            clear_failed(rollout.path)
        self.running = True

    def renew_agents(self) -> None:
        """Make the resets that are due after the last step."""
        if self.run.resets_after(self.step):
            self.evaluate_initial_policy()
            self.learner.reset(self.step, same_init=self.run.reset_same_init)
            self._event("reset")
        if self.run.restarts_explorer_after(self.step):
            self.evaluate_initial_policy()
            self.learner.restart_explorer(self.step)
            self._event("explorer_restarted")

    def act(self, step: int) -> list[float | None]:
        """Take a step of each environment; return the returns of the episodes that ended."""
        if step < self.run.warmup:
            actions = [rollout.random_action(step) for rollout in self.rollouts]
        else:
            self.evaluate_initial_policy()
            obs = [rollout.obs for rollout in self.rollouts]
            episodes = [rollout.episodes for rollout in self.rollouts]
            actions = self.learner.explore(obs, episodes, step)
        self._acted = step
        returns: list[float | None] = [None] * len(self.rollouts)
        for i, rollout in self.alive:
            with self._failing_alone(i):
                returns[i] = rollout.step(actions[i], step)
        return returns

    def learn(self, step: int) -> None:
        """Make the updates of a step, and notice whose numbers are no longer finite."""
        if not all(rollout.replay.size for _, rollout in self.alive):
            return  # all episodes so far were broken
        batches = {
            i: rollout.replay.sample(self.run.replay_ratio, self.run.batch_size)
            for i, rollout in self.alive
        }
        # One program for all: a seed that was set aside gets another's minibatches.
        spare = next(iter(batches.values()))
        self.learner.learn([batches.get(i, spare) for i in range(len(self.rollouts))], step)
        for i in self.learner.diverged():
            if i not in self._set_aside:
                with self._failing_alone(i):
                    raise RunFailedError(
                        f"diverged: a loss or a value of seed {self.rollouts[i].run.seed} is no "
                        f"longer finite at step {step}"
                    )

    def observe_returns(self, returns: list[float | None], step: int) -> None:
        """Give the agents the returns of the episodes that ended."""
        if any(value is not None for value in returns):
            self.evaluate_initial_policy()
            self.learner.observe_return(returns, step)

    def log(self) -> None:
        """Write a row of the training of each seed."""
        learning = self.step >= self.run.warmup
        for i, rollout in self.alive:
            row = rollout.rollout_metrics()
            if learning and rollout.replay.size:
                row |= self.learner.metrics(i)
                row |= self.learner.diagnose(i, rollout.peek_batch(self.step))
            clock = {
                "time/total_timesteps": self.step,
                "time/fps": self._reporter.speed(self.step),
                "time/time_elapsed": self._seconds(rollout),
            }
            rollout.log.training(row | clock | {"train/n_updates": self._updates()}, self.step)
            self._reporter.show(i, row)
        if learning:
            self.learner.forget_metrics()
        self.report_progress("progress")

    def evaluate_initial_policy(self) -> None:
        """Evaluate the initial policy, as step 0, before anything can change it."""
        self._evaluate_owed(0)

    def evaluate(self) -> None:
        """Evaluate the policy of this step, on idle cores while learning goes on if there are any.

        The last policy is waited for.
        """
        for _, rollout in self.alive:
            rollout.owed.add(self.step)
        self.evaluate_initial_policy()
        self.collect_evaluations()
        for i, rollout in self.alive:
            begun = self.step < self.run.steps and rollout.evaluator.begin(
                self.step,
                self.learner.exploit(i),
                rollout.eval_seeds(self.step),
                self._comparison(i),
            )
            if begun:
                rollout.owed.discard(self.step)
        self._evaluate_owed(self.step)

    def collect_evaluations(self, *, wait: bool = True) -> None:
        """Write down what was evaluated beside the learner, at once if all is ready."""
        pending = self._pending()
        if not pending or not (wait or all(rollout.evaluator.ready for _, rollout in pending)):
            return
        for i, rollout in pending:
            with self._failing_alone(i):
                step = rollout.evaluator.pending
                assert step is not None
                rows = rollout.evaluator.collect(self._count_bad(i, step))
                self._write_evaluation(i, step, rows)
        self.report_progress("evaluated")

    def checkpoint(self) -> None:
        """Write a checkpoint of each seed. A resume makes the evaluations that it owes."""
        if any(rollout.evaluator.pending != self.step for _, rollout in self._pending()):
            self.collect_evaluations()
        for i, rollout in self.alive:
            first = not rollout.checkpoints.steps()
            with self._failing_alone(i):
                arrays = self.learner.save(i)
                rollout.save(self.step, arrays, self.fingerprint, self._seconds(rollout))
                if first:
                    rollout.log.event(FIRST_CHECKPOINT, self.step)

    def done(self) -> None:
        """Say on disk that the seeds have reached their last step."""
        for _, rollout in self.alive:
            rollout.done(self.step)
        self._event("done")
        self.report_progress("done")

    def require_attempts(self) -> None:
        """Refuse to go on once a later attempt at one of the runs has begun."""
        for rollout in self.rollouts:
            rollout.attempt.require()

    def stop(self) -> bool:
        """Stop where it stands, with a checkpoint; return whether there is one of this step.

        There is none before the first step, nor where a step was taken and not yet learned from.
        """
        whole = 0 < self._acted == self.step
        if whole and self.step not in self.alive[0][1].checkpoints.steps():
            self.checkpoint()
        self._event("interrupted")
        self.report_progress("interrupted")
        return whole

    def fail(self, error: Exception) -> None:
        """Say on disk why the seeds ended that had not failed before."""
        for _, rollout in self.alive:
            rollout.write_failure(self.step, error)

    def resumption(self) -> str:
        """Return the command that goes on from the last checkpoint."""
        return f"dualac resume {shlex.join(str(rollout.path) for rollout in self.rollouts)}"

    def report_progress(self, stage: Stage) -> None:
        """Report where each seed is, with the metrics it has shown last."""
        self._reporter.report(stage, self.alive, self.step)

    def close(self) -> None:
        """Close all files and environments."""
        for rollout in self.rollouts:
            rollout.close()

    def _begin(self) -> None:
        """Begin at the first step: a new run, or one killed before its first checkpoint."""
        for i, rollout in self.alive:
            rollout.start_over()
            rollout.log.rewind({})
            write_json(rollout.path / MACHINE, describe(self.fingerprint), rollout.attempt.require)
            self._test_replay(rollout)
            with self._failing_alone(i):
                rollout.begin_episode(0)
            rollout.owed = {0}
        self._event(STARTED)
        if sentence := self.rollouts[0].env.warning():
            self._warn(self.rollouts[0], "no_time_limit", sentence)
        self.report_progress("started")

    def _resume(self, snapshots: dict[int, Snapshot], *, allow_inexact: bool) -> None:
        changed_lines = {
            i: changes(self.fingerprint, snapshot.facts["fingerprint"])
            for i, snapshot in snapshots.items()
        }
        for i, lines in changed_lines.items():
            if lines and not allow_inexact:
                raise DataError(
                    f"{self.rollouts[i].path} cannot be resumed to the bit here "
                    f"({'; '.join(lines)}); --allow-inexact resumes it all the same"
                )
        self.step = self._acted = next(iter(snapshots.values())).step
        # First: what compiling needs is given back before the replays are read.
        self.learner.restore([snapshots.get(i) for i in range(len(self.rollouts))])
        for i, rollout in self.alive:
            with release_memory():
                rollout.checkpoints.refill(rollout.replay)
            self._test_replay(rollout)
            with self._failing_alone(i):
                trouble = rollout.restore(snapshots[i])
                for sentence in [*changed_lines[i], *([trouble] if trouble else [])]:
                    self._warn(rollout, "inexact_resume", sentence)
        self._event("resumed", **origin())
        self.report_progress("resumed")
        for step in (0, self.step):
            self._evaluate_owed(step)

    def _restore(self) -> dict[int, Snapshot]:
        """Read the newest checkpoint that all seeds have, by their index; none for a new run."""
        snapshots, damaged = restore_together([rollout.checkpoints for _, rollout in self.alive])
        for (_, rollout), sentences in zip(self.alive, damaged, strict=True):
            for sentence in sentences:
                self._warn(rollout, "damaged_checkpoint", sentence)
        indices = [i for i, _ in self.alive]
        return dict(zip(indices, snapshots, strict=True)) if snapshots else {}

    def _test_replay(self, rollout: Rollout) -> None:
        trouble = rollout.test_replay(self.step)
        if trouble:
            self._warn(rollout, "not_replayable", trouble)

    def _evaluate_owed(self, step: int) -> None:
        """Evaluate the policy of a step, of the seeds that owe it."""
        owing = [(i, rollout) for i, rollout in self.alive if step in rollout.owed]
        for i, rollout in owing:
            with self._failing_alone(i):
                rows = rollout.evaluator.evaluate(
                    self.learner.exploit(i),
                    rollout.eval_seeds(step),
                    self._count_bad(i, step),
                    self._comparison(i),
                    stopping=self._stopping,
                )
                self._write_evaluation(i, step, rows)
            rollout.owed.discard(step)
        if owing:
            self.report_progress("evaluated")

    def _write_evaluation(self, index: int, step: int, rows: list[dict[str, Any]]) -> None:
        means = summary(rows, self.run.protocol.success)
        self.rollouts[index].log.evaluation([{"step": step, **row} for row in rows], means, step)
        self._reporter.show(index, means, instead_of="eval/")
        if sentence := count_broken(rows, step):
            self._reporter.warn(self.rollouts[index], sentence)

    def _comparison(self, index: int) -> ValueComparison:
        return ValueComparison(self.learner.value(index), self.run.algorithm.gamma)

    def _count_bad(self, index: int, step: int) -> Broken:
        return functools.partial(self.rollouts[index].count_bad_evaluation, step)

    def _pending(self) -> list[tuple[int, Rollout]]:
        """List the seeds that are evaluated beside the learner."""
        return [(i, one) for i, one in self.alive if one.evaluator.pending is not None]

    @contextlib.contextmanager
    def _failing_alone(self, index: int) -> Iterator[None]:
        """Set a seed aside that fails in the block, where others are left to go on."""
        try:
            yield
        except RunFailedError as error:
            if len(self.alive) == 1:
                raise
            self.rollouts[index].write_failure(self.step, error)
            self._reporter.warn(self.rollouts[index], str(error))
            self._set_aside.add(index)
            self.failures[index] = error

    def _warn(self, rollout: Rollout, kind: str, sentence: str) -> None:
        rollout.log.event(kind, self.step, reason=sentence)
        self._reporter.warn(rollout, sentence)

    def _event(self, kind: str, **facts: Any) -> None:
        for _, rollout in self.alive:
            rollout.log.event(kind, self.step, **facts)

    def _seconds(self, rollout: Rollout) -> float:
        return rollout.seconds + time.monotonic() - self._began

    def _updates(self) -> int:
        return max(0, self.step - max(self.run.warmup, 1) + 1) * self.run.replay_ratio
