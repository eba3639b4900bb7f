"""Many runs on one machine: processes pinned to cores of their own, which take one run after
another. Started and watched here, by a parent that never touches JAX's devices.
"""

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from dualac.errors import DualacError, LockedError, TryAgainError
from dualac.execution.worker import FINISHED, TRAIN
from dualac.machine.cores import usable_cores
from dualac.machine.memory import give_back
from dualac.training.run import Flags
from dualac.types import Report

MOST_NAMED = 3  # directories in one line


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


class _Turn(NamedTuple):
    """A work that waits for a process."""

    work: Work
    attempt: int = 1
    after: float = 0.0  # on the monotonic clock


class _Child:
    def __init__(self, process: "subprocess.Popen[str]", first: Work) -> None:
        self.process, self.threads, self.seen = process, first.threads, first.seen
        self.turn: _Turn | None = None  # what it is at
        self.explained: DualacError | None = None  # why it ends, in its own words


def launch(
    works: list[Work], report: Report, flags: Flags, effort: Effort | None = None
) -> list[Failure]:
    """Run all to their end, in this order, as many at a time as there is room for; those that did
    not get there.

    SIGINT and SIGTERM are passed on to the children, which checkpoint and stop; those still waiting
    are not started.
    """
    return _Launcher(report, flags, effort or Effort()).run(works)


class _Launcher:
    def __init__(self, report: Report, flags: Flags, effort: Effort) -> None:
        self._report, self._flags, self._effort = report, flags, effort
        self._heard: queue.Queue[tuple[_Child, dict[str, Any] | None]] = queue.Queue()
        self._children: list[_Child] = []
        self._waiting: list[_Turn] = []
        self._failures: list[Failure] = []
        self._asked: list[
            int
            # the codes with which to end, once nothing more is to be started: of signals, of a full
            # disk
        ] = []

    def run(self, works: list[Work]) -> list[Failure]:
        before = {
            number: signal.signal(number, self._pass_on)
            for number in (signal.SIGINT, signal.SIGTERM)
        }
        self._waiting = [_Turn(work) for work in works]
        give_back()  # who only watches needs little of what was needed to come here
        try:
            self._until_done()
        except BaseException:
            self._pass_on(signal.SIGTERM)  # or they would go on without anybody who hears them
            self._until_done()
            raise
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
        if self._waiting:
            paths = [path for turn in self._waiting for path in turn.work.paths]
            named = " ".join(map(str, paths[:MOST_NAMED])) + (
                f" and {len(paths) - MOST_NAMED} more" if len(paths) > MOST_NAMED else ""
            )
            told = f"not started: {named}; the same command starts them"
            self._failures.append(Failure(Work(paths), _error(told, self._asked[0]), final=False))
        return self._failures

    def _until_done(self) -> None:
        while self._children or (self._waiting and not self._asked):
            self._begin_what_can()
            try:
                child, message = self._heard.get(
                    timeout=0.2
                )  # short: a signal is handled between two waits
            except queue.Empty:
                continue
            if message is None:
                self._children.remove(child)
                self._bury(child)
            elif message["kind"] == "error":
                child.explained = _error(message["text"], message["code"])
            elif message["kind"] == FINISHED:
                child.turn = None
                self._employ(child)
            else:
                self._report(message)

    def _begin_what_can(self) -> None:
        while not self._asked:
            turn = self._next(None)
            if turn is None:
                return
            child = self._start(turn.work)
            self._children.append(child)
            self._employ(child)

    def _next(self, idle: _Child | None) -> _Turn | None:
        """The first that waits and fits beside what runs: for this process that has nothing to do,
        or else for a new one.
        """
        others = [child for child in self._children if child is not idle]
        most = len(usable_cores())
        for turn in self._waiting:
            busy = sum(child.threads for child in others)
            taken = sum(child.turn.work.memory for child in others if child.turn)
            cores = busy + turn.work.threads <= most and len(others) < (
                self._effort.workers or most
            )
            memory = self._effort.memory is None or taken + turn.work.memory <= self._effort.memory
            if (
                turn.after <= time.monotonic()
                and (not others or (cores and memory))
                and (
                    idle is None or (idle.threads, idle.seen) == (turn.work.threads, turn.work.seen)
                )
            ):
                return turn
        return None

    def _employ(self, child: _Child) -> None:
        """Give it the next work that can be begun; without one it is done."""
        assert child.process.stdin is not None
        while not self._asked and (turn := self._next(child)):
            self._waiting.remove(turn)
            try:
                if turn.work.prepare:
                    turn.work.prepare()
            except TryAgainError:
                self._waiting.insert(0, turn)
                raise  # the disk is full for all of them
            except DualacError as error:
                self._judge(turn, error, again=by_chance(error.code))
                continue
            child.turn = turn
            with contextlib.suppress(
                BrokenPipeError
            ):  # it died meanwhile, and is buried when its last words are heard
                child.process.stdin.write(
                    json.dumps([str(path) for path in turn.work.paths]) + "\n"
                )
                child.process.stdin.flush()
            return
        with contextlib.suppress(BrokenPipeError):
            child.process.stdin.close()

    def _start(self, first: Work) -> _Child:
        words = [
            sys.executable,
            "-m",
            "dualac.execution.worker",
            "--threads",
            str(first.threads),
            "--seen",
            str(first.seen),
        ]
        words += ["--entry", self._effort.entry, "--flags", self._flags.spelt()]
        process = subprocess.Popen(
            words,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,  # until it has a run: then it is the run's worker.log
            stdin=subprocess.PIPE,
            text=True,
            # a Ctrl-C at the terminal reaches only the parent, which passes it on once
            start_new_session=True,
        )
        child = _Child(process, first)
        threading.Thread(target=self._listen, args=(child,), daemon=True).start()
        return child

    def _listen(self, child: _Child) -> None:
        assert child.process.stdout is not None
        with child.process.stdout as lines:
            for line in lines:
                self._heard.put((child, json.loads(line)))
        child.process.wait()
        self._heard.put((child, None))

    def _bury(self, child: _Child) -> None:
        """What its end means for the work it was at: nothing, another attempt, or a failure."""
        with contextlib.suppress(BrokenPipeError):
            child.process.stdin.close()  # pyright: ignore[reportOptionalMemberAccess]
        if child.turn is not None:
            error = child.explained or self._last_words(child, child.turn.work)
            self._judge(child.turn, error, again=child.explained is None or by_chance(error.code))

    def _judge(self, turn: _Turn, error: DualacError, *, again: bool) -> None:
        """Another attempt, if it may go better; else a failure."""
        if again and not self._asked and turn.attempt < self._effort.attempts:
            self._report(
                {
                    "kind": "retried",
                    "path": str(turn.work.paths[0]),
                    "attempt": turn.attempt,
                    "text": str(error),
                }
            )
            wait = self._effort.pause * 2 ** (turn.attempt - 1)
            self._waiting.append(_Turn(turn.work, turn.attempt + 1, time.monotonic() + wait))
            return
        stopped = error.code > 128 and bool(
            self._asked or not again
        )  # by a signal: ours, or one that it obeyed
        failure = Failure(
            turn.work,
            error,
            final=not (
                stopped or self._asked or error.code in (LockedError.code, TryAgainError.code)
            ),
        )
        self._failures.append(failure)
        if not stopped:
            self._report(
                {
                    "kind": "failed",
                    "path": str(turn.work.paths[0]),
                    "text": str(error),
                    "final": failure.final,
                }
            )
        if error.code == TryAgainError.code and self._effort.attempts > 1:
            self._asked.append(error.code)  # the disk is full for all of them

    def _last_words(self, child: _Child, work: Work) -> DualacError:
        """For a child that died without a word: killed, or crashed below Python."""
        code = child.process.returncode
        cause = (
            f"was ended by {signal.Signals(-code).name}"
            if code < 0
            else f"ended with code {code} (see {work.paths[0] / 'worker.log'})"
        )
        paths = " ".join(str(path) for path in work.paths)
        saved = any((work.paths[0] / "checkpoints").glob("[0-9]*"))
        then = "continues from its last checkpoint" if saved else "begins it anew"
        return _error(
            f"the process of {paths} {cause}; dualac resume {paths} {then}",
            128 - code if code < 0 else code,
        )

    def _pass_on(self, number: int, frame: object = None) -> None:
        self._asked.append(128 + number)
        for child in self._children:
            if child.process.poll() is None:
                os.kill(child.process.pid, number)


def by_chance(code: int) -> bool:
    """Whether another attempt may go better: a run that is locked, an error nobody foresaw. What a
    run calls an error it would call one again.
    """
    return code in (LockedError.code, DualacError.code)


def _error(text: str, code: int) -> DualacError:
    error = DualacError(text)
    error.code = code
    return error
