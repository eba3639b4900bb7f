"""Figures are drawn from files alone, without a screen and without JAX, whatever the seeds have got
to.
"""

import json
import subprocess
import sys
from pathlib import Path

import matplotlib.image
import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.text import Text

from dualac.analysis.figures import theory
from dualac.analysis.figures.curves import inside, learning_curve
from dualac.errors import DataError

DUALS = ("train/kl", "train/kl_median", "train/optimism", "train/kl_weight", "train/ent_coef")


def run(path: Path, steps: list[int], scale: float = 1.0, names: tuple[str, ...] = DUALS) -> Path:
    """Write a run's rows, with two episodes an evaluation."""
    path.mkdir(parents=True)
    evaluations = [
        {"step": step, "return": scale * (step + episode)} for step in steps for episode in (0, 1)
    ]
    (path / "eval.jsonl").write_text("".join(json.dumps(row) + "\n" for row in evaluations))
    (path / "train.jsonl").write_text(
        "".join(json.dumps({"step": step, **dict.fromkeys(names, 0.1)}) + "\n" for step in steps)
    )
    return path


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[Figure]:
    """Keep the figures that are saved, to look into."""
    kept: list[Figure] = []
    save = Figure.savefig
    monkeypatch.setattr(
        Figure,
        "savefig",
        lambda self, *words, **named: (kept.append(self), save(self, *words, **named))[1],
    )
    return kept


def assert_shows_something(picture: Path) -> None:
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert np.unique(matplotlib.image.imread(picture)).size > 10


@pytest.mark.parametrize("seeds", [1, 3])
def test_a_learning_curve_is_a_picture_with_its_number_of_seeds(
    tmp_path: Path, drawn: list[Figure], seeds: int
):
    runs = [run(tmp_path / f"seed{seed}", [0, 10, 20], scale=seed + 1) for seed in range(seeds)]
    out = learning_curve(
        {"dac": runs}, "a task", tmp_path / "figures" / "curve.png", random_score=3.0
    )
    assert out == tmp_path / "figures" / "curve.png"
    assert_shows_something(out)
    legend = [text.get_text() for text in drawn[0].axes[0].get_legend().get_texts()]
    assert legend == [f"dac ({seeds} seed{'s' * (seeds > 1)})", "random policy"]


def test_seeds_that_got_unequally_far_are_averaged_where_all_have_been(
    tmp_path: Path, drawn: list[Figure]
):
    runs = [
        run(tmp_path / "seed0", [0, 10, 20, 30]),
        run(tmp_path / "seed1", [0, 10, 25], scale=3.0),
    ]
    assert_shows_something(learning_curve({"dac": runs}, "a task", tmp_path / "curve.png"))
    *seeds, mean = drawn[0].axes[0].lines
    assert [list(line.get_xdata()) for line in seeds] == [[0, 10, 20, 30], [0, 10, 25]]
    np.testing.assert_array_equal(mean.get_xdata(), [0, 10])
    np.testing.assert_allclose(mean.get_ydata(), [1.0, 21.0])


def test_seeds_without_a_common_step_are_drawn_without_a_mean(tmp_path: Path, drawn: list[Figure]):
    runs = [run(tmp_path / "seed0", [1, 3]), run(tmp_path / "seed1", [2, 4])]
    assert_shows_something(learning_curve({"dac": runs}, "a task", tmp_path / "curve.png"))
    assert [len(line.get_xdata()) for line in drawn[0].axes[0].lines] == [2, 2, 0]


def test_groups_have_a_colour_each(tmp_path: Path, drawn: list[Figure]):
    groups = {name: [run(tmp_path / name, [0, 10])] for name in ("dac", "sac")}
    assert_shows_something(learning_curve(groups, "a task", tmp_path / "curve.png"))
    assert len({line.get_color() for line in drawn[0].axes[0].lines}) == 2


def test_a_run_without_evaluations_draws_nothing(tmp_path: Path):
    with pytest.raises(DataError, match="no evaluations yet"):
        learning_curve({"dac": [run(tmp_path / "seed0", [])]}, "a task", tmp_path / "curve.png")
    assert not (tmp_path / "curve.png").exists()


@pytest.mark.parametrize("seeds", [1, 2])
def test_the_inside_of_a_dual_actor_critic_has_a_panel_a_dual_and_the_targets(
    tmp_path: Path, drawn: list[Figure], seeds: int
):
    runs = [
        run(tmp_path / f"seed{seed}", list(range(10, 40 + 10 * seed, 10))) for seed in range(seeds)
    ]
    assert_shows_something(
        inside(runs, "a task", {"KL per action dimension": 0.25}, tmp_path / "inside.png")
    )
    kl, *others = drawn[0].axes
    assert [len(panel.lines) for panel in (kl, *others)] == [2 * seeds + 1, seeds, seeds, seeds]
    assert [text.get_text() for text in kl.get_legend().get_texts()] == [
        "train/kl",
        "train/kl_median",
        "target",
    ]


def test_the_inside_of_an_algorithm_without_an_optimist_leaves_its_panels_empty(tmp_path: Path):
    """SAC has a temperature and nothing else of these."""
    assert_shows_something(
        inside(
            [run(tmp_path / "seed0", [10, 20], names=("train/ent_coef",))],
            "a task",
            {},
            tmp_path / "inside.png",
        )
    )


def words(figure: Figure) -> set[str]:
    return {text.get_text() for text in figure.findobj(Text)}


def test_ticks_of_logarithmic_axes_are_numbers_not_the_source_of_mathematics(
    tmp_path: Path, drawn: list[Figure]
):
    spreads, forms = np.geomspace(1e-3, 3.0, 5), ("logarithmic", "variance", "deviation")
    inside([run(tmp_path / "seed0", [10, 20])], "a task", {}, tmp_path / "inside.png")
    theory.errors(
        np.linspace(-2, 2, 5),
        spreads,
        dict.fromkeys(forms, np.full((5, 5), 0.01)),
        tmp_path / "error.png",
    )
    theory.gradient_gaps(
        spreads,
        dict.fromkeys(forms, spreads**2),
        dict.fromkeys(forms, 2.0),
        tmp_path / "gradient.png",
    )
    assert len(drawn) == 3
    for figure, tick in zip(drawn, ("0.1", "0.001", "0.001"), strict=True):
        assert tick in words(figure)
        assert not any("$" in word or "mathdefault" in word for word in words(figure))


def test_the_same_rows_make_the_same_svg(tmp_path: Path):
    runs = [run(tmp_path / "seed0", [0, 10])]
    first, second = (
        learning_curve({"dac": runs}, "a task", tmp_path / name).read_bytes()
        for name in ("a.svg", "b.svg")
    )
    assert first == second


def test_analysis_never_imports_jax():
    code = (
        "import sys, dualac.analysis.data.curves, dualac.analysis.figures.curves; "
        "sys.exit('jax' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
