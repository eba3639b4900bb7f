"""What to make of the errors that simulators and users' environments raise."""

import contextlib
from collections.abc import Iterator

# How a user, or Python, ends a program. Anything else that foreign code raises is its own error.
ENDINGS = (KeyboardInterrupt, GeneratorExit)


@contextlib.contextmanager
def ignoring_errors() -> Iterator[None]:
    """Ignore what foreign code raises in the `with` block: it is closed, and nobody needs it."""
    try:
        yield
    except ENDINGS:
        raise
    except BaseException:
        pass
