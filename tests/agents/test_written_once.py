"""Nothing of the update stands in two places."""

from collections import defaultdict
from pathlib import Path

AGENTS = Path(__file__).parents[2] / "src" / "dualac" / "agents"
RUN = 6


def test_no_run_of_six_lines_stands_in_two_places_of_the_agents():
    places = defaultdict(list)
    for path in sorted(AGENTS.glob("*.py")):
        lines = [
            (number, line.strip())
            for number, line in enumerate(path.read_text().splitlines(), 1)
            if line.strip() and not line.startswith(("import ", "from "))
        ]
        for first in range(len(lines) - RUN + 1):
            run = lines[first : first + RUN]
            places[tuple(text for _, text in run)].append(f"{path.name}:{run[0][0]}")
    assert len(places) > 500
    assert [where for where in places.values() if len(where) > 1] == []
