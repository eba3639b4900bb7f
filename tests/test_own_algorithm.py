"""An algorithm of a user's own file: trained, resumed, listed, refused."""

import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

import dualac  # noqa: E402
from dualac import api, cli, own  # noqa: E402
from dualac.errors import DataError, UsageError  # noqa: E402
from dualac.spelling import from_json, replaced, to_json  # noqa: E402
from dualac.training.run import load  # noqa: E402

EXAMPLE = ROOT / "examples" / "my_algorithm.py"
SMALL = {"policy.hidden": (8,), "explorer.hidden": (8,), "critic.hidden": (8,)}


@pytest.fixture
def mine(tmp_path):
    """A copy of the example in a folder of its own, as the name of its algorithm."""
    path = tmp_path / "mine.py"
    path.write_text(EXAMPLE.read_text())
    return f"{path}:cautious"


def test_the_page_shows_the_file_as_it_is():
    assert f"```python\n{EXAMPLE.read_text()}```" in (ROOT / "docs" / "your-algorithm.md").read_text()


def test_a_row_of_a_file_survives_json(mine):
    row = replaced(api.find_algorithm(mine), {"pessimism.share": 0.25})
    written = json.loads(json.dumps(to_json(row)))
    assert written["pessimism"]["part"] == f"{mine.rpartition(':')[0]}:LowerHalf"
    assert from_json(type(row), written) == row


def test_it_is_trained_and_continued(mine, tmp_path):
    row = replaced(api.find_algorithm(mine), SMALL)
    short = {"warmup": 10, "batch_size": 8, "capacity": 100, "eval_every": 20, "eval_episodes": 1, "quiet": True, "out": tmp_path / "runs"}
    task = "cli_toys:Point-v0"
    sys.path.insert(0, str(ROOT / "tests"))
    run = dualac.train(row, task, name="cautious", steps=20, **short)
    assert load(run.path).algorithm == row
    assert dualac.train(row, task, name="cautious", steps=30, **short).path == run.path


def test_a_file_that_changed_is_refused(mine, tmp_path):
    written = to_json(api.find_algorithm(mine))
    path = Path(mine.rpartition(":")[0])
    path.write_text(path.read_text() + "# another thought\n")
    with pytest.raises(DataError, match="has changed since"):
        own.find(written["pessimism"]["part"], written["pessimism"]["source"])
    path.unlink()
    with pytest.raises(DataError, match="is gone"):
        own.find(written["pessimism"]["part"], written["pessimism"]["source"])


def test_files_of_others_that_are_gone_do_not_matter(mine):
    api.find_algorithm(mine)
    Path(mine.rpartition(":")[0]).unlink()
    assert from_json(type(api.find_algorithm("dac")), to_json(api.find_algorithm("dac"))) == api.find_algorithm("dac")


def test_an_identity_depends_on_what_the_file_says(mine, tmp_path):
    other = tmp_path / "mine2.py"
    other.write_text(EXAMPLE.read_text().replace("axis=0)[:", "axis=0)[0:"))
    assert to_json(api.find_algorithm(mine))["pessimism"]["source"] != to_json(api.find_algorithm(f"{other}:cautious"))["pessimism"]["source"]


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("{}:cautios", "did you mean cautious"),
        ("nowhere.py:x", "there is no file"),
        ("{}:LowerHalf", "no Algorithm called 'LowerHalf'; it has cautious"),
    ],
)
def test_what_is_not_there_is_one_line(mine, name, told):
    with pytest.raises(UsageError, match=told):
        api.find_algorithm(name.format(mine.rpartition(":")[0]))


def test_a_file_that_cannot_be_loaded_says_why(tmp_path):
    (tmp_path / "bad.py").write_text("import nothing_of_this_name")
    with pytest.raises(UsageError, match="ModuleNotFoundError"):
        api.find_algorithm(f"{tmp_path / 'bad.py'}:x")


def test_it_is_listed_against_another(mine, capsys):
    assert cli.run(["list", "algorithms", mine, "--diff", "dac"]) == 0
    said = capsys.readouterr().out
    assert "LowerHalf()" in said and "Fixed(-0.2)" in said and "critic.k" in said
