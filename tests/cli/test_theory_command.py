"""`dualac theory`: the table of forms, its pictures, and the paper's explanatory figures from
runs.
"""

import json
from pathlib import Path

import jax
import matplotlib.image
import numpy as np
import pytest
from tests.support.runs import tiny

import dualac
from dualac import cli
from dualac.agents.agent import make_agent
from dualac.envs import Protocol
from dualac.errors import UsageError
from dualac.inspection import theory_figures
from dualac.theory.moments import lottery
from dualac.training.policy import LoadedAgent
from dualac.training.run import Run
from dualac.types import Spec

ROOT = Path(__file__).parents[2]
SHORT = Protocol(time_limit=12, eval_episodes=1)


@pytest.fixture(scope="module")
def fresh():
    """Write a DAC on a pendulum as it starts, and 40 steps of someone's life."""
    import jax

    from dualac.inspection.theory_figures import Trained

    agent = make_agent(tiny("dac"), Spec(3, 1))
    rng = np.random.default_rng(0)
    angle = rng.uniform(-3, 3, 40)
    lived = {
        "obs": np.column_stack([np.cos(angle), np.sin(angle), rng.normal(size=40)]).astype(
            np.float32
        ),
        "action": rng.uniform(-1, 1, (40, 1)),
    }
    run = Run("dac", tiny("dac"), "gym/Pendulum-v1", protocol=SHORT)
    state = jax.jit(agent.init)(jax.random.key(0))
    return Trained(LoadedAgent(run, 30, Spec(3, 1), agent, state, [], Path("run")), lived)


@pytest.fixture
def said(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")

    def answer(*words) -> str:
        assert cli.run(["theory", *map(str, words)]) == 0
        return capsys.readouterr().out

    return answer


def assert_shows_something(picture: Path) -> None:
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert np.unique(matplotlib.image.imread(picture)).size > 10


def test_the_table_has_the_known_answers_in_all_their_digits_and_is_the_page_s(said):
    out = said("--values", "1", "3", "--beta", "-0.2", "-1", "0.5")
    assert f"```\n{out}```" in (ROOT / "docs" / "theory.md").read_text()
    rows = [line.split() for line in out.splitlines()]
    assert ["-0.2", "1.8051163", "1.8075974", "1.8", "1.8", "0.08"] in rows
    assert ["-1", "1.3374986", "1.4506939", "1", "1", "2", "the", "series", "diverges"] in rows


def test_json_is_one_object_with_gradients_weights_count_and_pictures_are_drawn(said, tmp_path):
    found = json.loads(
        said(
            "--values",
            "0,1,5",
            "--beta=-0.2",
            "--weights",
            "0.5",
            "0.5",
            "0",
            "--json",
            "--plot",
            tmp_path / "new",
        )
    )
    (row,) = found["betas"]
    assert found["mean"] == 0.5 and found["values"] == [0.0, 1.0, 5.0]
    assert row["series_converges"] and row["variance"] == pytest.approx(0.45)
    assert row["gradients"]["exact"] == pytest.approx([0.5986876601, 0.4013123399, 0.0])
    assert found["figures"] == [
        str(tmp_path / "new" / f"{name}.png")
        for name in ("utility", "premium", "error", "gradient")
    ]
    for picture in found["figures"]:
        assert_shows_something(Path(picture))


def test_large_numbers_stay_apart_in_the_table(said):
    out = said("--values=-1.2345678e10,9.87654321e9", "--beta", "-1e3", "1e3")
    rows = [
        line.split() for line in out.splitlines() if line.lstrip().startswith(("-1000 ", "1000 "))
    ]
    assert [len(row) for row in rows] == [9, 9, 6, 6, 6, 6]
    assert float(rows[0][1]) == pytest.approx(-1.2345678e10)


def test_json_has_null_where_a_number_overflowed(said):
    def refuse(name: str) -> None:
        raise AssertionError(name)

    found = json.loads(said("--values=1e200,-1e200", "--json"), parse_constant=refuse)
    assert found["betas"][0]["variance"] is None and found["betas"][0]["exact"] == -1e200


@pytest.mark.parametrize("beta", [-1.0, 1.0])
def test_a_steep_utility_keeps_its_marks(beta):
    """e^2000 would overflow. What can be seen of the expected utility is its height over that of
    the curve.
    """
    with jax.enable_x64(True):
        values, weights = lottery([-1000.0, 1000.0], None)
        worth = theory_figures.utility_figure(beta, values, weights)
    assert np.isfinite(worth.utility).all() and np.isfinite(worth.worth).all()
    assert (np.diff(worth.utility) >= 0).all()
    height = np.ptp(worth.utility)
    assert 0.05 < (worth.expected - worth.utility.min()) / height < 0.95
    certain = np.interp(worth.certainty, worth.x, worth.utility)
    assert certain == pytest.approx(worth.expected, abs=0.02 * height)


@pytest.mark.parametrize("beta", [-1.0, 1.0])
def test_the_gradient_of_a_steep_utility_keeps_its_range(beta):
    with jax.enable_x64(True):
        values, weights = lottery([-1000.0, 1000.0], None)
        scales, _, _ = theory_figures.gradient_figure(values, beta, weights)
    assert scales[[0, -1]] == pytest.approx([2e-4, 0.6])


def test_what_cannot_be_is_not_drawn():
    with jax.enable_x64(True):
        values, weights = theory_figures.possible([0.0, 1.0, 500.0], [0.5, 0.5, 0.0])
        assert theory_figures.utility_figure(-1.0, values, weights).x.max() < 2
        assert theory_figures.premium_figure(values, weights)[2] == (-0.5, 0.5)


def test_gaussians_are_drawn_before_and_after_tanh(said, tmp_path):
    assert said("gaussians", "--plot", tmp_path).strip() == str(tmp_path / "gaussians.png")
    assert_shows_something(tmp_path / "gaussians.png")


def test_what_is_drawn_of_a_run_is_what_it_lived_and_what_its_agent_does(fresh, tmp_path):
    from dualac.analysis.figures.theory import coverage as draw
    from dualac.inspection.theory_figures import coverage

    found = coverage(fresh, 30)
    plane = found.plane
    assert plane.title == "dac on gym/Pendulum-v1 after 30 steps" and plane.embedding.startswith(
        "angle of the pendulum"
    )
    np.testing.assert_array_equal(plane.visited[:, 1], fresh.lived["action"][-30:, 0])
    np.testing.assert_allclose(
        plane.visited[:, 0], np.arctan2(fresh.lived["obs"][-30:, 1], fresh.lived["obs"][-30:, 0])
    )
    assert len(plane.pessimist_samples) == len(plane.optimist_samples) == 30
    seen = np.isfinite(plane.spread).all(axis=1)
    assert 10 < seen.sum() <= 40 and (np.isfinite(plane.spread).any(axis=1) == seen).all()
    assert (plane.spread[seen] > 0).all() and found.pessimist > 0 and found.optimist > 0
    for density in (plane.pessimist[seen], plane.optimist[seen]):
        assert (density >= 0).all() and density.max() > 1
    assert_shows_something(draw(plane, tmp_path / "coverage.png"))


def test_a_run_without_an_optimist_or_with_more_actions_has_no_coverage_to_draw(fresh):
    from dualac.inspection.theory_figures import coverage

    wide = fresh._replace(loaded=fresh.loaded._replace(spec=Spec(3, 2)))
    alone = fresh._replace(
        loaded=fresh.loaded._replace(run=Run("sac", tiny("sac"), "gym/Pendulum-v1"))
    )
    for trained, sentence in (
        (wide, "not dac with 2 actions; dualac train dac gym/Pendulum-v1"),
        (alone, "not sac with 1 actions"),
    ):
        with pytest.raises(UsageError, match=sentence):
            coverage(trained, 30)


def test_saturation_is_told_before_tanh_and_as_it_is_executed(fresh, tmp_path):
    from dualac.analysis.figures.theory import saturation as draw
    from dualac.inspection.theory_figures import saturation

    found = saturation(fresh, 20)
    assert found.label.startswith("dac, policy.hidden=(8,)")
    assert found.before.shape == found.actions.shape == (20, 1)
    policy, state = fresh.loaded.run.algorithm.policy, fresh.loaded.state.policy
    np.testing.assert_allclose(
        np.tanh(found.before), policy.exploit(state, fresh.lived["obs"][-20:]), atol=1e-6
    )
    assert_shows_something(
        draw([found, found._replace(label="another")], "a task", tmp_path / "saturation.png")
    )


@pytest.mark.kill
def test_a_trained_run_is_drawn_by_the_command(said, tmp_path):
    """The same from a directory, through a training."""
    small = {
        "seed": 3,
        "steps": 30,
        "warmup": 10,
        "batch_size": 8,
        "capacity": 100,
        "eval_every": 30,
        "quiet": True,
        "protocol": SHORT,
    }
    run = dualac.train(
        tiny("dac"), "gym/Pendulum-v1", name="dac", out=tmp_path / "runs", **small
    ).path
    assert "at the pessimist's actions" in said(
        "coverage", run, "--samples", "30", "--plot", tmp_path
    )
    assert (
        said("saturation", run, run, "--samples", "20", "--plot", tmp_path)
        .splitlines()[0]
        .startswith("dac, ")
    )
    for name in ("coverage.png", "saturation.png"):
        assert_shows_something(tmp_path / name)


def test_a_state_without_an_angle_is_embedded_by_its_first_principal_component():
    from dualac.inspection.theory_figures import embedding

    along = np.linspace(-1, 1, 50)
    embed, name = embedding(np.column_stack([along, 3 * along, 0.01 * np.cos(50 * along)]))
    assert "principal component" in name
    assert (
        abs(np.corrcoef(embed(np.column_stack([along, 3 * along, 0 * along])), along)[0, 1]) > 0.99
    )


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--values", "1", "x"], "--values: 'x' is not a number"),
        (["--values", "1", "3", "--weights", "1", "1"], "sum to one"),
        (["--values", "1", "3", "--weights", "1"], "2 values need 2 weights"),
        (["--values", "1", "inf"], "must be finite"),
        (["--values", "1", "3", "--beta", "inf"], "beta must be finite"),
        (["--values", "1", "3", "--bet", "1"], "did you mean --beta"),
        (["--values", "2", "2", "--plot", "somewhere"], "values that differ"),
        (["--beta", "1"], "required: --values"),
        (["covrage"], "knows the figures coverage, saturation, gaussians"),
        (["gaussians"], "required: --plot"),
        (["saturation", "--plot", "x"], "required: RUN"),
        (["coverage", "nowhere", "--samples", "0", "--plot", "x"], "--samples must be"),
        (["saturation", *["run"] * 7, "--plot", "x"], "more than six runs"),
    ],
)
def test_what_makes_no_sense_is_refused_in_a_sentence(words, sentence, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match=sentence):
        cli.run(["theory", *words])
    assert list(tmp_path.iterdir()) == []  # no directory for a picture that is not drawn


def test_a_directory_that_cannot_be_is_said_before_anything_is_computed(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="cannot be a directory"):
        cli.run(["theory", "gaussians", "--plot", str(tmp_path / "file")])
