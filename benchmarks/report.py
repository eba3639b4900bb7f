"""What a report of a whole benchmark costs: 6 algorithms x 30 tasks x 10 seeds x 100 evaluations of
10 episodes, 1.8 million rows.

    .venv/bin/python benchmarks/report.py DIR [--training-rows 1000]

Writes the runs below DIR unless they are there, then makes the report in a process of its own and
prints seconds, memory and size.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

ALGORITHMS = ("dac", "sac", "td3", "oac", "top", "gpl")
SUITES = {"dmc": 10, "metaworld": 10, "myosuite": 10}
SEEDS, EVALUATIONS, EPISODES, STEPS = 10, 100, 10, 1_000_000
PROTOCOL = {"part": "Protocol", "time_limit": 0}


def write(root: Path, training_rows: int) -> None:
    draw = np.random.default_rng(0)
    for place, name in enumerate(ALGORITHMS):
        for task in (
            f"{suite}/task{number}" for suite, count in SUITES.items() for number in range(count)
        ):
            for seed in range(SEEDS):
                path = root / name / task.replace("/", "-") / "rr2" / f"seed{seed}"
                path.mkdir(parents=True)
                spec = {
                    "part": "Run",
                    "name": name,
                    "algorithm": {"part": "Algorithm"},
                    "task": task,
                    "seed": seed,
                }
                spec |= {
                    "steps": STEPS,
                    "replay_ratio": 2,
                    "protocol": PROTOCOL,
                    "eval_every": 10_000,
                }
                (path / "run.json").write_text(json.dumps(spec))
                (path / "machine.json").write_text(
                    json.dumps(
                        {"cpu": "none: made up", "fingerprint": {"versions": {"mujoco": "3.16.0"}}}
                    )
                )
                (path / "eval.jsonl").write_text(
                    "".join(
                        evaluations(draw, 0.9 - 0.1 * place, success=not task.startswith("dmc"))
                    )
                )
                (path / "train.jsonl").write_text("".join(training(training_rows)))


def evaluations(draw: np.random.Generator, final: float, *, success: bool) -> Iterator[str]:
    level = np.clip(final + draw.normal(0, 0.1), 0, 1) * np.linspace(0, 1, EVALUATIONS) ** 0.5
    scores = np.clip(level[:, None] + draw.normal(0, 0.1, (EVALUATIONS, EPISODES)), 0, 1)
    for step, row in zip(
        np.linspace(0, STEPS, EVALUATIONS).astype(int).tolist(), scores.tolist(), strict=True
    ):
        for episode, score in enumerate(row):
            told = {
                "step": step,
                "episode": episode,
                "seed": 1,
                "return": 1000 * score,
                "length": 1000,
                "value": 90 * score,
            }
            told |= {"discounted_return": 88 * score + 1} | (
                {"success": score > 0.5, "success_last": False} if success else {}
            )
            yield json.dumps(told) + "\n"


def training(rows: int) -> Iterator[str]:
    for step in range(STEPS // rows, STEPS + 1, STEPS // rows):
        told = {
            f"train/{name}": step / 1e6 + 0.123456789
            for name in ("kl", "optimism", "kl_weight", "q_std", "q_mean", "ent_coef")
        }
        yield (
            json.dumps(
                {"step": step, **told, "time/time_elapsed": step / 80, "train/n_updates": 2 * step}
            )
            + "\n"
        )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("root", type=Path)
    parser.add_argument("--training-rows", type=int, default=1000)
    asked = parser.parse_args()
    if not asked.root.exists():
        write(asked.root, asked.training_rows)
    out = asked.root / "report.html"
    began = time.monotonic()
    subprocess.run(
        [
            sys.executable,
            "-c",
            "from dualac.cli import main; main()",
            "report",
            str(asked.root),
            "--out",
            str(out),
        ],
        check=True,
    )
    took = time.monotonic() - began
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    worked, most, size = (
        used.ru_utime + used.ru_stime,
        used.ru_maxrss / 1e6,
        os.path.getsize(out) / 1e6,
    )
    print(f"{took:.1f} s, of which the processor {worked:.1f} s; {most:.2f} GB; page {size:.2f} MB")
    rows = len(ALGORITHMS) * sum(SUITES.values()) * SEEDS * EVALUATIONS * EPISODES
    print(
        f"{rows} evaluation rows, "
        f"{len(ALGORITHMS) * sum(SUITES.values()) * SEEDS * asked.training_rows} training rows, "
        f"{os.getloadavg()[0]:.1f} load"
    )


if __name__ == "__main__":
    main()
