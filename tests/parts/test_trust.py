"""Nothing that a directory names is run unless the user named it here, or consents."""

import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from dualac import cli
from dualac.errors import DataError
from dualac.parts.as_json import to_json
from dualac.parts.fields import former_origin_of
from dualac.runs.files import write_json
from dualac.training import presets
from dualac.training.run import Run, describe_edits, load, prepare

PART = """
import pathlib
from dataclasses import dataclass
from beside import SHARE
from dualac.agents import Algorithm, FromPolicy, Pessimism, Scalar, Soft
pathlib.Path({marker!r}).write_text("run")

@dataclass(frozen=True)
class Least(Pessimism):
    share: float = SHARE
    def backup(self, state, zs, key):
        return zs.min(axis=0)
    def objective(self, state, zs):
        return zs.min(axis=0)

row = Algorithm(Least(), Soft(), FromPolicy(), Scalar())
"""
ADDED = "other = Algorithm(Least(0.25), Soft(), FromPolicy(), Scalar())\n"
TASK = "gym/Pendulum-v1"
READERS = ["show", "status", "report", "collect"]
USERS = ["evaluate", "play", "resume"]


@pytest.fixture
def marker(tmp_path: Path) -> Path:
    """Name a file that exists once the user's code was executed."""
    return tmp_path / "marker"


@pytest.fixture
def mine(tmp_path: Path, marker: Path) -> Path:
    """Write an algorithm and a module beside it."""
    path = tmp_path / "own" / "mine.py"
    path.parent.mkdir()
    path.write_text(PART.format(marker=str(marker)))
    (path.parent / "beside.py").write_text("SHARE = 0.5\n")
    return path


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Let processes that are started now be of a user who has named nothing."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def run_of(mine: Path, row: str = "row") -> Run:
    return Run("mine", presets.find_algorithm(f"{mine}:{row}"), TASK)


def in_process(*args: object, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run Python in a process that has loaded nothing yet."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    argv = [sys.executable, "-P", *map(str, args)]
    return subprocess.run(argv, capture_output=True, text=True, env=env, cwd=cwd, check=False)


LOAD = (
    "import sys; from pathlib import Path; from dualac.training.run import load; "
    "print(load(Path(sys.argv[1]), trust='trust' in sys.argv[2:]).algorithm.pessimism)"
)


def test_a_file_of_a_run_is_executed_only_with_consent_which_names_it(
    mine: Path, marker: Path, tmp_path: Path, elsewhere: None
) -> None:
    path = prepare(run_of(mine), tmp_path / "runs")
    os.rename(tmp_path / "state", tmp_path / "state of another user")
    marker.unlink()
    refused = in_process("-c", LOAD, path)
    assert "DataError" in refused.stderr and "mine.py" in refused.stderr
    assert "--trust" in refused.stderr
    assert not marker.exists()
    trusted = in_process("-c", LOAD, path, "trust")
    assert trusted.returncode == 0, trusted.stderr
    digest = json.loads((path / "run.json").read_text())["algorithm"]["pessimism"]["source"]
    assert f"{path}/code/mine.py" in trusted.stderr and digest in trusted.stderr
    assert marker.exists()


def test_a_run_of_one_s_own_needs_no_word_and_not_its_file(
    mine: Path, tmp_path: Path, elsewhere: None
) -> None:
    path = prepare(run_of(mine), tmp_path / "runs")
    mine.write_text("raise SystemExit('edited')\n")
    (mine.parent / "beside.py").unlink()
    loaded = in_process("-c", LOAD, path)
    assert loaded.returncode == 0, loaded.stderr
    assert "Least(share=0.5)" in loaded.stdout


@pytest.mark.parametrize("planted", ["mine.py", "beside.py", "dataclasses.py"])
def test_a_copy_into_which_something_was_planted_is_not_what_was_named(
    mine: Path, tmp_path: Path, marker: Path, elsewhere: None, planted: str
) -> None:
    path = prepare(run_of(mine), tmp_path / "runs")
    marker.unlink()
    with (path / "code" / planted).open("a") as file:
        file.write("\nSHARE = 0.75\n")
    loaded = in_process("-c", LOAD, path)
    assert loaded.returncode == 1 and not marker.exists()
    assert "DataError" in loaded.stderr


def test_who_remembers_is_the_user_alone(mine: Path, tmp_path: Path, elsewhere: None) -> None:
    path = prepare(run_of(mine), tmp_path / "runs")
    folder = tmp_path / "state" / "dualac" / "trusted"
    assert folder.stat().st_mode & 0o777 == 0o700
    assert {file.stat().st_mode & 0o777 for file in folder.iterdir()} == {0o600}
    folder.chmod(0o777)
    assert "--trust" in in_process("-c", LOAD, path).stderr


ATTEMPT = """
import json, sys
from dualac import cli
from dualac.errors import DualacError
for argv in json.loads(sys.argv[1]):
    try:
        print(argv[0], cli.run(argv))
    except DualacError as error:
        print(argv[0], error.code, error)
"""


def attempt(path: Path, commands: list[str], *options: str) -> list[str]:
    """Type commands about a run, in its directory; return what each printed last."""
    typed = json.dumps([[command, str(path), *options] for command in commands])
    ended = in_process("-c", ATTEMPT, typed, cwd=path)
    assert ended.returncode == 0, ended.stderr
    return (ended.stdout + ended.stderr).splitlines()


def test_a_module_of_a_run_is_imported_only_with_consent(tmp_path: Path, elsewhere: None) -> None:
    """The directory of the run is where the command is typed: its module could be imported."""
    path = prepare(Run("sac", presets.find_algorithm("sac"), "gym/planted:Toy-v0"), tmp_path)
    (path / "planted.py").write_text("print('imported')\n")
    for command, line in zip(USERS, attempt(path, USERS), strict=True):
        assert line.startswith(f"{command} 65 {path}/run.json")
        assert "planted.py" in line and "--trust" in line
    # The library's own process of this test named it, where no such module stood.
    lines = attempt(path, ["resume"], "--trust")
    assert f"trusted: module 'planted' of '{path / 'planted.py'}'" in "\n".join(lines)
    assert "imported" in lines or "imported" in (path / "worker.log").read_text()


def test_reading_runs_executes_nothing(
    mine: Path, marker: Path, tmp_path: Path, elsewhere: None
) -> None:
    run = dataclasses.replace(run_of(mine), task="gym/planted:Toy-v0")
    path = prepare(run, tmp_path / "runs")
    marker.unlink()
    (path / "planted.py").write_text(f"open({str(marker)!r}, 'w')\n")
    assert any(line.startswith("status 0") for line in attempt(path, READERS))
    assert not marker.exists()


def test_nothing_in_the_working_directory_stands_in_for_a_package(tmp_path: Path) -> None:
    """A worker is started where the user stands: that may be among files of somebody else."""
    (tmp_path / "numpy.py").write_text("raise SystemExit('planted')\n")
    code = (
        "from dualac.machine.children import Child\n"
        "child = Child('dualac.execution.worker', '--threads', '1')\n"
        "child.dismiss(); raise SystemExit(child.wait())"
    )
    assert in_process("-c", code, cwd=tmp_path).returncode == 0


def test_a_new_run_holds_copies_and_no_absolute_path(mine: Path, tmp_path: Path) -> None:
    path = prepare(run_of(mine), tmp_path / "runs")
    assert str(tmp_path) not in (path / "run.json").read_text()
    copies = {file.name: file.read_text() for file in (path / "code").iterdir()}
    assert copies == {"mine.py": mine.read_text(), "beside.py": "SHARE = 0.5\n"}


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("# a comment\n", False),
        (ADDED, True),
        ("Least.objective = lambda self, state, zs: zs.max(axis=0)\n", True),
    ],
)
def test_an_edited_or_moved_file_goes_on_with_its_run_and_says_what_differs(
    mine: Path, tmp_path: Path, text: str, named: bool
) -> None:
    out = tmp_path / "runs"
    path = prepare(run_of(mine), out)
    before = (path / "run.json").read_text()
    moved = tmp_path / "moved" / "renamed.py"
    mine.parent.rename(moved.parent)
    (moved.parent / "mine.py").rename(moved)
    moved.write_text(moved.read_text() + text)
    again = run_of(moved)
    assert load(path).identity() == again.identity()
    assert ("renamed.py of" in describe_edits(again, out)) == named
    assert prepare(again, out) == path
    assert (path / "run.json").read_text() == before
    longer = dataclasses.replace(again, steps=2 * again.steps)
    prepare(longer, out)
    assert (
        json.loads(before)["algorithm"] == json.loads((path / "run.json").read_text())["algorithm"]
    )
    assert load(path).steps == longer.steps


def test_another_value_in_the_file_is_another_run(mine: Path, tmp_path: Path) -> None:
    prepare(run_of(mine), tmp_path / "runs")
    other = tmp_path / "other.py"
    other.write_text(mine.read_text().replace("from beside import SHARE", "SHARE = 0.25"))
    with pytest.raises(DataError, match=r"pessimism.share: 0.5 there, 0.25 here"):
        prepare(run_of(other), tmp_path / "runs")


def test_two_runs_use_each_their_own_copy_of_a_module(mine: Path, tmp_path: Path) -> None:
    paths = []
    for share in (0.5, 0.75):
        folder = tmp_path / f"{share}"
        folder.mkdir()
        (folder / "mine.py").write_text(mine.read_text())
        (folder / "beside.py").write_text(f"SHARE = {share}\n")
        code = (
            "import sys; from pathlib import Path; from dualac.training.run import Run, prepare; "
            "from dualac.training import presets; "
            "print(prepare(Run('mine', presets.find_algorithm(sys.argv[1]), 'gym/Pendulum-v1'), "
            "Path(sys.argv[2])))"
        )
        made = in_process("-c", code, f"{folder / 'mine.py'}:row", folder / "runs")
        paths.append(Path(made.stdout.strip()))
    for path in paths:  # without the value, that is with the default of its own module
        spec = json.loads((path / "run.json").read_text())
        del spec["algorithm"]["pessimism"]["share"]
        write_json(path / "run.json", spec)
    shares = [load(path).algorithm.pessimism.share for path in paths]  # pyright: ignore[reportAttributeAccessIssue]
    assert shares == [0.5, 0.75]


def test_a_run_that_names_its_file_by_path_and_digest_is_still_read(
    mine: Path, tmp_path: Path, elsewhere: None
) -> None:
    run = run_of(mine)
    path = run.directory(tmp_path / "runs")
    path.mkdir(parents=True)
    write_json(path / "run.json", to_json(run, origin=former_origin_of))
    assert str(mine) in (path / "run.json").read_text()
    assert "--trust" in in_process("-c", LOAD, path).stderr
    trusted = in_process("-c", LOAD, path, "trust")
    assert "Least(share=0.5)" in trusted.stdout, trusted.stderr
    former = run.identity(origin=former_origin_of)
    assert former != run.identity() and former in load(path).identities()


@pytest.mark.parametrize("name", ["../mine.py:Least", "sub/mine.py:Least", ":Least", "x:Least"])
def test_a_copy_has_a_plain_name(mine: Path, tmp_path: Path, name: str) -> None:
    path = prepare(run_of(mine), tmp_path / "runs")
    spec = json.loads((path / "run.json").read_text())
    spec["algorithm"]["pessimism"]["part"] = name
    write_json(path / "run.json", spec)
    with pytest.raises(DataError, match="is not the name of a Python file"):
        load(path, trust=True)


def test_consent_is_an_option_of_what_uses_a_run_and_of_nothing_else(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for command in [*USERS, "train"]:
        with pytest.raises(SystemExit):
            cli.run([command, "--help"])
        assert "--trust" in capsys.readouterr().out
    for command in READERS:
        with pytest.raises(SystemExit):
            cli.run([command, "--help"])
        assert "--trust" not in capsys.readouterr().out


def test_in_python_consent_is_an_argument(tmp_path: Path, elsewhere: None) -> None:
    path = prepare(Run("sac", presets.find_algorithm("sac"), "gym/planted_too:Toy-v0"), tmp_path)
    (tmp_path / "planted_too.py").write_text("")
    code = (
        "import sys, dualac\n"
        "for trust in (False, True):\n"
        "    try:\n        dualac.load_policy(sys.argv[1], trust=trust)\n"
        "    except Exception as error:\n        print(error)\n"
    )
    ended = in_process("-c", code, path, cwd=tmp_path)
    refusal, damage = ended.stdout.splitlines()
    assert "trust=True" in refusal and "trust" not in damage
    assert f"trusted: module 'planted_too' of '{tmp_path / 'planted_too.py'}'" in ended.stderr
