"""What a call of the learner costs beside its updates, from calls of 2 and of 16 updates in turns:
a call of none, as it were.

.venv/bin/python benchmarks/call.py [dac] [--threads 1] [--rounds 25]
"""

import argparse
import time
from statistics import median

from dualac.bench.learner import Timed
from dualac.bench.load import Load
from dualac.machine.compilation import use_compilation_cache
from dualac.machine.cores import pin
from dualac.training.presets import find_algorithm

FEW, MANY, EACH = 2, 16, 4


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("algorithm", nargs="?", default="dac")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=25)
    asked = parser.parse_args()
    pin(asked.threads)
    use_compilation_cache()
    few, many = (
        Timed(asked.algorithm, find_algorithm(asked.algorithm), Load(replay_ratio=ratio))
        for ratio in (FEW, MANY)
    )
    calls, updates, beside = [], [], []
    for _ in range(asked.rounds):
        before = [seconds(few) for _ in range(EACH)]
        long = seconds(many)
        call = median(before + [seconds(few) for _ in range(EACH)])
        update = (long - call) / (MANY - FEW)
        calls.append(call)
        updates.append(update)
        beside.append(call - FEW * update)
    share = median(extra / call for extra, call in zip(beside, calls, strict=True))
    call, update = 1e3 * median(calls), 1e3 * median(updates)
    print(
        f"{asked.algorithm}, {asked.threads} core(s): a call of {FEW} updates {call:.2f} ms, an "
        f"update {update:.2f} ms"
    )
    print(f"beside its updates a call takes {1e3 * median(beside):.2f} ms, {share:.0%} of it")


def seconds(timed: Timed) -> float:
    began = time.perf_counter()
    timed.run()
    return time.perf_counter() - began


if __name__ == "__main__":
    main()
