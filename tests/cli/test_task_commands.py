"""Tasks and protocols as a user of the shell meets them."""

import io
import json
import logging

import pytest
from rich.console import Console
from tests.support import env_toys

from dualac import cli, envs
from dualac.cli import doctor
from dualac.cli.commands import training
from dualac.envs.suites import packages
from dualac.errors import DataError, UsageError


@pytest.fixture
def screen() -> Console:
    return Console(file=io.StringIO(), width=200)


def lines(capsys, *words):
    assert cli.run(list(words)) == 0
    return capsys.readouterr().out.splitlines()


def test_tasks_are_listed_a_line_each(capsys):
    assert lines(capsys, "list", "tasks") == envs.all_tasks()


@pytest.mark.parametrize(
    ("protocol", "push", "key", "expected"),
    [
        (
            "paper",
            "200",
            "100",
            "metaworld_cap 200, myosuite_cap 100, myosuite_termination ignore, success any, "
            "eval_episodes 10",
        ),
        (
            "official",
            "500",
            "200",
            "metaworld_cap 500, myosuite_cap 0, myosuite_termination end, success any, "
            "eval_episodes 10",
        ),
    ],
)
def test_a_verbose_list_tells_sizes_caps_scores_sets_and_protocol(
    protocol, push, key, expected, capsys
):
    shown = lines(capsys, "list", "tasks", "--verbose", "--protocol", protocol)
    assert shown[-1].endswith(expected)
    rows = {line.split()[0]: line.split()[1:] for line in shown}
    assert rows["dmc/cheetah-run"] == ["17", "6", "1000", "return", "dac-30", "dac-15"]
    assert rows["dmc/dog-run"] == ["223", "38", "1000", "return", "dog-humanoid"]
    assert rows["metaworld/push"] == ["39", "4", push, "success", "dac-30", "dac-15"]
    assert rows["myosuite/key-turn-hard"] == ["93", "39", key, "success", "dac-30"]
    assert rows["gym/Pendulum-v1"] == ["-", "-", "own", "return"]


def test_a_protocol_that_does_not_exist_is_answered_with_the_nearest():
    with pytest.raises(UsageError, match="there are paper and official; did you mean official"):
        cli.run(["train", "dac", "gym/Pendulum-v1", "--protocol", "offical"])


def prepare(*words) -> int:
    """Type `dualac train dac`, up to where training would start."""
    return training.train(["dac", *words], carry_out=lambda packs, args, usual: 0)


def test_single_fields_change_a_preset(tmp_path):
    words = ["--protocol", "official", "--protocol.success", "last", "--protocol.time-limit", "5"]
    assert prepare("gym/Pendulum-v1", "--out", str(tmp_path), "--steps", "20k", *words) == 0
    [spec] = tmp_path.rglob("run.json")
    stored = json.loads(spec.read_text())["protocol"]
    assert stored == {
        "part": "Protocol", (
            "action_repeat"
        ): 1, "time_limit": 5, (
            "metaworld_cap"
        ): 500, "myosuite_cap": 0, "myosuite_termination": "end",
        "success": "last", "eval_episodes": 10,
    }  # fmt: skip


TWO = {task: envs.PAPER[task] for task in ("dmc/pendulum-swingup", "dmc/cheetah-run")}


def test_an_examination_of_tasks_shows_each(screen):
    assert doctor.examine_tasks(screen, tasks=TWO) == 0
    shown = screen.file.getvalue().splitlines()
    assert [line.split()[:4] for line in shown[1:3]] == [
        ["dmc/pendulum-swingup", "3", "1", "1000"],
        ["dmc/cheetah-run", "17", "6", "1000"],
    ]
    assert shown[-1] == "2 of 2 tasks of the paper work here"


def test_an_examination_of_tasks_fails_with_one_of_them(screen):
    def fail(task):
        raise DataError("no\nlicence")

    assert doctor.examine_tasks(screen, tasks=TWO, step=fail) != 0
    assert "no licence" in screen.file.getvalue()


@pytest.fixture
def refused(tmp_path, monkeypatch, capsys):
    """Return the exit code and the one line of a training that was refused and wrote nothing."""

    def answer(*words):
        with pytest.raises(SystemExit) as ended:
            cli.main(["train", "dac", *words, "--out", str(tmp_path / "out")])
        err = capsys.readouterr().err
        assert err.startswith("dualac: ") and err.count("\n") == 1
        assert not (tmp_path / "out").exists()
        return ended.value.code, err

    return answer


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (
            "atari/pong",
            "no suite 'atari' in task 'atari/pong': the suites are dmc, metaworld, myosuite and "
            "gym",
        ),
        ("metaword/push", "no suite 'metaword'"),
        ("metaworld/hamer", "no task 'metaworld/hamer'; did you mean metaworld/hammer"),
        ("myo-reech-hard", "did you mean myosuite/reach-hard"),
        (
            f"{env_toys.__name__}:toys/Tooy-v0",
            f"module {env_toys.__name__} registers no task 'toys/Tooy-v0'; did you mean "
            "gym/toys/Toy-v0",
        ),
        (
            "metaworld/push --protocol.time-limit 300",
            "a time limit of 300 contradicts the metaworld cap of 200: a time limit only shortens",
        ),
        ("myosuite/reach-easy --protocol.time-limit 101", "contradicts the myosuite cap of 100"),
        (
            "dmc/cartpole-swingup --protocol.metaworld-cap 300",
            "--protocol.metaworld-cap has no effect on a task of dmc",
        ),
        (
            "dmc/cheetah-run --protocol.time-limit 5 --protocol.action-repeat 8",
            "an action repeat of 8 is longer than a whole episode",
        ),
        (
            "metaworld/push --protocol.metaworld-cap 501",
            "metaworld cap 501: give a number of steps, 1 to 500",
        ),
        ("metaworld/push --protocol.success most", "'most' is not one of any, last"),
        (
            f"{env_toys.__name__}:toys/Seedless-v0",
            "its reset takes no seed; port it to Gymnasium's API",
        ),
    ],
)
def test_a_task_or_a_protocol_that_makes_no_sense_is_one_line(words, expected, refused):
    code, line = refused(*words.split())
    assert (code, expected in line) == (64, True), line


def test_a_version_that_was_not_tested_is_one_line_on_the_terminal_and_no_refusal(
    tmp_path, monkeypatch, capsys
):
    metadata = tmp_path / "packages" / "dm_control-1.0.99.dist-info" / "METADATA"
    metadata.parent.mkdir(parents=True)
    metadata.write_text("Metadata-Version: 2.1\nName: dm_control\nVersion: 1.0.99\n")
    monkeypatch.syspath_prepend(metadata.parents[1])
    monkeypatch.setattr(logging.root, "handlers", [])  # as outside pytest
    packages.warn_if_untested.cache_clear()
    task, out = "dmc/cartpole-swingup", str(tmp_path / "runs")
    for seed in "01":
        assert prepare(task, "--out", out, "--steps", "20k", "--seed", seed) == 0
    packages.warn_if_untested.cache_clear()
    message = (
        "dm_control 1.0.99 is installed, but tasks were tested with 1.0.49 up to, not including, "
        "1.0.50: episodes may differ\n"
    )
    assert capsys.readouterr().err == message


def test_an_examination_of_one_task_ends_with_a_verdict(monkeypatch, capsys):
    shown = lines(capsys, "doctor", "--task", "gym/Pendulum-v1")
    assert shown[0] == "gym/Pendulum-v1"
    assert (
        shown[1]
        == "made       ok       3 observations, 1 action in [-2, 2]; 200 steps an episode at most"
    )
    assert shown[-1] == "training   works; 2 notes"
    assert cli.run(["doctor", "--task", f"{env_toys.__name__}:toys/Settling-v0"]) == 65
    shown = capsys.readouterr().out.splitlines()
    assert shown[-2].startswith(
        f"played     wrong    reset(): gym/{env_toys.__name__}:toys/Settling-v0 observes "
        "Box(-inf, inf, (3,), float64) after reset and declared"
    )
    assert shown[-1].startswith("training   would not work: 1 wrong")


def test_an_examination_is_of_one_task_or_of_all_and_has_the_time_limit_of_one(capsys):
    for words, expected in (
        (["--tasks", "--task", "x"], "not allowed"),
        (["--protocol.time-limit", "5"], "name one"),
        (["--task", "dmc/x"], "no task"),
    ):
        with pytest.raises(UsageError, match=expected):
            cli.run(["doctor", *words])
    assert "after 7 steps" in " ".join(
        lines(capsys, "doctor", "--task", "gym/Pendulum-v1", "--protocol.time-limit", "7")
    )


@pytest.mark.suite
def test_every_task_of_the_paper_passes_its_examination(capsys):
    assert lines(capsys, "doctor", "--tasks")[-1] == "32 of 32 tasks of the paper work here"
