"""An environment that misbehaves costs an episode, or ends the run with a sentence."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.attack import holes, tally
from tests.attack.driver import Driver
from tests.attack.setups import Setup, runs_below
from tests.attack.test_mutations import CODES, CONTROL, CRASH, MOST_MEMORY

pytestmark = pytest.mark.attack
PART = "environments"
ISOLATE = ("--isolate-env",)
ENDS = ("Exits", "Aborts", "Crashes", "ReadsNull")  # the process with it, where it is not isolated


class Case(NamedTuple):
    toy: str
    isolated: bool = False
    codes: tuple[int, ...] = (0,)
    says: str = ""

    @property
    def name(self) -> str:
        return self.toy + (", isolated" if self.isolated else "")


COSTS_AN_EPISODE = (
    "NanReward",
    "NanObservation",
    "AnotherShape",
    "Raises",
    "RaisesInReset",
    "RaisesInClose",
    "SystemExits",
    "SystemExitsInReset",
    "Interrupts",
    "GeneratorExits",
    "Prints",
    "Slow",
    "Recurses",
    "RunsOutOfMemory",
)
CASES = [
    *[Case(toy) for toy in COSTS_AN_EPISODE],
    *[Case(toy, isolated=True) for toy in (*COSTS_AN_EPISODE, *ENDS)],
    *[Case(toy, codes=tuple(range(1, 256)), says="--isolate-env") for toy in ENDS],
    Case("HugeReward", codes=(65,)),
    Case("Endless", says="--time-limit"),
    Case("Endless", isolated=True, says="--time-limit"),
]


@pytest.mark.parametrize("case", tally.some(CASES, 4), ids=lambda case: case.name)
def test_a_bad_environment_costs_an_episode_or_ends_in_a_sentence(
    driver: Driver, case: Case, request: pytest.FixtureRequest
) -> None:
    holes.mark(request, f"environments/{case.name}")
    problems = played(driver, case)
    tally.count(PART, "environments")
    for what in problems:
        tally.note(PART, f"{case.name}: {what}")
    holes.settle(f"environments/{case.name}", problems)
    assert not problems, "\n".join(problems)


def played(driver: Driver, case: Case) -> list[str]:
    out = driver.scratch / "played"
    shutil.rmtree(out, ignore_errors=True)
    how = ISOLATE if case.isolated else ()
    setup = Setup(case.name, "sac", how, f"tests.attack.toys:{case.toy}-v0")
    ended = driver.run(*setup.train(out), memory=16 << 30, patience=180)
    problems = []
    said = ended.err.strip()[-300:]
    if ended.hung:
        problems.append("hangs")
    elif ended.code not in case.codes:
        problems.append(f"ends with {ended.code}: {said}")
    if ended.code and len(ended.err.strip().splitlines()) != 1 and not ended.hung:
        problems.append(f"not one sentence: {said}")
    if "Traceback" in ended.text or CONTROL.search(ended.text):
        problems.append(f"a traceback or control characters: {said}")
    if case.says not in ended.text:
        problems.append(f"does not say {case.says}: {said}")
    if ended.peak > MOST_MEMORY:
        problems.append(f"takes {ended.peak >> 20} MB")
    if case.codes == (0,) and not all((run / "DONE").exists() for run in runs_below(out)):
        problems.append("is not done")
    return problems


@pytest.fixture(scope="session")
def keyed(driver: Driver) -> Path:
    """Train in an environment that observes a dictionary."""
    out = driver.scratch / "keyed"
    setup = Setup("keyed", "sac", (), "tests.attack.toys:Keyed-v0")
    assert driver.run(*setup.train(out)).code == 0
    return runs_below(out)[0]


@pytest.mark.parametrize("command", ["evaluate", "play"])
@pytest.mark.parametrize("what", ["keys", "range"])
def test_an_environment_that_is_not_the_one_learned_from_is_refused(
    driver: Driver, keyed: Path, what: str, command: str, request: pytest.FixtureRequest
) -> None:
    case = f"environments/{command}, other {what}"
    holes.mark(request, case)
    extra = ("--episodes", "1") if command == "evaluate" else ("--video", driver.scratch / "f.mp4")
    ended = driver.run(command, keyed, *extra, env={"ATTACK_SWAPPED": what})
    tally.count(PART, "swapped environments")
    problems = [] if ended.code == 65 else [f"ends with {ended.code}: {ended.text[-300:]}"]
    for sentence in problems:
        tally.note(PART, f"{command}, other {what}: {sentence}")
    holes.settle(case, problems)
    assert not problems


def test_what_cannot_be_drawn_is_refused_in_one_sentence(driver: Driver) -> None:
    out = driver.scratch / "undrawable"
    setup = Setup("undrawable", "sac", (), "tests.attack.toys:Undrawable-v0")
    assert driver.run(*setup.train(out)).code == 0
    ended = driver.run("play", runs_below(out)[0], "--video", driver.scratch / "film.mp4")
    tally.count(PART, "films")
    assert ended.code in CODES
    assert ended.code != 0
    assert not CRASH.search(ended.text.replace("RuntimeError", ""))
