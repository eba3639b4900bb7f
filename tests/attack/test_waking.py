"""A trainer that was stopped, lost its lock and wakes later spoils nothing of its successor's."""

from __future__ import annotations

import os
import shutil
import signal
import time
from pathlib import Path

import pytest
from tests.attack import holes, tally
from tests.attack.compare import differences, digests
from tests.attack.driver import PATIENCE, Command, Driver
from tests.attack.setups import Golden, Setup, golden, runs_below
from tests.attack.test_disk import calls

pytestmark = pytest.mark.attack
SETUP = Setup("sac", "sac")
MOMENTS = 52
STOP = -1
PART = "waking"
ITS_OWN = ("worker.log",)  # where a process says why it ends


def stop_at(driver: Driver, out: Path, call: int) -> tuple[Command, int]:
    """Start a run that stands still before this call; return the process that stands."""
    log = driver.scratch / "calls"
    log.unlink(missing_ok=True)
    fault = {"root": str(out), "log": str(log), "at": call, "error": STOP}
    command = driver.start(*SETUP.train(out), fault=fault)
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until and command.poll() is None:
        for pid in command.workers():
            if state_of(pid) == "T":
                return command, pid
        time.sleep(0.005)
    command.kill()
    command.wait()
    raise AssertionError(f"call {call} never came")


def state_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "gone"


def woken(driver: Driver, undisturbed: Golden, call: int) -> list[str]:
    """Stop at a call, let a successor finish, wake; what went wrong."""
    out = driver.scratch / "woken"
    shutil.rmtree(out, ignore_errors=True)
    first, pid = stop_at(driver, out, call)
    run = runs_below(out)[0]
    (run / "lock").unlink()  # as on a file system without locks
    try:
        successor = driver.run(*SETUP.resume(out))
        before = written(run)
    finally:
        os.kill(pid, signal.SIGCONT)
        ended = first.wait()
    problems = []
    if successor.code:
        problems.append(
            f"the successor ended with {successor.code}: {successor.err.strip()[-300:]}"
        )
    if ended.hung or ended.code != 73:
        problems.append(f"the woken one ended with {ended.code}: {ended.err.strip()[-300:]}")
    after = written(run)
    changed = sorted(n for n in before | after if before.get(n) != after.get(n))
    if changed:
        problems.append(f"the woken one wrote {', '.join(changed)}")
    return problems + differences(run, undisturbed.runs[0])


def written(run: Path) -> dict[str, str]:
    return {name: value for name, value in digests(run).items() if name not in ITS_OWN}


def moments(all_calls: list[str]) -> list[int]:
    """Choose calls of the trainer once it has begun its attempt, evenly spread."""
    first = next(n for n, line in enumerate(all_calls, 1) if line.endswith("/attempt")) + 1
    usable = list(range(first, len(all_calls) + 1))
    usable = [n for n in usable if "curve.png" not in all_calls[n - 1]]
    return [usable[place * len(usable) // MOMENTS] for place in range(MOMENTS)]


@pytest.mark.parametrize("moment", tally.some(list(range(MOMENTS)), 2))
def test_a_trainer_that_wakes_after_its_successor_writes_nothing(
    driver: Driver, moment: int, all_calls: list[str], request: pytest.FixtureRequest
) -> None:
    call = moments(all_calls)[moment]
    _, what, file = all_calls[call - 1].split(" ", 2)
    case = f"waking/{what} {file.partition('/seed0/')[2]}"
    holes.mark(request, case)
    problems = woken(driver, golden(driver, SETUP), call)
    tally.count(PART, "moments")
    for problem in problems:
        tally.note(PART, f"stopped before {case}: {problem}")
    holes.settle(case, problems)
    assert not problems, "\n".join(problems)


@pytest.fixture(scope="session")
def all_calls(driver: Driver) -> list[str]:
    return calls(driver, SETUP)
