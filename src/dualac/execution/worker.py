"""One process, pinned to its cores, that takes runs, or packs of seeds, to their end.

python -m dualac.execution.worker --threads 1 RUN_DIRECTORY...   one run, or one pack
python -m dualac.execution.worker --threads 1                    an `Assignment` on each line of
                                                                 the standard input
"""

import argparse
import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

from dualac.errors import DualacError, TryAgainError
from dualac.machine.children import die_with_parent, load_function, open_answers
from dualac.machine.cores import pin
from dualac.machine.disk import is_disk_trouble
from dualac.machine.messages import Assignment, ErrorMessage, Finished, from_line
from dualac.runs.files import open_file
from dualac.runs.layout import WORKER_LOG
from dualac.training.run import Flags

TRAIN = "dualac.training.loop:train"


def main() -> int:
    options = _parse()
    send = open_answers()
    die_with_parent(signal.SIGTERM)  # which checkpoints
    # Until there is something to lose a signal ends the process. A KeyboardInterrupt is never one.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    paths: list[Path] = options.paths
    try:
        pin(options.threads, options.seen)
        carry_out = load_function(options.entry)
        # Whoever starts a worker has read its runs, and was allowed to run their code.
        flags = Flags(**options.flags)._replace(trust=True)
        for paths in [options.paths] if options.paths else _assignments():
            carry_out(paths, send, flags)
            send(Finished())
    except Exception as error:
        known = _as_known(error, paths)
        send(ErrorMessage.of(known))
        if type(known) is DualacError:  # its traceback is for the log
            raise
        return known.code
    return 0


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("paths", nargs="*", type=Path)
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--seen", type=int, default=1, help="how many of them XLA sees")
    parser.add_argument("--entry", default=TRAIN, help="what is done with the directories")
    parser.add_argument(
        "--flags", type=json.loads, default={}, metavar="JSON", help="how: fields of Flags"
    )
    return parser.parse_args()


def _assignments() -> Iterator[list[Path]]:
    """Read the directories of each assignment; what is printed meanwhile goes to a log in them."""
    for line in sys.stdin:
        message = from_line(line)
        assert isinstance(message, Assignment)
        paths = [Path(path) for path in message.paths]
        with open_file(paths[0] / WORKER_LOG, "ab") as log:
            os.dup2(log.fileno(), 2)
            os.dup2(log.fileno(), 1)
        yield paths


def _as_known(error: Exception, paths: list[Path]) -> DualacError:
    """Return the error itself, or the one to report in place of an unforeseen one."""
    if isinstance(error, DualacError):
        return error
    if isinstance(error, OSError) and is_disk_trouble(error):
        return TryAgainError(f"{error}; free space and start again: it goes on")
    log = paths[0] / WORKER_LOG if paths else "its output"
    return DualacError(f"{type(error).__name__}: {error}; see {log}")


if __name__ == "__main__":
    sys.exit(main())
