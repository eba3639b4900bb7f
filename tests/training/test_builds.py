"""That a run is resumed to the bit hangs on no one build of JAX.

DUALAC_OTHER_PYTHON names the interpreter of an environment with another one, for example
uv venv other && uv pip install --python other/bin/python jax==0.10.1 -r REQUIREMENTS
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.runs import ROOT

OTHER = os.environ.get("DUALAC_OTHER_PYTHON", "")
without_other = pytest.mark.skipif(not OTHER, reason="DUALAC_OTHER_PYTHON names no interpreter")


@pytest.mark.kill
@pytest.mark.parametrize("row", ["dac", "sac"])
@pytest.mark.parametrize("python", [sys.executable, pytest.param(OTHER, marks=without_other)])
def test_a_killed_run_ends_with_the_bits_of_one_that_never_was(
    python: str, row: str, tmp_path: Path
) -> None:
    env = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}
    env["XDG_CACHE_HOME"] = str(tmp_path / "cache")
    env.pop("JAX_COMPILATION_CACHE_DIR", None)
    argv = [python, "-m", "tests.support.twice", str(tmp_path), row]
    ended = subprocess.run(argv, env=env, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr[-2000:]
    assert f"{row}: 0 of" in ended.stdout
