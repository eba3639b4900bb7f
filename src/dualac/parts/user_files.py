"""Files of a user's own: `mine.py:MyAlgorithm`. What they define stands beside what the library
has, and is found again when a run is resumed.
"""

import functools
import hashlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

from dualac.errors import DataError, UsageError

PACKAGE = "dualac."


def load(path: Path) -> ModuleType:
    """Load the module that a file is, once, whatever it is called by."""
    return _load(str(path.resolve()))


@functools.cache
def _load(path: str) -> ModuleType:
    if not Path(path).is_file():
        raise UsageError(f"there is no file {path}")
    loaded_digest(Path(path))
    name = f"own_{Path(path).stem}_{hashlib.sha256(path.encode()).hexdigest()[:8]}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise UsageError(f"{path} is not a Python file")
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    sys.path.insert(
        0, str(Path(path).parent)
    )  # what stands beside it can be imported, as when Python runs it
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        raise UsageError(
            f"{path} cannot be loaded: {type(error).__name__}: {error}; python {path} shows where"
        ) from error
    finally:
        sys.path.remove(str(Path(path).parent))
    return module


def source(kind: type) -> Path | None:
    """Return the file that defines a class of a user's own; None for one of the library's."""
    if kind.__module__.startswith(PACKAGE):
        return None
    file = getattr(sys.modules.get(kind.__module__), "__file__", None)
    return Path(file).resolve() if file else None


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


@functools.cache
def loaded_digest(path: Path) -> str:
    """Return the digest of the file as it was when this process first needed it: what it says later
    is not what is running.
    """
    return digest(path)


def find(named: str, digested: str) -> None:
    """Load the file of `path:Name`, which must be the one a run was made with."""
    path = Path(named.rpartition(":")[0])
    if not path.is_file():
        raise DataError(f"{path}, which defines a part of this run, is gone")
    if digest(path) != digested:
        raise DataError(f"{path} has changed since this run was made with it")
    load(path)
