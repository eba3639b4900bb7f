"""The doctor tells whether training would work here, and exits 0 only if it would."""

import io
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

from dualac.cli import doctor
from dualac.inspection.video import render_backend

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
LOCK = ROOT / "requirements.lock"


def examine(**parts) -> tuple[int, str]:
    """Return the exit code and the lines of a doctor that neither draws nor trains."""
    console = Console(file=io.StringIO(), width=200, markup=False)
    quick = {"draws_with": lambda: "egl", "train": lambda: None}
    code = doctor.examine(console, **{**quick, **parts})
    return code, console.file.getvalue()  # pyright: ignore[reportAttributeAccessIssue]


def test_the_tested_versions_are_those_of_the_lock():
    locked = dict(re.findall(r"^([A-Za-z0-9._-]+)==([^\s;]+)", LOCK.read_text(), re.MULTILINE))
    assert {name: locked.get(name.replace("_", "-")) for name in doctor.TESTED} == doctor.TESTED


def test_what_is_optional_was_tested_and_names_an_extra():
    extras = re.findall(r"^(\w+) = \[", (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert set(doctor.EXTRAS) <= set(doctor.TESTED)
    assert set(doctor.EXTRAS.values()) <= set(extras)


def test_it_shows_versions_cores_memory_disk_and_what_draws():
    code, shown = examine()
    assert code == 0
    titles = ("found", "tested", "usable", "memory", "disk", "GB free", "rendering  egl")
    for word in (*titles, *doctor.TESTED, "training   works"):
        assert word in shown


def test_a_training_that_fails_is_shown_and_the_exit_code_is_not_0():
    code, shown = examine(train=lambda: "fails: no space")
    assert code != 0
    assert "fails: no space" in shown


def test_a_machine_that_cannot_draw_can_still_train():
    code, shown = examine(draws_with=lambda: None)
    assert code == 0
    assert "libegl1" in shown


def test_what_is_missing_or_differs_is_named_with_what_to_install():
    installed = {**doctor.TESTED, "dm_control": None, "jax": "0.0.1"}
    code, shown = examine(version=installed.get)
    assert code == 0
    lines = {line.split()[0]: line for line in shown.splitlines() if line.strip()}
    assert "missing: pip install 'dualac[dmc]'" in lines["dm_control"]
    assert "0.0.1" in lines["jax"]
    assert "differs" in lines["jax"]
    assert lines["numpy"].rstrip().endswith("ok")


def test_a_way_of_drawing_that_does_not_exist_draws_nothing(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("MUJOCO_GL", "bogus")
    assert render_backend() is None


@pytest.mark.suite
def test_training_works_here():
    """Really draws, trains, stops, resumes and compares."""
    command, env = (
        [Path(sys.executable).with_name("dualac"), "doctor"],
        {**os.environ, "COLUMNS": "200"},
    )
    said = subprocess.run(command, cwd=HERE, env=env, capture_output=True, text=True, check=False)
    assert (said.returncode, said.stderr) == (0, ""), said.stdout + said.stderr
    assert "resumed to the same bits" in said.stdout


ENDS = {
    "exits": ("os._exit(3)", "ended its process with code 3"),
    "crashes": ("os.kill(os.getpid(), 11)", "crashed its process (SIGSEGV)"),
    "hangs": ("\n        while True: pass", "it hangs: no answer within 8 s"),
}
ENVIRONMENT = """
import os, gymnasium, numpy as np
class Bad(gymnasium.Env):
    action_space = observation_space = gymnasium.spaces.Box(-1, 1, (2,), np.float32)
    def reset(self, *, seed=None, options=None):
        return np.zeros(2, np.float32), {}
    def step(self, action):
        CODE
gymnasium.register("NAME-v0", Bad, max_episode_steps=9)
"""


@pytest.mark.parametrize(
    "how", ["exits", *(pytest.param(how, marks=pytest.mark.kill) for how in ("crashes", "hangs"))]
)
def test_an_environment_that_takes_its_process_along_is_a_finding(how, tmp_path, monkeypatch):
    code, what = ENDS[how]
    (tmp_path / f"bad_{how}.py").write_text(ENVIRONMENT.replace("CODE", code).replace("NAME", how))
    monkeypatch.syspath_prepend(tmp_path)
    console = Console(file=io.StringIO(), width=200, markup=False)
    assert doctor.examine_task(console, f"bad_{how}:{how}-v0", patience=8.0) == 65
    shown = console.file.getvalue()  # pyright: ignore[reportAttributeAccessIssue]
    assert what in shown and "would not work" in shown
