"""`dualac compare`: what can honestly be said of a few runs, in a terminal."""

import json
from pathlib import Path

import numpy as np
import pytest
from tests.support.written import PROTOCOL, SPEC, write_run, write_sweep

from dualac.analysis.data.frame import read
from dualac.analysis.data.groups import settings
from dualac.analysis.summary.compare import compare, sparkline
from dualac.analysis.summary.headline import headline
from dualac.analysis.summary.summarise import Choices, summarise
from dualac.cli import run
from dualac.errors import DataError, UsageError
from dualac.runs.versions import with_defaults


def test_two_seeds_are_not_enough_to_tell_apart_what_is_near(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    write_sweep(tmp_path, {"mine": 0.5, "yours": 0.49}, ["dmc/cheetah-run"], 2)
    assert run(["compare", str(tmp_path)]) == 0
    text = capsys.readouterr().out
    assert "not separable with 2 seeds" in text
    assert "more seeds of each" in text or "no number of seeds" in text
    assert "█" in text


def test_many_seeds_tell_apart_what_is_far(tmp_path: Path):
    write_sweep(tmp_path, {"dac": 0.8, "sac": 0.3}, ["dmc/cheetah-run", "dmc/walker-run"], 5)
    found = compare([tmp_path])
    assert found.sentences[0].startswith(
        "On dmc/cheetah-run and dmc/walker-run: dac is above sac: +0."
    )
    assert [(row.label, row.seeds) for row in found.rows] == [("dac", 5), ("sac", 5)] * 2


def test_the_report_and_the_comparison_pair_by_one_rule(tmp_path: Path):
    """Seeds that rise and fall together: a difference that only pairs can tell."""
    for seed, luck in enumerate((0.1, 0.3, 0.5, 0.7, 0.9)):
        write_run(tmp_path, "dac", seed=seed, final=luck + 0.02 + 0.002 * seed)
        write_run(tmp_path, "sac", seed=seed, final=luck)
    assert "dac is above sac: +0.02" in compare([tmp_path]).sentences[0]
    sentences = " ".join(headline(summarise(read([tmp_path]))))
    assert "It is above sac by 0.024 [" in sentences
    assert "with 5 seeds; a run of it" in sentences


def test_few_seeds_without_spread_are_no_certainty(tmp_path: Path):
    for seed in range(5):
        write_run(tmp_path / "two" if seed < 2 else tmp_path, "dac", seed=seed, final=0.5)
        write_run(tmp_path / "two" if seed < 2 else tmp_path, "sac", seed=seed, final=0.4)
    assert "not separable with 2 seeds" in compare([tmp_path / "two"]).sentences[0]
    assert "without any spread are no certainty" in compare([tmp_path / "two"]).sentences[0]
    assert "dac is above sac" in compare([tmp_path]).sentences[0]


def test_one_seed_has_no_spread(tmp_path: Path):
    paths = [write_run(tmp_path, name) for name in ("dac", "sac")]
    assert "one seed has no spread" in compare(paths).sentences[0]


def test_sides_of_one_name_are_called_by_their_places(tmp_path: Path):
    first, second = (
        write_run(tmp_path / "before", final=0.2),
        write_run(tmp_path / "after", final=0.6),
    )
    labels = [row.label for row in compare([first, second]).rows]
    assert len(set(labels)) == 2
    assert "before" in labels[0]
    assert "after" in labels[1]


def test_runs_are_compared_where_all_have_been(tmp_path: Path):
    write_run(tmp_path, "dac")
    write_run(tmp_path, "sac", reached=40_000)
    assert compare([tmp_path]).at == {"dmc/cheetah-run": 40_000}
    assert compare([tmp_path], Choices(at=20_000)).at == {"dmc/cheetah-run": 20_000}
    with pytest.raises(UsageError, match="not all have come further than 40000"):
        compare([tmp_path], Choices(at=50_000))


def test_places_under_other_rules_are_not_compared(tmp_path: Path):
    for seed in range(2):
        write_run(tmp_path / "a", "dac", "metaworld/hammer", seed)
        write_run(
            tmp_path / "b",
            "sac",
            "metaworld/hammer",
            seed,
            changes={"protocol": PROTOCOL | {"metaworld_cap": 500}},
        )
    places = [tmp_path / "a", tmp_path / "b"]
    with pytest.raises(DataError, match=r"metaworld_cap 500, not 200.*--unlike separate"):
        compare(places)
    assert [row.label for row in compare(places, Choices(unlike="separate")).rows] == [
        "dac",
        "sac [metaworld_cap=500]",
    ]
    write_run(tmp_path / "b", "sac", "metaworld/hammer", 2)
    found = compare(places)
    assert [(row.label, row.seeds) for row in found.rows] == [("dac", 2), ("sac", 1)]
    assert sum("left out" in sentence for sentence in found.sentences) == 2


def test_unlike_replay_ratios_are_said(tmp_path: Path):
    write_run(tmp_path, "dac")
    write_run(tmp_path, "sac", changes={"replay_ratio": 16})
    assert any(
        "replay ratios differ (2, 16)" in sentence for sentence in compare([tmp_path]).sentences
    )


def test_json_is_one_object_without_nan(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    write_sweep(tmp_path, {"mine": 0.5, "yours": 0.4}, ["gym/Pendulum-v1"], 2)
    assert run(["compare", str(tmp_path), "--json"]) == 0
    answer = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
    assert [row["label"] for row in answer["rows"]] == ["mine", "yours"]


def test_bounds_make_scores_of_returns(tmp_path: Path):
    write_sweep(tmp_path, {"dac": 0.5, "sac": 0.4}, ["gym/Pendulum-v1"], 2)
    assert compare([tmp_path]).rows[0].found.estimate > 100
    assert compare([tmp_path], Choices(bounds={"": (0.0, 1000.0)})).rows[0].found.estimate < 1


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["{empty}"], 65, "no run at or below"),
        (["{one}"], 64, "give a second"),
        (["{one}", "{other}"], 65, "no task is common"),
        (["{one}", "{one}", "--bounds", "5"], 64, "LOW,HIGH"),
        (["{one}", "{one}", "--bounds", "5,5"], 64, "below the second"),
        (["{one}", "{one}", "--at", "soon"], 64, "not a whole number"),
        (["{one}", "{one}", "--at", "-3"], 64, "0 or more"),
        (["{one}", "--unlike", "merge"], 64, "merge"),
        ([], 64, "RUN"),
    ],
)
def test_what_makes_no_sense_is_one_line(tmp_path: Path, words: list[str], code: int, message: str):
    (tmp_path / "empty").mkdir()
    write_run(tmp_path / "one")
    write_run(tmp_path / "other", task="dmc/walker-run")
    with pytest.raises((UsageError, DataError), match=message) as error:
        run(
            [
                "compare",
                *(
                    word.format(**{name: tmp_path / name for name in ("empty", "one", "other")})
                    for word in words
                ),
            ]
        )
    assert error.value.code == code


def test_nothing_steers_the_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    write_run(tmp_path, "dac", "gym/\x1b[31mred\x07", folder="a")
    write_run(tmp_path, "\x1b]0;title\x07", "gym/\x1b[31mred\x07", folder="b")
    run(["compare", str(tmp_path)])
    assert not set(capsys.readouterr().out) & {"\x1b", "\x07"}


def test_a_sparkline_has_a_gap_where_there_is_no_number():
    line = np.array([0.0, np.nan, 1.0])
    assert sparkline(line, line) == "▁ █"
    assert sparkline(np.ones(3), np.ones(3)) == "▁▁▁"
    assert sparkline(np.full(2, np.nan), np.array([np.nan])) == "  "
    assert len(sparkline(np.arange(1_000.0), np.arange(1_000.0))) == 24


def test_an_agent_that_is_not_what_its_name_says_is_called_by_how(tmp_path: Path):
    write_run(tmp_path, "sac", changes={"reset_every": 160_000})
    write_run(tmp_path, "dac")
    rows = dict.fromkeys(("sac", "dac"), settings(with_defaults(SPEC)))
    assert [row.label for row in compare([tmp_path], Choices(rows=rows)).rows] == [
        "dac",
        "sac [reset_every=160000]",
    ]
    assert [row.label for row in compare([tmp_path]).rows] == [
        "dac",
        "sac",
    ]  # without the table, its own word is all there is


def test_the_command_line_knows_the_table():
    from dualac.cli.commands.analysis import table_as_data

    assert table_as_data()["dac"]["algorithm.explorer.target_kl"] == 0.25
    assert table_as_data()["sac"]["reset_every"] == 0
