"""The runs that a name stands for: of a row of the table, of a row of a user's own file, or of a
preset.
"""

from pathlib import Path
from typing import Any

from dualac.agents.algorithm import Algorithm
from dualac.agents.algorithms import ALGORITHMS
from dualac.errors import UsageError
from dualac.parts import user_files
from dualac.parts.text import nearest
from dualac.training.run import Run

# Known by a name, and no row of their own: replay ratio and resets belong to a run, whatever its
# algorithm.
PRESETS: dict[str, tuple[str, dict[str, Any]]] = {
    "sr-sac": ("sac", {"replay_ratio": 16, "resets": (160_000, 320_000, 480_000, 640_000, 800_000)})
}


def default_run(name: str, task: str = "") -> Run:
    """Return the run that a name stands for, with its defaults."""
    row, values = PRESETS.get(name, (name, {}))
    label = name.rpartition(".py:")[2]
    return Run(label, find_algorithm(row), task, **values)


def find_algorithm(name: str) -> Algorithm:
    """Return a row of the table, or one of a user's own file: `mine.py:my_algorithm`."""
    path, colon, variable = name.rpartition(":")
    if colon and path.endswith(".py"):
        return _find_in_file(Path(path), variable)
    if name in PRESETS:
        row, values = PRESETS[name]
        settings = " and ".join(f"{key}={value}" for key, value in values.items())
        raise UsageError(
            f"{name} is {row} with {settings}, which belong to a run, not to an algorithm: give "
            f"them to yours, or type dualac train {name}"
        )
    if name not in ALGORITHMS:
        raise UsageError(
            f"no algorithm is called {name!r}{nearest(name, list(ALGORITHMS))}; dualac list "
            "algorithms shows them"
        )
    return ALGORITHMS[name]


def _find_in_file(path: Path, variable: str) -> Algorithm:
    module = vars(user_files.load(path))
    rows = [key for key, value in module.items() if isinstance(value, Algorithm)]
    if variable not in rows:
        instead = nearest(variable, rows) or f"; it has {', '.join(rows) or 'none'}"
        raise UsageError(f"{path} has no Algorithm called {variable!r}{instead}")
    return module[variable]
