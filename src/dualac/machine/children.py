"""Processes that end with the one that started them, and how they are spoken with."""

import contextlib
import ctypes
import functools
import importlib
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from dualac.machine.messages import Message, from_line


def die_with_parent(number: signal.Signals) -> None:
    """Ask Linux for this signal when the thread that started this process ends, however it ends."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None, use_errno=True).prctl(1, number)


def start(command: list[str], **options: Any) -> "subprocess.Popen[Any]":
    """Start a process that may `die_with_parent`.

    A thread that lives as long as this process starts it: it is a thread's end that is signalled.
    """
    return _starter().submit(subprocess.Popen, command, **options).result()


@functools.cache
def _starter() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(1, thread_name_prefix="starter")


class Child:
    """A process of a Python module, which answers in messages.

    It has a session of its own: a Ctrl-C at the terminal reaches only its parent.
    """

    def __init__(
        self,
        module: str,
        *arguments: str,
        deliver: "Callable[[Child, Message | None], None] | None" = None,
        **options: Any,
    ) -> None:
        """Start it. `deliver` is called, in another thread, with each of its messages, and with
        None when it has ended; without it `receive` returns them. `options` are those of Popen.
        """
        self._messages: queue.SimpleQueue[Message | None] = queue.SimpleQueue()
        self._deliver = deliver or (lambda _, message: self._messages.put(message))
        self.process: subprocess.Popen[str] = start(
            # -P: no module is looked for in the working directory, which may be anybody's.
            [sys.executable, "-P", "-m", module, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
            **options,
        )
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def send(self, message: Message) -> None:
        """Say something. To a process that has died meanwhile this does nothing: its end is the
        next that is received.
        """
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(message.to_line())
            self.process.stdin.flush()

    def dismiss(self) -> None:
        """Tell it that nothing more comes: it ends when it has done what it is at."""
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()

    def receive(self, timeout: float | None = None) -> Message | None:
        """Return its next message, or None when it has ended; raise `queue.Empty` after
        `timeout` seconds.
        """
        return self._messages.get(timeout=timeout)

    def wait(self) -> int:
        """Wait for its end; return its exit code, negative for a signal."""
        self._listener.join()
        return self.process.wait()

    def kill(self) -> None:
        """End it at once, with all that it started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.dismiss()
        self.wait()

    def _listen(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as lines:
            for line in lines:
                self._deliver(self, from_line(line))
        self.process.wait()
        self._deliver(self, None)


def open_answers() -> Callable[[Message], None]:
    """Keep the standard output for messages to the parent: what else is printed goes to the
    standard error. Return the function that sends one.
    """
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)

    def send(message: Message) -> None:
        # Where the parent is gone nobody reads, and its death asks this process to stop.
        with contextlib.suppress(BrokenPipeError):
            answers.write(message.to_line())

    return send


def load_function(name: str) -> Callable[..., Any]:
    """Import the function that `module:name` names.

    JAX counts the cores when it is imported: pin the process before.
    """
    module, _, function = name.partition(":")
    return getattr(importlib.import_module(module), function)


def describe_end(code: int) -> str:
    """Put into words how a process ended that said nothing of it."""
    if code < 0:
        return f"was ended by {signal.Signals(-code).name}"
    return f"ended with code {code}"
