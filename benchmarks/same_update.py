"""Whether two versions of this library make the same updates, to rounding: from one state, on the
same minibatches and by the same keys.

git worktree add ../before 9fb9594
.venv/bin/python benchmarks/same_update.py ../before [dac] [--updates 60]
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

OBS, ACTIONS, BATCH = 17, 6, 256


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("before", type=Path, help="a checkout of the other version")
    parser.add_argument("algorithm", nargs="?", default="dac")
    parser.add_argument("--updates", type=int, default=60)
    parser.add_argument(
        "--tell", action="store_true", help="what each version's process is asked for"
    )
    asked = parser.parse_args()
    if asked.report_progress:
        return print(json.dumps(metrics(asked.algorithm, asked.updates)))
    told = []
    for checkout in (asked.before, Path(__file__).parents[1]):
        words = [
            sys.executable,
            __file__,
            str(asked.before),
            asked.algorithm,
            "--updates",
            str(asked.updates),
            "--tell",
        ]
        here = os.environ | {"PYTHONPATH": str(checkout.absolute() / "src")}
        told.append(
            json.loads(
                subprocess.run(
                    words, env=here, capture_output=True, text=True, check=True
                ).stdout.splitlines()[-1]
            )
        )
    for number in sorted({1, asked.updates // 4, asked.updates}):
        before, after = (one[number - 1] for one in told)
        both = [name for name in before if name in after]
        worst = max(
            both, key=lambda name: abs(before[name] - after[name]) / (abs(before[name]) + 1e-6)
        )
        print(
            f"update {number}: of {len(both)} metrics {worst} differs most, {before[worst]:.6g} "
            f"and {after[worst]:.6g}"
        )


def metrics(algorithm: str, updates: int) -> list[dict[str, float]]:
    import jax
    import numpy as np

    from dualac.agents.agent import make_agent
    from dualac.agents.algorithms import ALGORITHMS
    from dualac.types import Spec, Transition

    agent, draw, found = (
        make_agent(ALGORITHMS[algorithm], Spec(OBS, ACTIONS)),
        np.random.default_rng(0),
        [],
    )
    state, update = agent.init(jax.random.key(5)), jax.jit(agent.update)

    def normal(*shape: int) -> np.ndarray:
        return draw.normal(size=(BATCH, *shape)).astype(np.float32)

    for number in range(updates):
        obs = normal(OBS)
        batch = Transition(
            obs,
            np.tanh(normal(ACTIONS)),
            normal() ** 2,
            np.ones(BATCH, np.float32),
            obs + 0.1 * normal(OBS),
        )  # pyright: ignore[reportArgumentType]
        state, seen = update(state, batch, jax.random.key(100 + number))
        found.append({name: float(value) for name, value in seen.items()})
    return found


if __name__ == "__main__":
    main()
