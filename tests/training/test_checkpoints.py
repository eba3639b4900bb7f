"""Checkpoints: whole or not at all, checked before they are believed, and never a silent start from
scratch.
"""

import contextlib
import errno
import hashlib
import json
import os
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy
from tests.support import toys
from tests.support.runs import (
    a_run,
    assert_same_run,
    checkpoint_steps,
    events,
    extended,
    go_on,
    last,
    replay_of,
    rows,
    trained,
)

from dualac.errors import DataError, LockedError, RunFailedError, TryAgainError
from dualac.machine.messages import RunWarning
from dualac.runs.lock import Attempt
from dualac.runs.state import read_status
from dualac.training.checkpoint import MOST_SEGMENTS, Checkpoints, Snapshot, restore_together
from dualac.training.replay import Replay
from dualac.training.rollout import Rollout
from dualac.training.run import prepare
from dualac.types import Spec

WHOLE = a_run(eval_every=8)
HALF = extended(WHOLE, 24)


@pytest.fixture
def half(golden, tmp_path) -> Path:
    """Return a run that stands at 24 of 40 steps, with checkpoints at 16 and 24."""
    shutil.copytree(golden(HALF), HALF.directory(tmp_path))
    return prepare(WHOLE, tmp_path)


def newest_segment(checkpoint: Path) -> Path:
    return max((checkpoint / "replay").iterdir(), key=lambda file: int(file.stem.split("-")[1]))


FILES = {
    "state": lambda checkpoint: checkpoint / "state.safetensors",
    "segment": newest_segment,
    "manifest": lambda checkpoint: checkpoint / "manifest.json",
}
DAMAGES = {
    "empty": lambda content: b"",
    "half": lambda content: content[: len(content) // 2],
    "short": lambda content: content[:-1],
    "flipped": lambda content: flipped(content, len(content) // 2),
}


def test_a_checkpoint_tells_what_was_lived_and_stays_as_it_is(half):
    kept = Checkpoints(half, WHOLE.identity())
    before = {path: path.read_bytes() for path in half.rglob("*") if path.is_file()}
    expected = replay_of(last(half), 1000)
    lived = kept.transitions(24)
    assert {name: array.tolist() for name, array in lived.items()} == {
        name: expected[name].tolist() for name in lived
    }
    assert set(lived) == {"obs", "action", "reward", "discount"}
    assert {path: path.read_bytes() for path in half.rglob("*") if path.is_file()} == before
    newest_segment(last(half)).write_bytes(b"")
    with pytest.raises(DataError, match=r"the replay of .* cannot be read"):
        kept.transitions(24)


def flipped(content: bytes, where: int) -> bytes:
    return content[:where] + bytes([content[where] ^ 1]) + content[where + 1 :]


def assert_the_one_before_is_used(path: Path, golden: Path) -> None:
    heard = go_on(path)
    named = events(path, "damaged_checkpoint")
    assert len(named) == 1
    assert str(path / "checkpoints" / "24") in named[0]["reason"]
    assert [message.text for message in heard if isinstance(message, RunWarning)] == [
        named[0]["reason"]
    ]
    assert events(path, "resumed")[0]["step"] == 16
    assert list((path / "checkpoints").glob("damaged-24-*"))
    assert_same_run(path, golden)


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("file", FILES)
def test_a_damaged_checkpoint_is_named_and_the_one_before_it_used(file, damage, half, golden):
    victim = FILES[file](half / "checkpoints" / "24")
    victim.write_bytes(DAMAGES[damage](victim.read_bytes()))
    assert_the_one_before_is_used(half, golden(WHOLE))


@pytest.mark.parametrize(
    "fact", ["step", "added", "state", "inc", "eval.jsonl", "episodes", "total"]
)
def test_a_flipped_digit_in_the_manifest_is_found(fact, half, golden):
    """It is valid JSON still, of a run that never was; only a hash can tell."""
    victim = half / "checkpoints" / "24" / "manifest.json"
    content = victim.read_bytes()
    number = re.search(
        rf'"{fact}": -?\d+(\.\d{{1,4}})?'.encode(), content
    )  # not its last digit: a float may be the same with another
    assert number is not None
    victim.write_bytes(flipped(content, number.end() - 1))
    assert json.loads(victim.read_bytes()) != json.loads(content)
    assert_the_one_before_is_used(half, golden(WHOLE))


@pytest.mark.parametrize("file", FILES)
def test_a_missing_file_is_damage(file, half, golden):
    FILES[file](half / "checkpoints" / "24").unlink()
    assert_the_one_before_is_used(half, golden(WHOLE))


@pytest.mark.parametrize("file", FILES)
def test_a_run_whose_checkpoints_are_all_damaged_is_refused_and_never_started_from_scratch(
    file, half
):
    for step in (16, 24):
        FILES[file](half / "checkpoints" / str(step)).write_bytes(b"x")
    before = {name: (half / name).read_bytes() for name in ("eval.jsonl", "train.jsonl")}
    with pytest.raises(
        DataError,
        match=r"checkpoints/24 is damaged.*checkpoints/16 is damaged.*no checkpoint is left",
    ) as refusal:
        go_on(half)
    assert refusal.value.code == 65
    assert checkpoint_steps(half) == [16, 24]
    assert before == {name: (half / name).read_bytes() for name in before}


def test_results_without_any_checkpoint_are_refused(half):
    shutil.rmtree(half / "checkpoints")
    before = (half / "eval.jsonl").read_bytes()
    with pytest.raises(DataError, match="has lost its checkpoints") as refusal:
        go_on(half)
    assert refusal.value.code == 65
    assert (half / "eval.jsonl").read_bytes() == before


def test_what_a_kill_left_half_written_or_half_deleted_is_ignored_and_cleared_away(half, golden):
    shutil.copytree(half / "checkpoints" / "24", half / "checkpoints" / ".partial-32")
    shutil.copytree(half / "checkpoints" / "16", half / "checkpoints" / ".trash-8")
    (half / "checkpoints" / ".trash-8" / "manifest.json").unlink()
    go_on(half)
    assert events(half, "resumed")[0]["step"] == 24
    assert_same_run(half, golden(WHOLE))


def test_a_half_written_last_row_of_a_log_is_written_again(half, golden):
    for name in ("eval.jsonl", "train.jsonl"):
        with (half / name).open("a") as file:
            file.write('{"step": 31, "ret')
    go_on(half)
    assert_same_run(half, golden(WHOLE))


def test_a_log_that_lost_rows_since_the_checkpoint_is_refused(half):
    (half / "eval.jsonl").write_bytes((half / "eval.jsonl").read_bytes()[:-5])
    with pytest.raises(
        DataError, match=r"eval.jsonl is shorter than when the checkpoint was written"
    ):
        go_on(half)


def test_a_checkpoint_of_another_run_is_refused(half, golden):
    shutil.rmtree(half / "checkpoints")
    shutil.copytree(
        golden(extended(a_run(eval_every=8, seed=4), 24)) / "checkpoints", half / "checkpoints"
    )
    with pytest.raises(DataError, match="it belongs to another run") as refusal:
        go_on(half)
    assert refusal.value.code == 65


def test_a_checkpoint_of_another_format_is_refused(half):
    written = half / "checkpoints" / "24" / "manifest.json"
    other = {**json.loads(written.read_text()), "schema": 99}
    del other["sha256"]
    digest = hashlib.sha256(json.dumps(other, sort_keys=True).encode()).hexdigest()
    written.write_text(json.dumps(other | {"sha256": digest}))
    shutil.rmtree(half / "checkpoints" / "16")
    with pytest.raises(DataError, match="written in format 99, this version reads 2"):
        go_on(half)


def rewritten(path: Path, change: Callable[[Any], Any]) -> None:
    """Replace the checkpoint at 24 by one with another state, signed as it should be."""
    replay = Replay(20, Spec(3, 2), np.random.SeedSequence(0))
    checkpoints = Checkpoints(path, WHOLE.identity())
    snapshot, _ = checkpoints.restore()
    assert snapshot is not None
    checkpoints.refill(replay)
    shutil.rmtree(path / "checkpoints" / "24")
    Checkpoints(path, WHOLE.identity()).save(
        Snapshot(24, change(snapshot.arrays), snapshot.facts), replay
    )


LEAF = "agent.critic.online.params.params.critic_0.Dense_0.kernel"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda state: state | {LEAF: state[LEAF].astype(np.float64)}, (
            r"is \(\(5, 8\), .*float64.*\), this version has \(\(5, 8\), .*float32"
        )),
        (lambda state: state | {LEAF: state[LEAF][:, :7].copy()}, (
            r"is \(\(5, 7\), .*\), this version has \(\(5, 8\)"
        )),
        (lambda state: {name: leaf for name, leaf in state.items() if name != LEAF}, (
            "is missing, this version has"
        )),
    ],
    ids=["dtype", "shape", "missing"],
)  # fmt: skip
def test_a_leaf_that_does_not_fit_is_named(change, reason, half):
    rewritten(half, change)
    with pytest.raises(DataError, match=f"{LEAF} {reason}"):
        go_on(half)


def test_a_leaf_too_many_is_named(half):
    rewritten(half, lambda state: state | {"agent.soul": np.zeros(1, np.float32)})
    with pytest.raises(DataError, match=r"agent\.soul is .*this version has no such thing"):
        go_on(half)


def test_a_task_that_changed_its_sizes_since_is_refused_in_one_line(tmp_path, monkeypatch):
    run = a_run(task=toys.task("Growing"), eval_every=8)
    path = trained(extended(run, 16), tmp_path)
    prepare(run, tmp_path)
    monkeypatch.setenv("DUALAC_TEST_GROWN", "4")
    with pytest.raises(DataError):
        go_on(path)


def test_the_last_two_are_kept(golden):
    assert checkpoint_steps(golden(a_run())) == [32, 40]
    assert checkpoint_steps(golden(HALF)) == [16, 24]


def test_a_checkpoint_links_to_what_the_one_before_it_wrote_and_adds_only_what_is_new(golden):
    path = golden(a_run(capacity=100))
    names = [
        sorted(file.name for file in (path / "checkpoints" / step / "replay").iterdir())
        for step in ("32", "40")
    ]
    assert names[0] == sorted(f"{start}-{start + 8}.safetensors" for start in range(0, 32, 8))
    assert names[1] == sorted(f"{start}-{start + 8}.safetensors" for start in range(0, 40, 8))
    for name in names[0]:
        assert (path / "checkpoints" / "32" / "replay" / name).samefile(
            path / "checkpoints" / "40" / "replay" / name
        )


def test_files_of_transitions_that_were_overwritten_are_let_go(golden):
    assert sorted(file.name for file in (last(golden(a_run())) / "replay").iterdir()) == [
        "16-24.safetensors",
        "24-32.safetensors",
        "32-40.safetensors",
    ]


def kept(tmp_path: Path) -> tuple[Checkpoints, Replay]:
    return Checkpoints(tmp_path, "me"), Replay(100, Spec(1, 1), np.random.SeedSequence(0))


def lived(replay: Replay, count: int) -> None:
    for number in range(replay.added, replay.added + count):
        replay.add([number], [number], number, 1.0, [number + 1])


def test_a_replay_in_too_many_files_is_written_afresh_as_one(tmp_path):
    checkpoints, replay = kept(tmp_path)
    most = 0
    for step in range(1, MOST_SEGMENTS + 4):
        lived(replay, 1)
        checkpoints.save(Snapshot(step, {}, {}), replay)
        files = len(list((tmp_path / "checkpoints" / str(step) / "replay").iterdir()))
        most = max(most, files)
        assert replay_of(tmp_path / "checkpoints" / str(step), 100)["reward"].tolist() == list(
            range(step)
        )
    assert most == MOST_SEGMENTS
    assert files < 5


def test_a_replay_of_many_pieces_is_not_written_afresh_for_them(tmp_path):
    """Of 40 pieces all are linked to, however few files there may be beside whole pieces."""
    _, replay = kept(tmp_path)
    checkpoints = Checkpoints(tmp_path, "me", piece=2, most_segments=3)
    written = []
    for step, count in ((1, 80), (2, 2), (3, 2)):
        lived(replay, count)
        checkpoints.save(Snapshot(step, {}, {}), replay)
        written.append(
            {
                file.name: file.stat().st_ino
                for file in (tmp_path / "checkpoints" / str(step) / "replay").iterdir()
            }
        )
    assert [len(files) for files in written] == [40, 41, 42]
    assert written[0].items() < written[1].items() < written[2].items()


def test_a_file_system_without_hard_links_will_do(tmp_path, monkeypatch):
    def refuse(source, target):
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    checkpoints, replay = kept(tmp_path)
    for step in (1, 2, 3):
        lived(replay, 5)
        checkpoints.save(Snapshot(step, {"x": np.ones(1, np.float32)}, {}), replay)
    other = Replay(100, Spec(1, 1), np.random.SeedSequence(1))
    read = Checkpoints(tmp_path, "me")
    snapshot, damaged = read.restore()
    assert snapshot is not None and (snapshot.step, damaged) == (3, [])
    read.refill(other)
    assert other.read(0, 15)["reward"].tolist() == list(range(15))


def test_a_state_that_is_not_finite_is_never_written(tmp_path):
    checkpoints, replay = kept(tmp_path)
    with pytest.raises(RunFailedError, match=r"diverged: agent\.w is no longer finite at step 7"):
        checkpoints.save(Snapshot(7, {"agent.w": np.array([1.0, np.nan], np.float32)}, {}), replay)
    assert checkpoints.steps() == []


def test_reading_a_policy_changes_nothing_on_disk(golden, tmp_path):
    path = tmp_path / "run"
    shutil.copytree(golden(HALF), path)
    (path / "checkpoints" / ".partial-32").mkdir()
    (path / "checkpoints" / "24" / "state.safetensors").write_bytes(b"")
    before = sorted(path.rglob("*"))
    assert Checkpoints(path, HALF.identity()).peek()[0].step == 16
    assert sorted(path.rglob("*")) == before
    with pytest.raises(DataError, match="no checkpoint can be read"):
        Checkpoints(path, HALF.identity()).peek(24)


def full_disk(monkeypatch: pytest.MonkeyPatch, number: int, part: str) -> None:
    """No file whose path has this part can be flushed."""
    fsync = os.fsync

    def refuse(handle: int) -> None:
        if part in os.readlink(f"/proc/self/fd/{handle}"):
            raise OSError(number, os.strerror(number))
        fsync(handle)

    monkeypatch.setattr(os, "fsync", refuse)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EIO])
@pytest.mark.parametrize(
    "part", [".partial-32-2/state", ".partial-32-2/replay/", ".partial-32-2/manifest"]
)
def test_a_full_disk_ends_the_run_with_try_again_and_spoils_nothing(part, number, half, golden):
    with pytest.MonkeyPatch.context() as patch:
        full_disk(patch, number, part)
        with pytest.raises(
            TryAgainError,
            match=(
                r"the checkpoint at step 32 could not be written \(.*\); the one at step 24 is "
                r"good; free space and resume"
            ),
        ) as raised:
            go_on(half)
    assert raised.value.code == 75
    assert checkpoint_steps(half) == [16, 24]
    assert not list((half / "checkpoints").glob(".*"))
    assert not (half / "FAILED").exists()
    go_on(half)
    assert_same_run(half, golden(WHOLE))


def test_a_disk_too_full_for_the_logs_is_a_full_disk_too(half, golden):
    """A checkpoint flushes the logs first."""
    with pytest.MonkeyPatch.context() as patch:
        full_disk(patch, errno.ENOSPC, "/train.jsonl")
        with pytest.raises(TryAgainError) as raised:
            go_on(half)
    assert raised.value.code == 75
    assert not (half / "FAILED").exists()
    go_on(half)
    assert_same_run(half, golden(WHOLE))


def test_a_disk_too_full_for_a_row_of_the_log_is_a_full_disk_too(half, golden):
    class Full(Rollout):
        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs)
            append = self.log._append

            def refuse(name, row):
                if name == "train.jsonl":
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                append(name, row)

            self.log._append = refuse

    with pytest.raises(TryAgainError) as raised:
        go_on(half, make_rollout=Full)
    assert raised.value.code == 75
    assert not (half / "FAILED").exists()
    go_on(half)
    assert_same_run(half, golden(WHOLE))


def test_rows_are_there_once_each_after_a_resume(half, golden):
    go_on(half)
    steps = [(row["step"], row["episode"]) for row in rows(half, "eval.jsonl")]
    assert len(steps) == len(set(steps)) == 12


# ---- damage that was sealed again ----


def sealed_again(checkpoint: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    """Change the manifest as somebody would who knows how it is sealed."""
    file = checkpoint / "manifest.json"
    manifest = json.loads(file.read_text())
    del manifest["sha256"]
    change(manifest)
    digest = hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()
    file.write_text(json.dumps(manifest | {"sha256": digest}))


def files_again(checkpoint: Path) -> None:
    """Seal the checkpoint's files as they are now."""

    def measured(manifest: dict[str, Any]) -> None:
        for name in manifest["files"]:
            content = (checkpoint / name).read_bytes()
            about = {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
            manifest["files"][name] = about

    sealed_again(checkpoint, measured)


def last_file(manifest: dict[str, Any]) -> str:
    return max(manifest["files"], key=lambda name: int(re.sub(r"\D", "", name.split("-")[-1]) or 0))


def without(name: str) -> Callable[[dict[str, Any]], Any]:
    return lambda manifest: manifest.pop(name)


def without_fact(name: str) -> Callable[[dict[str, Any]], Any]:
    return lambda manifest: manifest["facts"].pop(name)


FIELDS = ("facts", "sampler", "files", "added", "step", "identity")
FACTS = ("episodes", "positions", "recent", "fingerprint")
SEALED: dict[str, Callable[[dict[str, Any]], Any]] = {
    **{f"without {name}": without(name) for name in FIELDS},
    **{f"without {name}": without_fact(name) for name in FACTS},
    "fewer added": lambda manifest: manifest.update(added=manifest["added"] - 1),
    "added is true": lambda manifest: manifest.update(added=True),
    "a replay file less": lambda manifest: manifest["files"].pop(last_file(manifest)),
    "a file elsewhere": lambda manifest: manifest["files"].update({"replay/../../x": {}}),
    "another sampler": lambda manifest: manifest.update(sampler={"state": 1}),
    "episodes a text": lambda manifest: manifest["facts"].update(episodes="many"),
    "recent a number": lambda manifest: manifest["facts"].update(recent=[7]),
    "a step that is not its own": lambda manifest: manifest.update(step=16),
}


@pytest.mark.parametrize("change", SEALED)
def test_a_manifest_that_no_run_wrote_is_damage_even_if_it_is_sealed(change, half):
    sealed_again(half / "checkpoints" / "24", SEALED[change])
    with read_as_a_run(half) as checkpoints:
        snapshot, damaged = checkpoints.restore()
    assert snapshot is not None and snapshot.step == 16
    assert len(damaged) == 1 and "24 is damaged (" in damaged[0]


@contextlib.contextmanager
def read_as_a_run(path: Path) -> Iterator[Checkpoints]:
    yield Checkpoints(path, WHOLE.identity(), spec=Spec(3, 2))


@pytest.mark.parametrize("value", [1e38, -1e38, np.inf, np.nan])
def test_a_state_of_numbers_that_nobody_learned_is_damage(value, half):
    file = half / "checkpoints" / "24" / "state.safetensors"
    state = safetensors.numpy.load_file(file)
    state[LEAF] = np.full_like(state[LEAF], value)
    file.write_bytes(safetensors.numpy.save(state))
    files_again(half / "checkpoints" / "24")
    with read_as_a_run(half) as checkpoints:
        snapshot, damaged = checkpoints.restore()
    assert snapshot is not None and snapshot.step == 16
    assert "not finite, or too large" in damaged[0]


def test_a_replay_file_of_other_shapes_is_refused_before_it_is_read(half):
    file = newest_segment(half / "checkpoints" / "24")
    arrays = safetensors.numpy.load_file(file)
    arrays["obs"] = np.zeros((8, 5), np.float32)
    file.write_bytes(safetensors.numpy.save(arrays))
    files_again(half / "checkpoints" / "24")
    with read_as_a_run(half) as checkpoints:
        checkpoints.restore()
        with pytest.raises(DataError, match=r"holds obs of shape \(5,\).*the task has \(3,\)"):
            checkpoints.refill(Replay(20, Spec(3, 2), np.random.SeedSequence(0)))


@pytest.mark.parametrize("place", ["checkpoints/24/state.safetensors", "checkpoints/24"])
def test_nothing_under_the_checkpoints_is_a_link(place, half, tmp_path):
    (half / place).rename(tmp_path / "elsewhere")
    (half / place).symlink_to(tmp_path / "elsewhere")
    snapshot, damaged = Checkpoints(half, WHOLE.identity()).peek()
    assert snapshot.step == 16
    assert "a symbolic link, which is not followed" in damaged[0]


def test_a_folder_of_checkpoints_that_is_a_link_is_refused(half, tmp_path):
    (half / "checkpoints").rename(tmp_path / "elsewhere")
    (half / "checkpoints").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(DataError, match="checkpoints is a symbolic link"):
        go_on(half)
    assert not (half / "FAILED").exists()


@pytest.mark.parametrize("name", ["eval.jsonl", "train.jsonl"])
def test_a_digit_changed_in_a_log_is_found_at_the_resume_and_nothing_is_cut(name, half):
    content = (half / name).read_bytes()
    place = content.rindex(b'"step": ') + 8
    (half / name).write_bytes(content[:place] + b"9" + content[place + 1 :] + b'{"step": 31}\n')
    before = {log: (half / log).read_bytes() for log in ("eval.jsonl", "train.jsonl")}
    with pytest.raises(DataError, match=rf"{name} is not what it was when the checkpoint"):
        go_on(half)
    assert before == {log: (half / log).read_bytes() for log in before}
    assert not (half / "FAILED").exists()


def test_a_checkpoint_of_an_older_version_is_resumed(half, golden):
    """It knows neither the digests of the logs, nor where the replay's files were cut."""

    def older(manifest: dict[str, Any]) -> None:
        del manifest["oldest"], manifest["cut"], manifest["facts"]["digests"]

    sealed_again(half / "checkpoints" / "24", older)
    go_on(half)
    assert events(half, "resumed")[0]["step"] == 24
    assert_same_run(half, golden(WHOLE))


# ---- left-overs ----


def test_a_third_checkpoint_and_half_files_are_cleared_away_at_the_next_start(half, golden):
    """A kill falls between a checkpoint and the end of the oldest."""
    shutil.copytree(half / "checkpoints" / "16", half / "checkpoints" / "8")
    (half / "DONE.1.partial").write_text("{")
    with read_as_a_run(half) as checkpoints:
        restore_together([checkpoints])
    assert checkpoint_steps(half) == [16, 24]
    Attempt.begin(half)
    assert not list(half.glob("*.partial"))


def test_a_run_that_was_stopped_ends_with_the_same_files_as_one_that_was_not(tmp_path):
    def files(stops: tuple[int, ...]) -> list[str]:
        path = tmp_path / str(stops)
        path.mkdir()
        replay, checkpoints = Replay(20, Spec(1, 1), np.random.SeedSequence(0)), None
        for step in sorted({8, 16, 24, 32, *stops}):
            if checkpoints is None or step - 1 in stops:
                checkpoints = Checkpoints(path, "me")
                checkpoints.restore()
            lived(replay, step - replay.added)
            checkpoints.save(Snapshot(step, {}, {}, step % 8 == 0), replay)
        assert replay_of(path / "checkpoints" / "32", 20)["reward"].tolist() == [*range(12, 32)]
        return sorted(file.name for file in (path / "checkpoints" / "32" / "replay").iterdir())

    assert files(()) == files((13,)) == files((21, 22)) == files((9, 27))


# ---- a writer that was given up ----


def test_a_checkpoint_that_was_being_written_when_a_successor_began_is_never_committed(tmp_path):
    """Wherever it stopped: at each permission, its successor begins and ends."""
    for moment in range(100):
        path = tmp_path / str(moment)
        path.mkdir()
        first = Attempt.begin(path)
        _, replay = kept(path)
        lived(replay, 5)
        Checkpoints(path, "me", attempt=first).save(Snapshot(1, {}, {}), replay)
        left = [moment]

        def permit(first=first, left=left, path=path) -> None:
            first.require()
            left[0] -= 1
            if left[0] < 0:
                Checkpoints(path, "me", attempt=Attempt.begin(path)).restore()

        woken = Checkpoints(path, "me", attempt=first)
        woken.restore()
        woken._permit = permit
        lived(replay, 5)
        before = files_of(path)
        try:
            woken.save(Snapshot(2, {}, {}), replay)
        except LockedError:
            assert files_of(path) == before, moment
            continue
        break
    assert moment > 4  # so many permissions were passed
    assert checkpoint_steps(path) == [1, 2]


def files_of(path: Path) -> dict[str, bytes]:
    return {
        str(file.relative_to(path)): file.read_bytes()
        for file in path.rglob("*")
        if file.is_file() and file.name != "attempt"
    }


def test_a_trainer_that_wakes_marks_nothing_failed_and_ends_with_73(half, golden):
    """Its successor has begun; then it meets an error."""

    class Woken(Rollout):
        def save(self, *what: Any) -> None:
            Attempt.begin(self.path)
            raise FileNotFoundError("a folder that the successor has cleared away")

    before = files_of(half)
    with pytest.raises(LockedError, match="has begun") as refusal:
        go_on(half, make_rollout=Woken)
    assert refusal.value.code == 73
    changed = {name for name, content in files_of(half).items() if before.get(name) != content}
    assert changed <= {"events.jsonl", "train.jsonl", "eval.jsonl", "lock", "task.json"}
    go_on(half)
    assert_same_run(half, golden(WHOLE))


# ---- a run that is to go further ----


def a_lost_checkpoint(path: Path) -> None:
    shutil.rmtree(path / "checkpoints")


def damaged_checkpoints(path: Path) -> None:
    for file in path.rglob("state.safetensors"):
        file.write_bytes(b"x")


def a_damaged_row(path: Path) -> None:
    with (path / "eval.jsonl").open("r+b") as file:
        file.write(b"x")


def checkpoints_that_are_a_link(path: Path) -> None:
    (path / "checkpoints").rename(path / "elsewhere")
    (path / "checkpoints").symlink_to("elsewhere")


@pytest.mark.parametrize(
    "damage", [a_lost_checkpoint, damaged_checkpoints, a_damaged_row, checkpoints_that_are_a_link]
)
def test_a_finished_run_that_cannot_go_further_is_refused_and_stays_finished(
    damage, golden, tmp_path
):
    path = HALF.directory(tmp_path)
    shutil.copytree(golden(HALF), path)
    damage(path)
    before = files_of(path)
    with pytest.raises(DataError) as refusal:
        prepare(WHOLE, tmp_path)
    assert refusal.value.code == 65
    assert files_of(path) == before
    assert read_status(path, 24).state == "done"
    assert not (path / "FAILED").exists()
