"""Runs small enough to be trained many times in a test, and comparisons of two of them."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
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
    """Return the row with one narrow hidden layer everywhere, and a high learning rate."""
    row = ALGORITHMS[name]
    small = {"hidden": (8,), "lr": 1e-2}
    fields = {option.path: option.path.split(".")[-1] for option in options(row)}
    return replaced(row, {path: small[field] for path, field in fields.items() if field in small})


def a_run(name: str = "sac", **changes: Any) -> Run:
    """Return a run of 40 steps in which everything happens; `changes` are its fields."""
    usual = {
        "task": toys.task("Drift"),
        "seed": 3,
        "steps": 40,
        "warmup": 10,
        "replay_ratio": 2,
        "batch_size": 8,
        "capacity": 20,
        "resets": (25,),
        "eval_every": 10,
        "log_every": 7,
        "checkpoint_every": 8,
    }
    protocol = dataclasses.replace(
        changes.pop("protocol", Protocol()), eval_episodes=changes.pop("eval_episodes", 2)
    )
    return Run(name, tiny(name), **(usual | changes), protocol=protocol)


# Nearly always in the middle of an episode.
CARTPOLE = {"task": "dmc/cartpole-swingup", "protocol": Protocol(time_limit=17)}


_learners: dict[Any, Any] = {}


def shared_learner(runs: list[Run], spec: Any) -> Any:
    """Make a learner, or start one over that the runs of another test have compiled.

    A run then costs its steps, not its tracing.
    """
    from dualac.training.learner import Learner

    class Shared(Learner):
        """A learner that is compiled when it is used."""

        def compile_ahead(self) -> None:
            pass

    run = runs[0]
    key = (run.algorithm, run.warmup, run.batch_size, tuple(one.seed for one in runs), spec)
    if key not in _learners:
        _learners[key] = Shared(runs, spec)
    _learners[key].start_over()
    return _learners[key]


def trained(run: Run, out: Path, **how: Any) -> Path:
    """Train the run to its end in this process; return its directory."""
    path = prepare(run, out)
    go_on(path, **how)
    return path


def go_on(
    *paths: Path, make_learner: Any = shared_learner, make_rollout: Any = None, **flags: Any
) -> list[RunEvent]:
    """Train in this process from wherever these are; return what was reported."""
    from dualac.training.loop import train
    from dualac.training.rollout import Rollout

    reports: list[RunEvent] = []
    train(list(paths), reports.append, Flags(**flags), make_learner, make_rollout or Rollout)
    return reports


def noting(calls: list[tuple[str, tuple[Any, ...], dict[str, Any]]], *names: str) -> Any:
    """Return a maker of learners that note these calls, with their arguments, before they act."""

    class Noting:
        def __init__(self, runs: list[Run], spec: Any) -> None:
            self._learner = shared_learner(runs, spec)

        def __getattr__(self, name: str) -> Any:
            function = getattr(self._learner, name)

            def call(*args: Any, **kwargs: Any) -> Any:
                calls.append((name, args, kwargs))
                return function(*args, **kwargs)

            return call if name in names else function

    return Noting


def signalling(number: int, at: int) -> Any:
    """Return a kind of rollout that sends its process a signal as it takes a step."""
    from dualac.training.rollout import Rollout

    class Signalling(Rollout):
        def step(self, action: np.ndarray, step: int) -> float | None:
            if step == at:
                signal.raise_signal(number)
            return super().step(action, step)

    return Signalling


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
    """Read the transitions a checkpoint keeps, oldest first, whatever files they are cut into."""
    files = sorted((checkpoint / "replay").iterdir(), key=lambda file: int(file.stem.split("-")[0]))
    parts = [whole(safetensors.numpy.load_file(file)) for file in files]
    return {name: np.concatenate([part[name] for part in parts])[-capacity:] for name in parts[0]}


def whole(part: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return a file's transitions, with what each led to."""
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
    """Compare two trees bit for bit, by the same names."""
    return one.keys() == other.keys() and all(
        one[name].dtype == other[name].dtype and one[name].tobytes() == other[name].tobytes()
        for name in one
    )


def assert_same_run(path: Path, golden: Path, capacity: int = 20) -> None:
    """Hold the contract: nothing that was computed shows which of the two was interrupted."""
    ours, theirs = last(path), last(golden)
    assert ours.name == theirs.name
    assert (ours / "state.safetensors").read_bytes() == (theirs / "state.safetensors").read_bytes()
    assert same(replay_of(ours, capacity), replay_of(theirs, capacity))
    actual, expected = manifest(ours), manifest(theirs)
    assert (actual["sampler"], actual["added"]) == (expected["sampler"], expected["added"])
    counted = (
        "episodes",
        "total",
        "succeeded",
        "recent",
        "bad_steps",
        "bad_total",
        "bad_evaluations",
    )
    assert [actual["facts"][name] for name in counted] == [
        expected["facts"][name] for name in counted
    ]
    assert (path / "eval.jsonl").read_bytes() == (golden / "eval.jsonl").read_bytes()
    assert timeless(path) == timeless(golden)
    assert (path / "DONE").exists()
    assert not (path / "FAILED").exists()
    assert not list((path / "checkpoints").glob(".*"))


def python(
    *arguments: str | Path, cwd: Path = ROOT, **env: str
) -> subprocess.CompletedProcess[str]:
    """Run a fresh Python that can import these tests; return what it printed."""
    return subprocess.run(
        [sys.executable, *map(str, arguments)],
        cwd=cwd,
        env=environment(**env),
        capture_output=True,
        text=True,
        check=False,
    )


def environment(**env: str) -> dict[str, str]:
    places = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    return os.environ | {"PYTHONPATH": os.pathsep.join(places)} | env
