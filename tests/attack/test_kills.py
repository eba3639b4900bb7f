"""A run that is killed at random moments, and resumed, has the numbers of one that was not."""

from __future__ import annotations

import os
import random
import shutil
import signal
import time
from pathlib import Path

import pytest
from tests.attack import tally
from tests.attack.compare import differences, file_differences
from tests.attack.driver import Command, Driver
from tests.attack.setups import Golden, Setup, all_setups, golden, runs_below

pytestmark = pytest.mark.attack
KILLS = 1000  # over all set-ups
SETUPS = all_setups()
MOST_STARTS = 12


@pytest.mark.parametrize("setup", tally.some(SETUPS, 3), ids=lambda setup: setup.name)
def test_random_kills_change_no_number(driver: Driver, setup: Setup) -> None:
    undisturbed = golden(driver, setup)
    kills = -(-tally.share(KILLS) // len(SETUPS))
    case, broken = 0, []
    while kills > 0:
        name = f"{setup.name}#{case}"
        if not tally.ONLY or name == tally.ONLY:
            done, problems = killed_run(driver, undisturbed, name)
            kills -= done
            tally.count("random kills", "kills", done)
            broken += problems
        case += 1
    assert not broken, "\n".join(broken)


def killed_run(driver: Driver, undisturbed: Golden, name: str) -> tuple[int, list[str]]:
    """Kill a run one to three times, resume it to its end; how many kills, and what differs."""
    chance = random.Random(f"{tally.SEED} {name}")
    setup, out = undisturbed.setup, driver.scratch / "killed"
    shutil.rmtree(out, ignore_errors=True)
    done = 0
    for _ in range(chance.randint(1, 3)):
        pulse = driver.scratch / "pulse"
        pulse.unlink(missing_ok=True)
        fresh = not runs_below(out)
        argv = setup.train(out) if fresh else setup.resume(out)
        command = driver.start(*argv, env={"ATTACK_PULSE": str(pulse)})
        wait_for_moment(command, chance, undisturbed, pulse)
        done += kill_part(command, chance)
        command.wait()
    tally.count("random kills", "runs")
    trouble = finish(driver, setup, out)
    if trouble:
        return done, [f"{name} (seed {tally.SEED}): {trouble}"]
    broken = []
    for run, right in zip(runs_below(out), undisturbed.runs, strict=True):
        if problems := differences(run, right):
            tally.count("random kills", "runs with other numbers")
            tally.note("random kills", f"{name}, seed {tally.SEED}: {'; '.join(problems)}")
            broken.append(f"{name} (seed {tally.SEED}): {'; '.join(problems)}")
        if problems := file_differences(run, right):
            tally.count("random kills", "runs with other files")
            tally.note("random kills", f"{name}, seed {tally.SEED}: {'; '.join(problems)}")
    return done, broken


def wait_for_moment(command: Command, chance: random.Random, run: Golden, pulse: Path) -> None:
    """Anywhere in its time, or at a random step of its environment and a little later."""
    if chance.random() < 0.2:
        until = time.monotonic() + chance.uniform(0, 1.1 * run.seconds)
        while time.monotonic() < until and command.poll() is None:
            time.sleep(0.005)
        return
    wanted = chance.randint(1, run.pulses)
    while command.poll() is None and (not pulse.exists() or pulse.stat().st_size < wanted):
        time.sleep(0.001)
    time.sleep(chance.choice([0, 0, chance.uniform(0, 0.02), chance.uniform(0, 0.2)]))


def kill_part(command: Command, chance: random.Random) -> int:
    """Kill the trainer, or who started it, or both; 1 if anything was there to be killed."""
    if command.poll() is not None:
        return 0
    workers = command.workers()
    victim = chance.choice(["trainer", "starter", "both"])
    if victim == "both" or not workers:
        command.kill()
    else:
        try:
            os.kill(workers[0] if victim == "trainer" else command.pid, signal.SIGKILL)
        except ProcessLookupError:
            return 0
    return 1


def finish(driver: Driver, setup: Setup, out: Path) -> str | None:
    """Start it until it is done, as a user would; a sentence if it does not come to that."""
    for _ in range(MOST_STARTS):
        below = runs_below(out)
        seeds = 2 if "--seeds" in setup.how else 1
        ended = driver.run(*(setup.resume(out) if len(below) == seeds else setup.train(out)))
        if ended.hung:
            return f"a resume hung: {ended.text}"
        if ended.code == 0:
            return None
        if ended.code != 73:  # its predecessor, which lost its starter, is still checkpointing
            return f"a resume ended with {ended.code}: {ended.text}"
        time.sleep(1.0)
    return "never done"
