"""Runs as a training leaves them, written at once, for tests of the analysis to read."""

import copy
import json
from pathlib import Path
from typing import Any

import numpy as np

PROTOCOL = {
    "part": "Protocol",
    "action_repeat": 1,
    "time_limit": 0,
    "metaworld_cap": 200,
    "myosuite_cap": 100,
    "myosuite_termination": "ignore",
    "success": "any",
    "eval_episodes": 10,
}
ROW = {
    "part": "Algorithm",
    "pessimism": {"part": "Fixed", "beta": -1.0, "backup_beta": None, "climbs": "certainty"},
    "explorer": {"part": "OptimisticActor", "target_kl": 0.25, "std_multiplier": 1.25},
    "gamma": 0.99,
}
SPEC: dict[str, Any] = {
    "part": "Run",
    "algorithm": ROW,
    "steps": 100_000,
    "warmup": 10_000,
    "replay_ratio": 2,
    "batch_size": 256,
    "capacity": 1_000_000,
    "resets": [],
    "reset_every": 0,
    "reset_same_init": False,
    "eval_every": 10_000,
    "log_every": 1_000,
    "checkpoint_every": 10_000,
    "protocol": PROTOCOL,
    "pack": [],
}
VERSIONS = {"jax": "0.10.2", "mujoco": "3.16.0", "dm_control": "1.0.49", "metaworld": "3.0.0"}
MACHINE = {
    "fingerprint": {"versions": VERSIONS, "cores": 1},
    "dualac": "0.1.0",
    "commit": "0" * 40,
    "dirty": False,
    "cpu": "a CPU",
    "host": "somewhere",
    "python": "3.11.7",
    "cores_of_machine": 2,
}


def write_run(
    root: Path,
    name: str = "dac",
    task: str = "dmc/cheetah-run",
    seed: int = 0,
    *,
    final: float = 0.5,
    reached: int = 100_000,
    episodes: int = 2,
    points: int = 10,
    training: int = 10,
    folder: str = "",
    changes: dict[str, Any] | None = None,
) -> Path:
    """Write a run whose score rises in a line to `final` at 100,000 steps, as far as it was
    `reached`; `changes` are made in run.json, by path.
    """
    spec = copy.deepcopy(SPEC) | {"name": name, "task": task, "seed": seed}
    for where, value in (changes or {}).items():
        *heads, last = where.split(".")
        tree = spec
        for head in heads:
            tree = tree[head]
        tree[last] = value
    path = root / (
        folder
        or f"{name}/{task.replace('/', '-')}/rr{spec['replay_ratio']}/seed{seed}".replace(":", "-")
    )
    path.mkdir(parents=True)
    (path / "run.json").write_text(json.dumps(spec))
    (path / "machine.json").write_text(json.dumps(MACHINE))
    steps = [
        step
        for step in np.linspace(0, spec["steps"], points + 1).astype(int).tolist()
        if step <= reached
    ]
    rows = [
        _evaluation(task, step, episode, final * step / 100_000, seed)
        for step in steps
        for episode in range(episodes)
    ]
    write_rows(path / "eval.jsonl", rows)
    logged = [
        step
        for step in np.linspace(0, spec["steps"], training + 1).astype(int).tolist()[1:]
        if step <= reached
    ]
    write_rows(
        path / "train.jsonl", [_training(step, spec["replay_ratio"], final) for step in logged]
    )
    write_rows(
        path / "events.jsonl",
        [{"event": "started", "step": 0}]
        + ([{"event": "done", "step": reached}] if reached >= spec["steps"] else []),
    )
    if reached >= spec["steps"]:
        (path / "DONE").write_text(json.dumps({"step": reached, "identity": "0"}))
    return path


def write_plan(
    root: Path, names: list[str], tasks: list[str], seeds: int, steps: int = 100_000
) -> None:
    """Write the plan of a sweep."""
    runs = [
        {"name": name, "task": task, "replay_ratio": 2, "steps": steps, "seeds": list(range(seeds))}
        for name in names
        for task in tasks
    ]
    (root / "plan.json").write_text(json.dumps({"experiment": "a sweep", "runs": runs}))


def write_rows(path: Path, rows: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def write_sweep(
    root: Path, finals: dict[str, float], tasks: list[str], seeds: int, **named: Any
) -> Path:
    """Write a grid of runs. A seed's score departs from its algorithm's by a little, the same each
    time.
    """
    noise = np.random.default_rng(0).normal(0, 0.03, (len(finals), len(tasks), seeds))
    for a, (name, final) in enumerate(finals.items()):
        for t, task in enumerate(tasks):
            for seed in range(seeds):
                write_run(
                    root,
                    name,
                    task,
                    seed,
                    final=float(np.clip(final + noise[a, t, seed], 0, 1)),
                    **named,
                )
    return root


def _evaluation(task: str, step: int, episode: int, score: float, seed: int) -> dict[str, Any]:
    row = {
        "step": step,
        "episode": episode,
        "seed": 7 * episode + 1,
        "length": 1000,
        "value": 2.0 + score,
        "discounted_return": 2.0,
    }
    if task.startswith(("metaworld", "myosuite")):
        happened = (episode + 0.5) / 10 + 0.01 * seed < score * 1.2
        return {**row, "return": 200 * score, "success": happened, "success_last": False}
    return {**row, "return": 1000 * score + episode - 0.5}


def _training(step: int, ratio: int, final: float) -> dict[str, Any]:
    row: dict[str, Any] = {
        "step": step,
        "rollout/bad_transitions": 0,
        "time/time_elapsed": step / 100,
        "time/fps": 100.0,
        "train/n_updates": max(0, step - 9_999) * ratio,
    }
    if step <= 10_000:  # the warm-up makes no updates
        return row
    return row | {
        "train/kl": 0.2,
        "train/kl_q10": 0.01,
        "train/kl_median": 0.1,
        "train/kl_q90": 0.4,
        "train/kl_q99": 2.0,
        "train/optimism": 1 + step / 1e5,
        "train/kl_weight": 0.25,
        "train/ent_coef": 0.1,
        "train/optimist_std_ratio": 1.25,
        "train/optimist_shift": 0.4,
        "train/optimist_spread_ratio": 1.1,
        "train/data_distance": 1.5,
        "train/q_mean": 10 * final + 1,
        "train/q_std": 0.5,
        "train/saturation": 1.0,
    }
