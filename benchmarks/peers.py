"""Ours beside the libraries that people use, in one sitting: HalfCheetah-v5, two layers of 256,
batches of 256, the machine's cores for whoever runs.

.venv/bin/python benchmarks/peers.py [--turns 7] [--replay-ratios 1,2,16] [--only 'dualac sac,sbx
sac'] [--env DIR]

The peers get an environment of their own (DIR, made if it is not there): Stable-Baselines3 (torch)
and SBX (JAX), each with SAC and TD3. CleanRL's JAX scripts are no package that installs beside a
current JAX, and are left out.

Each trains in a process of its own. Once all have learned for a while they are let run by turns, a
few seconds each, all others stopped: a machine whose clock changes from minute to minute changes it
for all. A ratio is taken within a turn; its median is given, with the quarter below and above.
Nobody evaluates, logs or checkpoints meanwhile.
"""

import argparse
import ctypes
import importlib
import math
import os
import signal
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median, quantiles
from typing import Any

TASK, WARMUP, TURN = "HalfCheetah-v5", 1_000, 5.0
SETTLED = 100  # steps of learning after which all that is compiled is compiled
PACKAGES = (
    "torch==2.13.0",
    "stable-baselines3==2.9.2",
    "sbx-rl==0.28.0",
    "gymnasium[mujoco]==1.4.0",
)
PEERS = ("sb3 sac", "sb3 td3", "sbx sac", "sbx td3")
OURS = ("dualac sac", "dualac td3", "dualac dac")
FOREVER = 10**9


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--replay-ratios", default="1,2,16")
    parser.add_argument("--env", type=Path, default=Path(".peers"))
    parser.add_argument("--only", default="", help="these alone: 'dualac sac,sbx sac'")
    parser.add_argument(
        "--learn",
        nargs=4,
        metavar=("LIBRARY", "ALGORITHM", "RATIO", "MARKS"),
        help="what one process is asked for",
    )
    asked = parser.parse_args()
    if asked.learn:
        ctypes.CDLL(None).prctl(
            1, signal.SIGKILL
        )  # to end with the process that started it, also where it is stopped
        library, algorithm, ratio, marks = asked.learn
        return (learn_ours if library == "dualac" else learn_theirs)(
            library, algorithm, int(ratio), Path(marks)
        )
    names = asked.only.split(",") if asked.only else [*OURS, *PEERS]
    python = environment(asked.env) if set(names) - set(OURS) else Path(sys.executable)
    for ratio in map(int, asked.replay_ratios.split(",")):
        with (
            tempfile.TemporaryDirectory() as folder,
            racing(names, ratio, python, Path(folder)) as runners,
        ):
            for _ in range(asked.turns):
                for runner in runners:
                    runner.take_turn()
            print_table(ratio, runners)


def environment(place: Path) -> Path:
    python = place / "bin" / "python"
    if not python.exists():
        venv.create(place, with_pip=True)
    if not (ready := place / ".ready").exists():
        subprocess.run([python, "-m", "pip", "install", "--quiet", *PACKAGES], check=True)
        ready.touch()
    return python.absolute()


class Runner:
    """A training in a process that stands still but for its turns."""

    def __init__(self, name: str, ratio: int, python: str, folder: Path) -> None:
        self.name, self.marks = name, folder / name.replace(" ", "-")
        self.ms_per_step: list[float] = []  # in each turn
        self.began = time.time()
        self.first_update = math.nan  # seconds
        words = [python, __file__, "--learn", *name.split(), str(ratio), str(self.marks)]
        self.process = subprocess.Popen(words, stdout=subprocess.DEVNULL)

    def check_fields(self) -> None:
        """Until it has learned for a while."""
        while (steps := self.seen())[-1][0] < WARMUP + SETTLED:
            self.wait(0.1)
        self.first_update = next(at for step, at in steps if step > WARMUP) - self.began
        self.process.send_signal(signal.SIGSTOP)

    def wait(self, seconds: float) -> None:
        time.sleep(seconds)
        if self.process.poll() is not None:
            raise SystemExit(f"{self.name} ended with code {self.process.returncode}")

    def seen(self) -> list[tuple[int, float]]:
        """After which steps it looked at the clock, and what it said."""
        lines = (
            self.marks.read_text().rpartition("\n")[0].splitlines() if self.marks.exists() else []
        )
        return [(int(step), float(at)) for step, at in map(str.split, lines)] or [(0, 0.0)]

    def take_turn(self) -> None:
        began = time.time()
        self.process.send_signal(signal.SIGCONT)
        marks: list[tuple[int, float]] = []
        while len(marks) < 2:
            self.wait(TURN)
            marks = [mark for mark in self.seen() if mark[1] > began]
        self.process.send_signal(signal.SIGSTOP)
        (first, start), (last, end) = marks[0], marks[-1]
        self.ms_per_step.append(1e3 * (end - start) / (last - first))

    def peak_mb(self) -> float:
        lines = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1e3


@contextmanager
def racing(names: list[str], ratio: int, python: Path, folder: Path) -> Iterator[list[Runner]]:
    runners: list[Runner] = []
    try:
        for name in names:
            runners.append(
                Runner(name, ratio, sys.executable if name in OURS else str(python), folder)
            )
            runners[-1].check_fields()
        yield runners
    finally:
        for runner in runners:
            runner.process.kill()
            runner.process.wait()


def clock(marks: Path) -> Callable[[int], None]:
    """Write down when a step was done."""
    file = marks.open("w", buffering=1)

    def look(step: int) -> None:
        file.write(f"{step} {time.time()}\n")

    return look


def learn_ours(_: str, algorithm: str, ratio: int, marks: Path) -> None:
    from dualac.bench.training import undisturbed
    from dualac.machine.compilation import use_compilation_cache
    from dualac.machine.cores import pin, usable_cores
    from dualac.training.loop import train
    from dualac.training.rollout import Rollout
    from dualac.training.run import prepare

    pin(len(usable_cores()))
    use_compilation_cache()
    run = undisturbed(algorithm, f"gym/{TASK}", steps=FOREVER, warmup=WARMUP, replay_ratio=ratio)
    look = clock(marks)

    class Watched(Rollout):
        """A rollout that notes when each of its steps is over."""

        def step(self, action: Any, step: int) -> float | None:
            value = super().step(action, step)
            look(step)
            return value

    with tempfile.TemporaryDirectory() as out:
        train([prepare(run, Path(out))], lambda message: None, make_rollout=Watched)


def learn_theirs(library: str, algorithm: str, ratio: int, marks: Path) -> None:
    from stable_baselines3.common.callbacks import BaseCallback

    if library == "sb3":
        import torch

        torch.set_num_threads(os.cpu_count() or 1)
    kind = getattr(
        importlib.import_module({"sb3": "stable_baselines3", "sbx": "sbx"}[library]),
        algorithm.upper(),
    )
    look = clock(marks)

    class Clock(BaseCallback):
        def _on_step(self) -> bool:
            look(self.num_timesteps)
            return True

    settings: dict[str, Any] = {
        "policy_kwargs": {"net_arch": [256, 256]},
        "batch_size": 256,
        "learning_starts": WARMUP,
        "seed": 0,
    }
    model = kind("MlpPolicy", TASK, train_freq=1, gradient_steps=ratio, **settings)
    model.learn(FOREVER, callback=Clock())


def print_table(ratio: int, runners: list[Runner]) -> None:
    print(
        f"\nreplay ratio {ratio}, {len(runners[0].ms_per_step)} turns of {TURN:g} s, "
        f"{os.cpu_count()} cores"
    )
    print(f"{'':12} {'steps/s':>8} {'ms/update':>10} {'first update':>13} {'peak MB':>8}")
    for runner in runners:
        ms = median(runner.ms_per_step)
        print(
            f"{runner.name:12} {1e3 / ms:8.1f} {ms / ratio:10.2f} {runner.first_update:11.1f} s "
            f"{runner.peak_mb():8.0f}"
        )
    for ours in runners:
        for peer in runners:
            if (
                ours.name in OURS
                and peer.name in PEERS
                and ours.name.split()[1].replace("dac", "sac") == peer.name.split()[1]
            ):  # DAC is SAC and more
                ratios = [
                    theirs / own
                    for theirs, own in zip(peer.ms_per_step, ours.ms_per_step, strict=True)
                ]
                low, middle, high = quantiles(ratios, n=4) if len(ratios) > 1 else ratios * 3
                print(
                    f"{ours.name} is {middle:.2f} times as fast as {peer.name} ({low:.2f} to "
                    f"{high:.2f})"
                )


if __name__ == "__main__":
    main()
