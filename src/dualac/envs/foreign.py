"""Modules of a user's own that register tasks: where they stand, whether they may be imported, and
what to make of what they raise.
"""

import contextlib
import importlib
import os
import signal
import sys
import threading
from collections.abc import Iterator
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import find_spec
from pathlib import Path

from dualac.machine.signals import CtrlC
from dualac.parts import trust


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


def module_of(task: str) -> str:
    """Return the module that has to be imported for a task, `module:Id`; nothing where none has."""
    before, colon, _ = task.strip().rpartition(":")
    suite, slash, rest = before.partition("/")
    module = rest if slash and suite.lower() == "gym" else before
    return module if colon and module != "gymnasium" else ""


def remember_module(task: str) -> None:
    """Remember that the user named the module of this task, where it stands now."""
    if module := module_of(task):
        place = _place(module)
        if place:
            trust.remember(trust.key_of("module", module, place), f"{module}: {place}")


def require_module(task: str, *, consent: bool) -> None:
    """Refuse a task of a run whose module the user has not named, where it would be imported."""
    module = module_of(task)
    if not module or module in sys.modules:
        return
    if place := _place(module):
        what = f"module {module!r} of {place!r}"
        trust.require(trust.key_of("module", module, place), what, trust=consent)


def import_module(module: str) -> None:
    """Import a module that the user named; it may stand where the command was typed."""
    here = os.getcwd()
    if _stands_here(module) and here not in sys.path:
        sys.path.insert(0, here)
    importlib.import_module(module)


def _place(module: str) -> str:
    """Return the file, or the folders, from which the import of a module would begin."""
    top = module.partition(".")[0]
    spec = _spec_of(top, here=_stands_here(module))
    if spec is None:
        return ""
    if spec.origin and spec.origin not in ("built-in", "frozen"):
        return str(Path(spec.origin).resolve())
    places = spec.submodule_search_locations or [spec.origin or top]
    return os.pathsep.join(sorted({str(place) for place in places}))


def _stands_here(module: str) -> bool:
    """Tell whether a module is to be had from the working directory alone."""
    top = module.partition(".")[0]
    return _spec_of(top, here=False) is None and _spec_of(top, here=True) is not None


def _spec_of(top: str, *, here: bool) -> ModuleSpec | None:
    """Find a module of the top level without importing anything."""
    try:
        return PathFinder.find_spec(top, [os.getcwd()]) if here else find_spec(top)
    except (ImportError, ValueError, OSError):
        return None
