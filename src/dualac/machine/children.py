"""Processes that end with the one that started them."""

import contextlib
import ctypes
import functools
import signal
import subprocess
from concurrent.futures import ThreadPoolExecutor
from typing import Any

# The environment variable that tells a process which command it was started by.
COMMAND = "DUALAC_COMMAND"


def die_with_parent(number: signal.Signals) -> None:
    """Linux: ask for this signal when the thread that started this process ends, however it
    ends.
    """
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None, use_errno=True).prctl(1, number)


def start(words: list[str], **how: Any) -> "subprocess.Popen[Any]":
    """A process that may `die_with_parent`: started by a thread that lives as long as this process,
    since it is a thread's end that is signalled.
    """
    return _starter().submit(subprocess.Popen, words, **how).result()


@functools.cache
def _starter() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(1, thread_name_prefix="starter")
