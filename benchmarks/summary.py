"""From runs to the numbers and pictures of results: final scores by algorithm, the curve, the
inside of DAC.

    .venv/bin/python benchmarks/summary.py runs/cheetah results/cheetah-run

Reads every run below the first directory; writes curve.png, inside-dac.png and each run's rows into
the second.
"""

import json
import shutil
import sys
from collections import defaultdict
from pathlib import Path

import numpy as np

from dualac.analysis.data.curves import evaluation_curve, training_series
from dualac.analysis.figures.curves import inside, learning_curve
from dualac.runs.rows import read_rows

DUALS = ("train/kl", "train/kl_median", "train/optimism", "train/kl_weight", "train/ent_coef")


def print_success(runs: list[Path]) -> None:
    """Where the task defines success: the share of evaluation episodes that succeeded at any step,
    and at their last.
    """
    if not all("success" in read_rows(run / "eval.jsonl")[-1] for run in runs):
        return
    print(
        "| step | "
        + " | ".join(f"return, success, success at the last step ({run.name})" for run in runs)
        + " |"
    )
    curves = [
        [evaluation_curve(run, column) for column in ("return", "success", "success_last")]
        for run in runs
    ]
    for i, step in enumerate(curves[0][0].steps):
        cells = [
            f"{total.returns[i]:.0f}, {ever.returns[i]:.0%}, {last.returns[i]:.0%}"
            for total, ever, last in curves
        ]
        print(f"| {step} | " + " | ".join(cells) + " |")


def main() -> None:
    source, target = map(Path, sys.argv[1:3])
    groups: dict[str, list[Path]] = defaultdict(list)
    tasks = set()
    for path in sorted(source.rglob("run.json")):
        run = json.loads(path.read_text())
        groups[f"{run['name']}, replay ratio {run['replay_ratio']}"].append(path.parent)
        tasks.add(run["task"])
    for name, runs in groups.items():
        finals = [evaluation_curve(run).returns[-1] for run in runs]
        print(
            f"{name}: final evaluations {', '.join(f'{final:.0f}' for final in finals)}; mean "
            f"{np.mean(finals):.0f}"
        )
        print_success(runs)
        for run in runs:
            kept = target / run.relative_to(source)
            kept.mkdir(parents=True, exist_ok=True)
            for file in ("run.json", "machine.json", "eval.jsonl", "train.jsonl"):
                shutil.copyfile(run / file, kept / file)
    learning_curve(groups, ", ".join(sorted(tasks)), target / "curve.png")
    dual = [
        run
        for runs in groups.values()
        for run in runs
        if len(training_series(run, "train/kl").steps)
    ]
    if not dual:
        return
    explorer = json.loads((dual[0] / "run.json").read_text())["algorithm"]["explorer"]
    inside(
        dual,
        f"Inside DAC on {', '.join(sorted(tasks))}",
        {"KL per action dimension": explorer["target_kl"]},
        target / "inside-dac.png",
    )
    print(
        "| step | "
        + " | ".join(
            f"{name.removeprefix('train/')} (seed {run.name.removeprefix('seed')})"
            for name in DUALS
            for run in dual
        )
        + " |"
    )
    for step in range(20_000, 10**9, 10_000):
        values = [
            series.returns[series.steps == step]
            for name in DUALS
            for series in [training_series(run, name) for run in dual]
        ]
        if not all(len(value) for value in values):
            break
        print(f"| {step} | " + " | ".join(f"{value[0]:.3g}" for value in values) + " |")


if __name__ == "__main__":
    main()
