"""Units of work that take ten milliseconds, or die: what a sweep is made of, without the learning.

python -m tests.support.toy_units OUT SEEDS [ADDRESS]      the driver of a sweep of such units,
on this machine or on a Ray cluster
"""

import errno
import json
import os
import signal
import sys
import time
from pathlib import Path

from dualac.errors import RunFailedError
from dualac.execution.local import Effort, Failure, Work, launch
from dualac.experiments.spec import Experiment, Grid
from dualac.experiments.sweep import Orders, Outcome, sweep
from dualac.machine.messages import Progress
from dualac.runs.lock import Attempt, owned
from dualac.runs.state import mark_done
from dualac.training.run import load

ENTRY = "tests.support.toy_units:carry_out"
POISON, BROKEN, SHAKY, FULL = range(
    90_001, 90_005
)  # seeds that always kill their process, fail by their own account, die once, find no space
SPACE = "space"  # the file in the sweep's directory that says there is some again


def toy_experiment(seeds, tasks=("gym/Pendulum-v1",), **changes) -> Experiment:
    return Experiment(
        "toy",
        "does the control plane hold?",
        (Grid(("sac", "dac"), tasks, seeds=seeds, **{"steps": 20_000, **changes}),),
    )


def carry_out(paths: list[Path], report, flags) -> None:
    """As `loop.train` does: own the run, begin an attempt, write rows, commit. Each execution
    leaves a line in a log that no attempt shares.
    """
    (path,) = paths
    with owned(path):
        run = load(path)
        attempt = Attempt.begin(path)
        with (path / "executed").open("a") as log:
            log.write(f"{attempt.number} {os.getpid()}\n")
        if run.seed == POISON or (run.seed == SHAKY and attempt.number == 1):
            os.kill(os.getpid(), signal.SIGKILL)
        if run.seed == BROKEN:
            (path / "FAILED").write_text(
                json.dumps({"step": 7, "reason": "the toy is broken", "error": "RunFailedError"})
            )
            raise RunFailedError("the toy is broken")
        if run.seed == FULL and not (path.parents[3] / SPACE).exists():
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path / "eval.jsonl"))
        (path / "events.jsonl").touch()
        report(Progress(str(path), run.seed, 1, run.steps, 1.0))
        time.sleep(0.01)
        attempt.require()
        (path / "eval.jsonl").write_text(
            json.dumps({"step": run.steps, "episode": 0, "return": run.seed / 7}) + "\n"
        )
        mark_done(path, run.steps, run.identity())
        report(Progress(str(path), run.seed, run.steps, run.steps, 1.0, "done"))


def linger(paths: list[Path], report, flags) -> None:
    """Wait for a signal to stop, as a training that checkpoints."""
    signals: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, frame: signals.append(number))
    (paths[0] / "lingers").touch()
    while not signals:
        time.sleep(0.01)
    (paths[0] / "lingers").rename(paths[0] / "stopped")


def here(works: list[Work], report, flags, effort) -> list[Failure]:
    """Execute without processes, for tests that are not about them."""
    for work in works:
        assert work.prepare
        work.prepare()
        carry_out(work.paths, report, flags)
    return []


def toy_sweep(
    out: Path, seeds, report=lambda message: None, executor=launch, grid=None, **orders
) -> Outcome:
    def toys(works, report, flags, effort: Effort):
        return executor(works, report, flags, effort._replace(entry=ENTRY, pause=0.05))

    return sweep(toy_experiment(seeds, **(grid or {})), Orders(out, toys, **orders), report)


def main() -> int:
    out, seeds, *address = sys.argv[1:]
    executor = launch
    if address:
        from dualac.execution.on_ray import on_ray

        executor = on_ray(address[0])
    outcome = toy_sweep(Path(out), int(seeds), executor=executor)
    return len([unit for unit in outcome.units if unit.state != "done"])


if __name__ == "__main__":
    sys.exit(main())
