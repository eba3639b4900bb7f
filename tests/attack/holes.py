"""Holes that are to be closed: cases that break until then.

known_holes.txt has a line a case: the number of the hole in issue 25, the case, and what was seen.
A case that is named must break: who mends a hole removes its lines. A line with a star stands for
cases that were not yet tried one by one: they may break. ATTACK_RECORD=FILE appends a line for
each case that breaks and is not named, with hole 0 and what happened.
"""

from __future__ import annotations

import fnmatch
import os
from pathlib import Path

import pytest

LIST = Path(__file__).with_name("known_holes.txt")
RECORD = os.environ.get("ATTACK_RECORD")


def known_holes() -> dict[str, str]:
    """Read the list: the hole of each case, or of each pattern of cases."""
    lines = [line for line in LIST.read_text().splitlines() if line and not line.startswith("#")]
    pairs = [line.split("  # ")[0].split(" ", 1) for line in lines]
    return {case: number for number, case in pairs}


def mark(request: pytest.FixtureRequest, case: str) -> None:
    """Expect the case to break, if it is on the list."""
    for pattern, number in known_holes().items():
        if case == pattern or ("*" in pattern and fnmatch.fnmatchcase(case, pattern)):
            reason = f"hole {number}: {case}"
            strict = "*" not in pattern
            request.applymarker(pytest.mark.xfail(strict=strict, reason=reason))
            return


def settle(case: str, problems: list[str]) -> None:
    """Record a case that broke and is not on the list by its name."""
    if problems and RECORD and case not in known_holes():
        with Path(RECORD).open("a") as file:
            file.write(f"0 {case}  # {' | '.join(problems)!r}\n")
