"""Signals that ask to stop."""

import signal
import subprocess
import sys

import pytest

from dualac.machine.signals import STOPPING, handling

IGNORED = """
import signal
from dualac.machine.signals import handling
signal.signal(signal.SIGHUP, signal.SIG_IGN)
with handling(lambda number, frame: print("handled")):
    signal.raise_signal(signal.SIGHUP)
"""


@pytest.mark.parametrize("number", STOPPING)
def test_a_signal_that_asks_to_stop_is_handled_once_and_the_next_as_before(number):
    earlier, noted = [], []
    before = {each: signal.signal(each, lambda *_: earlier.append(1)) for each in STOPPING}

    def note(received, frame):
        noted.append(received)
        restore()

    try:
        with handling(note) as restore:
            signal.raise_signal(number)
            for each in STOPPING:
                signal.raise_signal(each)
        signal.raise_signal(number)
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
    assert (noted, len(earlier)) == ([number], len(STOPPING) + 1)


def test_what_nohup_ignores_stays_ignored():
    done = subprocess.run(
        [sys.executable, "-c", IGNORED], capture_output=True, text=True, check=True
    )
    assert done.stdout == ""
