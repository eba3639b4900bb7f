"""Experiments by name: those that come with the library, and those of a user's own file."""

import importlib
import pkgutil
from pathlib import Path
from typing import Any

from dualac.errors import UsageError
from dualac.experiments.spec import SEE, Experiment
from dualac.parts import user_files
from dualac.parts.text import nearest

SHIPPED = "dualac.experiments.shipped"


def shipped() -> list[str]:
    folder = importlib.import_module(SHIPPED)
    return sorted(module.name.replace("_", "-") for module in pkgutil.iter_modules(folder.__path__))


def find_experiment(name: str) -> Experiment:
    """Return a shipped experiment by name, or one of a file: `mine.py`, `mine.py:mine`."""
    path, variable = name, ""
    if name.rpartition(":")[0].endswith(".py"):
        path, _, variable = name.rpartition(":")
    if path.endswith(".py"):
        experiment = _choose(path, vars(user_files.load(Path(path))), variable)
        if experiment.figures:
            _require_figures(experiment)
        return experiment
    if name not in shipped():
        raise UsageError(
            f"no experiment is called {name[:80]!r}{nearest(name, shipped())}; dualac list "
            "experiments shows them, or give a file: mine.py"
        )
    module = importlib.import_module(f"{SHIPPED}.{name.replace('-', '_')}")
    return _choose(name, vars(module), "")


def _choose(path: str, module: dict[str, Any], variable: str) -> Experiment:
    """Return the experiment of this name in a module, or the only one there."""
    experiments = {key: value for key, value in module.items() if isinstance(value, Experiment)}
    if variable in experiments:
        return experiments[variable]
    if not variable and len(experiments) == 1:
        return next(iter(experiments.values()))
    what = f"has {len(experiments) or 'no'} experiments"
    if variable:
        what = f"has no Experiment called {variable!r}"
    instead = f"name one: {path}:" + f" or {path}:".join(experiments) if experiments else SEE
    raise UsageError(f"{path} {what}; {instead}")


def _require_figures(experiment: Experiment) -> None:
    # It draws: half a second that no other plan should wait for.
    from dualac.analysis.figures.paper import FIGURES

    unknown = [name for name in experiment.figures if name not in FIGURES]
    if unknown:
        raise UsageError(
            f"no figure is called {unknown[0]!r}{nearest(unknown[0], list(FIGURES))}; there are "
            f"{', '.join(FIGURES)}"
        )
