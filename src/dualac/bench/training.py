"""What training costs end to end, seen from outside: the command is run in a directory that is thrown away, and its own log is read."""

import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

from dualac.bench.load import Load
from dualac.bench.pinned import answer, ask

MEASURE = "dualac.bench.learner:measure"
LOG_EVERY = 100


def end_to_end(algorithm: str, task: str, load: Load, *, steps: int, threads: int) -> dict[str, Any]:
    """Environment steps a second while it learns, and what share of them is outside the learner's compiled call, timed in the same minute."""
    before = _update(algorithm, load, threads)
    with tempfile.TemporaryDirectory() as folder:
        warmup = 1_000
        words = ["train", algorithm, task, "--steps", str(warmup + steps), "--warmup", str(warmup), "--replay-ratio", str(load.replay_ratio)]
        words += ["--eval-every", "1000000000", "--eval-episodes", "1", "--log-every", str(LOG_EVERY), "--checkpoint-every", "1000000000"]
        started = time.perf_counter()
        _dualac(*words, "--threads", str(threads), "--out", folder, "--quiet")
        whole = time.perf_counter() - started
        (log,) = Path(folder).rglob("train.jsonl")
        rows = [json.loads(line) for line in log.read_text().splitlines()]
    learning = [row for row in rows if row["step"] > warmup + LOG_EVERY]  # the first interval compiles
    paces = [(b["time/time_elapsed"] - a["time/time_elapsed"]) / (b["step"] - a["step"]) for a, b in itertools.pairwise(learning)]
    update = median([before, _update(algorithm, load, threads)])
    step = median(paces)
    return {
        "algorithm": algorithm, "task": task, "replay_ratio": load.replay_ratio, "threads": threads,
        "steps_per_second": 1 / step, "ms_per_step": 1e3 * step, "ms_per_update": 1e3 * update,
        "share_outside_the_learner": 1 - load.replay_ratio * update / step, "seconds_in_all": whole,
    }  # fmt: skip


def sweep(algorithm: str, load: Load, workers: int, rounds: int = 3) -> dict[str, Any]:
    """Updates a second of one pinned worker, and of several side by side, in turns."""
    alone, together = [], []
    for _ in range(rounds):
        alone.append(1 / _update(algorithm, load, 1))
        begun = [ask(MEASURE, 1, kinds=[(algorithm, load._asdict())]) for _ in range(workers)]
        together.append(sum(1 / _seconds(process) for process in begun))
    one, many = median(alone), median(together)
    about = {"algorithm": algorithm, "replay_ratio": load.replay_ratio, "workers": workers}
    return {**about, "updates_per_second_of_one": one, "updates_per_second_of_all": many, "times_one": many / one}


def _update(algorithm: str, load: Load, threads: int) -> float:
    """Seconds of an update, in a process of its own that is pinned to so many cores."""
    return _seconds(ask(MEASURE, threads, kinds=[(algorithm, load._asdict())]))


def _seconds(process: "subprocess.Popen[str]") -> float:
    return answer(process)[0]["ms_per_update"] / 1e3


def _dualac(*words: str) -> None:
    code = "import sys; from dualac.cli import main; main(sys.argv[1:])"
    subprocess.run([sys.executable, "-c", code, *words], check=True, stdout=subprocess.DEVNULL, env=dict(os.environ))
