"""An environment in a process of its own, which may hang, exit or crash without harm to its user.

The process is a fresh interpreter, never a fork: JAX's threads forbid that. The two exchange binary
records over a socket, not the lines of `machine.children`, which would cost more than a fast
simulator's step; numbers cross as they are, so an isolated environment gives the bits of one that
is not.
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

from dualac.envs import Protocol, make
from dualac.errors import (
    BrokenEpisodeError,
    DataError,
    DualacError,
    LostEnvironmentError,
    UsageError,
)
from dualac.machine.children import die_with_parent, start

MAKING = 120.0  # seconds, at least, to make an environment: simulators import slowly
CLOSING = 5.0  # seconds to close one
RESET, STEP, CLOSE = b"r", b"s", b"c"
ANSWER, ERROR = b"a", b"e"
MOST = 1 << 16  # bytes that are read at once
HEAD = struct.Struct("=cQ")  # the kind of a record and the bytes of its content
# Reward, terminated, truncated, whether the task reports success, success. The observation follows.
OUTCOME = struct.Struct("=d????")
# The errors that cross as themselves, the narrowest first.
ERRORS = (LostEnvironmentError, BrokenEpisodeError, UsageError, DataError, DualacError)


class RemoteTraceback(Exception):
    """The traceback, as text, of what an environment raised in its process."""


@final
class Isolated(gymnasium.Env):
    """An environment as `make` returns it, in another process.

    What is raised there is raised here. A process that hangs or dies is a `LostEnvironmentError`
    for good. Of `info` only `success` crosses. The environment cannot be drawn.
    """

    render_mode = None

    def __init__(self, task: str, seed: int | None, protocol: Protocol, seconds: float) -> None:
        self.task, self._seconds = task, seconds
        self._socket, theirs = socket.socketpair()
        with theirs:
            command = [sys.executable, "-m", __name__, str(theirs.fileno()), str(os.getpid())]
            # A session of its own: a Ctrl-C at the terminal is not for it, and what it starts ends
            # with it.
            self._process = start(
                command,
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
        order = {"task": task, "seed": seed, "protocol": asdict(protocol), "path": sys.path}
        try:
            content = json.dumps(order).encode()
            answer = self._ask(ANSWER, content, "being made", max(seconds, MAKING))
        except DualacError as error:
            self.close()
            if not isinstance(error, LostEnvironmentError):
                raise
            raise UsageError(f"{task} cannot be made: it {error}") from error.__cause__
        about = json.loads(bytes(answer))
        self.task, self.cap, self._description = about["task"], about["cap"], about["description"]
        self.unlimited: bool = about["unlimited"]
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
        answer = self._ask(RESET, json.dumps(seed).encode(), "reset", self._seconds)
        return np.frombuffer(answer, np.float32).copy(), {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        vector = np.asarray(action, np.float32)
        shape = self.action_space.shape
        if vector.shape != shape:
            raise UsageError(f"{self.task} takes an action of shape {shape}, not {vector.shape}")
        answer = self._ask(STEP, vector.tobytes(), "step", self._seconds)
        reward, terminated, truncated, judged, success = OUTCOME.unpack_from(answer)
        observation = np.frombuffer(answer, np.float32, offset=OUTCOME.size).copy()
        info = {"success": success} if judged else {}
        return observation, reward, terminated, truncated, info

    def move_to(self, core: int) -> None:
        """Play on this core from now on."""
        with contextlib.suppress(ProcessLookupError):
            os.sched_setaffinity(self._process.pid, {core})

    def describe(self) -> dict[str, Any]:
        """Return what `Adapted.describe` returned in the process."""
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

    def _ask(self, kind: bytes, content: bytes, doing: str, seconds: float) -> memoryview:
        """Send a request; return the content of its answer, or raise what it raised."""
        if self._process.returncode is not None:
            raise LostEnvironmentError("is gone, and so is its process")
        deadline = time.monotonic() + seconds
        try:
            self._socket.settimeout(seconds)
            _send(self._socket, kind, content)
            kind, answer = _receive(self._socket, deadline)
        except TimeoutError:
            self._lose(f"did not answer to {doing} within {seconds:g} s")
        except OSError:
            self._lose("")
        if kind == ERROR:
            _raise(json.loads(bytes(answer)))
        return answer

    def _lose(self, hung: str) -> NoReturn:
        """End the process, and raise how it was lost; `hung` is empty where it may have died."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(0.0 if hung else CLOSING)
        code = self._process.returncode
        if code is None:
            self._process.send_signal(signal.SIGUSR1)  # where it hangs goes to the log
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(0.2)
        self._end()
        if code is None:
            raise LostEnvironmentError(hung or "closed its connection")
        if code < 0:
            raise LostEnvironmentError(f"crashed its process ({signal.Signals(-code).name})")
        raise LostEnvironmentError(f"ended its process with code {code}")

    def _end(self) -> None:
        """End the process, and what it has started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._socket.close()


def _send(to: socket.socket, kind: bytes, content: bytes) -> None:
    to.sendall(HEAD.pack(kind, len(content)) + content)


def _receive(source: socket.socket, deadline: float | None = None) -> tuple[bytes, memoryview]:
    """Read a record. The other end's death raises an OSError, the deadline a TimeoutError."""
    record = source.recv(MOST)  # all of it, nearly always: the two ends take turns
    while len(record) < HEAD.size or len(record) < HEAD.size + HEAD.unpack_from(record)[1]:
        if deadline is not None:
            source.settimeout(max(deadline - time.monotonic(), 0.001))
        more = source.recv(MOST)
        if not record or not more:
            raise ConnectionResetError
        record += more
    return HEAD.unpack_from(record)[0], memoryview(record)[HEAD.size :]


def _raise(fields: dict[str, str]) -> NoReturn:
    kind = next(kind for kind in ERRORS if kind.__name__ == fields["kind"])
    trace = fields["traceback"]
    raise kind(fields["text"]) from (RemoteTraceback("\n" + trace) if trace else None)


def _pack_error(error: BaseException) -> bytes:
    """Write an error as it crosses: with the traceback, where foreign code raised or caused it."""
    if isinstance(error, DualacError):
        ours, foreign = error, error.__cause__
    else:
        ours, foreign = LostEnvironmentError.caused_by(error), error
    kind = next(kind for kind in ERRORS if isinstance(ours, kind))
    trace = "".join(traceback.format_exception(foreign)) if foreign else ""
    return json.dumps({"kind": kind.__name__, "text": str(ours), "traceback": trace}).encode()


def main() -> None:
    """Serve an environment until it is to be closed, or nobody is at the other end."""
    die_with_parent(signal.SIGKILL)
    if os.getppid() != int(sys.argv[2]):  # the parent died before the line above
        return
    os.dup2(2, 1)  # a simulator may print; nobody reads that as an answer
    # Where it crashed, or hangs, goes to the standard error.
    faulthandler.enable()
    faulthandler.register(signal.SIGUSR1)
    with socket.socket(fileno=int(sys.argv[1])) as ours, contextlib.suppress(OSError):
        os.set_inheritable(ours.fileno(), False)
        order = json.loads(bytes(_receive(ours)[1]))
        sys.path[:] = order["path"]
        try:
            env: Any = make(order["task"], order["seed"], Protocol(**order["protocol"]))
        except BaseException as error:  # of the user's own code, which may raise anything
            return _send(ours, ERROR, _pack_error(error))
        sizes = {
            "observations": env.observation_space.shape[0],
            "actions": env.action_space.shape[0],
        }
        about = {
            "task": env.task,
            "cap": env.cap,
            "unlimited": env.unlimited,
            "description": env.describe(),
            **sizes,
        }
        _send(ours, ANSWER, json.dumps(about).encode())
        _serve(env, ours)


def _serve(env: Any, ours: socket.socket) -> None:
    while True:
        kind, content = _receive(ours)
        if kind == CLOSE:
            with contextlib.suppress(Exception, SystemExit):
                env.close()
            return _send(ours, ANSWER, b"")
        try:
            answer = _reset(env, content) if kind == RESET else _step(env, content)
        except BaseException as error:  # as above
            _send(ours, ERROR, _pack_error(error))
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
