"""Works whose process is asked to stop, or ends."""

import os
import signal
import time
from pathlib import Path


def ask_to_stop(paths: list[Path], report, flags) -> None:
    """Send the launcher the signal that the directory is named after, and do nothing else."""
    os.kill(os.getppid(), signal.Signals[paths[0].name])
    time.sleep(3600)


def exit_by_itself(paths: list[Path], report, flags) -> None:
    os._exit(7)


def crash(paths: list[Path], report, flags) -> None:
    os.abort()


def run_out_of_memory(paths: list[Path], report, flags) -> None:
    os.kill(os.getpid(), signal.SIGKILL)
