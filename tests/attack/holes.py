"""Holes that are known: cases that are expected to fail until they are closed.

known_holes.txt has a line a case: the number of the hole in its issue, and the case. A case that
is listed and holds fails the tier: its line goes with the mend. ATTACK_RECORD=FILE appends a line
for each case that breaks and is not listed, with hole 0 and what happened.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

LIST = Path(__file__).with_name("known_holes.txt")
RECORD = os.environ.get("ATTACK_RECORD")


def known_holes() -> dict[str, str]:
    lines = LIST.read_text().splitlines() if LIST.exists() else []
    cases = [line.split("  # ")[0] for line in lines if line and not line.startswith("#")]
    pairs = [case.split(" ", 1) for case in cases]
    return {case: number for number, case in pairs}


def mark(request: pytest.FixtureRequest, case: str) -> None:
    if number := known_holes().get(case):
        reason = f"hole {number} of issue 25: {case}"
        request.applymarker(pytest.mark.xfail(strict=True, reason=reason))


def settle(case: str, problems: list[str]) -> None:
    if problems and RECORD and case not in known_holes():
        with Path(RECORD).open("a") as file:
            file.write(f"0 {case}  # {' | '.join(problems)}\n")
