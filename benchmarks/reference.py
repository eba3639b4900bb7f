"""The reference run of `dualac bench` on an idle machine: what each kind printed, with its command,
as one page.

.venv/bin/python benchmarks/reference.py results/bench.md [--only learner,sweep]
"""

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path

from dualac.machine.compilation import cpu_model
from dualac.machine.fingerprint import versions

COMMANDS = (
    ("learner", "One update", "bench learner sac dac --rounds 15"),
    ("learner", "One update on two cores", "bench learner sac dac --rounds 15 --threads 2"),
    ("train", "Training end to end, one core", "bench train dac dmc/cheetah-run"),
    ("train", "Training end to end, two cores", "bench train dac dmc/cheetah-run --threads 2"),
    (
        "train",
        "The same at replay ratio 16",
        "bench train dac dmc/cheetah-run --replay-ratio 16 --steps 500 --threads 2",
    ),
    ("sweep", "Two pinned workers against one", "bench sweep dac"),
    ("envs", "Tasks alone", "bench envs"),
    ("memory", "Memory: a million transitions of dmc/dog-run", "bench memory dac dmc/dog-run"),
    ("scaling", "How cost grows", "bench scaling"),
    ("rows", "One update, every row, against SAC's", "bench learner --all"),
)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("page", type=Path)
    parser.add_argument(
        "--only",
        default=",".join(dict.fromkeys(kind for kind, _, _ in COMMANDS)),
        help="these kinds alone: learner,sweep",
    )
    asked = parser.parse_args()
    kinds = asked.only.split(",")
    if unknown := set(kinds) - {kind for kind, _, _ in COMMANDS}:
        parser.error(f"no kind {', '.join(sorted(unknown))}")
    load = os.getloadavg()[0]
    if load > 0.5:
        print(f"the machine is busy (load {load:.1f}): these will be no reference", file=sys.stderr)
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=True
    ).stdout.strip()
    cores, known = len(os.sched_getaffinity(0)), versions()
    machine = (
        f"{cpu_model()}, {cores} cores; jax {known['jax']}, mujoco {known['mujoco']}; at {commit}, "
        f"load {load:.2f} before it"
    )
    caution = (
        "Times on one machine compare with one another, not with another machine's; how they came "
        "to be: [performance](../performance.md)."
    )
    lines = [
        "# What it costs: a reference run",
        "",
        f"{machine}. Made by `{' '.join(['.venv/bin/python', *sys.argv])}`.",
        caution,
    ]
    for _, title, words in (command for command in COMMANDS if command[0] in kinds):
        began = time.monotonic()
        told = subprocess.run(
            [sys.executable, "-m", "dualac", *words.split()],
            capture_output=True,
            text=True,
            check=True,
            env=os.environ | {"COLUMNS": "150"},
        ).stdout
        print(f"{title}: {time.monotonic() - began:.0f} s")
        lines += [
            "",
            f"## {title}",
            "",
            "```",
            f"dualac {words}",
            "```",
            "",
            "```",
            *(line.rstrip() for line in told.strip("\n").splitlines()),
            "```",
        ]
        asked.page.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
