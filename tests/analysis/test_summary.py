"""What a report says of every state that a directory of runs can be in."""

import json
import shlex
from pathlib import Path

import numpy as np
import pytest
from tests.support.reports import TASKS, shown, summary
from tests.support.written import PROTOCOL, SPEC, write_plan, write_rows, write_run, write_sweep

from dualac.analysis.data.groups import settings
from dualac.analysis.figures.panels import caption
from dualac.analysis.figures.paper import gallery
from dualac.analysis.summary.commands import commands
from dualac.analysis.summary.headline import headline
from dualac.analysis.summary.problems import problems
from dualac.cli.commands.analysis import table_as_data
from dualac.parts.as_json import to_json
from dualac.runs.versions import with_defaults


def test_no_runs_are_said_and_make_a_page(tmp_path: Path):
    seen = shown(tmp_path)
    assert "No run was found" in seen.text
    assert "figure" not in seen.tags


def test_one_run_has_nothing_to_be_compared_with(tmp_path: Path):
    write_run(tmp_path)
    seen = shown(tmp_path)
    assert "There is nothing to compare it with" in seen.text
    assert "one seed: no interval" in seen.text
    assert seen.tags.count("figure") > 4


def test_one_seed_of_two_algorithms_is_not_separable(tmp_path: Path):
    write_sweep(tmp_path, {"dac": 0.8, "sac": 0.2}, TASKS, 1)
    assert "not separable: one seed has no spread" in shown(tmp_path).text


def test_a_missing_task_is_left_out_by_name(tmp_path: Path):
    write_sweep(tmp_path, {"dac": 0.6, "sac": 0.4}, TASKS, 2)
    write_run(tmp_path, "dac", "dmc/walker-run")
    found = summary(tmp_path)
    assert found.panels[0].tasks == TASKS
    assert found.panels[0].left_out == ["dmc/walker-run"]
    text = shown(tmp_path).text
    assert "not every algorithm has come so far on dmc/walker-run" in text
    assert "left out: dmc/walker-run" in text


def test_scores_that_are_no_numbers_are_said_and_counted_nowhere(tmp_path: Path):
    write_sweep(tmp_path, {"dac": 0.6, "sac": 0.4}, ["dmc/cheetah-run"], 3)
    path = write_run(tmp_path, "sac", seed=3)
    write_rows(
        path / "eval.jsonl",
        [
            {"step": step, "episode": 0, "return": None, "length": 1000}
            for step in range(0, 100_001, 10_000)
        ],
    )
    found = summary(tmp_path)
    assert found.panels[0].seeds("sac") == [3]
    assert "Seeds of each task: 3; sac has 3 of 4." in caption(found.panels, found)
    assert "Runs without a score there, and not counted: sac 1 of 4." in " ".join(headline(found))
    assert (
        "Seeds of each task: 3; sac has 3 of 4." in gallery(found).pictures[-1].caption
    )  # every task's curves
    assert any(
        one.kind == "diverged" and "11 evaluation episodes without a finite return" in one.text
        for one in problems(found)
    )
    assert "NaN" not in json.dumps(shown(tmp_path).data)


def test_all_scores_not_numbers_make_a_page(tmp_path: Path):
    path = write_run(tmp_path)
    write_rows(path / "eval.jsonl", [{"step": 0, "return": None}])
    assert "nothing is aggregated" in shown(tmp_path).text


def test_equal_scores_have_an_interval_without_width_and_no_winner(tmp_path: Path):
    for name in ("dac", "sac"):
        for seed in range(3):
            write_run(tmp_path, name, seed=seed, final=0.5)
    text = shown(tmp_path).text
    assert "0.500 [0.500, 0.500]" in text
    assert "no number of seeds up to 1000 would separate them" in text


def test_unlike_protocols_are_refused_in_words_or_kept_apart(tmp_path: Path):
    write_sweep(tmp_path, {"dac": 0.6}, ["metaworld/hammer"], 2)
    write_run(
        tmp_path, "dac", "metaworld/hammer", 5, changes={"protocol": PROTOCOL | {"success": "last"}}
    )
    assert "success last, not any; --unlike separate keeps it apart" in shown(tmp_path).text
    assert "dac [success=last]" in shown(tmp_path, unlike="separate").text
    assert "dac [success=last]: under other rules than the rest" in " ".join(
        headline(summary(tmp_path, unlike="separate"))
    )
    assert "other rules" not in " ".join(headline(summary(tmp_path)))


def test_a_sweep_half_done_says_so_and_compares_where_all_have_been(tmp_path: Path):
    write_sweep(tmp_path, {"dac": 0.6, "sac": 0.4}, ["dmc/cheetah-run"], 2)
    write_sweep(tmp_path / "more", {"td3": 0.3}, ["dmc/cheetah-run"], 2, reached=60_000)
    found = summary(tmp_path)
    assert found.panels[0].at == 60_000
    sentences = " ".join(headline(found))
    assert "Not finished: 2 interrupted. These numbers will change." in sentences
    assert "the score at 60k steps" in sentences
    assert [one.label for one in summary(tmp_path, at=100_000).panels[0].groups] == ["dac", "sac"]


def test_what_a_plan_has_and_the_disk_does_not_is_missing(tmp_path: Path):
    write_sweep(tmp_path, {"dac": 0.6}, ["dmc/cheetah-run"], 2)
    write_plan(tmp_path, ["dac", "sac"], TASKS, 3)
    found = summary(tmp_path)
    assert len(found.frame.missing) == 10
    assert "Not complete: 10 missing of 12 runs." in caption(found.panels, found)
    assert "Not finished: 10 of the plan not begun." in " ".join(headline(found))
    assert any(
        one.kind == "missing" and "sac on metaworld/hammer" in one.text for one in problems(found)
    )
    seen = shown(tmp_path)
    assert [value for key, value in seen.attributes if key == "class"].count(
        "seed missing"
    ) == 10 + 1  # and the legend's
    assert "sac" in seen.text
    write_plan(
        tmp_path, ["dac"], ["dmc/cheetah-run"], 2, steps=200_000
    )  # longer than the runs meant to be
    assert "the plan goes on to step 200000" in " ".join(
        one.text for one in problems(summary(tmp_path))
    )


def test_one_run_that_died_early_does_not_take_the_others_back(tmp_path: Path):
    write_sweep(tmp_path, {"dac": 0.6, "sac": 0.4, "td3": 0.3}, TASKS, 2)
    path = write_run(tmp_path, "gpl", reached=20_000)
    (path / "FAILED").write_text(
        json.dumps(
            {"step": 25_000, "reason": "the critic's loss is not finite", "error": "RunFailedError"}
        )
    )
    found = summary(tmp_path)
    assert found.panels[0].at == 100_000
    assert [one.label for one in found.panels[0].apart] == ["gpl"]
    texts = {one.kind: one.text for one in problems(found)}
    assert "the critic's loss is not finite" in texts["failed"]
    assert "gpl" in texts["not compared"]


def test_tasks_without_bounds_are_plotted_and_enter_no_aggregate(tmp_path: Path):
    write_sweep(tmp_path, {"dac": 0.6, "sac": 0.4}, ["gym/Pendulum-v1"], 2)
    seen = shown(tmp_path)
    assert "No task here has known bounds" in seen.text
    assert len(seen.data["tasks"]) == 1
    assert seen.data["panels"] == []
    assert shown(tmp_path, bounds={"": (0.0, 1000.0)}).data["panels"] != []


def test_damage_is_counted_and_named_in_the_page(tmp_path: Path):
    path = write_run(tmp_path)
    with (path / "eval.jsonl").open("a") as file:
        file.write("{half\n")
    broken = write_run(tmp_path, seed=1)
    (broken / "run.json").write_text("{")
    text = shown(tmp_path).text
    assert "eval.jsonl: 1 damaged line passed over (23)" in text
    assert "run.json: cannot be read" in text


def test_resumed_runs_and_versions_that_differ_are_problems(tmp_path: Path):
    path = write_run(tmp_path)
    write_rows(
        path / "events.jsonl",
        [
            {"event": "started", "step": 0},
            {"event": "resumed", "step": 10},
            {"event": "inexact_resume", "step": 10},
        ],
    )
    other = write_run(tmp_path, seed=1)
    (other / "machine.json").write_text(
        (other / "machine.json").read_text().replace("0.10.2", "0.11.0")
    )
    kinds = {one.kind: one.text for one in problems(summary(tmp_path))}
    assert kinds["versions"] == "jax differs between runs: 0.10.2 and 0.11.0"
    assert {"resumed", "inexact", "few seeds"} <= set(kinds)


def test_the_commands_make_the_runs_again(tmp_path: Path):
    write_sweep(tmp_path, {"dac": 0.5}, ["dmc/cheetah-run"], 2)
    write_run(
        tmp_path / "x",
        "dac",
        seed=0,
        changes={"algorithm.explorer.target_kl": 0.1, "resets": [20_000, 40_000]},
    )
    lines = commands(summary(tmp_path, rows={"dac": settings(with_defaults(SPEC))}))
    assert (
        "dualac train dac dmc/cheetah-run --seeds 0,1 --steps 100k --replay-ratio 2 --eval-every "
        "10k" in lines
    )
    assert any(line.endswith("--explorer.target-kl 0.1 --resets 20000,40000") for line in lines)


def test_the_commands_spell_a_part_that_is_another_and_each_schedule(tmp_path: Path):
    """What they say is what the command line makes of it."""
    from dualac.agents.algorithms import ALGORITHMS
    from dualac.parts.paths import options, replaced
    from dualac.parts.text import parse
    from dualac.training.run import Run

    kinds = {"explorer": "dac:no-kl", "critic": "dac-epistemic"}
    for part, other in kinds.items():
        changed = replaced(ALGORITHMS["dac"], {part: getattr(ALGORITHMS[other], part)})
        path = write_run(tmp_path / part)
        (path / "run.json").write_text(
            json.dumps(to_json(Run("dac", changed, "dmc/cheetah-run", steps=100_000)))
        )
        (line,) = commands(summary(tmp_path / part, rows=table_as_data()))
        words = shlex.split(line)
        texts = dict(zip(words[4::2], words[5::2], strict=True))
        hints = {
            f"--{option.path.replace('_', '-')}": option for option in options(ALGORITHMS["dac"])
        }
        given = {
            hints[name].path: parse(hints[name].hint, text)
            for name, text in texts.items()
            if name in hints
        }
        assert replaced(ALGORITHMS["dac"], given) == changed
    write_run(tmp_path / "both", seed=0)
    write_run(tmp_path / "both", seed=1, changes={"eval_every": 5_000})
    assert [line.split("--eval-every ")[1] for line in commands(summary(tmp_path / "both"))] == [
        "10k",
        "5k",
    ]


def test_the_area_under_the_curve_is_another_score(tmp_path: Path):
    write_sweep(tmp_path, {"dac": 0.6, "sac": 0.4}, ["dmc/cheetah-run"], 2)
    end, way = (summary(tmp_path, at=at).panels[0] for at in (None, "area"))
    assert way.area
    assert way.aggregates["dac"]["IQM"].estimate == pytest.approx(
        end.aggregates["dac"]["IQM"].estimate / 2, abs=1e-3
    )


def test_a_clock_tells_nothing_after_the_last_row_of_the_log(tmp_path: Path):
    path = write_run(tmp_path)
    write_rows(
        path / "train.jsonl",
        [json.loads(line) for line in (path / "train.jsonl").read_text().splitlines()[:-1]],
    )
    panel = summary(tmp_path).panels[0]
    assert panel.clocks["dac"]["seconds"][-2] == pytest.approx(900)
    assert np.isnan(panel.clocks["dac"]["seconds"][-1])
    assert shown(tmp_path).data["panels"][0]["groups"][0]["seconds"][-1] is None


def test_the_area_begins_where_every_curve_does(tmp_path: Path):
    for seed in range(2):
        for name, points in (("dac", 10), ("sac", 8)):
            path = write_run(tmp_path, name, seed=seed, points=points)
            rows = [json.loads(line) for line in (path / "eval.jsonl").read_text().splitlines()]
            write_rows(path / "eval.jsonl", [row for row in rows if row["step"]])
    found = summary(tmp_path, at="area")
    assert found.panels[0].start == 12_500
    assert found.panels[0].counts() == {"dac": [(2, 2)], "sac": [(2, 2)]}
    assert "mean score on the way from 12.5k to 100k steps" in caption(found.panels, found)
    assert "no task in common" not in " ".join(headline(found))


def test_steps_to_reach_and_area_are_read_off_every_evaluation(tmp_path: Path):
    for seed in range(2):
        write_run(tmp_path, "dac", seed=seed, final=0.6, points=120)
        path = write_run(tmp_path, "sac", seed=seed, final=0.6, points=120)
        rows = [json.loads(line) for line in (path / "eval.jsonl").read_text().splitlines()]
        write_rows(
            path / "eval.jsonl",
            [{**row, "return": 244.0 if row["step"] > 833 else 0.0} for row in rows],
        )
    end, way = (summary(tmp_path, at=at).panels[0] for at in (None, "area"))
    assert len(end.steps) == 51
    assert (
        end.reached[0].steps.estimate == 40_833
    )  # the 49th of 120: 0.6 * 0.40833 is the first above 0.244
    assert way.aggregates["sac"]["IQM"].estimate == pytest.approx(
        0.244 * (120 - 1.5) / 120, abs=1e-5
    )
