"""One process, pinned to its cores, that takes runs, or packs of seeds, to their end. It speaks
JSON lines to whoever started it.

python -m dualac.execution.worker --threads 1 RUN_DIRECTORY...     one run, or one pack python -m
dualac.execution.worker --threads 1                      one after another: a JSON list of
directories on each line of the standard input
"""

import argparse
import contextlib
import importlib
import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dualac.errors import DualacError, TryAgainError
from dualac.machine.children import die_with_parent
from dualac.machine.cores import pin
from dualac.machine.disk import is_disk_trouble
from dualac.training.run import Flags

TRAIN = "dualac.training.loop:train"
FINISHED = "finished"


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("paths", nargs="*", type=Path)
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--seen", type=int, default=1, help="how many of them XLA sees")
    parser.add_argument("--entry", default=TRAIN, help="what is done with the directories")
    parser.add_argument(
        "--flags", type=json.loads, default={}, metavar="JSON", help="how: fields of Flags"
    )
    words = parser.parse_args()
    speech = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # whatever a simulator prints goes to the log, not into the conversation

    def say(message: dict[str, Any]) -> None:
        with contextlib.suppress(
            BrokenPipeError
        ):  # whoever started us is gone, and its death asks us to stop
            speech.write(json.dumps(message) + "\n")

    die_with_parent(signal.SIGTERM)  # which checkpoints
    sys.path.insert(
        0, os.getcwd()
    )  # a user's own `module:Id` stands in the directory the command was typed in
    paths: list[Path] = words.paths
    try:
        pin(words.threads, words.seen)
        module, _, name = words.entry.partition(":")
        entry = getattr(
            importlib.import_module(module), name
        )  # JAX counts its cores when it is imported: after pinning
        for paths in [words.paths] if words.paths else told():
            entry(paths, say, Flags(**words.flags))
            say({"kind": FINISHED})
    except DualacError as error:
        say({"kind": "error", "text": str(error), "code": error.code})
        return error.code
    except Exception as error:
        if isinstance(error, OSError) and is_disk_trouble(error):
            say(
                {
                    "kind": "error",
                    "text": f"{error}; free space and start again: it goes on",
                    "code": TryAgainError.code,
                }
            )
            return TryAgainError.code
        log = paths[0] / "worker.log" if paths else "its output"
        say(
            {
                "kind": "error",
                "text": f"{type(error).__name__}: {error}; see {log}",
                "code": DualacError.code,
            }
        )
        raise
    return 0


def told() -> Iterator[list[Path]]:
    """The directories of each line, what is printed meanwhile going to a log beside them."""
    for line in sys.stdin:
        paths = [Path(word) for word in json.loads(line)]
        with (paths[0] / "worker.log").open("a") as log:
            os.dup2(log.fileno(), 2)
            os.dup2(log.fileno(), 1)
        yield paths


if __name__ == "__main__":
    sys.exit(main())
