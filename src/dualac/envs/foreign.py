"""What to make of the errors that simulators and users' environments raise."""

import contextlib
import signal
import threading
from collections.abc import Iterator

from dualac.machine.signals import CtrlC


def is_ctrl_c(error: BaseException) -> bool:
    """Tell whether the user ends the program; else it is an error of the foreign code.

    A KeyboardInterrupt that the environment itself raises is such an error. Where Python's own
    handler is at work the two look alike, and the user's is assumed.
    """
    if isinstance(error, CtrlC):
        return True
    by_python = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    in_main_thread = threading.current_thread() is threading.main_thread()
    return isinstance(error, KeyboardInterrupt) and by_python and in_main_thread


@contextlib.contextmanager
def ignoring_errors() -> Iterator[None]:
    """Ignore what foreign code raises in the `with` block: it is closed, and nobody needs it."""
    try:
        yield
    except BaseException as error:
        if is_ctrl_c(error):
            raise
