"""The example of docs/your-environment.md is the file in examples/, is well, and can be trained
on.
"""

import sys
from pathlib import Path

import gymnasium
import pytest

ROOT = Path(__file__).parents[1]
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from tests.training.runs import rows, tiny  # noqa: E402

import dualac  # noqa: E402
from dualac import cli  # noqa: E402
from dualac.envs.checkup import plays  # noqa: E402
from dualac.envs.checkup.examine import checkup  # noqa: E402

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
STEP = "self.velocity = 0.9"
ANSWER = (
    "return self.observe(), float(np.exp(-3 * distance)), fallen, False, "
    '{"success": bool(distance < 0.05)}'
)
SEEDED = "super().reset(seed=seed)"
# what is written for what, in the example; the page has the line that the doctor then says
MISTAKES = {
    "discrete": ([(BOX, "spaces.Discrete(4)")], "wrong"),
    "unbounded": ([(BOX, "spaces.Box(-np.inf, np.inf, (2,), np.float32)")], "wrong"),
    "four": ([("fallen, False, {", "fallen, {")], "wrong"),
    "seedless": (
        [("(self, *, seed=None, options=None)", "(self)"), (SEEDED, "super().reset()")],
        "wrong",
    ),
    "settling": (
        [(SEEDED, SEEDED + "\n        self.action_space = spaces.Box(-1, 1, (2,), np.float32)")],
        "wrong",
    ),
    "raising": (
        [
            (
                STEP,
                "if self.place.max() > 1:\n            raise ValueError('the puck is off the "
                f"map')\n        {STEP}",
            )
        ],
        "wrong",
    ),
    "nan": ([("float(np.exp(-3 * distance))", "float(np.log(1.0 - distance))")], "wrong"),
    "endless": ([("fallen, False", "False, False"), (", max_episode_steps=100", "")], "wrong"),
    "timed": (
        [
            (SEEDED, SEEDED + "\n        self.time = 0"),
            (STEP, f"self.time += 1\n        {STEP}"),
            ("fallen, False", "self.time == 80, False"),
        ],
        "warning",
    ),
    "global": ([("self.np_random.uniform", "np.random.uniform")], "warning"),
    "left": (
        [
            ("        self.velocity = np.zeros(2)\n", ""),
            (
                "    def __init__(self):",
                "    def __init__(self):\n        self.velocity = np.zeros(2)",
            ),
        ],
        "warning",
    ),
    "large": (
        [
            ("""{"place": self.place,""", """{"place": 1000 * self.place,"""),
            ("Box(-2, 2,", "Box(-2000, 2000,"),
        ],
        "warning",
    ),
    "undeclared": (
        [("""{"place": self.place,""", """{"mass": np.ones(1), "place": self.place,""")],
        "warning",
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_the_page_shows_what_is_said_of_each_mistake(name, tmp_path, monkeypatch):
    changes, verdict = MISTAKES[name]
    text = FILE
    for before, after in changes:
        assert before in text
        text = text.replace(before, after)
    (tmp_path / "my_env.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "my_env", raising=False)
    monkeypatch.delitem(gymnasium.registry, "Push-v0", raising=False)
    monkeypatch.setattr(plays, "UNCAPPED_SECONDS", 60)
    said = [
        one.text for one in checkup(TASK) if one.verdict == verdict and one.about != "gymnasium"
    ]
    monkeypatch.delitem(sys.modules, "my_env")
    monkeypatch.delitem(gymnasium.registry, "Push-v0")
    print(name, said)
    assert any(f"`{verdict}` `{text}`" in PAGE for text in said), said
