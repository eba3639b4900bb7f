"""What is compared with what: plans, and what of them is refused."""

import dataclasses

import numpy as np
import pytest

from dualac.agents.algorithms import ALGORITHMS
from dualac.analysis.figures.paper import FIGURES
from dualac.envs import TASK_SETS
from dualac.errors import DualacError, UsageError
from dualac.experiments.adapt import at_scale, scaled
from dualac.experiments.expand import expand
from dualac.experiments.find import find_experiment, shipped
from dualac.experiments.spec import Contender, Experiment, Grid, Scale
from dualac.training.run import Run

TASK = "gym/Pendulum-v1"


def grid(*contenders, **changes) -> Experiment:
    return Experiment(
        "mine",
        "which is better?",
        (Grid(contenders or ("dac",), **{"tasks": (TASK,), "seeds": 2, **changes}),),
    )


def test_a_plan_is_every_agent_on_every_task_with_every_seed_at_every_replay_ratio():
    runs = expand(
        grid(
            "dac",
            "sac",
            tasks=(TASK, "walker-run"),
            seeds=(3, 5),
            replay_ratios=(2, 16),
            steps=50_000,
        )
    )
    assert (
        len({(run.name, run.task, run.seed, run.replay_ratio) for run in runs}) == len(runs) == 16
    )
    assert {run.task for run in runs} == {TASK, "dmc/walker-run"} and {
        run.seed for run in runs
    } == {3, 5}


def test_the_runs_of_a_plan_are_those_that_one_would_write_by_hand():
    contender = Contender(
        "soft", "dac", {"explorer.target_kl": 0.5}, {"warmup": 100, "protocol.eval_episodes": 3}
    )
    run = expand(grid(contender, seeds=(4, 9), steps=3_000, resets={2: (1_000, 5_000)}))[
        1
    ]  # the second behind its end
    row = dataclasses.replace(
        ALGORITHMS["dac"], explorer=dataclasses.replace(ALGORITHMS["dac"].explorer, target_kl=0.5)
    )
    byhand = Run("soft", row, TASK, seed=9, steps=3_000, warmup=100, resets=(1_000, 5_000))
    assert run == dataclasses.replace(
        byhand, protocol=dataclasses.replace(byhand.protocol, eval_episodes=3)
    )
    assert run.identity() == dataclasses.replace(run).identity()


def test_sets_of_tasks_are_taken_apart():
    assert [run.task for run in expand(grid(tasks=("dac-15",), seeds=1))] == list(
        TASK_SETS["dac-15"]
    )


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        (dict(seeds=(1, 1)), "each of its seeds once"),
        (dict(seeds=0), "at least one"),
        (dict(seeds=(0, -1)), "seeds must be between"),
        (dict(seeds=(2**31, 0)), "between 0 and"),
        (dict(tasks=("dmc/no-such",)), "no"),
        (dict(run={"stpes": 3}), "stpes"),
        (dict(run={"name": "other"}), "name"),
        (dict(run={"seed": 7}), "cannot set 'seed'"),
        (dict(run={"replay_ratio": 4}), "cannot set 'replay_ratio'"),
        (dict(seeds=(0, 1.5)), r"in the Grid, seeds cannot be 1\.5; .*experiments\.md"),
        (dict(seeds=np.arange(2)), "seeds cannot be"),
        (dict(tasks=()), "without tasks"),
        (dict(tasks=TASK), "tasks cannot be"),
        (dict(replay_ratios=()), "without replay ratios"),
        (dict(steps="many"), "steps cannot be 'many'"),
        (dict(run={"protocol.nothing": 3}), "nothing"),
        (dict(steps=100), "ends before learning starts"),
        (dict(replay_ratios=(0,)), "replay-ratio"),
    ],
)
def test_a_plan_that_makes_no_sense_is_refused_in_a_sentence(wrong, sentence):
    with pytest.raises(UsageError, match=sentence):
        expand(grid(**wrong))


def test_an_experiment_is_written_as_people_write(tmp_path):
    runs = expand(grid(seeds=2.0, steps=5e4, replay_ratios=[np.int64(2)]))  # pyright: ignore[reportArgumentType]
    assert [(run.seed, run.steps, run.replay_ratio) for run in runs] == [
        (0, 50_000, 2),
        (1, 50_000, 2),
    ]
    assert [run.identity() for run in expand(grid(seeds=tuple(np.arange(2))))] == [
        run.identity() for run in expand(grid(seeds=2))
    ]


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        (
            lambda: Experiment("mine", "?", Grid(("dac",), (TASK,))),
            "in the Experiment, grids cannot be Grid",
        ),  # pyright: ignore[reportArgumentType]
        (lambda: Contender("dac", run={"steps": 7}), "cannot set 'steps'"),
        (lambda: Contender(("dac"), algorithm=3), "algorithm cannot be 3"),  # pyright: ignore[reportArgumentType]
    ],
)
def test_a_part_of_a_plan_that_makes_no_sense_is_refused_where_it_is_written(wrong, sentence):
    with pytest.raises(UsageError, match=sentence):
        wrong()


@pytest.mark.parametrize("name", ["../up", "a/b", "", "x" * 300, "line\nbreak", "-dash", "nul\0"])
def test_a_name_that_is_no_directory_is_refused(name):
    with pytest.raises(UsageError):
        dataclasses.replace(grid(), name=name)
    with pytest.raises(UsageError):
        expand(grid(Contender(name, "dac")))


def test_two_different_runs_in_one_directory_are_refused_and_the_same_twice_is_one():
    other = Contender("dac", "dac", {"gamma": 0.9})
    with pytest.raises(UsageError, match="two different runs of dac"):
        expand(
            Experiment(
                "mine", "?", (Grid(("dac",), (TASK,), seeds=1), Grid((other,), (TASK,), seeds=1))
            )
        )
    assert (
        len(
            expand(
                Experiment(
                    "mine",
                    "?",
                    (Grid(("dac",), (TASK,), seeds=2), Grid(("dac", "sac"), (TASK,), seeds=1)),
                )
            )
        )
        == 3
    )


@pytest.mark.parametrize("name", shipped())
def test_every_shipped_experiment_expands_and_so_does_its_small_version(name):
    experiment = find_experiment(name)
    assert experiment.name == name
    assert set(experiment.figures) <= set(FIGURES)  # of those that a report can draw
    runs = expand(experiment)
    assert len({run.directory(__import__("pathlib").Path()) for run in runs}) == len(runs)
    if experiment.small:
        small = at_scale(experiment, "small")
        assert small.name == f"{name}-small"
        assert {run.name for run in expand(small)} <= {run.name for run in runs}
        assert (
            sum(run.steps * run.replay_ratio for run in expand(small))
            < sum(run.steps * run.replay_ratio for run in runs) / 50
        )


def test_the_paper_s_experiments_have_the_paper_s_size():
    """Six agents, thirty tasks, two replay ratios, ten seeds; seven designs and their base on
    fifteen tasks.
    """
    sizes = {
        name: len(expand(find_experiment(name)))
        for name in ("benchmark", "ablation", "sensitivity", "distributional")
    }
    assert sizes == {
        "benchmark": 6 * 30 * 2 * 10,
        "ablation": 8 * 15 * 2 * 10,
        "sensitivity": 11 * 15 * 2 * 10,
        "distributional": 4 * 10 * 2 * 10,
    }
    high = [run for run in expand(find_experiment("benchmark")) if run.replay_ratio == 16]
    assert {run.resets for run in high} == {(160_000, 320_000, 480_000, 640_000, 800_000)}


def test_what_is_asked_for_narrows_or_extends():
    narrowed = scaled(
        find_experiment("benchmark"),
        Scale(
            tasks=("cheetah-run",),
            contenders=("dac",),
            seeds=(0, 12),
            steps=2_000_000,
            replay_ratios=(4,),
        ),
    )
    assert [
        (run.name, run.task, run.seed, run.steps, run.replay_ratio) for run in expand(narrowed)
    ] == [("dac", "dmc/cheetah-run", seed, 2_000_000, 4) for seed in (0, 12)]
    with pytest.raises(UsageError, match="steps must be between 1 and"):
        expand(scaled(find_experiment("benchmark"), Scale(steps=0)))
    with pytest.raises(UsageError, match="no agent 'dacc'; did you mean dac"):
        scaled(find_experiment("benchmark"), Scale(contenders=("dacc",)))


def test_an_experiment_of_one_s_own_stands_in_a_file(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(
        "from dualac.experiments.spec import Experiment, Grid\nMINE = Experiment('mine', '?', "
        f"(Grid(('sac',), ('{TASK}',), seeds=1),))\n"
    )
    assert find_experiment(str(file)).name == find_experiment(f"{file}:MINE").name == "mine"
    drawn = file.read_text().replace("seeds=1),)", "seeds=1),), ('nope',)")
    for text, sentence in (
        ("x = 1", r"has no experiments; .*experiments\.md"),
        ("raise OSError('no luck')", r"no luck; python .* shows where"),
        ("def", "cannot be loaded"),
        (drawn, "no figure is called 'nope'; there are"),
    ):
        other = tmp_path / f"f{len(text)}.py"
        other.write_text(text)
        with pytest.raises(DualacError, match=sentence):
            find_experiment(str(other))
    with pytest.raises(
        UsageError, match="no experiment is called 'benchmrk'; did you mean benchmark"
    ):
        find_experiment("benchmrk")
