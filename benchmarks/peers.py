"""Ours beside the libraries that people use, in one sitting: HalfCheetah-v5, two layers of 256, batches of 256, the machine's cores for whoever runs.

    .venv/bin/python benchmarks/peers.py [--rounds 3] [--replay-ratios 1,2,16] [--env DIR]

The peers get an environment of their own (DIR, made if it is not there): Stable-Baselines3 (torch) and SBX (JAX), each with SAC and TD3. CleanRL's
JAX scripts are no package that installs beside a current JAX, and are left out. All run by turns, each time in a new process; of a run, the pace is
the median over intervals of 50 steps once it learns. Nobody evaluates or checkpoints meanwhile. A ratio is taken within a round, and given with its
least and largest.
"""

import argparse
import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

TASK, WARMUP, EVERY = "HalfCheetah-v5", 1_000, 50
PACKAGES = ("torch==2.13.0", "stable-baselines3==2.9.2", "sbx-rl==0.28.0", "gymnasium[mujoco]==1.4.0")
PEERS = ("sb3 sac", "sb3 td3", "sbx sac", "sbx td3")
OURS = ("dualac sac", "dualac td3", "dualac dac")


class Found(NamedTuple):
    ms_per_step: float
    first_update: float
    """seconds from the start of the process until it has learned for one interval"""
    peak_mb: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--replay-ratios", default="1,2,16")
    parser.add_argument("--env", type=Path, default=Path(".peers"))
    parser.add_argument("--only", default="", help="these alone: 'dualac sac,sbx sac'")
    parser.add_argument("--learn", nargs=3, metavar=("LIBRARY", "ALGORITHM", "RATIO"), help="what the peers' own environment is asked for")
    asked = parser.parse_args()
    if asked.learn:
        return learn(asked.learn[0], asked.learn[1], int(asked.learn[2]))
    python = environment(asked.env)
    names = asked.only.split(",") if asked.only else [*OURS, *PEERS]
    for ratio in map(int, asked.replay_ratios.split(",")):
        rounds = [{name: measured(name, ratio, python) for name in names} for _ in range(asked.rounds)]
        print_table(ratio, rounds)


def environment(place: Path) -> Path:
    python = place / "bin" / "python"
    if not python.exists():
        venv.create(place, with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", *PACKAGES], check=True)
    return python.absolute()


def measured(name: str, ratio: int, python: Path) -> Found:
    library, algorithm = name.split()
    steps = WARMUP + max(10 * EVERY, 4_000 // ratio)
    with tempfile.TemporaryDirectory() as folder:
        if library == "dualac":
            words = [sys.executable, "-m", "dualac", "train", algorithm, f"gym/{TASK}", "--steps", str(steps), "--warmup", str(WARMUP)]
            words += ["--replay-ratio", str(ratio), "--threads", str(os.cpu_count()), "--log-every", str(EVERY), "--out", folder, "--quiet"]
            words += ["--eval-every", "1000000000", "--eval-episodes", "1", "--checkpoint-every", "1000000000"]
        else:
            words = [str(python), __file__, "--learn", library, algorithm, str(ratio)]
        began = time.time()
        process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=os.environ | {"STEPS": str(steps)})
        assert process.stdout is not None
        told = process.stdout.read()
        _, code, used = os.wait4(process.pid, 0)
        if code:
            raise SystemExit(f"{name} ended with code {code}")
        if library == "dualac":
            (log,) = Path(folder).rglob("train.jsonl")
            rows = [json.loads(line) for line in log.read_text().splitlines()]
            (events,) = Path(folder).rglob("events.jsonl")
            start = datetime.fromisoformat(json.loads(events.read_text().splitlines()[0])["time"]).timestamp()
            marks = [(row["step"], start + row["time/time_elapsed"]) for row in rows]
        else:
            marks = json.loads(told.splitlines()[-1])
    return Found(1e3 * median(paces(marks)), next(at for step, at in marks if step > WARMUP) - began, used.ru_maxrss / 1e3)


def paces(marks: list[tuple[int, float]]) -> Iterator[float]:
    """Seconds a step of each interval, once the first of learning, which compiles, is over."""
    learning = [mark for mark in marks if mark[0] > WARMUP + EVERY]
    yield from ((b[1] - a[1]) / (b[0] - a[0]) for a, b in itertools.pairwise(learning))


def learn(library: str, algorithm: str, ratio: int) -> None:
    """In the peers' environment: train, and print when each interval was reached."""
    import importlib

    from stable_baselines3.common.callbacks import BaseCallback

    if library == "sb3":
        import torch

        torch.set_num_threads(os.cpu_count() or 1)
    kind = getattr(importlib.import_module({"sb3": "stable_baselines3", "sbx": "sbx"}[library]), algorithm.upper())
    marks: list[tuple[int, float]] = []

    class Clock(BaseCallback):
        def _on_step(self) -> bool:
            if self.num_timesteps % EVERY == 0:
                marks.append((self.num_timesteps, time.time()))
            return True

    settings: dict[str, Any] = {"policy_kwargs": {"net_arch": [256, 256]}, "batch_size": 256, "learning_starts": WARMUP, "seed": 0}
    model = kind("MlpPolicy", TASK, train_freq=1, gradient_steps=ratio, **settings)
    model.learn(int(os.environ["STEPS"]), callback=Clock())
    print(json.dumps(marks))


def print_table(ratio: int, rounds: list[dict[str, Found]]) -> None:
    print(f"\nreplay ratio {ratio}, {len(rounds)} rounds, {os.cpu_count()} cores")
    print(f"{'':12} {'steps/s':>8} {'ms/update':>10} {'first update':>13} {'peak MB':>8}")
    for name in rounds[0]:
        ms, first, peak = (median(values) for values in zip(*(one[name] for one in rounds), strict=True))
        print(f"{name:12} {1e3 / ms:8.1f} {ms / ratio:10.2f} {first:11.1f} s {peak:8.0f}")
    pairs = [(ours, peer) for ours in rounds[0] for peer in rounds[0] if ours.startswith("dualac") and not peer.startswith("dualac")]
    for ours, peer in pairs:
        if ours.split()[1] == peer.split()[1] or ours.endswith(" dac"):
            ratios = sorted(one[peer].ms_per_step / one[ours].ms_per_step for one in rounds)
            print(f"{ours} is {median(ratios):.2f} times as fast as {peer} ({ratios[0]:.2f} to {ratios[-1]:.2f})")


if __name__ == "__main__":
    main()
