"""Damage to any file of a run is named in one sentence, or harmless; it never passes in silence."""

from __future__ import annotations

import os
import random
import re
import shutil
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.attack import holes, tally
from tests.attack.compare import differences, digests
from tests.attack.driver import Driver, Ended
from tests.attack.mutations import Damage, kinds
from tests.attack.setups import Setup, golden, require_done, runs_below

pytestmark = pytest.mark.attack
SETUP = Setup("sac", "sac")
PART = "mutations"
CODES = (0, 64, 65, 69, 73, 75)
MOST_MEMORY = 1 << 30
PATIENCE = float(os.environ.get("DUALAC_ATTACK_PATIENCE", "90"))
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\udc80-\udcff]")
CRASH = re.compile(
    r"Traceback|internal error|RecursionError|panicked|TypeError|KeyError|AttributeError"
    r"|IndexError|AssertionError|ValueError|OSError|UnicodeDecodeError|MemoryError"
)

STATES = ("finished", "interrupted")
COMMANDS = ("status", "show", "report", "collect", "evaluate", "resume")
# Of the checkpoints' files the newest, and of the replay its oldest and newest.
FILES = (
    "run.json",
    "task.json",
    "machine.json",
    "eval.jsonl",
    "train.jsonl",
    "events.jsonl",
    "DONE",
    "FAILED",
    "lock",
    "attempt",
    "worker.log",
    "checkpoints/{last}/manifest.json",
    "checkpoints/{last}/state.safetensors",
    "checkpoints/{last}/replay/{oldest}.safetensors",
    "checkpoints/{last}/replay/{newest}.safetensors",
    "checkpoints/{last}",
    "checkpoints",
)
# What a resume leaves as it is where a run is finished, and what holds no number.
NO_NUMBERS = ("run.json", "task.json")
REPEATS = 3  # of what chance decides


class Case(NamedTuple):
    state: str
    file: str
    damage: Damage
    turn: int

    @property
    def name(self) -> str:
        return f"{self.state}/{self.file}/{self.damage.__name__}/{self.turn}"


def cases() -> list[Case]:
    """All of them: each kind of damage to each file, those of chance several times."""
    chosen = []
    for state in STATES:
        for file in FILES:
            if (file, state) in (("DONE", "interrupted"), ("FAILED", "finished")):
                continue
            whole = file.endswith(("{last}", "checkpoints"))
            for damage in kinds("directory" if whole else file):
                if whole and damage.__name__ in ("flipped_bit", "cut_short", "emptied", "garbage"):
                    continue
                once = damage.__name__ in ("emptied", "removed", "fifo", "directory", "link_loop")
                once |= damage.__name__ in ("long_line", "bigger", "device", "deep_header")
                chosen += [
                    Case(state, file, damage, turn) for turn in range(1 if once else REPEATS)
                ]
    return chosen


@pytest.fixture(scope="session")
def specimens(driver: Driver) -> dict[str, Path]:
    """Make a finished run, and one killed as it was about to name its last checkpoint."""
    finished = golden(driver, SETUP).out
    log, out = driver.scratch / "calls", driver.scratch / "interrupted"
    fault = {"root": str(out), "log": str(log), "at": 0, "error": 0}
    require_done(driver.run(*SETUP.train(out), fault=fault), "a run that is counted")
    lines = log.read_text().splitlines()
    at = next(n for n, line in enumerate(lines, 1) if re.search(r"rename .*checkpoints/40$", line))
    shutil.rmtree(out)
    driver.run(*SETUP.train(out), fault=fault | {"at": at})
    assert not (runs_below(out)[0] / "DONE").exists()
    return {"finished": finished, "interrupted": out}


@pytest.fixture(scope="session")
def healthy(driver: Driver, specimens: dict[str, Path]) -> dict[str, dict[str, str]]:
    """Record what each command says, and writes, of an undamaged run."""
    said = {}
    for state, specimen in specimens.items():
        out = driver.scratch / "healthy" / "runs"
        shutil.rmtree(out.parent, ignore_errors=True)
        shutil.copytree(specimen, out, symlinks=True)
        said[state] = {name: telling(driver, name, out)[1] for name in COMMANDS}
    return said


def telling(driver: Driver, name: str, out: Path) -> tuple[Ended, str]:
    """Run a command on a directory; its numbers as text."""
    run = runs_below(out)[0] if runs_below(out) else out
    run = out / "sac" / "gym-tests.attack.toys-Drift-v0" / "rr2" / "seed0" if run == out else run
    argv: list[object] = [name, run]
    results = out.parent / f"results-{name}"
    shutil.rmtree(results, ignore_errors=True)
    match name:
        case "report":
            argv += ["--out", results / "report.html"]
            results.mkdir()
        case "collect":
            argv += ["--out", results]
        case "evaluate":
            argv += ["--episodes", "2", "--json"]
        case "resume":
            argv += ["--threads", "1", "--quiet"]
    ended = driver.run(*argv, patience=PATIENCE, memory=16 << 30)
    if name in ("report", "collect"):
        text = "".join(
            path.read_text(errors="replace")
            for path in sorted(results.rglob("*"))
            if path.suffix in (".html", ".csv")
        )
    else:
        text = ended.out
    return ended, plain(text, out.parent)


def plain(text: str, place: Path) -> str:
    """Without paths and times."""
    text = text.replace(str(place), "PLACE")
    text = re.sub(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?([+-]\d{4})?", "TIME", text)
    return re.sub(r"results-\w+", "RESULTS", text)


def judge(ended: Ended) -> list[str]:
    """Name what a command did that none may do, whatever it is given."""
    problems = []
    if ended.hung:
        problems.append("hangs")
    elif ended.code not in CODES:
        problems.append(f"ends with {ended.code}")
    if match := CRASH.search(ended.text):
        problems.append(f"says {match.group()}")
    if CONTROL.search(ended.text):
        problems.append("control characters")
    if ended.peak > MOST_MEMORY:
        problems.append(f"takes {ended.peak >> 20} MB")
    if ended.code > 0 and not ended.err.strip():
        problems.append(f"ends with {ended.code} without a word")
    return problems


def damaged_run(
    driver: Driver, case: Case, specimens: dict[str, Path], healthy: dict[str, dict[str, str]]
) -> list[str]:
    """Damage a copy, run the six commands on it; what each does that it may not."""
    place = driver.scratch / "mutated"
    shutil.rmtree(place, ignore_errors=True)
    out, outside = place / "runs", place / "outside"
    shutil.copytree(specimens[case.state], out, symlinks=True)
    outside.mkdir()
    (outside / "victim").write_text("whatever was here before\n")
    run = runs_below(out)[0]
    file = path_of(run, case.file)
    chance = random.Random(f"{tally.SEED} {case.name}")
    case.damage(file, chance, outside)
    before = digests(outside)
    problems = []
    for name in COMMANDS:
        ended, text = telling(driver, name, out)
        tally.count(PART, "commands")
        wrong = judge(ended)
        named = file.name in ended.text or "checkpoint" in ended.text or "damage" in ended.text
        quiet = not wrong and ended.code == 0 and not named
        if quiet and silent(name, text, healthy[case.state][name], file.name):
            wrong.append("other numbers in silence")
        if name == "resume" and ended.code == 0 and not ended.hung and not named:
            right = runs_below(specimens["finished"])[0]
            wrong += [
                f"other numbers in silence: {what}"
                for what in safe_differences(run, right)
                if not (case.state == "finished" and what in NO_NUMBERS)
            ]
        if digests(outside) != before:
            wrong.append("writes outside the directory")
            before = digests(outside)
        problems += [f"{name} {what} ({ended.err.strip()[-200:]!r})" for what in wrong]
    return problems


def silent(name: str, text: str, right: str, file: str) -> bool:
    """Whether numbers differ and nothing names what is wrong."""
    numbers = re.compile(r"-?\d+\.\d+")
    if name in ("evaluate", "collect"):
        return bool(text) and numbers.findall(text) != numbers.findall(right)
    if name == "report":
        mentions = text.count(file) > right.count(file) or text.count("Problem") > right.count(
            "Problem"
        )
        return numbers.findall(text) != numbers.findall(right) and not mentions
    return False


def safe_differences(run: Path, right: Path) -> list[str]:
    try:
        return differences(run, right)
    except (OSError, ValueError, KeyError) as error:
        return [f"unreadable ({type(error).__name__})"]


def path_of(run: Path, file: str) -> Path:
    checkpoints = [p for p in (run / "checkpoints").iterdir() if p.name.isdigit()]
    last = max(checkpoints, key=lambda path: int(path.name))
    replay = sorted((last / "replay").iterdir(), key=lambda path: int(path.stem.split("-")[0]))
    path = run / file.format(last=last.name, oldest=replay[0].stem, newest=replay[-1].stem)
    if file == "FAILED":
        path.write_text('{"step": 8, "reason": "the disk was full", "error": "OSError"}\n')
    return path


@pytest.mark.parametrize("case", tally.some(cases(), 5), ids=lambda case: case.name)
def test_damage_is_named_or_harmless(
    driver: Driver,
    case: Case,
    specimens: dict[str, Path],
    healthy: dict[str, dict[str, str]],
    request: pytest.FixtureRequest,
) -> None:
    holes.mark(request, f"mutations/{case.name}")
    problems = damaged_run(driver, case, specimens, healthy)
    tally.count(PART, "mutations")
    for what in problems:
        tally.note(PART, f"{case.name}: {what}")
    holes.settle(f"mutations/{case.name}", problems)
    assert not problems, "\n".join(problems)
