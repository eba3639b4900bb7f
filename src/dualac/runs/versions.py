"""What older versions of run.json leave unsaid. A field that a file does not know has its default;
a test holds these equal to the dataclasses'.
"""

from typing import Any

# By part: the fields that were added since the first results were kept, with their defaults.
ADDED: dict[str, dict[str, Any]] = {
    "Algorithm": {"judged": "policy", "explorer_restart_every": 0},
    "Fixed": {"climbs": "certainty", "ensemble_stat": "std"},
    "Scalar": {"ensemble_stat": "std"},
    "Soft": {"delay": 1, "successor": "sample"},
    "OptimisticActor": {"largest_kl_weight": None, "barrier": False, "optimistic_entropy": False},
    "Protocol": {
        "action_repeat": 1,
        "metaworld_cap": 200,
        "myosuite_cap": 100,
        "myosuite_termination": "ignore",
        "success": "any",
        "eval_episodes": 10,
    },
}


def with_defaults(spec: dict[str, Any]) -> dict[str, Any]:
    """Return a run's spec as this version would write it."""
    moved = dict(spec)
    # where it stood before it was part of the protocol
    if "eval_episodes" in moved and isinstance(moved.get("protocol"), dict):
        episodes = moved.pop("eval_episodes")
        moved["protocol"] = {"eval_episodes": episodes, **moved["protocol"]}
    return _filled(moved)


def _filled(tree: Any) -> Any:
    if not isinstance(tree, dict):
        return tree
    part = tree.get("part")
    defaults = ADDED.get(part, {}) if isinstance(part, str) else {}
    return {**defaults, **{key: _filled(value) for key, value in tree.items()}}
