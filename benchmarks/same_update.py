"""Whether two versions of this library make the same update, to rounding.

The other version learns a little and writes its state down. Then both make one update of that
state, on the same minibatch and by the same key.

git worktree add ../before 16cd36f
.venv/bin/python benchmarks/same_update.py ../before [dac sac ...]
"""

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

OBS, ACTIONS, BATCH = 17, 6, 256
WARM = 20  # updates before the one that is compared: Adam's first steps only see a gradient's sign
TOLERANCE = 1e-4  # of the largest number of an array

Arrays = dict[str, np.ndarray]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("before", type=Path, help="a checkout of the other version")
    parser.add_argument("algorithms", nargs="*", help="rows of the table; all where none is named")
    args = parser.parse_args()
    here = Path(__file__).parents[1]
    names = args.algorithms or rows(here)
    return max(compare(name, args.before, here) for name in names)


def rows(checkout: Path) -> list[str]:
    code = "from dualac.agents.algorithms import ALGORITHMS; print(*ALGORITHMS)"
    return run(checkout, "-c", code).split()


def run(checkout: Path, *args: str) -> str:
    environment = os.environ | {"PYTHONPATH": str(checkout.absolute() / "src")}
    command = [sys.executable, *args]
    return subprocess.run(
        command, env=environment, stdout=subprocess.PIPE, text=True, check=True
    ).stdout


def compare(name: str, before: Path, after: Path) -> int:
    """Print how far the versions differ; return 1 where it is more than rounding."""
    with tempfile.TemporaryDirectory() as folder:
        files = [str(Path(folder) / f"{part}.npz") for part in ("start", "old", "new")]
        run(before, __file__, "--worker", name, files[0], files[1])
        run(after, __file__, "--worker", name, files[0], files[2])
        start, old, new = (dict(np.load(file)) for file in files)
    if old.keys() != new.keys():
        print(f"{name}: other arrays: {', '.join(sorted(old.keys() ^ new.keys()))}")
        return 1
    initial = [array for array in old if array.startswith("initial.")]
    same = all(np.array_equal(old[array], new[array]) for array in initial)
    worst = max(set(old) - set(initial), key=lambda array: distance(old[array], new[array]))
    error = distance(old[worst], new[worst])
    print(
        f"{name}: {'the same' if same else 'OTHER'} initial weights; after an update of "
        f"{len(start)} arrays {worst} differs most, by {error:.1e}"
    )
    return int(error > TOLERANCE)


def distance(old: np.ndarray, new: np.ndarray) -> float:
    if np.array_equal(old, new, equal_nan=True):
        return 0.0
    return float(np.abs(old - new).max() / np.abs(old).max())


def work(name: str, start: str, result: str) -> None:
    """Make an update of the state in the file `start`; the first version makes that file."""
    import jax

    import dualac
    from dualac.agents.algorithms import ALGORITHMS

    agent = dualac.make_agent(name, OBS, ACTIONS)
    count = np.uint32(ALGORITHMS[name].policy.delay - 1)  # at which the actors move too

    def update(state: Any, batch: Any, key: jax.Array) -> Any:
        if not hasattr(agent, "noise"):  # the old interface
            return agent.update(state, batch, key, count)
        return agent.update(state, batch, agent.noise(key, batch.action.size), count)

    update = jax.jit(update)
    state = initial = jax.jit(agent.init)(jax.random.key(5))
    if not Path(start).exists():
        for step in range(WARM):
            state, _ = update(state, batch_of(step), jax.random.key(100 + step))
        np.savez(start, allow_pickle=False, **named(state))
    arrays = np.load(start)
    state = jax.tree.unflatten(
        jax.tree.structure(initial), [arrays[leaf] for leaf in named(initial)]
    )
    state, metrics = update(state, batch_of(WARM), jax.random.key(100 + WARM))
    np.savez(
        result, allow_pickle=False, **named({"initial": initial, "state": state, "metric": metrics})
    )


def named(tree: Any) -> Arrays:
    import jax

    return {
        jax.tree_util.keystr(path, simple=True, separator="."): np.asarray(leaf)
        for path, leaf in jax.tree_util.tree_leaves_with_path(tree)
    }


def batch_of(seed: int) -> Any:
    from dualac.types import Transition

    rng = np.random.default_rng(seed)

    def normal(*shape: int) -> np.ndarray:
        return rng.normal(size=(BATCH, *shape)).astype(np.float32)

    obs, reward = normal(OBS), normal() ** 2
    return Transition(
        obs=obs,
        action=np.tanh(normal(ACTIONS)),
        reward=reward,
        discount=np.ones(BATCH, np.float32),
        next_obs=obs + 0.1 * normal(OBS),
    )


if __name__ == "__main__":
    if sys.argv[1:2] == ["--worker"]:
        work(*sys.argv[2:])
    else:
        sys.exit(main())
