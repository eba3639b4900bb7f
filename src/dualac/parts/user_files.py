"""Files of a user's own: `mine.py:my_algorithm`.

What they define stands beside what the library has. A run keeps a copy of each file that defines
one of its parts, and of the modules that it imports from beside it; it is loaded from the copy.
"""

import ast
import functools
import hashlib
import importlib.abc
import importlib.util
import itertools
import json
import os
import re
import stat
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import NamedTuple, final

from dualac.errors import DataError, UsageError
from dualac.parts import trust

PACKAGE = "dualac."
LARGEST = 4 * 2**20  # bytes of a file of Python
MOST_FILES = 1000  # that one imports from beside it
_FILE_NAME = re.compile(r"[^\W\d][\w-]*\.py")


class Code(NamedTuple):
    """A file of a user's own as it was read, with what it imports from beside it."""

    folder: Path
    main: str
    """the name of the file itself"""
    files: Mapping[str, bytes]
    """all of them, by their paths in the folder"""

    @property
    def path(self) -> Path:
        return self.folder / self.main

    @property
    def digest(self) -> str:
        """The SHA-256 of the file; of several files, that of the list of theirs."""
        digests = {name: hashlib.sha256(text).hexdigest() for name, text in self.files.items()}
        if len(digests) == 1:
            return digests[self.main]
        listed = json.dumps([self.main, digests], sort_keys=True)
        return hashlib.sha256(listed.encode()).hexdigest()

    @property
    def main_digest(self) -> str:
        """The SHA-256 of the file itself, by which runs without a copy of it know it."""
        return hashlib.sha256(self.files[self.main]).hexdigest()

    @property
    def key(self) -> str:
        """What consent to run it is remembered by."""
        return trust.key_of("code", self.main, self.digest)


def load(path: Path) -> ModuleType:
    """Load the module that a file is, which the user named, once, whatever it is called by."""
    return _load(path.resolve())


@functools.cache
def _load(path: Path) -> ModuleType:
    if not path.is_file():
        raise UsageError(f"there is no file {path}")
    # What it imports in another way than by its name can be imported too, as when Python runs it.
    sys.path.insert(0, str(path.parent))
    try:
        return _execute(read_once(path))
    except DataError as error:
        raise UsageError(f"{error}; python {path} shows where") from error
    finally:
        sys.path.remove(str(path.parent))


def find(name: str, digest: str, folder: Path, *, consent: bool) -> None:
    """Load the file of a part that a run names, `mine.py:Mine`, from the copy in the folder.

    An older run names the file by its absolute path, and has no copy. The file must be what it was
    for this run. It is executed only if the user named it once, or consents now.
    """
    path = Path(name.rpartition(":")[0])
    if path.is_absolute():
        code = _read_named(path)
        changed = code.main_digest != digest
    else:
        if not _FILE_NAME.fullmatch(path.name) or path.name != str(path):
            raise DataError(f"{str(path)!r} is not the name of a Python file in {folder}")
        code = _read_named(folder / path)
        changed = code.digest != digest
    if changed:
        raise DataError(f"{code.path} has changed since this run was made with it")
    trust.require(code.key, _describe(code), trust=consent)
    _execute(code, str(path) if path.is_absolute() else "")


def source(kind: type) -> Path | None:
    """Return the file that defines a class of a user's own; None for one of the library's."""
    if kind.__module__.startswith(PACKAGE):
        return None
    file = getattr(sys.modules.get(kind.__module__), "__file__", None)
    return Path(file).resolve() if file else None


def code_of(kind: type) -> Code | None:
    """Return the code that defines a class of a user's own, as it was when it was loaded."""
    path = source(kind)
    if path is None:
        return None
    spec = getattr(sys.modules.get(kind.__module__), "__spec__", None)
    loader = getattr(spec, "loader", None)
    return loader.code_at(path) if isinstance(loader, _Kept) else read_once(path)


@functools.cache
def read_once(path: Path) -> Code:
    """Read a file as it is when this process first needs it: later it may not be what runs."""
    return read(path)


def read(path: Path) -> Code:
    """Read a file of Python and all that it imports from beside it."""
    return _close(path.parent, path.name, lambda name: _read(path.parent / name), _listing_of)


def _close(
    folder: Path,
    main: str,
    text_of: Callable[[str], bytes],
    listing: Callable[[Path, str], Iterable[str]],
) -> Code:
    """Follow what a file imports from beside it; `listing` gives the files of such a module."""
    files, waiting = {main: text_of(main)}, [main]
    while waiting:
        for module in _imported(files[waiting.pop()]):
            new = [name for name in listing(folder, module) if name not in files]
            files |= {name: text_of(name) for name in new}
            waiting += new
        if len(files) > MOST_FILES:
            raise UsageError(
                f"{folder / main} imports more than {MOST_FILES} files from beside it; install "
                "them as a package"
            )
    return Code(folder, main, dict(sorted(files.items())))


def keep(codes: Sequence[Code], folder: Path) -> None:
    """Write copies into a folder, and remember that the user named this code."""
    texts: dict[str, bytes] = {}
    for code in codes:
        if not _FILE_NAME.fullmatch(code.main):
            raise UsageError(f"{code.path} defines a part: call it by letters, digits, _ and -")
        for name, text in code.files.items():
            if texts.setdefault(name, text) != text:
                raise UsageError(f"two files of this algorithm are called {name}: rename one")
    for name, text in texts.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.unlink(missing_ok=True)
        with file.open("xb") as copy:  # a new file, never what a link points to
            copy.write(text)
            copy.flush()
            os.fsync(copy.fileno())
    for code in codes:
        trust.remember(code.key, str(code.path))


def difference(ours: Code, theirs: Code) -> str:
    """Name the files in which two codes differ by more than comments and layout; nothing if none.

    A file of the one may be called otherwise than that of the other.
    """
    names = {name: name for name in ours.files} | {ours.main: theirs.main}
    differing = [
        name
        for name, other in names.items()
        if other not in theirs.files or _meaning(ours.files[name]) != _meaning(theirs.files[other])
    ]
    return ", ".join(differing)


def _meaning(text: bytes) -> str:
    try:
        return ast.dump(ast.parse(text))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return repr(text)


def _imported(text: bytes) -> list[str]:
    """List the modules of the top level that a file imports, wherever in it."""
    try:
        nodes = list(ast.walk(ast.parse(text)))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []  # its execution will tell
    names: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.add(node.module)
    return sorted({name.partition(".")[0] for name in names})


def _listing_of(folder: Path, module: str) -> list[str]:
    """List the files in a folder that are a module: one, or all those of a package."""
    if (folder / module / "__init__.py").is_file():
        files = itertools.islice((folder / module).rglob("*.py"), MOST_FILES + 1)
        return sorted(file.relative_to(folder).as_posix() for file in files)
    return [f"{module}.py"] if (folder / f"{module}.py").exists() else []


def _read(path: Path) -> bytes:
    """Read a regular file of a reasonable size; open it once, and wait for no pipe."""
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode) or status.st_size > LARGEST:
            raise DataError(f"{path} is not a file of Python")
        return file.read(LARGEST)


def _read_named(path: Path) -> Code:
    if not path.exists():
        raise DataError(f"{path}, which defines a part of this run, is gone")
    try:
        return read(path)
    except OSError as error:
        raise DataError(f"{path} cannot be read ({error.strerror})") from None


def _describe(code: Code) -> str:
    more = len(code.files) - 1
    beside = f" and {more} file{'s' * (more > 1)} beside it" if more else ""
    return f"{str(code.path)!r}{beside} (SHA-256 {code.digest})"


_executed: dict[str, ModuleType] = {}


def _execute(code: Code, place: str = "") -> ModuleType:
    """Execute what was read, not what the files say now; its modules are known to nobody else.

    The same files are executed once, whichever copy of them it is; those of a `place` for it alone.
    """
    key = trust.key_of(code.key, place)
    if key in _executed:
        return _executed[key]
    finder = _Finder(code, f"own_{key[:12]}")
    before = {name: sys.modules.pop(name) for name in list(sys.modules) if finder.has(name)}
    sys.meta_path.insert(0, finder)
    try:
        module = importlib.import_module(Path(code.main).stem)
    except (Exception, SystemExit) as error:
        cause = f"{type(error).__name__}: {error}"
        raise DataError(f"{code.path} cannot be loaded: {cause}") from error
    finally:
        sys.meta_path.remove(finder)
        for name in [name for name in sys.modules if finder.has(name)]:
            del sys.modules[name]
        sys.modules.update(before)
    _executed[key] = module
    return module


@final
class _Finder(importlib.abc.MetaPathFinder):
    """Finds the modules of one code, in memory."""

    def __init__(self, code: Code, prefix: str) -> None:
        self._code, self._prefix = code, prefix
        self._tops = {name.partition("/")[0].removesuffix(".py") for name in code.files}

    def has(self, module: str) -> bool:
        """Tell whether a module is one of these, or of a package of these."""
        return module.partition(".")[0] in self._tops

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        stem = fullname.replace(".", "/")
        for name in (f"{stem}/__init__.py", f"{stem}.py"):
            if name in self._code.files:
                loader = _Kept(self._code, name, self._prefix)
                return importlib.util.spec_from_loader(fullname, loader, origin=str(loader.path))
        return None


@final
class _Kept(importlib.abc.ExecutionLoader):
    """Loads a module from what was read, under a name of its own."""

    def __init__(self, code: Code, name: str, prefix: str) -> None:
        self._code, self._name, self._prefix = code, name, prefix
        self.path = code.folder / name

    def code_at(self, path: Path) -> Code:
        """Return the code whose main file is the one at this path."""
        files, folder = self._code.files, self._code.folder
        name = path.relative_to(folder.resolve()).as_posix()
        if name == self._code.main:
            return self._code

        def listing(folder: Path, module: str) -> list[str]:
            return [name for name in files if name.split("/")[0] in (module, f"{module}.py")]

        return _close(folder, name, files.__getitem__, listing)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = ModuleType(f"{self._prefix}.{spec.name}")
        module.__file__ = str(self.path)
        sys.modules[module.__name__] = module  # where a dataclass looks for its own module
        return module

    def is_package(self, fullname: str) -> bool:
        return self._name.endswith("__init__.py")

    def get_filename(self, fullname: str) -> str:
        return str(self.path)

    def get_source(self, fullname: str) -> str:
        return importlib.util.decode_source(self._code.files[self._name])
