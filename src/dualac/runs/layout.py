"""The names of a run's files, and where a run is."""

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from dualac.errors import DataError
from dualac.runs.files import Damage, DamagedFileError

# In the directory of a run.
SPEC = "run.json"
TASK = "task.json"
MACHINE = "machine.json"
EVALUATIONS = "eval.jsonl"
TRAINING = "train.jsonl"
EVENTS = "events.jsonl"
CHECKPOINTS = "checkpoints"
TENSORBOARD = "tensorboard"
CODE = "code"  # copies of the user's own files that define its parts
DONE = "DONE"
FAILED = "FAILED"
LOCK = "lock"
ATTEMPT = "attempt"
TRACEBACK = "traceback.txt"
WORKER_LOG = "worker.log"

# In the directory of a sweep.
PLAN = "plan.json"
PLAN_LOCK = ".plan-lock"

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:+-]{0,63}")  # of an agent or experiment: a directory
STEP = re.compile(r"0|[1-9][0-9]{0,14}")  # of a checkpoint: a directory
DEPTH = 4  # of a run below its sweep: agent, task, replay ratio, seed


def run_path(home: Path, name: str, task: str, replay_ratio: int, seed: int) -> Path:
    """Return the directory of a run below the directory `home` of its sweep."""
    folder = task.replace("/", "-").replace(":", "-")
    return home / name / folder / f"rr{replay_ratio}" / f"seed{seed}"


def other_seed(path: Path, seed: int) -> Path:
    """Return the directory of the run that differs from the one at `path` by its seed alone."""
    return path.with_name(f"seed{seed}")


def checkpoint_steps(path: Path) -> list[int]:
    """Return the steps of a run's checkpoints, oldest first."""
    folder = path / CHECKPOINTS
    if folder.is_symlink():
        raise DamagedFileError(folder, "is a symbolic link, which is not followed; remove it")
    try:
        names = os.listdir(folder)
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise DamagedFileError(folder, f"cannot be read: {error.strerror}") from None
    return sorted(int(name) for name in names if STEP.fullmatch(name))


class Found(NamedTuple):
    """What stands below some directories."""

    runs: dict[str, Path]
    """the directories with a run.json, by their real paths, in the order of their paths"""
    plans: list[Path]
    """the plans that speak of them: those below, and those of the directories above"""
    damaged: list[Damage]
    """what could not be entered"""


def search(places: Sequence[Path]) -> Found:
    """Find the runs at or below some directories, each once, and their plans."""
    runs: dict[str, Path] = {}
    plans: dict[Path, Path] = {}
    errors: list[OSError] = []
    damaged: list[Damage] = []
    for place in places:
        for home, folders, files in os.walk(place, onerror=errors.append):
            # A run's own folders are large and hold no runs.
            folders[:] = sorted(name for name in folders if name not in (CHECKPOINTS, TENSORBOARD))
            if SPEC in files:
                runs.setdefault(os.path.realpath(home), Path(home))
            elif EVALUATIONS in files and EVENTS in files:
                damaged.append(Damage(Path(home), f"has the rows of a run and no file {SPEC}"))
            if PLAN in files:
                plans.setdefault(Path(home).resolve(), Path(home) / PLAN)
        for home in place.resolve().parents[:DEPTH]:
            if (home / PLAN).is_file():
                plans.setdefault(home, home / PLAN)
    for error in errors:
        what = error.strerror or "cannot be entered"
        damaged.append(Damage(Path(str(error.filename)), what))
    ordered = dict(sorted(runs.items(), key=lambda item: item[1]))
    return Found(ordered, sorted(plans.values()), damaged)


def find_runs(place: Path) -> list[Path]:
    """Return the directories of the runs at or below a place; refuse a place that has none."""
    paths = list(search([place]).runs.values())
    if not paths:
        raise DataError(f"no run at or below {place}")
    return paths
