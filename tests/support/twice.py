"""A run of `dac` that goes straight through, and one that is killed and resumed: how many arrays of
their last checkpoints differ.

python -m tests.support.twice FOLDER [ROW]

Run it with the interpreter of another environment to ask another build of JAX.
"""

import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import safetensors.numpy
from tests.support.runs import a_run, last

from dualac.training.run import prepare

STEPS, KILLED = 300, ("step:67", "learnt:181")


def main() -> None:
    folder, row = Path(sys.argv[1]), (*sys.argv[2:], "dac")[0]
    run = a_run(row, steps=STEPS, batch_size=32, capacity=STEPS, resets=())
    arrays = []
    for name, deaths in (("straight", ()), ("killed", KILLED)):
        path = prepare(run, folder / name)
        argv = [sys.executable, "-m", "tests.support.killed", str(path), *deaths]
        subprocess.run(argv, check=True)
        arrays.append(safetensors.numpy.load_file(last(path) / "state.safetensors"))
    straight, killed = arrays
    assert straight.keys() == killed.keys()
    differing = [name for name in straight if not np.array_equal(straight[name], killed[name])]
    print(f"jax {jax.__version__}, {row}: {len(differing)} of {len(straight)} arrays differ")
    sys.exit(bool(differing))


if __name__ == "__main__":
    main()
