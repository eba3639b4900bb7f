"""A worker that gets a signal exactly as its environment answers to a step.

python -m tests.support.signalled SIGNAL STEP RUN
"""

import os
import signal
import sys
from pathlib import Path

from dualac.machine.cores import pin

pin(1)  # as the worker does, before anything imports JAX

from dualac.execution import worker  # noqa: E402
from dualac.training.rollout import Rollout  # noqa: E402


def main() -> int:
    number, when, run = signal.Signals[sys.argv[1]], int(sys.argv[2]), Path(sys.argv[3])
    step = Rollout.step

    def signalled(self, action, at):
        if at == when:
            os.kill(os.getpid(), number)
        return step(self, action, at)

    Rollout.step = signalled
    sys.argv = ["worker", "--threads", "1", str(run)]
    return worker.main()


if __name__ == "__main__":
    sys.exit(main())
