"""Tasks and protocols as a user of the shell meets them."""

import json

import pytest

from dualac import cli, doctor, envs
from dualac.errors import DataError, UsageError


def lines(capsys, *words):
    assert cli.run(list(words)) == 0
    return capsys.readouterr().out.splitlines()


def test_tasks_are_listed_a_line_each(capsys):
    assert lines(capsys, "list", "tasks") == envs.all_tasks()


@pytest.mark.parametrize(
    ("protocol", "push", "key", "told"),
    [
        ("paper", "200", "100", "metaworld_cap 200, myosuite_cap 100, myosuite_termination ignore, success any"),
        ("official", "500", "200", "metaworld_cap 500, myosuite_cap 0, myosuite_termination end, success any"),
    ],
)
def test_a_verbose_list_tells_sizes_caps_scores_sets_and_protocol(protocol, push, key, told, capsys):
    shown = lines(capsys, "list", "tasks", "--verbose", "--protocol", protocol)
    assert shown[-1].endswith(told)
    rows = {line.split()[0]: line.split()[1:] for line in shown}
    assert rows["dmc/cheetah-run"] == ["17", "6", "1000", "return", "dac-30", "dac-15"]
    assert rows["dmc/dog-run"] == ["223", "38", "1000", "return", "dog-humanoid"]
    assert rows["metaworld/push"] == ["39", "4", push, "success", "dac-30", "dac-15"]
    assert rows["myosuite/key-turn-hard"] == ["93", "39", key, "success", "dac-30"]
    assert rows["gym/Pendulum-v1"] == ["-", "-", "own", "return"]


def test_a_protocol_that_does_not_exist_is_answered_with_the_nearest():
    with pytest.raises(UsageError, match="there are paper and official; did you mean official"):
        cli.run(["train", "dac", "gym/Pendulum-v1", "--protocol", "offical"])


def test_single_fields_change_a_preset(tmp_path, monkeypatch):
    monkeypatch.setattr(cli, "carry_out", lambda packs, asked: 0)
    words = ["--protocol", "official", "--protocol.myosuite-cap", "200", "--protocol.success", "last", "--protocol.time-limit", "5"]
    assert cli.run(["train", "dac", "gym/Pendulum-v1", "--out", str(tmp_path), "--steps", "20k", *words]) == 0
    [spec] = tmp_path.rglob("run.json")
    stored = json.loads(spec.read_text())["protocol"]
    assert stored == {
        "part": "Protocol", "action_repeat": 1, "time_limit": 5, "metaworld_cap": 500, "myosuite_cap": 200, "myosuite_termination": "end",
        "success": "last",
    }  # fmt: skip


def test_an_examination_of_tasks_tells_of_each_and_fails_with_one(monkeypatch, capsys):
    monkeypatch.setattr(doctor.envs, "PAPER", {task: envs.PAPER[task] for task in ("dmc/pendulum-swingup", "dmc/cheetah-run")})
    shown = lines(capsys, "doctor", "--tasks")
    assert [line.split()[:4] for line in shown[1:3]] == [["dmc/pendulum-swingup", "3", "1", "1000"], ["dmc/cheetah-run", "17", "6", "1000"]]
    assert shown[-1] == "2 of 2 tasks of the paper work here"

    def fails(task):
        raise DataError("no\nlicence")

    monkeypatch.setattr(doctor, "step_task", fails)
    assert cli.run(["doctor", "--tasks"]) != 0
    assert "no licence" in capsys.readouterr().out


@pytest.mark.suite
def test_every_task_of_the_paper_passes_its_examination(capsys):
    assert lines(capsys, "doctor", "--tasks")[-1] == "32 of 32 tasks of the paper work here"
