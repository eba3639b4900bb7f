"""The doctor tells whether training would work here, and exits 0 only if it would."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from dualac import cli
from dualac.cli import doctor

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
LOCK = ROOT / "requirements.lock"


@pytest.fixture
def unhurried(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """A doctor that neither draws nor trains: what it makes of the answers is judged here."""
    monkeypatch.setattr(doctor, "render_backend", lambda: "egl")
    monkeypatch.setattr(doctor, "smoke", lambda: None)
    return monkeypatch


def test_the_tested_versions_are_those_of_the_lock():
    locked = dict(re.findall(r"^([A-Za-z0-9._-]+)==([^\s;]+)", LOCK.read_text(), re.MULTILINE))
    assert {name: locked.get(name.replace("_", "-")) for name in doctor.TESTED} == doctor.TESTED


def test_what_is_optional_was_tested_and_names_an_extra():
    extras = re.findall(r"^(\w+) = \[", (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert set(doctor.OPTIONAL) <= set(doctor.TESTED)
    assert set(doctor.OPTIONAL.values()) <= set(extras)


def test_it_shows_versions_cores_memory_disk_and_what_draws(
    unhurried: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    assert cli.run(["doctor"]) == 0
    said = capsys.readouterr().out
    for word in (
        "found",
        "tested",
        *doctor.TESTED,
        "usable",
        "memory",
        "disk",
        "GB free",
        "rendering  egl",
        "training   works",
    ):
        assert word in said


def test_a_training_that_fails_is_told_and_the_exit_code_is_not_0(
    unhurried: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    unhurried.setattr(doctor, "smoke", lambda: "fails: no space")
    assert cli.run(["doctor"]) != 0
    assert "fails: no space" in capsys.readouterr().out


def test_a_machine_that_cannot_draw_can_still_train(
    unhurried: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    unhurried.setattr(doctor, "render_backend", lambda: None)
    assert cli.run(["doctor"]) == 0
    assert "libegl1" in capsys.readouterr().out


def test_what_is_missing_or_differs_is_named_with_what_to_install(
    unhurried: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    unhurried.setattr(
        doctor,
        "version",
        lambda name: {"dm_control": None, "gymnasium": "0.0.1"}.get(name, doctor.TESTED[name]),
    )
    assert cli.run(["doctor"]) == 0
    lines = {line.split()[0]: line for line in capsys.readouterr().out.splitlines() if line.strip()}
    assert "missing: pip install 'dualac[dmc]'" in lines["dm_control"]
    assert "0.0.1" in lines["gymnasium"]
    assert "differs" in lines["gymnasium"]
    assert lines["numpy"].rstrip().endswith("ok")


def test_a_way_of_drawing_that_does_not_exist_draws_nothing(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("MUJOCO_GL", "bogus")
    assert doctor.render_backend() is None


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
def test_an_environment_that_takes_its_process_along_is_a_finding(
    how, tmp_path, monkeypatch, capsys
):
    code, told = ENDS[how]
    (tmp_path / f"bad_{how}.py").write_text(ENVIRONMENT.replace("CODE", code).replace("NAME", how))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(doctor.findings, "__defaults__", (0, 8.0))
    assert cli.run(["doctor", "--task", f"bad_{how}:{how}-v0"]) == 65
    said = capsys.readouterr().out
    assert told in said and "would not work" in said
