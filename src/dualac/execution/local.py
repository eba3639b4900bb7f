"""Many runs on one machine: processes pinned to cores of their own take one run after another.

They are started and watched here, by a parent that never touches JAX's devices.
"""

import os
import queue
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from dualac.errors import DualacError, Interrupted, LockedError, TryAgainError
from dualac.execution.worker import TRAIN
from dualac.machine.children import Child, describe_end
from dualac.machine.cores import usable_cores
from dualac.machine.messages import (
    Assignment,
    ErrorMessage,
    Failed,
    Finished,
    Message,
    Progress,
    Report,
    Retried,
    RunWarning,
    Stopping,
)
from dualac.machine.signals import handling, leave_lost_terminal
from dualac.runs.layout import WORKER_LOG, checkpoint_steps
from dualac.training.run import Flags

CRASHES = (signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL)
MOST_NAMED = 3  # directories in one line
LISTEN_FOR = 0.2  # seconds: a signal is handled between two waits for a message


class Work(NamedTuple):
    """One process's worth: a run, or a pack of seeds that share one program."""

    paths: list[Path]
    threads: int = 1
    seen: int = 1
    """of its cores those that XLA sees"""
    memory: int = 0
    """bytes it will take, as far as is known"""
    prepare: Callable[[], None] | None = None
    """called before it is begun: makes its directory"""


class Effort(NamedTuple):
    """How much is done for works that fail, and with what."""

    attempts: int = 1
    """how often a work is begun whose process dies or finds its run locked; what the run itself
    calls an error is not tried again
    """
    pause: float = 1.0
    """seconds before the second attempt, twice that before the third"""
    workers: int | None = None
    """processes at a time, where not as many as there are cores for"""
    memory: int | None = None
    """bytes that the works of one moment may take together; one alone may always run"""
    entry: str = TRAIN


class Failure(NamedTuple):
    work: Work
    error: DualacError
    final: bool = True
    """whether it would happen again"""


class ProcessDied(DualacError):
    """The process of a run ended without a message: it was killed, or crashed below Python."""

    def __init__(self, text: str, exit_code: int) -> None:
        super().__init__(text)
        self.killed = exit_code < 0
        self.code = 128 - exit_code if self.killed else exit_code


class _Attempt(NamedTuple):
    """A work that a process is at, or that waits for one."""

    work: Work
    number: int = 1
    after: float = 0.0  # on the monotonic clock


class _Worker:
    """A process, the attempt it is at, and the error it named as its end."""

    def __init__(self, child: Child, first: Work) -> None:
        self.child, self.threads, self.seen = child, first.threads, first.seen
        self.attempt: _Attempt | None = None
        self.error: DualacError | None = None

    def suits(self, work: Work) -> bool:
        return (self.threads, self.seen) == (work.threads, work.seen)


def launch(
    works: list[Work], report: Report, flags: Flags, effort: Effort | None = None
) -> list[Failure]:
    """Run all to their end, in this order, as many at a time as there is room for. Return those
    that did not get there.

    Signals that ask to stop are passed on to the processes, which write a checkpoint and stop;
    works that still wait are not started.
    """
    return _Launcher(report, flags, effort or Effort()).run(works)


def may_go_better(error: DualacError) -> bool:
    """Tell whether another attempt may succeed: the process died, the run was locked, or the error
    was unforeseen. What a run calls an error it would call one again.
    """
    return isinstance(error, ProcessDied | LockedError) or type(error) is DualacError


class _Launcher:
    def __init__(self, report: Report, flags: Flags, effort: Effort) -> None:
        self._report, self._flags, self._effort = report, flags, effort
        self._messages: queue.SimpleQueue[tuple[Child, Message | None]] = queue.SimpleQueue()
        self._workers: dict[Child, _Worker] = {}
        self._waiting: list[_Attempt] = []
        self._failures: list[Failure] = []
        self._stopping: Callable[[str], DualacError] | None = None  # why nothing more is started
        self._signal: int | None = None  # the last that was passed on
        self._announced = False  # whether the user knows that it stops

    def run(self, works: list[Work]) -> list[Failure]:
        self._waiting = [_Attempt(work) for work in works]
        with handling(self._pass_on):
            try:
                self._watch()
            except BaseException:
                # Without this the processes would go on, and nobody would read their messages.
                self._pass_on(signal.SIGTERM)
                self._watch()
                raise
        if self._waiting and self._stopping:
            paths = [path for attempt in self._waiting for path in attempt.work.paths]
            text = f"not started: {_name(paths)}; the same command starts them"
            self._failures.append(Failure(Work(paths), self._stopping(text), final=False))
        return self._failures

    def _watch(self) -> None:
        while self._workers or (self._waiting and not self._stopping):
            self._start_what_fits()
            if self._signal and self._workers and not self._announced:
                self._announced = True
                self._report(Stopping(self._signal))
            try:
                child, message = self._messages.get(timeout=LISTEN_FOR)
            except queue.Empty:
                continue
            self._handle(self._workers[child], message)

    def _handle(self, worker: _Worker, message: Message | None) -> None:
        match message:
            case None:
                del self._workers[worker.child]
                self._handle_exit(worker)
            case ErrorMessage():
                worker.error = message.as_error()
            case Finished():
                worker.attempt = None
                self._assign(worker)
            case Progress() | RunWarning():
                self._report(message)
            case _:
                raise TypeError(f"a worker does not say {message}")

    def _start_what_fits(self) -> None:
        while not self._stopping:
            attempt = self._next()
            if attempt is None:
                return
            worker = self._start(attempt.work)
            self._workers[worker.child] = worker
            if self._signal:  # it came as the process was started
                _send_signal(worker, self._signal)
            self._assign(worker)

    def _next(self, idle: _Worker | None = None) -> _Attempt | None:
        """Find the first attempt that fits beside what runs: for this idle process, or else for a
        new one.
        """
        others = [worker for worker in self._workers.values() if worker is not idle]
        for attempt in self._waiting:
            due = attempt.after <= time.monotonic()
            suitable = idle is None or idle.suits(attempt.work)
            if due and suitable and self._fits(attempt.work, others):
                return attempt
        return None

    def _fits(self, work: Work, others: list[_Worker]) -> bool:
        """Tell whether there are cores and memory for a work beside these processes. One alone may
        always run.
        """
        if not others:
            return True
        cores = len(usable_cores())
        if len(others) >= (self._effort.workers or cores):
            return False
        if sum(worker.threads for worker in others) + work.threads > cores:
            return False
        taken = sum(worker.attempt.work.memory for worker in others if worker.attempt)
        return self._effort.memory is None or taken + work.memory <= self._effort.memory

    def _assign(self, worker: _Worker) -> None:
        """Give a process the next work that can be begun, or dismiss it."""
        while not self._stopping and (attempt := self._next(worker)):
            self._waiting.remove(attempt)
            try:
                if attempt.work.prepare:
                    attempt.work.prepare()
            except TryAgainError:
                self._waiting.insert(0, attempt)
                raise  # the disk is full for all of them
            except DualacError as error:
                self._retry_or_fail(attempt, error)
                continue
            worker.attempt = attempt
            worker.child.send(Assignment(tuple(str(path) for path in attempt.work.paths)))
            return
        worker.child.dismiss()

    def _start(self, first: Work) -> _Worker:
        options = ["--threads", str(first.threads), "--seen", str(first.seen)]
        options += ["--entry", self._effort.entry, "--flags", self._flags.spelt()]
        child = Child(
            "dualac.execution.worker",
            *options,
            deliver=lambda child, message: self._messages.put((child, message)),
            stderr=subprocess.DEVNULL,  # until it has a run: then it is the run's worker.log
        )
        return _Worker(child, first)

    def _handle_exit(self, worker: _Worker) -> None:
        """Decide what the end of a process means for the work it was at, if any."""
        worker.child.dismiss()
        if worker.attempt is not None:
            error = worker.error or self._death(worker.child, worker.attempt.work)
            self._retry_or_fail(worker.attempt, error)

    def _retry_or_fail(self, attempt: _Attempt, error: DualacError) -> None:
        work, path = attempt.work, str(attempt.work.paths[0])
        again = may_go_better(error) and attempt.number < self._effort.attempts
        if again and not self._stopping:
            self._report(Retried(path, attempt.number, str(error)))
            pause = self._effort.pause * 2 ** (attempt.number - 1)
            self._waiting.append(_Attempt(work, attempt.number + 1, time.monotonic() + pause))
            return
        stopped = isinstance(error, Interrupted)
        passing = stopped or self._stopping or isinstance(error, LockedError | TryAgainError)
        self._failures.append(Failure(work, error, final=not passing))
        if not stopped:
            self._report(Failed(path, str(error), final=not passing))
        if isinstance(error, TryAgainError) and self._effort.attempts > 1:
            self._stopping = TryAgainError  # the disk is full for all of them

    def _pass_on(self, number: int, frame: object = None) -> None:
        self._stopping = self._stopping or (lambda text: Interrupted(text, number))
        self._signal = number
        if number == signal.SIGHUP:
            leave_lost_terminal()
        for worker in list(self._workers.values()):
            _send_signal(worker, number)

    def _death(self, child: Child, work: Work) -> DualacError:
        """Make the error of a process that ended without one: killed, or crashed below Python."""
        code = child.process.returncode
        paths = " ".join(str(path) for path in work.paths)
        saved = checkpoint_steps(work.paths[0])
        outcome = "continues from its last checkpoint" if saved else "begins it anew"
        resume = f"dualac resume {paths} {outcome}"
        if self._signal and code < 0:  # as it started, or by a second signal
            return Interrupted(f"stopped at once; {resume}", self._signal)
        cause = describe_end(code)
        if code >= 0:
            cause += f" (see {work.paths[0] / WORKER_LOG})"
        if (code >= 0 or -code in CRASHES) and self._flags.isolated is None:
            resume += ", and --isolate-env makes an environment's exit or crash cost an episode"
        return ProcessDied(f"the process of {paths} {cause}; {resume}", code)


def _send_signal(worker: _Worker, number: int) -> None:
    if worker.child.process.poll() is None:
        os.kill(worker.child.process.pid, number)


def _name(paths: list[Path]) -> str:
    names = " ".join(map(str, paths[:MOST_NAMED]))
    more = len(paths) - MOST_NAMED
    return f"{names} and {more} more" if more > 0 else names
