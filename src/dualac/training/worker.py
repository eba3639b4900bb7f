"""One process, pinned to its cores, that takes one run or one pack of seeds to its end. It speaks JSON lines to whoever started it.

python -m dualac.training.worker --threads 1 RUN_DIRECTORY...
"""

import argparse
import contextlib
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

from dualac.errors import DualacError
from dualac.parent import die_with_parent
from dualac.training import machine


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("paths", nargs="+", type=Path)
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--allow-inexact", action="store_true")
    parser.add_argument("--tensorboard", action="store_true")
    parser.add_argument("--isolate-env", type=float, metavar="SECONDS")
    words = parser.parse_args()
    speech = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # whatever a simulator prints goes to the log, not into the conversation

    def say(message: dict[str, Any]) -> None:
        with contextlib.suppress(BrokenPipeError):  # whoever started us is gone, and its death asks us to stop
            speech.write(json.dumps(message) + "\n")

    die_with_parent(signal.SIGTERM)  # which checkpoints
    sys.path.insert(0, os.getcwd())  # a user's own `module:Id` stands in the directory the command was typed in
    try:
        machine.pin(words.threads)
        from dualac.training.loop import train  # JAX counts its cores when it is imported: after pinning

        train(words.paths, say, allow_inexact=words.allow_inexact, tensorboard=words.tensorboard, isolated=words.isolate_env)
    except DualacError as error:
        say({"kind": "error", "text": str(error), "code": error.code})
        return error.code
    except Exception as error:
        say({"kind": "error", "text": f"{type(error).__name__}: {error}; see {words.paths[0] / 'worker.log'}", "code": DualacError.code})
        raise
    return 0


if __name__ == "__main__":
    sys.exit(main())
