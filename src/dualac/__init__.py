"""Risk-aware actor-critics: one algorithm, many attitudes to risk.

run = dualac.train("dac", "dmc/cheetah-run", seed=0, steps=200_000)
policy = dualac.load_policy(run.path)
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dualac.api import FinishedRun, LoadedPolicy, load_policy, make_agent, make_env, train

__all__ = ["FinishedRun", "LoadedPolicy", "load_policy", "make_agent", "make_env", "train"]


def __getattr__(name: str) -> Any:
    """Load the API when it is first used: `dualac.analysis` must be usable without JAX, and
    `dualac --help` at once.
    """
    if name in __all__:
        return getattr(import_module("dualac.api"), name)
    raise AttributeError(f"module 'dualac' has no attribute {name!r}")
