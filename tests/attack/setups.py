"""What is attacked: small trainings over all rows of the table and all ways to carry one out."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import NamedTuple

from tests.attack.driver import Driver, Ended

from dualac.agents.algorithms import ALGORITHMS
from dualac.parts.paths import options

TASK = "tests.attack.toys:Drift-v0"
# Five checkpoints, most of them amid an episode of seven steps; a replay that wraps; two resets.
SMALL = {
    "steps": "40",
    "warmup": "10",
    "eval-every": "10",
    "eval-episodes": "2",
    "log-every": "7",
    "checkpoint-every": "8",
    "batch-size": "8",
    "capacity": "20",
    "resets": "15,25",
}
FLAGS = ("--threads", "--isolate-env", "--replay-in")  # what a resume must be given again


class Setup(NamedTuple):
    name: str
    row: str
    how: tuple[str, ...] = ()
    task: str = TASK

    def train(self, out: Path) -> list[str]:
        sizes = [word for path in hidden(self.row) for word in (f"--{path}", "8,8")]
        small = [word for name, value in SMALL.items() for word in (f"--{name}", value)]
        threads = [] if "--threads" in self.how else ["--threads", "1"]
        return [
            *("train", self.row, self.task, *small, *sizes, *threads, *self.how),
            *("--quiet", "--out", str(out)),
        ]

    def resume(self, out: Path) -> list[str]:
        kept = []
        for place, word in enumerate(self.how):
            if word in FLAGS:
                with_value = word != "--isolate-env"
                kept += self.how[place : place + 1 + with_value]
        threads = [] if "--threads" in kept else ["--threads", "1"]
        return ["resume", str(out), *threads, *kept, "--quiet"]


def hidden(row: str) -> list[str]:
    """List the options of a row that name the sizes of layers."""
    return [
        option.path.replace("_", "-")
        for option in options(ALGORITHMS[row])
        if option.path.endswith("hidden")
    ]


def all_setups() -> list[Setup]:
    rows = [Setup(row, row) for row in ALGORITHMS]
    ways = {
        "pack": ("--seeds", "2", "--pack"),
        "two-threads": ("--threads", "2"),
        "isolated": ("--isolate-env",),
        "replay-on-disk": ("--replay-in", "disk"),
        "replay-on-device": ("--replay-in", "device"),
        "two-seeds": ("--seeds", "2"),
    }
    if len(os.sched_getaffinity(0)) < 2:
        ways.pop("two-threads")
    more = [
        Setup(f"{row}, {name}", row, how) for row in ("sac", "dac") for name, how in ways.items()
    ]
    return rows + more


def runs_below(out: Path) -> list[Path]:
    return sorted(spec.parent for spec in out.rglob("run.json"))


class Golden:
    """An undisturbed run of a set-up."""

    def __init__(self, driver: Driver, setup: Setup, seconds: float, pulses: int) -> None:
        self.setup, self.seconds, self.pulses = setup, seconds, pulses
        self.out = driver.scratch / "golden" / slug(setup.name)

    @property
    def runs(self) -> list[Path]:
        return runs_below(self.out)

    def copy(self, to: Path) -> Path:
        shutil.copytree(self.out, to, symlinks=True)
        return to


_golden: dict[tuple[int, str], Golden] = {}


def golden(driver: Driver, setup: Setup) -> Golden:
    """Train it once a session: once to fill the caches, once for its time."""
    import time

    key = id(driver), setup.name
    if key not in _golden:
        out = driver.scratch / "golden" / slug(setup.name)
        pulse = driver.scratch / f"pulse-{slug(setup.name)}"
        for turn in ("warm", "timed"):
            shutil.rmtree(out, ignore_errors=True)
            pulse.unlink(missing_ok=True)
            began = time.monotonic()
            ended = driver.run(*setup.train(out), env={"ATTACK_PULSE": str(pulse)})
            require_done(ended, f"{setup.name}, {turn}")
        _golden[key] = Golden(driver, setup, time.monotonic() - began, pulse.stat().st_size)
    return _golden[key]


def require_done(ended: Ended, what: str) -> None:
    assert ended.code == 0 and not ended.hung, f"{what} ended with {ended.code}: {ended.text}"


def slug(name: str) -> str:
    return "".join(sign if sign.isalnum() or sign == "-" else "_" for sign in name)
