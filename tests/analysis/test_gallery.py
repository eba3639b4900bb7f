"""The figures of a report, their captions and colours."""

import re
from pathlib import Path

import pytest
from tests.support.reports import TASKS, order, shown, summary
from tests.support.written import SPEC, write_plan, write_run, write_sweep

from dualac.analysis.data.frame import read
from dualac.analysis.data.groups import settings
from dualac.analysis.figures.paper import FIGURES, gallery
from dualac.analysis.figures.style import COLOURS, Decimals, inks
from dualac.analysis.report.make import make
from dualac.analysis.report.page import page
from dualac.analysis.summary.headline import headline
from dualac.analysis.summary.summarise import Choices, only, summarise
from dualac.analysis.summary.tables import differences, sensitivity
from dualac.cli.commands.analysis import table_as_data
from dualac.experiments.adapt import scaled
from dualac.experiments.expand import expand
from dualac.experiments.find import find_experiment, shipped
from dualac.experiments.spec import Scale
from dualac.parts.as_json import to_json
from dualac.runs.versions import with_defaults


def test_the_paper_has_its_figures_where_the_runs_are_there(tmp_path: Path):
    """Every figure that data can make, from a sweep that has everything small."""
    names = (
        "dac",
        "dac-dog",
        "sac",
        "dac-ln",
        "redq",
        "dac-epistemic",
        "dac-aleatoric",
        "dac-both",
        "dac:no-kl",
        "dac:only-optimist",
    )
    write_sweep(
        tmp_path,
        {name: 0.3 + 0.05 * place for place, name in enumerate(names)},
        ["dmc/humanoid-run", "metaworld/hammer"],
        2,
    )
    for value in (0.1, 0.5):
        for task in ("dmc/humanoid-run", "metaworld/hammer"):
            for seed in range(2):
                write_run(
                    tmp_path / str(value),
                    "dac",
                    task,
                    seed,
                    final=value,
                    changes={"algorithm.explorer.target_kl": value},
                )
    rows = {"dac": settings(with_defaults(SPEC))}
    found = gallery(summary(tmp_path, rows=rows))
    assert [picture.name for picture in found.pictures] == list(FIGURES)
    assert found.missing == []
    for picture in found.pictures:
        assert "Seeds of each task: 2" in picture.caption
        figure = picture.draw()
        assert all(axes.lines or axes.patches for axes in figure.axes), picture.name
        logarithmic = [axes.yaxis for axes in figure.axes if axes.get_yscale() == "log"]
        assert all(isinstance(axis.get_major_formatter(), Decimals) for axis in logarithmic)
        assert bool(logarithmic) == (picture.name in ("adjustments", "diagnoses", "overestimation"))
    few = gallery(only(summary(tmp_path, rows=rows), names=["sac"]))
    assert {line.split(":")[0] for line in few.missing} >= {
        "design-table",
        "sensitivity",
        "wall-clock",
        "layer-norm",
        "distributional",
    }


def test_an_agent_keeps_its_colour_and_no_two_share_one():
    assert inks(["dac", "sac"])["dac"] == inks(["dac", "td3", "mine"])["dac"]
    many = inks([f"agent{number}" for number in range(20)] + ["dac", "sac"])
    assert len(set(many.values())) == 22
    assert many["dac"].colour == COLOURS[0]


def test_every_chart_has_a_caption_with_its_seeds_and_what_is_missing(tmp_path: Path):
    write_sweep(tmp_path, {"dac": 0.6, "sac": 0.4}, TASKS, 2)
    write_plan(tmp_path, ["dac"], TASKS, 3)
    text = page(summary(tmp_path), "a report", tmp_path, "dualac report")
    charts = re.findall(r'<figure data-chart="(.*?)".*?</figure>', text, re.DOTALL)
    captions = re.findall(
        r'<figure data-chart=".*?".*?<figcaption>(.*?)</figcaption>', text, re.DOTALL
    )
    assert set(charts) == {"bars", "efficiency", "profile", "task", "inside", "overestimation"}
    assert len(captions) == len(charts)
    assert all(
        "Seeds of each task: 2" in one and re.search("Not complete: [12] missing of", one)
        for one in captions
    )


def test_the_hardest_tasks_have_a_panel_each_with_their_agents_at_any_replay_ratio(tmp_path: Path):
    for name, ratio in (("dac-dog", 2), ("dac-dog", 16), ("sr-sac", 32), ("sac", 2)):
        for task in ("dmc/dog-run", "dmc/humanoid-run", "dmc/cheetah-run"):
            write_run(tmp_path, name, task, changes={"replay_ratio": ratio})
    picture = next(one for one in gallery(summary(tmp_path)).pictures if one.name == "hard-tasks")
    figure = picture.draw()
    assert [axes.get_title(loc="left") for axes in figure.axes] == [
        "dmc/dog-run",
        "dmc/humanoid-run",
    ]
    labels = ["dac-dog, RR 2", "dac-dog, RR 16", "sr-sac, RR 32"]
    assert figure.axes[0].get_legend_handles_labels()[1] == labels
    assert (
        len({line.get_linestyle() for line in figure.axes[0].get_legend_handles_labels()[0][:2]})
        == 2
    )
    data = shown(tmp_path).data["tasks"][-2:]
    assert [[one["name"] for one in task["groups"]] for task in data] == [labels] * 2


def test_adjustments_are_those_of_dac_at_each_replay_ratio(tmp_path: Path):
    write_run(tmp_path, "dac:no-kl")
    assert "adjustments: needs runs of dac" in gallery(summary(tmp_path)).missing
    for ratio in (2, 16):
        write_run(tmp_path, "dac", changes={"replay_ratio": ratio})
    figure = next(
        one for one in gallery(summary(tmp_path)).pictures if one.name == "adjustments"
    ).draw()
    assert [axes.get_title(loc="left") for axes in figure.axes[::4]] == [
        "dac, RR 2: Q spread / Q mean",
        "dac, RR 16: Q spread / Q mean",
    ]
    assert all(len(axes.lines) == 1 for axes in figure.axes)


def test_variants_are_in_the_page_where_their_runs_are(tmp_path: Path):
    write_sweep(
        tmp_path, dict.fromkeys(("dac", "dac-ln", "redq", "sac"), 0.5), ["dmc/cheetah-run"], 2
    )
    seen = shown(tmp_path)
    assert "Layer norm, replay ratio 2" in seen.text
    assert "Distributional critics, replay" not in seen.text
    assert [[one["name"] for one in panel["groups"]] for panel in seen.data["panels"]] == [
        ["dac", "dac-ln", "redq", "sac"],
        ["dac", "dac-ln", "redq"],
    ]


def test_the_first_step_of_all_can_be_asked_for(tmp_path: Path):
    write_sweep(tmp_path, {"dac": 0.6, "sac": 0.4}, ["dmc/cheetah-run"], 2)
    found = summary(tmp_path, at=0)
    assert found.panels[0].at == 0
    assert found.panels[0].aggregates["dac"]["IQM"].estimate == pytest.approx(0, abs=1e-3)
    assert "nan" not in " ".join(headline(found))


def test_a_score_below_nothing_is_drawn_whole(tmp_path: Path):
    write_sweep(tmp_path, {"dac": 0.6, "sac": 0.4}, ["gym/x"], 2)
    found = summary(tmp_path, bounds={"": (800.0, 1000.0)})
    axes = next(one for one in gallery(found).pictures if one.name == "final-score").draw().axes[0]
    assert axes.get_xlim()[0] < found.panels[0].aggregates["sac"]["IQM"].low < 0


def test_a_sensitivity_study_without_the_default_marks_none(tmp_path: Path):
    write_run(tmp_path, "sac", final=0.4)
    for value in (0.05, 0.5):
        write_run(tmp_path / str(value), changes={"algorithm.explorer.target_kl": value})
    rows = {"dac": settings(with_defaults(SPEC))}
    assert [row.default for row in sensitivity(summary(tmp_path, rows=rows), "sac")] == [
        False,
        False,
    ]
    write_run(tmp_path)
    assert [row.default for row in sensitivity(summary(tmp_path, rows=rows), "sac")] == [
        False,
        True,
        False,
    ]


def test_what_agents_differ_in_is_a_table(tmp_path: Path):
    write_run(tmp_path, "dac")
    assert "Settings in which" not in shown(tmp_path).text
    write_run(
        tmp_path, "sac", changes={"algorithm.explorer": {"part": "Sampled"}, "reset_every": 7}
    )
    titles, rows = differences(summary(tmp_path).groups)
    assert titles == ["setting", "dac", "sac"]
    assert ["explorer.part", "OptimisticActor", "Sampled"] in rows
    assert ["explorer.target_kl", "0.25", "-"] in rows
    assert ["reset_every", "0", "7"] in rows
    assert not any(row[0] == "gamma" for row in rows)
    assert "Settings in which these agents differ" in shown(tmp_path).text
    assert "| reset\\_every | 0 | 7 |" in make(order(tmp_path, "md")).read_text()


@pytest.mark.parametrize("name", shipped())
def test_the_runs_of_a_shipped_experiment_make_its_figures(tmp_path: Path, name: str):
    """With its resets and its changes by path, which make other agents of known names."""
    experiment = find_experiment(name)
    tasks = sorted({one.task for one in expand(experiment)})[:2]
    runs = expand(scaled(experiment, Scale(tasks=tuple(tasks), seeds=2)))
    for one in runs:
        write_run(
            tmp_path,
            one.name,
            one.task,
            one.seed,
            final=0.5 + 0.01 * len(one.name),
            reached=one.steps,
            changes=to_json(one),
        )
    summary = summarise(read([tmp_path]), Choices(rows=table_as_data()))
    assert {picture.name for picture in gallery(summary).pictures} >= set(experiment.figures)
    assert not any("reset" in one.label for one in summary.groups)
    if (
        name == "sensitivity"
    ):  # the four values of each of the three, the default among them, at both replay ratios
        rows = sensitivity(summary, "sac")
        assert len(rows) == 24
        assert sum(row.default for row in rows) == 6
