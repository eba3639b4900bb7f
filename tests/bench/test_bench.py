"""What `dualac bench` counts and prints. How long anything takes is no matter for a test."""

import functools
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dualac import cli
from dualac.api import make_agent
from dualac.bench import scaling
from dualac.bench.learner import count_gflop, needed
from dualac.bench.load import Load
from dualac.cli.commands import bench as commands
from dualac.errors import UsageError
from dualac.execution import pinned
from dualac.ops import reference_only
from dualac.types import Transition


def test_products_are_counted_in_loops_once_a_turn_and_in_branches_by_their_share():
    square = jnp.ones((10, 10))
    product = 2e-9 * 10**3

    def looped(x):
        return jax.lax.fori_loop(0, 5, lambda _, y: y @ x, x)

    def branched(x):
        return jax.lax.cond(x[0, 0] > 0, lambda: x @ x, lambda: x)

    assert count_gflop(jax.make_jaxpr(lambda x: x @ x)(square).jaxpr) == pytest.approx(product)
    assert count_gflop(jax.make_jaxpr(looped)(square).jaxpr) == pytest.approx(5 * product)
    assert count_gflop(jax.make_jaxpr(branched)(square).jaxpr, 0.5) == pytest.approx(0.5 * product)


def test_an_update_of_the_paper_s_size_has_its_known_work():
    """0.88 GFLOP for DAC with 17 observations and 6 actions, two thirds of it for SAC; less the
    slopes of observations, which nobody asks for.
    """
    works = {}
    for name in ("dac", "sac"):
        agent = make_agent(name, 17, 6)
        state = jax.eval_shape(agent.init, jax.random.key(0))
        wide, flat = (
            jax.ShapeDtypeStruct((256, 17), jnp.float32),
            jax.ShapeDtypeStruct((256,), jnp.float32),
        )
        batch = Transition(wide, jax.ShapeDtypeStruct((256, 6), jnp.float32), flat, flat, wide)
        with reference_only():
            noise = agent.noise(jax.random.key(0), 256 * 6)
            program = jax.make_jaxpr(agent.update)(state, batch, noise, np.uint32(0))
            works[name] = count_gflop(needed(program))
    assert works["dac"] == pytest.approx(0.869, abs=0.001)
    assert works["sac"] == pytest.approx(0.578, abs=0.001)


def test_an_exponent_is_the_slope_on_a_logarithmic_scale():
    assert scaling.exponent((1, 10, 100), [3.0, 30.0, 300.0]) == pytest.approx(1)
    assert scaling.exponent((1, 10, 100), [3.0, 3.0, 3.0]) == pytest.approx(0)


ROW = {
    "algorithm": "dac",
    "ms_per_update": 8.0,
    "best_ms_per_update": 7.5,
    "times_the_first": 1.0,
    "gflop_per_update": 0.877,
    "floor_ms": 5.2,
    "percent_of_sgemm": 65.0,
    "sgemm_gflops": 165.0,
    "threads": 1,
}


def test_the_learner_s_figures_are_one_object_a_table_and_a_picture(capsys, tmp_path):
    question = {}

    def measure(function, threads, **arguments):
        question.update(arguments, threads=threads)
        return [ROW]

    kinds = {"learner": (functools.partial(commands.learner, measure=measure), "")}
    picture = tmp_path / "b.png"
    options = ["--json", "--batch", "128", "--rounds", "2", "--plot", str(picture)]
    assert commands.bench(["learner", "dac", *options], kinds) == 0
    figures = json.loads(capsys.readouterr().out)
    assert {"ms_per_update", "gflop_per_update", "sgemm_gflops", "percent_of_sgemm"} <= set(figures)
    name, load = question["kinds"][0]
    assert (name, load["batch"], question["threads"]) == ("dac", 128, 1)
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert commands.bench(["learner", "--all"], kinds) == 0
    names = [name for name, _ in question["kinds"]]
    assert names[:2] == ["sac", "dac"] and len(names) > 20
    assert "165 GFLOP/s" in capsys.readouterr().out


def test_what_is_measured_is_measured_in_a_process_of_its_own():
    rows = pinned.call("dualac.bench.envs:measure", 1, tasks=["gym/Pendulum-v1"], steps=5)
    assert rows[0]["task"] == "gym/Pendulum-v1" and rows[0]["steps_per_second"] > 0
    with pytest.raises(UsageError, match="Nothing-v1"):
        pinned.call("dualac.bench.envs:measure", 1, tasks=["gym/Nothing-v1"], steps=5)


@pytest.mark.parametrize(
    ("argv", "reason"),
    [
        (("lerner",), "did you mean learner"),
        (("learner", "dacc"), "did you mean dac"),
        (("learner", "--batch", "0"), "--batch must be at least 1"),
        (("learner", "--width", "-1"), "--width must be at least 0"),
        (("learner", "dac", "--critics", "1"), "one critic disagrees with nobody"),
        (("envs", "--plot", "figure.txt"), "--plot draws .png"),
        (("envs", "--plot", "nowhere/figure.png"), "no directory"),
        (("learner", "--threads", "9999"), "not 9999"),
        (("learner", "--rounds", "0"), "--rounds"),
        (("train", "dac", "dmc/chetah-run"), "cheetah-run"),
        (("train", "--steps", "3"), "at least 500"),
        (("memory", "--capacity", "0"), "--capacity"),
        (("envs", "--stps", "3"), "--steps"),
    ],
)
def test_wrong_words_are_one_line(argv, reason):
    with pytest.raises(UsageError, match=reason):
        cli.run(["bench", *argv])


def test_a_training_is_timed_in_the_learner_and_outside_it():
    question = {
        "algorithm": "sac",
        "task": "gym/Pendulum-v1",
        "replay_ratio": 2,
        "steps": 20,
        "warmup": 10,
    }
    row = pinned.call("dualac.bench.training:trained", 1, **question)
    assert 0 < row["share_outside_the_learner"] < 1
    assert 0 < 2 * row["ms_per_update"] < row["ms_per_step"]
    assert row["threads"] == 1


def test_memory_is_that_of_a_whole_run(capsys):
    assert (
        cli.run(["bench", "memory", "sac", "gym/HalfCheetah-v5", "--capacity", "300000", "--json"])
        == 0
    )
    row = json.loads(capsys.readouterr().out)
    assert row["replay_bytes"] == pytest.approx(3e5 * 4 * (17 + 6 + 1 + 1), rel=0.2)
    assert (
        row["beside_the_replay"]
        == max(row["new_bytes"], row["resumed_bytes"]) - row["replay_bytes"]
    )
    assert 200e6 < row["beside_the_replay"] < 700e6


def test_a_pack_of_seeds_is_measured_against_a_fuller_replay_too():
    load = Load(batch=4, replay_ratio=1, seeds=2, width=4)._asdict()
    (row,) = scaling.measure("sac", load, rounds=1, grids={}, fills=(10, 20))
    assert row["what"] == "buffer_fill"
    assert all(seconds > 0 for seconds in row["seconds"])
