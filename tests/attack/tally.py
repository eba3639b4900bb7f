"""Counts of a session, and the ledger that they are entered in."""

from __future__ import annotations

import json
import math
import os
import subprocess
import time
from collections import Counter
from pathlib import Path

SHARE = float(os.environ.get("ATTACK_SHARE", "1"))
SEED = int(os.environ.get("ATTACK_SEED", "1"))
ONLY = os.environ.get("ATTACK_ONLY", "")

counts: dict[str, Counter[str]] = {}
notes: dict[str, list[str]] = {}
began = time.monotonic()


def share(full: int, least: int = 1) -> int:
    """How many of so many cases this session does."""
    return max(least, math.ceil(full * SHARE))


def some(cases: list, least: int = 1) -> list:
    """Choose the session's share of cases, evenly spread."""
    wanted = min(len(cases), share(len(cases), least))
    return [cases[place * len(cases) // wanted] for place in range(wanted)] if cases else []


def count(part: str, what: str, many: int = 1) -> None:
    counts.setdefault(part, Counter())[what] += many


def note(part: str, sentence: str) -> None:
    notes.setdefault(part, []).append(sentence)


def lines() -> list[str]:
    return [
        f"{part}: " + ", ".join(f"{many} {what}" for what, many in counter.items())
        for part, counter in counts.items()
    ]


def enter(ledger: Path, passed: int, failed: int, holes: list[str]) -> None:
    """Add a line with all counts of this session."""
    argv = ["git", "rev-parse", "--short", "HEAD"]
    head = subprocess.run(argv, capture_output=True, text=True, check=False)
    line = {
        "commit": head.stdout.strip(),
        "day": time.strftime("%Y-%m-%d"),
        "seed": SEED,
        "share": SHARE,
        "minutes": round((time.monotonic() - began) / 60),
        "passed": passed,
        "failed": failed,
        "holes": holes,
        "counts": counts,
        "notes": notes,
    }
    with ledger.open("a") as file:
        file.write(json.dumps(line) + "\n")
