"""The signals that ask a process to stop."""

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterator
from typing import NoReturn

# A Ctrl-C, a scheduler, a terminal that is closed, a Ctrl-\.
STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


class CtrlC(KeyboardInterrupt):
    """A Ctrl-C of the user, which nothing but `raise_ctrl_c` raises."""


def raise_ctrl_c(number: int, frame: object) -> NoReturn:
    """Handle SIGINT as Python does, by an error that foreign code does not raise itself."""
    raise CtrlC


def leave_lost_terminal() -> None:
    """Send what is still to be printed nowhere, where the terminal that it was for is gone."""
    for output in (1, 2):
        try:
            os.write(output, b"")
        except OSError:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, output)
            os.close(nowhere)


@contextlib.contextmanager
def handling(handler: Callable[[int, object], None]) -> Iterator[Callable[[], None]]:
    """Have a handler called on each signal that asks to stop.

    What is given to the block puts the handlers from before back, as its end does. Outside the main
    thread Python handles no signals. `nohup` ignores SIGHUP, and a shell SIGQUIT in the background:
    what is ignored stays so.
    """
    if threading.current_thread() is not threading.main_thread():
        yield lambda: None
        return
    before = {
        number: signal.getsignal(number)
        for number in STOPPING
        if number in (signal.SIGINT, signal.SIGTERM)
        or signal.getsignal(number) is not signal.SIG_IGN
    }

    def restore() -> None:
        for number, earlier in before.items():
            signal.signal(number, earlier)

    for number in before:
        signal.signal(number, handler)
    try:
        yield restore
    finally:
        restore()
