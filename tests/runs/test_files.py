"""A run's files, read and written: nothing leads out of the directory, nothing is waited for, and
what cannot be used is one sentence.
"""

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from dualac.errors import DataError, LockedError
from dualac.runs.files import DamagedFileError, open_file, read_object, write_json, write_text
from dualac.runs.lock import Attempt, is_at_work, owned
from dualac.runs.rows import RowWriter, digest, last_step, read_rows


def link_outside(file: Path) -> None:
    victim = file.parent.parent / "victim"
    victim.write_text("{}\n")
    file.symlink_to(victim)


def link_to_nothing(file: Path) -> None:
    file.symlink_to(file.parent.parent / "not-there")


def link_to_itself(file: Path) -> None:
    file.symlink_to(file.name)


def device(file: Path) -> None:
    file.symlink_to("/dev/zero")


IN_ITS_PLACE: dict[str, Callable[[Path], None]] = {
    "link_outside": link_outside,
    "link_to_nothing": link_to_nothing,
    "link_to_itself": link_to_itself,
    "device": device,
    "fifo": os.mkfifo,
    "directory": Path.mkdir,
}


def own(file: Path) -> None:
    with owned(file.parent):
        pass


USES: dict[str, Callable[[Path], object]] = {
    "eval.jsonl": RowWriter,
    "train.jsonl": read_rows,
    "lock": own,
    "attempt": lambda file: Attempt.begin(file.parent),
    "run.json": read_object,
    "worker.log": lambda file: open_file(file, "ab"),
    "task.json": lambda file: open_file(file, "wb"),
}


@pytest.fixture
def within_seconds():
    """End a test that waits for a FIFO."""
    signal.alarm(20)
    yield
    signal.alarm(0)


@pytest.mark.parametrize("what", IN_ITS_PLACE)
@pytest.mark.parametrize("name", USES)
def test_what_is_no_regular_file_is_refused_in_a_sentence_and_nothing_is_written_elsewhere(
    name, what, tmp_path, within_seconds
):
    run = tmp_path / "run"
    run.mkdir()
    IN_ITS_PLACE[what](run / name)
    before = sorted(tmp_path.iterdir())
    with pytest.raises(DamagedFileError, match=rf"{name} is a .*; remove it$") as refusal:
        USES[name](run / name)
    assert refusal.value.code == 65
    assert sorted(tmp_path.iterdir()) == before
    if what == "link_outside":
        assert (tmp_path / "victim").read_text() == "{}\n"


def test_a_run_that_is_itself_reached_through_a_link_is_fine(tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "link").symlink_to("run")
    write_json(tmp_path / "link" / "run.json", {"a": 1})
    assert read_object(tmp_path / "link" / "run.json") == {"a": 1}


def test_writing_a_file_whole_where_a_directory_stands_is_one_sentence(tmp_path):
    (tmp_path / "DONE").mkdir()
    with pytest.raises(DamagedFileError, match="is a directory, not a regular file; remove it"):
        write_json(tmp_path / "DONE", {})
    assert [file.name for file in tmp_path.iterdir()] == ["DONE"]


@pytest.mark.parametrize(
    "content",
    [
        '{"a":' * 100_000 + "1" + "}" * 100_000,
        '{"a":' * 60 + "1" + "}" * 60,
        '{"a": 1' + "0" * 400 + "}",
        "[]",
        "",
        '{"a": "\\ud8"}',
        b"\xff\xfe\x00",
    ],
    ids=["deepest", "deep", "huge", "list", "empty", "half", "bytes"],
)
def test_json_that_cannot_be_used_is_one_sentence(content, tmp_path):
    file = tmp_path / "machine.json"
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(DamagedFileError) as refusal:
        read_object(file)
    assert refusal.value.code == 65 and len(str(refusal.value)) < 300


def test_a_file_of_many_bytes_is_refused_before_it_is_read(tmp_path):
    file = tmp_path / "machine.json"
    file.write_text("{}")
    os.truncate(file, 2**33)  # sparse
    with pytest.raises(DamagedFileError, match="has more than 67108864 bytes"):
        read_object(file)


def test_text_that_would_steer_a_terminal_is_escaped(tmp_path):
    hostile = "a\x1b[2J\x00\x9b\u202e\ud800\tb\n"
    (tmp_path / "FAILED").write_text(json.dumps({hostile: [hostile]}))
    (tmp_path / "events.jsonl").write_text(json.dumps({"event": hostile}) + "\n")
    harmless = "a\\x1b[2J\\x00\\x9b\\u202e\\ud800\tb\n"
    assert read_object(tmp_path / "FAILED") == {harmless: [harmless]}
    assert read_rows(tmp_path / "events.jsonl") == [{"event": harmless}]


@pytest.mark.parametrize(
    "line",
    ['{"step": 1}{"step": 2}', '{"step": ' + "[" * 99 + "]" * 99 + "}", "x" * 2**21, '{"step": 1'],
    ids=["joined", "deep", "long", "cut"],
)
def test_a_damaged_row_is_named_wherever_it_is(line, tmp_path):
    file = tmp_path / "eval.jsonl"
    file.write_text(f'{{"step": 0}}\n{line}\n{{"step": 3}}\n')
    with pytest.raises(DataError, match=r"eval.jsonl, line 2 is damaged"):
        read_rows(file)
    damaged = []
    assert [row["step"] for row in read_rows(file, damaged)] == [0, 3]
    assert len(damaged) == 1
    assert last_step(file) == 3 and digest(file, 3) == digest(file)


def test_a_lock_of_another_shape_belongs_to_nobody(tmp_path):
    for content in ("[]", "{" * 10_000, '{"pid": "me", "host": []}', "\x1b"):
        (tmp_path / "lock").write_text(content)
        assert not is_at_work(tmp_path)


# ---- a writer that was given up ----


def test_a_writer_that_wakes_moves_nothing_to_its_place(tmp_path):
    first = Attempt.begin(tmp_path)
    write_json(tmp_path / "DONE", {"by": 1}, first.require)
    second = Attempt.begin(tmp_path)
    with pytest.raises(LockedError, match="attempt 1 of it, and attempt 2 has begun"):
        write_json(tmp_path / "DONE", {"by": "a ghost"}, first.require)
    write_text(tmp_path / "traceback.txt", "", second.require)
    assert read_object(tmp_path / "DONE") == {"by": 1}
    assert not list(tmp_path.glob("*.partial"))


def test_what_a_writer_was_about_to_move_is_gone_when_it_wakes(tmp_path):
    """It stopped after its permission, just before the move."""
    first = Attempt.begin(tmp_path)

    def permit_and_stop() -> None:
        first.require()
        Attempt.begin(tmp_path)

    with pytest.raises(LockedError), first.fencing():
        write_json(tmp_path / "FAILED", {}, permit_and_stop)
    assert [file.name for file in tmp_path.iterdir()] == ["attempt"]


def test_a_row_that_was_permitted_before_the_successor_began_is_in_nobodys_file(tmp_path):
    first = Attempt.begin(tmp_path)
    log = RowWriter(tmp_path / "eval.jsonl", first.require)
    log.append({"step": 1})
    successors: list[RowWriter] = []

    def permit_and_stop() -> None:
        first.require()
        successors.append(RowWriter(tmp_path / "eval.jsonl", Attempt.begin(tmp_path).require))

    log._permit = permit_and_stop
    log.append({"step": 2})
    successors[0].append({"step": 3})
    assert [row["step"] for row in read_rows(tmp_path / "eval.jsonl")] == [1, 3]
    log._permit = first.require
    with pytest.raises(LockedError):
        log.append({"step": 4})
    for writer in (log, *successors):
        writer.close()


def test_two_attempts_of_one_number_are_not_one(tmp_path):
    """They began at the same moment, where locks do not reach."""
    first = Attempt.begin(tmp_path)
    (tmp_path / "attempt").write_text("0\n")
    Attempt.begin(tmp_path)
    with pytest.raises(LockedError):
        first.require()


def test_an_owner_leaves_the_name_of_a_later_one_in_the_lock(tmp_path):
    with owned(tmp_path):
        (tmp_path / "lock").write_text('{"pid": 1, "host": "elsewhere"}')
    assert read_object(tmp_path / "lock")["host"] == "elsewhere"


def test_the_attempt_of_an_older_version_is_counted_on(tmp_path):
    (tmp_path / "attempt").write_text("7")
    assert Attempt.begin(tmp_path).number == 8
