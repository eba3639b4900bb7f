"""Writes the page of the attack from a ledger of sessions.

python -m tests.attack.page LEDGER docs/attack.md
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

TEXT = Path(__file__).with_name("page.md")


def page(sessions: list[dict[str, Any]]) -> str:
    totals: Counter[tuple[str, str]] = Counter()
    for session in sessions:
        for part, counter in session["counts"].items():
            for what, many in counter.items():
                totals[part, what] += many
    if not sessions:
        return TEXT.read_text().strip() + "\n\n## Counts\n\nNo session has been entered yet.\n"
    rows = [f"| {part} | {what} | {many} |" for (part, what), many in sorted(totals.items())]
    return "\n".join(
        [
            TEXT.read_text().strip(),
            *("", "## Counts", "", "| attack | what | count |", "|---|---|--:|"),
            *rows,
            *("", "From these sessions:", ""),
            *("| day | commit | seed | share | minutes | tests passed | failed | known holes |",),
            *("|---|---|--:|--:|--:|--:|--:|--:|",),
            *map(row_of, sessions),
            *listed("What was noted", sessions, "notes"),
            *listed("Holes to be closed", sessions, "holes"),
            "",
        ]
    )


def row_of(session: dict[str, Any]) -> str:
    columns = ("day", "commit", "seed", "share", "minutes", "passed", "failed")
    cells = [f"{session[name]}" for name in columns] + [f"{len(session['holes'])}"]
    return f"| {' | '.join(cells)} |"


def listed(title: str, sessions: list[dict[str, Any]], name: str) -> list[str]:
    """Make a section with a line for each different sentence."""
    sentences: set[str] = set()
    for session in sessions:
        if name == "holes":
            sentences.update(session[name])
        else:
            sentences.update(f"{part}: {x}" for part, every in session[name].items() for x in every)
    lines = sorted(f"- {plain(sentence)}" for sentence in sentences)
    return ["", f"## {title}", "", *lines] if lines else []


def plain(sentence: str) -> str:
    """Return one line of printable text, with no link or markup in it."""
    text = "".join(sign if sign.isprintable() else " " for sign in sentence)
    return " ".join(text.translate(str.maketrans("[]<>`|", "()()'/")).split())[:300]


def main() -> None:
    ledger, target = map(Path, sys.argv[1:])
    sessions = (
        [json.loads(line) for line in ledger.read_text().splitlines()] if ledger.exists() else []
    )
    target.write_text(page(sessions))
    print(target)


if __name__ == "__main__":
    main()
