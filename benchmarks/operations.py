"""Where an update's time goes: microseconds of each kind of operation that XLA made of it.

    .venv/bin/python benchmarks/operations.py [dac] [--each 20] [--threads 1]

Of each operation an eighth of its calls are faster than what is counted here: a busy machine counts
much like an idle one. `while` contains the operations of its loop, which are counted beside it.
`--each` lists single operations too.
"""

import argparse
import gzip
import json
import re
import tempfile
from collections import Counter, defaultdict
from pathlib import Path

import jax

from dualac.bench.learner import Timed
from dualac.bench.load import Load
from dualac.machine.cores import pin
from dualac.training.presets import find_algorithm

CALLS = 12


def traced(timed: Timed) -> dict[str, list[float]]:
    """How long each call of each operation took, in microseconds."""
    with tempfile.TemporaryDirectory() as place:
        with jax.profiler.trace(place):
            for _ in range(CALLS):
                timed.run()
        (told,) = Path(place).rglob("*.trace.json.gz")
        events = json.loads(gzip.decompress(told.read_bytes()))["traceEvents"]
    found: dict[str, list[float]] = defaultdict(list)
    for event in events:
        if event.get("ph") == "X" and "hlo_op" in event.get("args", {}):
            found[event["args"]["hlo_op"]].append(event["dur"])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("algorithm", nargs="?", default="dac")
    parser.add_argument("--each", type=int, default=0)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--replay-ratio", type=int, default=16)
    asked = parser.parse_args()
    pin(asked.threads)
    timed = Timed(
        asked.algorithm, find_algorithm(asked.algorithm), Load(replay_ratio=asked.replay_ratio)
    )
    for _ in range(CALLS):
        timed.run()
    updates = CALLS * timed.load.replay_ratio
    found = traced(timed)
    cost = {
        name: sorted(times)[len(times) // 8] * len(times) / updates for name, times in found.items()
    }
    kinds, calls = Counter[str](), Counter[str]()
    for name, micros in cost.items():
        kind = re.sub(r"[.\d]+$", "", name)
        kinds[kind] += micros
        calls[kind] += len(found[name]) / updates
    print(
        f"{asked.algorithm}: {sum(cost.values()):.0f} us an update in {sum(calls.values()):.0f} "
        "operations"
    )
    for kind, micros in kinds.most_common(20):
        print(f"{kind:45} {micros:8.1f} us in {calls[kind]:6.1f}")
    for name, micros in sorted(cost.items(), key=lambda pair: -pair[1])[: asked.each]:
        print(f"  {name:43} {micros:8.1f} us")


if __name__ == "__main__":
    main()
