"""What a large plan costs before anything runs: expanding and hashing 100,000 units, and seeing how
far a directory of 6,400 finished runs is.

.venv/bin/python benchmarks/plan.py
"""

import json
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from dualac.experiments.adapt import scaled
from dualac.experiments.expand import expand
from dualac.experiments.find import find_experiment
from dualac.experiments.spec import Scale
from dualac.runs.plan import claim
from dualac.runs.state import mark_done
from dualac.training.run import prepare

ROWS = "".join(
    json.dumps({"step": step, "episode": episode, "return": 1.0}) + "\n"
    for step in range(0, 1_000_001, 10_000)
    for episode in range(10)
)


def main() -> None:
    began = time.perf_counter()
    runs = expand(scaled(find_experiment("benchmark"), Scale(seeds=278)))
    assert len({run.identity() for run in runs}) == len(runs)
    print(f"a plan of {len(runs)} units, expanded and hashed: {time.perf_counter() - began:.1f} s")

    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder)
        some = expand(scaled(find_experiment("benchmark"), Scale(seeds=18)))[:6400]
        claim(out, "benchmark", some)
        for run in some:
            path = prepare(run, out)
            (path / "eval.jsonl").write_text(ROWS)
            mark_done(path, run.steps, run.identity())
        words = [str(Path(sys.executable).parent / "dualac"), "status", folder]
        for _ in range(2):
            began = time.perf_counter()
            told = subprocess.run(
                words, capture_output=True, text=True, check=True
            ).stdout.splitlines()[-1]
            print(
                f"dualac status of a directory of {len(some)} runs ({told}): "
                f"{time.perf_counter() - began:.1f} s"
            )
        shutil.rmtree(out)


if __name__ == "__main__":
    main()
