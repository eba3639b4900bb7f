"""The same works on a Ray cluster. Ray starts processes and starts them again when they or their
machine are lost; nothing of truth is kept in it.

A task of Ray is one work, carried out by our own worker beside Ray's process, so that it is pinned
and imports JAX as it does everywhere. It needs the run's directory under the same path on every
machine, and goes on from its last checkpoint wherever it is begun again.
"""

import contextlib
import functools
import os
import queue
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from dualac.errors import DualacError, Interrupted, TryAgainError, UsageError
from dualac.execution import ray_cluster
from dualac.execution.local import Effort, Failure, Work, may_go_better
from dualac.machine.children import Child, describe_end
from dualac.machine.command import COMMAND
from dualac.machine.messages import (
    Assignment,
    ErrorMessage,
    Failed,
    Finished,
    Message,
    Progress,
    Report,
    from_line,
)
from dualac.machine.signals import handling
from dualac.runs.files import read_object
from dualac.runs.layout import SPEC, TRAINING
from dualac.runs.rows import last_rows
from dualac.training.run import Flags

LOOK_EVERY = 2.0  # seconds between two looks at the directories of the runs that are under way

Executor = Callable[[list[Work], Report, Flags, Effort], list[Failure]]


class Died(Exception):
    """A worker's process died, or found its run locked by one that is dying: another attempt may go
    better. Ray counts them.
    """


def on_ray(address: str | None, ways: ray_cluster.Ways = ray_cluster.USUAL) -> Executor:
    """Make an executor on the cluster at this address, or on one of this machine alone, bound to
    the loopback.

    Whether there is one is checked here, before anybody writes down that a sweep began.
    """
    if not ways.installed():
        raise UsageError(
            "--executor ray needs Ray: pip install 'dualac[ray]'; --executor local needs nothing"
        )
    if address is not None:
        ways.reach(address)
        ray_cluster.require_same_versions(address, ways.theirs(address), ways.ours())

    def execute(works: list[Work], report: Report, flags: Flags, effort: Effort) -> list[Failure]:
        ray = ray_cluster.connect(address)
        try:
            head = ray_cluster.Head(ray.get_runtime_context().gcs_address, ways)
            return _Watch(ray, head, works, report).until_done(flags, effort)
        finally:
            ray.shutdown()

    return execute


def carry_out(paths: list[str], threads: int, options: tuple[str, ...], command: str) -> str | None:
    """Carry out one work on a machine of the cluster, by a worker beside this process of Ray's.

    Return the line of its error, if the run calls what happened one.
    """
    # A cluster that was started in the background ignores it, and with it that Ray cancels.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    worker = worker_beside(threads, options, command)
    error = None
    try:
        worker.send(Assignment(tuple(paths)))
        while message := _receive(worker):
            if isinstance(message, Finished):
                return None
            error = message if isinstance(message, ErrorMessage) else error
    except KeyboardInterrupt:  # Ray cancels
        worker_beside.cache_clear()
        stop(worker)
        raise
    worker_beside.cache_clear()
    worker.dismiss()
    code = worker.wait()
    if error is None or may_go_better(error.as_error()):
        cause = error.text if error else describe_end(code)
        raise Died(f"the process of {' '.join(paths)}: {cause}")
    return error.to_line()


@functools.cache
def worker_beside(threads: int, options: tuple[str, ...], command: str) -> Child:
    """Start the worker beside Ray's process. It is kept for the next work that Ray gives this
    process: JAX is imported once.
    """
    module = "dualac.execution.worker"
    return Child(module, "--threads", str(threads), *options, env=_environment(command))


def stop(worker: Child) -> None:
    """Ask a worker to write a checkpoint and end, and wait for it however long that takes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ray cancels again and again
    worker.process.terminate()
    worker.dismiss()  # where it has finished just now, it would wait for more
    worker.wait()
    signal.signal(signal.SIGINT, signal.default_int_handler)


def _receive(worker: Child) -> Message | None:
    """Wait for the next message. Ray cancels by a mark, which is seen between two short waits."""
    while True:
        with contextlib.suppress(queue.Empty):
            return worker.receive(timeout=0.2)


def _environment(command: str) -> dict[str, str]:
    """Make the environment of a worker.

    It has the driver's command, which a cluster that was there before does not know, and which the
    run's record holds. It has not Ray's own thread count, which would be taken for a user's: XLA
    counts the cores it is pinned to.
    """
    kept = {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"}
    return kept | {COMMAND: command}


class _Watch:
    """Hands works to Ray, and follows them to their end."""

    def __init__(self, ray: Any, head: ray_cluster.Head, works: list[Work], report: Report) -> None:
        self._ray, self._head, self._works, self._report = ray, head, works, report
        self._signals: list[int] = []  # the signals that ask it to stop
        self._left: list[Path] = []  # what was not done because of them

    def until_done(self, flags: Flags, effort: Effort) -> list[Failure]:
        """Carry out all works. Signals that ask to stop are passed on to the workers, which write
        a checkpoint and stop; works that still wait are not started.
        """
        failures: list[Failure] = []
        with self._noting_signals():
            pending = self._begin(flags, effort)
            cancelled = False
            while pending:
                self._head.require()
                if self._signals and not cancelled:
                    cancelled = True
                    for reference in pending:
                        self._ray.cancel(reference)
                ready, _ = self._ray.wait(
                    list(pending), num_returns=min(len(pending), 100), timeout=LOOK_EVERY
                )
                for reference in ready:
                    failures += self._end(reference, pending.pop(reference))
                self._look(pending.values())
        return failures + ([self._stopped()] if self._left else [])

    def _begin(self, flags: Flags, effort: Effort) -> dict[Any, Work]:
        for work in self._works:
            if work.prepare:
                work.prepare()
        task = self._ray.remote(carry_out).options
        options = ("--entry", effort.entry, "--flags", flags.spelt())
        return {
            task(
                num_cpus=work.threads,
                memory=work.memory,
                max_retries=effort.attempts - 1,
                retry_exceptions=[Died],
            ).remote(
                [str(path.resolve()) for path in work.paths],
                work.threads,
                options,
                os.environ.get(COMMAND, ""),
            ): work
            for work in self._works
        }

    @contextlib.contextmanager
    def _noting_signals(self) -> Iterator[None]:
        """Note the signals that ask to stop; a second one is obeyed at once."""

        def note(number: int, frame: object) -> None:
            self._signals.append(number)
            restore()

        with handling(note) as restore:
            yield

    def _end(self, reference: Any, work: Work) -> list[Failure]:
        try:
            line = self._ray.get(reference)
        except self._ray.exceptions.RayError as error:
            if self._signals:
                self._left += work.paths
                return []
            cause = getattr(error, "cause", None)
            if not isinstance(cause, Died):
                self._head.require(at_once=True)  # then nothing is wrong with the work
            text = " ".join(str(cause or error).split())[:500]
            return [self._fail(Failure(work, DualacError(text), final=isinstance(cause, Died)))]
        if line is None:
            self._report(_read_progress(work.paths[0], done=True))
            return []
        message = from_line(line)
        assert isinstance(message, ErrorMessage)
        error = message.as_error()
        # A signal may have been sent to the worker alone.
        final = not isinstance(error, Interrupted | TryAgainError)
        return [self._fail(Failure(work, error, final=final))]

    def _stopped(self) -> Failure:
        number = self._signals[0]
        error = Interrupted(
            f"stopped by {signal.Signals(number).name} with {len(self._left)} runs left, those "
            "under way at a checkpoint; the same command goes on",
            number,
        )
        return Failure(Work(self._left), error, final=False)

    def _fail(self, failure: Failure) -> Failure:
        path = str(failure.work.paths[0])
        self._report(Failed(path, str(failure.error), failure.final))
        return failure

    def _look(self, works: Iterable[Work]) -> None:
        """Report the runs under way, from their directories: what a worker reports stays on its
        machine.
        """
        now = time.time()
        for work in works:
            rows = work.paths[0] / TRAINING
            with contextlib.suppress(FileNotFoundError):  # it has not begun
                if now - rows.stat().st_mtime < 10 * LOOK_EVERY:
                    self._report(_read_progress(work.paths[0]))


def _read_progress(path: Path, *, done: bool = False) -> Progress:
    """Read from a run's directory what its worker would report of it."""
    run = read_object(path / SPEC)
    about = {"path": str(path), "seed": run["seed"], "steps": run["steps"]}
    if done:
        return Progress(**about, step=run["steps"], fps=0.0, stage="done")
    row = next(last_rows(path / TRAINING), {})
    return Progress(**about, step=row.get("step", 0), fps=row.get("time/fps") or 0.0)
