"""A kill, a full disk and a failing one at each call that changes a file of a run."""

from __future__ import annotations

import errno
import shutil
from pathlib import Path

import pytest
from tests.attack import tally
from tests.attack.compare import differences, file_differences
from tests.attack.driver import Driver, Ended
from tests.attack.setups import Setup, golden, require_done, runs_below

pytestmark = pytest.mark.attack
SETUPS = [
    Setup("sac", "sac"),
    Setup("sac, replay on disk", "sac", ("--replay-in", "disk")),
    Setup("sac, pack", "sac", ("--seeds", "2", "--pack")),
]
FAULTS = {"kill": 0, "ENOSPC": errno.ENOSPC, "EIO": errno.EIO}
# Marks that something differs in the names of files only.
FILES = "files: "


def calls(driver: Driver, setup: Setup) -> list[str]:
    """List the calls of an undisturbed run, in their order."""
    out, log = driver.scratch / "counted", driver.scratch / "calls"
    shutil.rmtree(out, ignore_errors=True)
    log.unlink(missing_ok=True)
    fault = {"root": str(out), "log": str(log), "at": 0, "error": 0}
    require_done(driver.run(*setup.train(out), fault=fault), setup.name)
    return log.read_text().splitlines()


@pytest.mark.parametrize("kind", FAULTS)
@pytest.mark.parametrize("setup", SETUPS, ids=lambda setup: setup.name)
def test_no_call_that_fails_changes_a_number(driver: Driver, setup: Setup, kind: str) -> None:
    undisturbed, all_calls = golden(driver, setup), calls(driver, setup)
    broken = []
    for call in tally.some(list(range(1, len(all_calls) + 1)), 8):
        problems = struck(driver, setup, undisturbed.runs, call, FAULTS[kind])
        tally.count(f"disk, {kind}", "calls")
        where = f"{setup.name}, {kind} at {all_calls[call - 1]}"
        for what in problems:
            tally.note(f"disk, {kind}", f"{where}: {what}")
            tally.count(f"disk, {kind}", "other files" if what.startswith(FILES) else "failures")
        broken += [f"{where}: {what}" for what in problems if not what.startswith(FILES)]
    assert not broken, "\n".join(broken)


def struck(driver: Driver, setup: Setup, right: list[Path], call: int, error: int) -> list[str]:
    """Train with one call that fails, resume, compare; what is wrong."""
    out, log = driver.scratch / "struck", driver.scratch / "calls"
    shutil.rmtree(out, ignore_errors=True)
    log.unlink(missing_ok=True)
    fault = {"root": str(out), "log": str(log), "at": call, "error": error}
    ended = driver.run(*setup.train(out), fault=fault)
    problems = judge_end(ended, error)
    complete = len(runs_below(out)) == len(right)
    again = driver.run(*(setup.resume(out) if complete else setup.train(out)))
    if again.code or again.hung:
        return [*problems, f"the resume ended with {again.code}: {again.err.strip()[-400:]}"]
    for run, golden_run in zip(runs_below(out), right, strict=True):
        problems += differences(run, golden_run)
        problems += [FILES + what for what in file_differences(run, golden_run)]
    return problems


def judge_end(ended: Ended, error: int) -> list[str]:
    """Of the command that met the failing call."""
    if ended.hung:
        return ["it hung"]
    if not error:
        return []
    problems = []
    if ended.code not in (0, 75):
        problems.append(f"it ended with {ended.code}: {ended.err.strip()[-400:]}")
    if "Traceback" in ended.text or "internal error" in ended.text:
        problems.append(f"a traceback: {ended.err.strip()[-400:]}")
    if ended.code == 75 and len(ended.err.strip().splitlines()) != 1:
        problems.append(f"not one sentence: {ended.err.strip()[-400:]}")
    return problems
