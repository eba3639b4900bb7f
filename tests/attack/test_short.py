"""A short form of each attack: what is to join the tier of kills."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.attack import holes
from tests.attack.driver import Driver
from tests.attack.setups import Setup, golden
from tests.attack.test_disk import FAULTS, FILES, calls, struck
from tests.attack.test_environments import Case as Environment
from tests.attack.test_environments import played
from tests.attack.test_kills import killed_run
from tests.attack.test_mutations import cases, damaged_run, healthy, specimens  # noqa: F401

pytestmark = pytest.mark.attack
SAC = Setup("sac", "sac")
MUTATIONS = (
    "finished/run.json/cut_short/0",
    "finished/checkpoints/{last}/manifest.json/cut_short/0",
    "interrupted/checkpoints/{last}/state.safetensors/flipped_bit/0",
)


def test_a_random_kill_changes_no_number(driver: Driver) -> None:
    _, problems = killed_run(driver, golden(driver, SAC), "sac#0")
    assert not problems


@pytest.mark.parametrize("kind", FAULTS)
def test_a_checkpoint_whose_writing_fails_changes_no_number(driver: Driver, kind: str) -> None:
    all_calls = calls(driver, SAC)
    commits = [n for n, line in enumerate(all_calls, 1) if re.search("rename .*points/24$", line)]
    problems = struck(driver, SAC, golden(driver, SAC).runs, commits[0], FAULTS[kind])
    assert not [what for what in problems if not what.startswith(FILES)]


@pytest.mark.parametrize("name", MUTATIONS)
def test_damage_is_named(
    driver: Driver,
    name: str,
    specimens: dict[str, Path],  # noqa: F811
    healthy: dict[str, dict[str, str]],  # noqa: F811
    request: pytest.FixtureRequest,
) -> None:
    holes.mark(request, f"mutations/{name}")
    case = next(case for case in cases() if case.name == name)
    assert not damaged_run(driver, case, specimens, healthy)


def test_an_environment_that_exits_costs_an_episode(driver: Driver) -> None:
    assert not played(driver, Environment("SystemExits"))
