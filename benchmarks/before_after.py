"""The learning curves of one algorithm before and after changes to what runs, from runs of the same
seeds.

.venv/bin/python benchmarks/before_after.py results/cheetah-run/dac
results/before-after/b22bd11 runs/dac results/before-after

Keeps the rows of the latest runs, the last but one directory, in the last one below their commit,
draws before-after.png there and prints the returns side by side.
"""

import json
import shutil
import sys
from pathlib import Path
from statistics import mean

from dualac.analysis.data.curves import evaluation_curve
from dualac.analysis.figures.curves import learning_curve


def main() -> None:
    *places, out = map(Path, sys.argv[1:])
    groups: dict[str, list[Path]] = {}
    for place in places:
        runs = sorted(path.parent for path in place.rglob("run.json"))
        commits = sorted(
            {json.loads((run / "machine.json").read_text())["commit"][:7] for run in runs}
        )
        groups[f"at {', '.join(commits)}"] = runs
    for run in runs:
        kept = out / commits[0] / run.relative_to(places[-1])
        kept.mkdir(parents=True, exist_ok=True)
        for file in ("run.json", "machine.json", "eval.jsonl", "train.jsonl"):
            shutil.copyfile(run / file, kept / file)
    spec = json.loads((runs[0] / "run.json").read_text())
    learning_curve(
        groups,
        f"{spec['name']} on {spec['task']}, replay ratio {spec['replay_ratio']}",
        out / "before-after.png",
    )
    curves = {
        name: [evaluation_curve(run) for run in rollouts] for name, rollouts in groups.items()
    }
    print("| step | " + " | ".join(curves) + " |")
    print("|---" * (len(curves) + 1) + "|")
    for step in sorted(
        set.intersection(
            *(set(curve.steps.tolist()) for rollouts in curves.values() for curve in rollouts)
        )
    ):
        cells = [
            [float(curve.returns[curve.steps == step][0]) for curve in rollouts]
            for rollouts in curves.values()
        ]
        print(
            f"| {step} | "
            + " | ".join(
                f"{', '.join(f'{value:.0f}' for value in each)}; mean {mean(each):.0f}"
                for each in cells
            )
            + " |"
        )


if __name__ == "__main__":
    main()
