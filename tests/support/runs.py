"""Runs small enough to be trained many times in a test, and how two of them are told apart."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy
from tests.support import toys

from dualac.agents.algorithm import Algorithm
from dualac.agents.algorithms import ALGORITHMS
from dualac.envs import Protocol
from dualac.machine.messages import RunEvent
from dualac.parts.paths import options, replaced
from dualac.training.run import Flags, Run, prepare

ROOT = Path(__file__).parents[2]
CLOCK = ("time/fps", "time/time_elapsed")  # the columns of train.jsonl that no run has twice alike


def tiny(name: str) -> Algorithm:
    """The row with one narrow hidden layer everywhere, and learning fast enough to be seen to
    learn.
    """
    row = ALGORITHMS[name]
    small = {"hidden": (8,), "lr": 1e-2}
    return replaced(
        row,
        {
            o.path: small[o.path.split(".")[-1]]
            for o in options(row)
            if o.path.split(".")[-1] in small
        },
    )


def a_run(name: str = "sac", **changes: Any) -> Run:
    """40 steps of Drift: warm-up to 10, a reset after 25, evaluations each 10, checkpoints each 8,
    a replay that wraps after 20.
    """
    usual = {
        "task": toys.task(
            "Drift"
        ), "seed": 3, (
            "steps"
        ): 40, "warmup": 10, "replay_ratio": 2, "batch_size": 8, "capacity": 20, "resets": (25,),
        "eval_every": 10, "log_every": 7, "checkpoint_every": 8,
    }  # fmt: skip
    protocol = dataclasses.replace(
        changes.pop("protocol", Protocol()), eval_episodes=changes.pop("eval_episodes", 2)
    )
    return Run(name, tiny(name), **(usual | changes), protocol=protocol)


CARTPOLE = {
    "task": "dmc/cartpole-swingup",
    "protocol": Protocol(time_limit=17),
}  # mid-episode nearly always


def trained(run: Run, out: Path, **words: Any) -> Path:
    """The directory of the run, taken to its end in this process."""
    path = prepare(run, out)
    go_on(path, **words)
    return path


def go_on(*paths: Path, **words: Any) -> list[dict[str, Any]]:
    """Train in this process from wherever these are; what was reported."""
    from dualac.training.loop import train

    heard: list[RunEvent] = []
    train(list(paths), heard.append, Flags(**words))
    return heard


def extended(run: Run, steps: int) -> Run:
    return dataclasses.replace(run, steps=steps)


def checkpoint_steps(path: Path) -> list[int]:
    return sorted(
        int(entry.name) for entry in (path / "checkpoints").iterdir() if entry.name.isdigit()
    )


def last(path: Path) -> Path:
    return path / "checkpoints" / str(checkpoint_steps(path)[-1])


def manifest(checkpoint: Path) -> dict[str, Any]:
    return json.loads((checkpoint / "manifest.json").read_text())


def arrays(checkpoint: Path) -> dict[str, np.ndarray]:
    return safetensors.numpy.load_file(checkpoint / "state.safetensors")


def agent_of(checkpoint: Path) -> dict[str, np.ndarray]:
    return {name: array for name, array in arrays(checkpoint).items() if name.startswith("agent.")}


def replay_of(checkpoint: Path, capacity: int) -> dict[str, np.ndarray]:
    """The transitions a checkpoint keeps, oldest first, whatever files they are cut into."""
    files = sorted((checkpoint / "replay").iterdir(), key=lambda file: int(file.stem.split("-")[0]))
    parts = [whole(safetensors.numpy.load_file(file)) for file in files]
    return {name: np.concatenate([part[name] for part in parts])[-capacity:] for name in parts[0]}


def whole(part: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """A file's transitions, with what each led to."""
    ends, led = part.pop("ends"), part.pop("led")
    next_obs = np.concatenate([part["obs"][1:], led[-1:]])
    next_obs[ends] = led
    return part | {"next_obs": next_obs}


def rows(path: Path, name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (path / name).read_text().splitlines()]


def events(path: Path, kind: str) -> list[dict[str, Any]]:
    return [row for row in rows(path, "events.jsonl") if row["event"] == kind]


def timeless(path: Path) -> list[dict[str, Any]]:
    return [
        {key: value for key, value in row.items() if key not in CLOCK}
        for row in rows(path, "train.jsonl")
    ]


def same(one: dict[str, np.ndarray], other: dict[str, np.ndarray]) -> bool:
    """Bit for bit, by the same names."""
    return one.keys() == other.keys() and all(
        one[name].dtype == other[name].dtype and one[name].tobytes() == other[name].tobytes()
        for name in one
    )


def assert_same_run(path: Path, golden: Path, capacity: int = 20) -> None:
    """The contract: nothing that was computed tells which of the two was interrupted."""
    ours, theirs = last(path), last(golden)
    assert ours.name == theirs.name
    assert (ours / "state.safetensors").read_bytes() == (theirs / "state.safetensors").read_bytes()
    assert same(replay_of(ours, capacity), replay_of(theirs, capacity))
    told, expected = manifest(ours), manifest(theirs)
    assert (told["sampler"], told["added"]) == (expected["sampler"], expected["added"])
    counted = (
        "episodes",
        "total",
        "succeeded",
        "recent",
        "bad_steps",
        "bad_total",
        "bad_evaluations",
    )
    assert [told["facts"][name] for name in counted] == [
        expected["facts"][name] for name in counted
    ]
    assert (path / "eval.jsonl").read_bytes() == (golden / "eval.jsonl").read_bytes()
    assert timeless(path) == timeless(golden)
    assert (path / "DONE").exists()
    assert not (path / "FAILED").exists()
    assert not list((path / "checkpoints").glob(".*"))


def python(*words: str | Path, cwd: Path = ROOT, **env: str) -> subprocess.CompletedProcess[str]:
    """A fresh process that can import these tests; what it said."""
    return subprocess.run(
        [sys.executable, *map(str, words)],
        cwd=cwd,
        env=environment(**env),
        capture_output=True,
        text=True,
        check=False,
    )


def environment(**env: str) -> dict[str, str]:
    places = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    return os.environ | {"PYTHONPATH": os.pathsep.join(places)} | env
