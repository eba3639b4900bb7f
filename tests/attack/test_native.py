"""The C passes, compiled with sanitizers, read and write only what is theirs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.attack import tally
from tests.attack.driver import ROOT

pytestmark = [
    pytest.mark.attack,
    pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler"),
]
SANITIZE = "-fsanitize=address,undefined -fno-sanitize-recover=undefined -g"
SHAPES = 300


def runtime(name: str) -> str:
    argv = ["cc", f"-print-file-name={name}"]
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout.strip()


def test_passes_are_clean_under_the_sanitizers(tmp_path: Path) -> None:
    libraries = [runtime("libasan.so"), runtime("libubsan.so")]
    if not all(Path(library).is_absolute() for library in libraries):
        pytest.skip("the compiler has no sanitizers")
    env = os.environ | {
        "CC": f"cc {SANITIZE}",
        "LD_PRELOAD": " ".join(libraries),
        "ASAN_OPTIONS": "detect_leaks=0:handle_segv=1",
        "UBSAN_OPTIONS": "print_stacktrace=1",
        "JAX_COMPILATION_CACHE_DIR": str(tmp_path),
        "XLA_FLAGS": "--xla_backend_optimization_level=0",
        "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
    }
    count = tally.share(SHAPES, 5)
    argv = [sys.executable, "-m", "tests.attack.native_shapes", str(tally.SEED), str(count)]
    ended = subprocess.run(argv, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout[-2000:] + ended.stderr[-4000:]
    kept = list(tmp_path.rglob("*.so"))
    assert kept
    assert all(b"__asan" in library.read_bytes() for library in kept)
    tally.count("sanitizers", "random shapes", 3 * count)
