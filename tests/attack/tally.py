"""Counts of a session, and the page that they are written to."""

from __future__ import annotations

import math
import os
import platform
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


def page(passed: int, failed: int, holes: list[str]) -> str:
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False
    ).stdout.strip()
    minutes = (time.monotonic() - began) / 60
    rows = [
        f"| {part} | {what} | {many} |"
        for part, counter in counts.items()
        for what, many in counter.items()
    ]
    broken = [f"- {part}: {sentence}" for part, each in notes.items() for sentence in each]
    text = [
        (Path(__file__).parent / "page.md").read_text().strip(),
        "",
        "## Counts",
        "",
        f"Commit {commit}, {time.strftime('%Y-%m-%d')}, Python {platform.python_version()}, seed "
        f"{SEED}, share {SHARE:g} of the full count, {minutes:.0f} minutes: {passed} tests passed, "
        f"{failed} failed, {len(holes)} are holes to be closed.",
        "",
        "| attack | what | count |",
        "|---|---|--:|",
        *rows,
    ]
    if broken:
        text += ["", "## What broke", "", *sorted(set(broken))]
    if holes:
        text += ["", "## Holes to be closed", "", *[f"- {hole}" for hole in sorted(set(holes))]]
    return "\n".join(text) + "\n"
