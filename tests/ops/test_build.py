"""Native code is loaded only from where the user alone could have put it."""

import hashlib
import logging
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from dualac.machine.compilation import why_not_private, writable_cache
from dualac.ops.build import load_or_compile, open_library

pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Compile the passes into a private folder; return the library."""
    folder = tmp_path_factory.mktemp("passes")
    load_or_compile(folder)
    (library,) = folder.glob("*.so")
    return library


@pytest.fixture
def library(compiled: Path, tmp_path: Path) -> Path:
    """Copy the library to a folder of this test's own."""
    folder = tmp_path / "cache"
    folder.mkdir(mode=0o700)
    for file in (compiled, compiled.with_suffix(".sha256")):
        shutil.copy(file, folder / file.name)
    return folder / compiled.name


def seal(library: Path) -> None:
    digest = hashlib.sha256(library.read_bytes()).hexdigest()
    library.with_suffix(".sha256").write_text(digest)


def test_what_was_compiled_is_loaded_again(library: Path) -> None:
    written = library.stat().st_mtime_ns
    assert load_or_compile(library.parent).digest == library.with_suffix(".sha256").read_text()[:16]
    assert library.stat().st_mtime_ns == written


def share_folder(library: Path) -> None:
    library.parent.chmod(0o777)


def share_parent(library: Path) -> None:
    library.parent.parent.chmod(0o777)


def share_file(library: Path) -> None:
    library.chmod(0o666)


def share_seal(library: Path) -> None:
    library.with_suffix(".sha256").chmod(0o666)


def give_away(library: Path) -> None:
    if os.getuid():
        pytest.skip("only root gives files away")
    os.chown(library, 12345, -1)


def link(library: Path) -> None:
    library.rename(library.with_name("elsewhere.so"))
    library.symlink_to("elsewhere.so")


def put_pipe(library: Path) -> None:
    library.unlink()
    os.mkfifo(library)


def put_folder(library: Path) -> None:
    library.unlink()
    library.mkdir()


def damage(library: Path) -> None:
    with library.open("r+b") as file:
        file.truncate(1000)


def damage_seal(library: Path) -> None:
    library.with_suffix(".sha256").write_bytes(b"\xff\xfe\x00 no text")


def put_text(library: Path) -> None:
    library.write_text("no library")
    seal(library)


def put_other_library(library: Path) -> None:
    source = library.with_suffix(".c")
    source.write_text("int other(void) { return 1; }\n")
    subprocess.run(["cc", "-shared", "-fPIC", str(source), "-o", str(library)], check=True)
    seal(library)


SHARED = [share_folder, share_parent, share_file, share_seal, give_away]
UNUSABLE = [link, put_pipe, damage, damage_seal, put_text, put_other_library, put_folder]


@pytest.mark.parametrize("spoil", [*SHARED, *UNUSABLE])
def test_what_is_not_the_users_own_or_not_whole_is_not_loaded(spoil, library: Path) -> None:
    assert open_library(library)
    spoil(library)
    assert open_library(library) is None


@pytest.mark.parametrize("spoil", [share_file, damage_seal, put_other_library, put_folder])
def test_what_cannot_be_loaded_is_compiled_anew(spoil, library: Path) -> None:
    spoil(library)
    assert load_or_compile(library.parent).digest
    if spoil is not put_folder:
        assert open_library(library)


def test_a_cache_that_others_may_write_to_is_left_alone_and_that_is_said_once(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    shared, own = tmp_path / "shared", tmp_path / "home"
    shared.mkdir()
    shared.chmod(0o777)
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", str(shared))
    monkeypatch.setenv("XDG_CACHE_HOME", str(own))
    with caplog.at_level(logging.WARNING):
        places = {writable_cache(), writable_cache()}
    (place,) = places
    assert place is not None and place.is_relative_to(own) and not why_not_private(place)
    assert not list(shared.iterdir())
    assert [str(shared) in record.getMessage() for record in caplog.records] == [True]
