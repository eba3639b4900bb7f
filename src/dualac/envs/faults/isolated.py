"""An environment in a process of its own, so that it may hang, exit or crash without taking its
user with it.

The process is a fresh interpreter, never a fork: JAX's threads forbid that. The two speak over a
socket in a few fixed records, and numbers cross it as they are: an isolated environment gives the
bits of one that is not.
"""

from __future__ import annotations

import contextlib
import faulthandler
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import time
import traceback
from dataclasses import asdict
from typing import Any, NoReturn, final

import gymnasium
import numpy as np
from gymnasium import spaces

from dualac.envs.protocol import Protocol
from dualac.errors import (
    BrokenEpisodeError,
    DataError,
    DualacError,
    LostEnvironmentError,
    UsageError,
)
from dualac.machine.children import die_with_parent, start

MAKING = 120.0  # seconds, at least, that an environment has to be made: simulators import slowly
CLOSING = 5.0  # and to be closed
RESET, STEP, CLOSE = b"r", b"s", b"c"
ANSWER, ERROR = b"a", b"e"
MOST = 1 << 16  # bytes that are read at once
HEAD = struct.Struct("=cQ")  # what comes, and how many bytes of it
OUTCOME = struct.Struct(
    "=d????"
    # reward, terminated, truncated, whether the task tells of success, success;
    # the observation follows
)
ERRORS = (
    LostEnvironmentError,
    BrokenEpisodeError,
    UsageError,
    DataError,
    DualacError,
)  # the narrowest first


class RemoteTraceback(Exception):
    """What an environment raised in its process, as the text of a traceback."""


@final
class Isolated(gymnasium.Env):
    """As `make` answers, but elsewhere: what is raised there is raised here, and a process that
    hangs or dies is a `LostEnvironmentError` for good.

    Of `info` only `success` crosses. It cannot be drawn.
    """

    render_mode = None

    def __init__(self, task: str, seed: int | None, protocol: Protocol, seconds: float) -> None:
        self.task, self._seconds = task, seconds
        self._socket, theirs = socket.socketpair()
        with theirs:
            words = [sys.executable, "-m", __name__, str(theirs.fileno()), str(os.getpid())]
            # A session of its own: a Ctrl-C at the terminal is not for it, and what it starts is
            # found and ended with it.
            self._process = start(
                words, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, start_new_session=True
            )
        order = {"task": task, "seed": seed, "protocol": asdict(protocol), "path": sys.path}
        try:
            about = json.loads(
                bytes(
                    self._ask(
                        ANSWER, json.dumps(order).encode(), "being made", max(seconds, MAKING)
                    )
                )
            )
        except DualacError as error:
            self.close()
            if not isinstance(error, LostEnvironmentError):
                raise
            raise UsageError(f"{task} cannot be made: it {error}") from error.__cause__
        self.task, self.cap, self._description = about["task"], about["cap"], about["description"]
        self.observation_space = spaces.Box(-np.inf, np.inf, (about["observations"],), np.float32)
        self.action_space = spaces.Box(-1.0, 1.0, (about["actions"],), np.float32)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        if options:
            raise UsageError(
                f"{self.task}: an isolated environment's reset has no options, not even "
                f"{', '.join(options)}"
            )
        told = self._ask(RESET, json.dumps(seed).encode(), "reset", self._seconds)
        return np.frombuffer(told, np.float32).copy(), {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        given = np.asarray(action, np.float32)
        if given.shape != self.action_space.shape:
            raise UsageError(
                f"{self.task} takes an action of shape {self.action_space.shape}, not {given.shape}"
            )
        told = self._ask(STEP, given.tobytes(), "step", self._seconds)
        reward, terminated, truncated, judged, success = OUTCOME.unpack_from(told)
        return (
            np.frombuffer(told, np.float32, offset=OUTCOME.size).copy(),
            reward,
            terminated,
            truncated,
            {"success": success} if judged else {},
        )

    def move_to(self, core: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.sched_setaffinity(self._process.pid, {core})

    def describe(self) -> dict[str, Any]:
        """As `Adapted.describe`."""
        return self._description

    def close(self) -> None:
        if self._process.returncode is not None:
            return
        with contextlib.suppress(DualacError):
            self._ask(CLOSE, b"", "close", CLOSING)
        self._end()

    def __del__(self) -> None:
        if "_process" in self.__dict__ and self._process.returncode is None:
            self._end()

    def _ask(self, what: bytes, content: bytes, doing: str, seconds: float) -> memoryview:
        if self._process.returncode is not None:
            raise LostEnvironmentError("is gone, and so is its process")
        deadline = time.monotonic() + seconds
        try:
            self._socket.settimeout(seconds)
            _send(self._socket, what, content)
            kind, told = _receive(self._socket, deadline)
        except TimeoutError:
            self._lose(f"did not answer to {doing} within {seconds:g} s")
        except OSError:
            self._lose("")
        if kind == ERROR:
            _raise(json.loads(bytes(told)))
        return told

    def _lose(self, hung: str) -> NoReturn:
        with contextlib.suppress(subprocess.TimeoutExpired):  # one that has died says so at once
            self._process.wait(0.0 if hung else CLOSING)
        code = self._process.returncode
        if code is None:
            self._process.send_signal(signal.SIGUSR1)  # where it hangs goes to the log
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(0.2)
        self._end()
        if code is None:
            raise LostEnvironmentError(hung or "closed its connection")
        raise LostEnvironmentError(
            f"crashed its process ({signal.Signals(-code).name})"
            if code < 0
            else f"ended its process with code {code}"
        )

    def _end(self) -> None:
        """The process, and what it has started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._socket.close()


def _send(to: socket.socket, kind: bytes, content: bytes) -> None:
    to.sendall(HEAD.pack(kind, len(content)) + content)


def _receive(source: socket.socket, deadline: float | None = None) -> tuple[bytes, memoryview]:
    """A record. The other end's death is an OSError; a deadline that passes, TimeoutError, is
    another one.
    """
    got = source.recv(MOST)  # all of it, nearly always: the two ends take turns
    while len(got) < HEAD.size or len(got) < HEAD.size + HEAD.unpack_from(got)[1]:
        if deadline is not None:
            source.settimeout(max(deadline - time.monotonic(), 0.001))
        more = source.recv(MOST)
        if not got or not more:
            raise ConnectionResetError
        got += more
    return HEAD.unpack_from(got)[0], memoryview(got)[HEAD.size :]


def _raise(told: dict[str, str]) -> NoReturn:
    kind = next(kind for kind in ERRORS if kind.__name__ == told["kind"])
    raise kind(told["text"]) from (
        RemoteTraceback("\n" + told["traceback"]) if told["traceback"] else None
    )


def _error(error: BaseException) -> bytes:
    """An error as it crosses; foreign ones with their traceback, and so those that foreign ones
    have caused.
    """
    told = error if isinstance(error, DualacError) else LostEnvironmentError.caused_by(error)
    cause = error.__cause__ if told is error else error
    kind = next(kind for kind in ERRORS if isinstance(told, kind))
    trace = "".join(traceback.format_exception(cause)) if cause else ""
    return json.dumps({"kind": kind.__name__, "text": str(told), "traceback": trace}).encode()


def main() -> None:
    """The other end: an environment that does as it is asked until it is told to close or nobody is
    there.
    """
    die_with_parent(signal.SIGKILL)
    if os.getppid() != int(sys.argv[2]):  # it died before it could be followed
        return
    os.dup2(
        2, 1
    )  # what a simulator prints goes where complaints go, not into anybody's conversation
    faulthandler.enable()  # where it crashed ...
    faulthandler.register(signal.SIGUSR1)  # ... or hangs
    with socket.socket(fileno=int(sys.argv[1])) as ours, contextlib.suppress(OSError):
        os.set_inheritable(ours.fileno(), False)
        order = json.loads(bytes(_receive(ours)[1]))
        sys.path[:] = order["path"]
        try:
            env = _made(order)
        except BaseException as error:
            return _send(ours, ERROR, _error(error))
        sizes = {
            "observations": env.observation_space.shape[0],
            "actions": env.action_space.shape[0],
        }
        about = {"task": env.task, "cap": env.cap, **sizes, "description": env.describe()}
        _send(ours, ANSWER, json.dumps(about).encode())
        _serve(env, ours)


def _made(order: dict[str, Any]) -> Any:
    from dualac.envs import make

    return make(order["task"], order["seed"], Protocol(**order["protocol"]))


def _serve(env: Any, ours: socket.socket) -> None:
    while True:
        kind, content = _receive(ours)
        if kind == CLOSE:
            with contextlib.suppress(Exception, SystemExit):
                env.close()
            return _send(ours, ANSWER, b"")
        try:
            answer = _reset(env, content) if kind == RESET else _step(env, content)
        except BaseException as error:  # whatever it is: it is not ours to judge
            _send(ours, ERROR, _error(error))
            continue
        _send(ours, ANSWER, answer)


def _reset(env: Any, content: memoryview) -> bytes:
    return env.reset(seed=json.loads(bytes(content)))[0].tobytes()


def _step(env: Any, content: memoryview) -> bytes:
    obs, reward, terminated, truncated, info = env.step(np.frombuffer(content, np.float32))
    success = info.get("success")
    return (
        OUTCOME.pack(reward, terminated, truncated, success is not None, bool(success))
        + obs.tobytes()
    )


if __name__ == "__main__":
    main()
