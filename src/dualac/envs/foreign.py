"""Code that is not ours: whatever a simulator or a user's environment raises is its own trouble."""

import contextlib
from collections.abc import Iterator

# How a user, or Python, ends things. These pass through; anything else is the foreign code's error.
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
