"""The example of docs/your-environment.md is the file in examples/, is well, and can be trained
on.
"""

import sys
from pathlib import Path

import gymnasium
import pytest
from tests.support.runs import rows, tiny

import dualac
from dualac import cli
from dualac.envs.checkup.examine import checkup
from dualac.envs.checkup.plays import Limits

ROOT = Path(__file__).parents[1]
FILE = (ROOT / "examples" / "my_env.py").read_text()
PAGE = (ROOT / "docs" / "your-environment.md").read_text()
TASK = "my_env:Push-v0"


@pytest.fixture(autouse=True)
def beside_it(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "examples")


def test_the_page_shows_the_file_as_it_is():
    assert f"```python\n{FILE}```" in PAGE


def test_the_page_shows_what_the_doctor_says(capsys):
    assert cli.run(["doctor", "--task", TASK]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[-1] == "training   works"
    assert [line for line in said if line not in PAGE and not line.startswith("speed ")] == []


def test_it_trains(tmp_path):
    small = {
        "steps": 40,
        "warmup": 20,
        "batch_size": 8,
        "capacity": 100,
        "eval_every": 40,
        "eval_episodes": 1,
        "quiet": True,
    }
    run = dualac.train(tiny("sac"), TASK, name="tiny", out=tmp_path, **small)
    assert (run.path / "DONE").exists()
    assert "success" in rows(run.path, "eval.jsonl")[-1]


BOX = "spaces.Box(-0.5, 0.5, (2,), np.float32)"
SEEDED = "super().reset(seed=seed)"
INIT = "def __init__(self):"
STEP = "self.velocity = 0.9"
TERMINATED = "terminated = bool(np.abs(self.place).max() > 1.5)"
RAISING = """if self.place.max() > 1:
            raise ValueError('the puck is off the map')
        self.velocity = 0.9"""

# The verdict on a mistake, and what is written for what in the example to make it. The page has the
# line that the doctor then says.
MISTAKES = {
    "discrete": ("wrong", [(BOX, "spaces.Discrete(4)")]),
    "unbounded": ("wrong", [(BOX, "spaces.Box(-np.inf, np.inf, (2,), np.float32)")]),
    "four": ("wrong", [("terminated, truncated, info", "terminated, info")]),
    "seedless": (
        "wrong",
        [("(self, *, seed=None, options=None)", "(self)"), (SEEDED, "super().reset()")],
    ),
    "settling": (
        "wrong",
        [(SEEDED, SEEDED + "\n        self.action_space = spaces.Box(-1, 1, (2,), np.float32)")],
    ),
    "raising": ("wrong", [(STEP, RAISING)]),
    "nan": ("wrong", [("float(np.exp(-3 * distance))", "float(np.log(1.0 - distance))")]),
    "endless": (
        "warning",
        [(TERMINATED, "terminated = False"), (", max_episode_steps=100", "")],
    ),
    "timed": (
        "warning",
        [
            (SEEDED, SEEDED + "\n        self.time = 0"),
            (STEP, f"self.time += 1\n        {STEP}"),
            (TERMINATED, "terminated = self.time == 80"),
        ],
    ),
    "global": ("warning", [("self.np_random.uniform", "np.random.uniform")]),
    "left": (
        "warning",
        [
            ("        self.velocity = np.zeros(2)\n", ""),
            (INIT, f"{INIT}\n        self.velocity = np.zeros(2)"),
        ],
    ),
    "large": (
        "warning",
        [
            ('"place": self.place', '"place": 1000 * self.place'),
            ("Box(-2, 2,", "Box(-2000, 2000,"),
        ],
    ),
    "undeclared": ("warning", [('"place": self.place', '"mass": np.ones(1), "place": self.place')]),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_the_page_shows_what_is_said_of_each_mistake(name, tmp_path, monkeypatch):
    verdict, changes = MISTAKES[name]
    text = FILE
    for before, after in changes:
        assert before in text
        text = text.replace(before, after)
    (tmp_path / "my_env.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "my_env", raising=False)
    monkeypatch.delitem(gymnasium.registry, "Push-v0", raising=False)
    said = [
        finding.text
        for finding in checkup(TASK, limits=Limits(uncapped_seconds=60))
        if finding.verdict == verdict and finding.about != "gymnasium"
    ]
    monkeypatch.delitem(sys.modules, "my_env")
    monkeypatch.delitem(gymnasium.registry, "Push-v0")
    assert any(f"`{verdict}` `{text}`" in PAGE for text in said), said
