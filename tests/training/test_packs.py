"""A pack of seeds is one program, and still a run a seed."""

import dataclasses
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from tests.support import toys
from tests.support.runs import (
    a_run,
    agent_of,
    assert_same_run,
    checkpoint_steps,
    events,
    go_on,
    last,
    rows,
)

from dualac.errors import DataError, RunFailedError
from dualac.machine.messages import RunWarning
from dualac.runs.state import require_resumable
from dualac.training.rollout import Rollout
from dualac.training.run import Run, prepare

SEEDS = (3, 4)


def a_pack(name: str = "sac", **changes) -> list[Run]:
    usual = {
        "steps": 16,
        "eval_every": 8,
        "checkpoint_every": 8,
        "log_every": 4,
        "resets": (12,),
    } | changes
    return [a_run(name, seed=seed, pack=SEEDS, **usual) for seed in SEEDS]


def prepared(runs: list[Run], out):
    return [prepare(run, out) for run in runs]


@pytest.fixture(scope="module")
def straight(tmp_path_factory):
    """Return a pack of 24 steps that was never interrupted."""
    paths = prepared(a_pack(steps=24), tmp_path_factory.mktemp("pack"))
    go_on(*paths)
    return paths


def test_each_seed_of_a_pack_has_a_directory_of_its_own(straight):
    assert [path.name for path in straight] == ["seed3", "seed4"]
    for path in straight:
        assert (path / "DONE").exists()
        assert {row["step"] for row in rows(path, "eval.jsonl")} == {0, 8, 16, 24}
        assert [row["step"] for row in rows(path, "train.jsonl")] == [4, 8, 12, 16, 20, 24]


@pytest.mark.parametrize("name", ["dac", pytest.param("sac", marks=pytest.mark.kill)])
def test_a_seed_of_a_pack_learns_what_it_would_learn_alone(name, tmp_path):
    """To float tolerance: a batched matrix product adds up in another order."""
    few = {"warmup": 10, "steps": 12, "resets": ()}
    packed = prepared(a_pack(name, **few), tmp_path / "pack")
    go_on(*packed)
    for run, path in zip(a_pack(name, **few), packed, strict=True):
        alone = prepare(dataclasses.replace(run, pack=()), tmp_path / "alone")
        go_on(alone)
        ours, theirs = agent_of(last(path)), agent_of(last(alone))
        assert ours.keys() == theirs.keys()
        for leaf in ours:
            np.testing.assert_allclose(ours[leaf], theirs[leaf], rtol=1e-3, atol=1e-5, err_msg=leaf)


def test_a_pack_and_a_seed_alone_start_from_the_very_same_weights(tmp_path):
    from dualac.training.learner import Learner
    from dualac.types import Spec

    pack, alone = Learner(a_pack(), Spec(3, 2)), Learner([a_run(seed=4)], Spec(3, 2))
    ours, theirs = pack.save(1), alone.save(0)
    assert all(np.array_equal(ours[name], theirs[name]) for name in theirs)


def test_a_pack_resumes(straight, tmp_path):
    paths = prepared(a_pack(), tmp_path)
    go_on(*paths)
    prepared(a_pack(steps=24), tmp_path)
    go_on(*paths)
    for path, golden in zip(paths, straight, strict=True):
        assert_same_run(path, golden)


@pytest.mark.parametrize("late", [0, 1])
def test_a_pack_killed_between_the_checkpoints_of_two_seeds_resumes_from_the_one_both_have(
    late, straight, tmp_path
):
    paths = prepared(a_pack(), tmp_path)
    go_on(*paths)
    shutil.rmtree(paths[late] / "checkpoints" / "16")
    prepared(a_pack(steps=24), tmp_path)
    go_on(*paths)
    for path, golden in zip(paths, straight, strict=True):
        assert_same_run(path, golden)
        assert events(path, "resumed")[0]["step"] == 8


def test_a_pack_killed_between_its_very_first_checkpoints_starts_again(straight, tmp_path):
    paths, saved = prepared(a_pack(steps=24), tmp_path), []

    class DiesAtTheSecond(Rollout):
        def save(self, *args):
            saved.append(self)
            if len(saved) == 2:
                raise KeyboardInterrupt
            super().save(*args)

    with pytest.raises(KeyboardInterrupt):
        go_on(*paths, make_rollout=DiesAtTheSecond)
    assert checkpoint_steps(paths[0])
    assert not (paths[1] / "checkpoints").exists()
    go_on(*paths)
    for path, golden in zip(paths, straight, strict=True):
        assert_same_run(path, golden)


def test_a_damaged_checkpoint_of_one_seed_of_a_pack_is_named(straight, tmp_path):
    paths = prepared(a_pack(), tmp_path)
    go_on(*paths)
    broken = paths[1] / "checkpoints" / "16"
    (broken / "state.safetensors").write_bytes(b"")
    prepared(a_pack(steps=24), tmp_path)
    heard = go_on(*paths)
    for path, golden in zip(paths, straight, strict=True):
        assert_same_run(path, golden)
    assert str(broken) in events(paths[1], "damaged_checkpoint")[0]["reason"]
    assert any(isinstance(message, RunWarning) and str(broken) in message.text for message in heard)


def test_a_pack_killed_between_two_checkpoints_and_logged_otherwise_since_keeps_each_row_once(
    tmp_path,
):
    """The checkpoint that only one seed had written knows how long the log of its own life was, not
    that of the next.
    """
    paths = prepared(a_pack(), tmp_path)
    go_on(*paths)
    shutil.rmtree(paths[1] / "checkpoints" / "16")
    prepared(a_pack(log_every=3), tmp_path)
    go_on(*paths)  # from 8 to 16 again, as it was: a finished run is left alone
    prepared(a_pack(log_every=3, steps=24), tmp_path)
    go_on(*paths)  # on from 16
    for path in paths:
        assert [row["step"] for row in rows(path, "train.jsonl")] == [4, 8, 12, 16, 18, 21, 24]


def test_seeds_that_were_not_started_as_one_pack_are_kept_apart_from_it():
    alone, packed = a_run(seed=3), a_pack()[0]
    assert (
        alone.identity()
        != dataclasses.replace(
            packed, **{f: getattr(alone, f) for f in ("steps", "resets", "eval_every")}
        ).identity()
    )


def test_a_pack_without_a_checkpoint_of_one_step_is_refused_and_nothing_is_lost(straight, tmp_path):
    home = Path(shutil.copytree(straight[0].parent, tmp_path / "pack"))
    paths = [home / path.name for path in straight]
    for path, lost in zip(paths, ("16", "24"), strict=True):
        shutil.rmtree(path / "checkpoints" / lost)
        (path / "DONE").unlink()
    left = [checkpoint_steps(path) for path in paths]
    with pytest.raises(DataError, match="no whole checkpoint of one step"):
        go_on(*paths)
    assert [checkpoint_steps(path) for path in paths] == left == [[24], [16]]


def diverging(at: int) -> type[Rollout]:
    """Return a kind of rollout in which the second seed is given an absurd reward at a step."""

    class Diverging(Rollout):
        """A rollout whose losses explode."""

        def step(self, action, step):
            value = super().step(action, step)
            if self.run.seed == SEEDS[1] and step == at:
                self.replay.ring.slots.reward[:] = 3e38
            return value

    return Diverging


def assert_only_the_second_diverged(paths: list[Path], straight: list[Path]) -> None:
    assert_same_run(paths[0], straight[0])
    failure = json.loads((paths[1] / "FAILED").read_text())
    assert failure["error"] == "RunFailedError"
    assert failure["reason"].startswith("diverged: a loss or a value of seed 4 ")
    assert not (paths[1] / "DONE").exists()
    assert not events(paths[0], "failed")
    assert len(events(paths[1], "failed")) == 1


def test_a_seed_that_diverges_fails_alone_and_the_others_end_as_if_nobody_had(straight, tmp_path):
    paths = prepared(a_pack(steps=24), tmp_path)
    with pytest.raises(RunFailedError, match="diverged: a loss or a value of seed 4"):
        go_on(*paths, make_rollout=diverging(14))
    assert_only_the_second_diverged(paths, straight)
    assert checkpoint_steps(paths[1]) == [8]
    with pytest.raises(DataError, match="diverged"):
        require_resumable(paths[1])


def test_the_others_are_resumed_without_the_seed_that_diverged(straight, tmp_path):
    paths = prepared(a_pack(), tmp_path)
    with pytest.raises(RunFailedError):
        go_on(*paths, make_rollout=diverging(11))
    prepared(a_pack(steps=24), tmp_path)
    go_on(*paths)
    assert_only_the_second_diverged(paths, straight)
    assert events(paths[0], "resumed")[0]["step"] == 16


def test_where_all_seeds_have_diverged_the_pack_has_failed(tmp_path):
    paths = prepared(a_pack(task=toys.task("Absurd")), tmp_path)
    with pytest.raises(RunFailedError, match="diverged"):
        go_on(*paths)
    assert all((path / "FAILED").exists() for path in paths)
