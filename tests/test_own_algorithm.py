"""An algorithm of a user's own file: trained, resumed, listed, refused."""

import json
import sys
from pathlib import Path

import pytest

import dualac
from dualac import cli
from dualac.errors import DataError, UsageError
from dualac.parts import user_files
from dualac.parts.as_json import from_json, to_json
from dualac.parts.fields import former_origin_of, origin_of
from dualac.parts.paths import replaced
from dualac.training import presets
from dualac.training.run import load

ROOT = Path(__file__).parents[1]
EXAMPLE = ROOT / "examples" / "my_algorithm.py"
SMALL = {"policy.hidden": (8,), "explorer.hidden": (8,), "critic.hidden": (8,)}


@pytest.fixture
def mine(tmp_path):
    """Copy the example to a folder of its own; return the name of its algorithm."""
    path = tmp_path / "mine.py"
    path.write_text(f"{EXAMPLE.read_text()}# of {tmp_path}\n")  # no other test has this file
    return f"{path}:cautious"


def test_the_page_shows_the_file_as_it_is():
    assert (
        f"```python\n{EXAMPLE.read_text()}```" in (ROOT / "docs" / "your-algorithm.md").read_text()
    )


def test_a_row_of_a_file_survives_json(mine):
    row = replaced(presets.find_algorithm(mine), {"pessimism.share": 0.25})
    written = json.loads(json.dumps(to_json(row)))
    assert written["pessimism"]["part"] == "mine.py:LowerHalf"
    assert from_json(type(row), written) == row


def test_it_is_trained_and_continued(mine, tmp_path):
    row = replaced(presets.find_algorithm(mine), SMALL)
    short = {
        "warmup": 10,
        "batch_size": 8,
        "capacity": 100,
        "eval_every": 20,
        "eval_episodes": 1,
        "quiet": True,
        "out": tmp_path / "runs",
    }
    task = "cli_toys:Point-v0"
    sys.path.insert(0, str(ROOT / "tests" / "support"))
    run = dualac.train(row, task, name="cautious", steps=20, **short)
    assert load(run.path).algorithm == row
    assert dualac.train(row, task, name="cautious", steps=30, **short).path == run.path


@pytest.mark.parametrize("origin", [origin_of, former_origin_of])
def test_a_copy_or_a_file_of_an_older_run_that_changed_is_refused(mine, origin):
    part = to_json(presets.find_algorithm(mine), origin=origin)["pessimism"]
    path = Path(mine.rpartition(":")[0])

    def find():
        user_files.find(part["part"], part["source"], path.parent, consent=True)

    path.write_text(path.read_text() + "# another thought\n")
    with pytest.raises(DataError, match="has changed since"):
        find()
    path.unlink()
    with pytest.raises(DataError, match="is gone"):
        find()


def test_files_of_others_that_are_gone_do_not_matter(mine):
    presets.find_algorithm(mine)
    Path(mine.rpartition(":")[0]).unlink()
    assert from_json(
        type(presets.find_algorithm("dac")), to_json(presets.find_algorithm("dac"))
    ) == presets.find_algorithm("dac")


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("{}:cautios", "did you mean cautious"),
        ("nowhere.py:x", "there is no file"),
        ("{}:LowerHalf", "no Algorithm called 'LowerHalf'; it has cautious"),
    ],
)
def test_what_is_not_there_is_one_line(mine, name, reason):
    with pytest.raises(UsageError, match=reason):
        presets.find_algorithm(name.format(mine.rpartition(":")[0]))


def test_a_file_that_cannot_be_loaded_says_why(tmp_path):
    (tmp_path / "bad.py").write_text("import nothing_of_this_name")
    with pytest.raises(UsageError, match="ModuleNotFoundError"):
        presets.find_algorithm(f"{tmp_path / 'bad.py'}:x")


def test_it_is_listed_against_another(mine, capsys):
    assert cli.run(["list", "algorithms", mine, "--diff", "dac"]) == 0
    text = capsys.readouterr().out
    assert "LowerHalf()" in text and "Fixed(-0.2)" in text and "critic.k" in text


CHAIN = """
from dataclasses import dataclass
import jax.numpy as jnp
from dualac.agents.algorithm import Algorithm
from dualac.agents.critics import Scalar
from dualac.agents.distributions import TanhNormal
from dualac.agents.explorers import FromPolicy, Noise
from dualac.agents.policies import Policy, Soft
from dualac.agents.pessimism import Pessimism
from beside import HALF

@dataclass(frozen=True)
class Least(Pessimism):
    def backup(self, state, zs, key):
        return zs.min(axis=0)
    def objective(self, state, zs):
        return zs.min(axis=0)

@dataclass(frozen=True)
class Most(Least):
    share: float = HALF
    def objective(self, state, zs):
        return zs.max(axis=0)

@dataclass(frozen=True)
class Blur(Noise):
    pass

@dataclass(frozen=True)
class Constant(Policy):
    '''Draws around nought, and learns nothing.'''
    stochastic = True
    targets_wait = False
    def init(self, key, spec):
        return (jnp.zeros((spec.action_dim,)),)
    def distribution(self, state, obs):
        mean = jnp.broadcast_to(state[0], (*obs.shape[:-1], state[0].shape[0]))
        return TanhNormal(mean, mean)
    def exploit(self, state, obs):
        return self.distribution(state, obs).mode()
    def backup(self, state, next_obs, noise):
        action, log_prob = self.distribution(state, next_obs).sample(noise)
        return action, jnp.zeros_like(log_prob)
    def improve(self, state, objective, obs, noise):
        return state, {"actor_loss": -objective(obs, self.exploit(state, obs)).mean()}

least = Algorithm(Least(), Soft(), FromPolicy(), Scalar())
most = Algorithm(Most(), Soft(), Blur(), Scalar())
plain = Algorithm(Least(), Soft(), Noise(), Scalar())
constant = Algorithm(Least(), Constant(), FromPolicy(), Scalar())
"""


@pytest.fixture
def chain(tmp_path):
    (tmp_path / "beside.py").write_text("HALF = 0.5\n")
    (tmp_path / "chain.py").write_text(CHAIN)
    return f"{tmp_path / 'chain.py'}"


@pytest.mark.parametrize("row", ["least", "most", "plain", "constant"])
def test_parts_that_others_are_derived_from_stay_parts_the_library_s_too(chain, row):
    mine = presets.find_algorithm(f"{chain}:{row}")
    assert from_json(type(mine), json.loads(json.dumps(to_json(mine)))) == mine


def test_a_policy_of_one_s_own_explores_by_its_own_randomness(chain, tmp_path):
    row = replaced(presets.find_algorithm(f"{chain}:constant"), {"critic.hidden": (8,)})
    sys.path.insert(0, str(ROOT / "tests" / "support"))
    short = {
        "warmup": 10,
        "batch_size": 8,
        "capacity": 100,
        "eval_every": 20,
        "log_every": 10,
        "eval_episodes": 1,
        "quiet": True,
    }
    dualac.train(
        row, "cli_toys:Point-v0", name="constant", steps=20, out=tmp_path / "runs", **short
    )


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (
            "@dataclass(frozen=True)\nclass Half(Pessimism):\n    def backup(self, state, zs, "
            "key):\n        return zs[0]\n",
            "abstract.*objective",
        ),
        (
            "class Half(Pessimism):\n    def backup(self, s, zs, key):\n        return zs[0]\n    "
            "objective = backup\n",
            "needs @dataclass",
        ),
        ("raise SystemExit(3)\n", "SystemExit"),
    ],
)
def test_a_part_that_is_not_whole_is_refused_in_a_sentence_when_the_row_is_built(
    tmp_path, body, reason
):
    heads = (
        "dataclasses import dataclass",
        "dualac.agents.algorithm import Algorithm",
        "dualac.agents.pessimism import Pessimism",
    )
    rest = (
        "dualac.agents.policies import Soft",
        "dualac.agents.explorers import FromPolicy",
        "dualac.agents.critics import Scalar",
    )
    text = (
        "".join(f"from {line}\n" for line in (*heads, *rest))
        + body
        + "row = Algorithm(Half(), Soft(), FromPolicy(), Scalar())\n"
    )
    (tmp_path / "half.py").write_text(text)
    with pytest.raises(UsageError, match=reason):
        presets.find_algorithm(f"{tmp_path / 'half.py'}:row")


def test_what_is_known_by_a_name_and_is_no_row_is_named():
    with pytest.raises(
        UsageError, match=r"sac with replay_ratio=16 and resets=.*dualac train sr-sac"
    ):
        presets.find_algorithm("sr-sac")
