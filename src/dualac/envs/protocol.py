"""The rules of an episode that this library chooses. Runs compare only if they are equal."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, final, get_args

from dualac.errors import UsageError
from dualac.parts.text import nearest

Termination = Literal["ignore", "end"]
Success = Literal["any", "last"]

METAWORLD_LONGEST = 500  # where Meta-World's own simulators refuse to go on
LONGEST = 10**9
BOUNDS = {
    "action_repeat": (1, LONGEST),
    "time_limit": (0, LONGEST),
    "metaworld_cap": (1, METAWORLD_LONGEST),
    "myosuite_cap": (0, LONGEST),
    "eval_episodes": (1, 10_000),
}
CHOICES = {"myosuite_termination": get_args(Termination), "success": get_args(Success)}


@final
@dataclass(frozen=True)
class Protocol:
    """How a task is played. Lengths are in steps of the simulator, whatever the action repeat."""

    action_repeat: int = 1
    """simulator steps that an action lasts; rewards are summed"""
    time_limit: int = 0
    """cap on an episode's steps in any suite, on top of the task's own; 0 is the task's own"""
    metaworld_cap: int = 200
    """steps of a Meta-World episode; officially 500"""
    myosuite_cap: int = 100
    """steps of a MyoSuite episode, of any task; 0 is what each task was registered with"""
    myosuite_termination: Termination = "ignore"
    """what a MyoSuite task's own end does (object dropped, pose lost): ignore plays on to the cap,
    end ends
    """
    success: Success = "any"
    """which step decides whether an episode succeeded: any or the last; both are stored"""
    eval_episodes: int = 10
    """episodes of an evaluation; --eval-episodes for short"""

    def __post_init__(self) -> None:
        for field, (low, high) in BOUNDS.items():
            value = getattr(self, field)
            if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
                unit = "episodes" if field == "eval_episodes" else "steps"
                raise UsageError(
                    f"{_in_words(field)} {value!r}: give a number of {unit}, {low} to {high}"
                )
        for field, choices in CHOICES.items():
            value = getattr(self, field)
            if value not in choices:
                raise UsageError(f"{_in_words(field)} {value!r}: give {' or '.join(choices)}")
        for field in ("time_limit", "metaworld_cap", "myosuite_cap"):
            value = getattr(self, field)
            if 0 < value < self.action_repeat:
                raise UsageError(
                    f"an action repeat of {self.action_repeat} is longer than a whole episode: "
                    f"the {_in_words(field)} is {value}"
                )

    def cap(self, suite: str, own: int) -> int:
        """Return the steps of an episode, given the cap of a suite's task itself; 0 is no cap."""
        suites_cap = {"metaworld": self.metaworld_cap, "myosuite": self.myosuite_cap}.get(suite, 0)
        cap = suites_cap or own
        if 0 < cap < self.time_limit:
            whose = suite if suites_cap else "task's own"
            advice = f"; --protocol.{suite}-cap lengthens" if suites_cap else ""
            raise UsageError(
                f"a time limit of {self.time_limit} contradicts the {whose} cap of {cap}: "
                f"a time limit only shortens{advice}"
            )
        return min((limit for limit in (cap, self.time_limit) if limit), default=0)

    def succeeded(self, before: bool | None, now: bool) -> bool:
        """Say whether an episode counts as a success so far; `before` is None at its first step."""
        return now or (self.success == "any" and bool(before))


# The paper's, after its predecessors, and what each suite's authors prescribe. Those of MyoSuite
# want more than five solved steps: any is nearest.
PROTOCOLS = {
    "paper": Protocol(),
    "official": Protocol(
        metaworld_cap=METAWORLD_LONGEST, myosuite_cap=0, myosuite_termination="end"
    ),
}


def find_protocol(name: str) -> Protocol:
    """Return the protocol of this name, or refuse it with the nearest name."""
    if name not in PROTOCOLS:
        raise UsageError(
            f"no protocol is called {name!r}: there are {' and '.join(PROTOCOLS)}"
            f"{nearest(name, PROTOCOLS.keys())}"
        )
    return PROTOCOLS[name]


def require_effect(fields: Iterable[str], *suites: str) -> None:
    """Refuse fields that say how tasks of other suites than these are played."""
    for field in fields:
        owner = field.partition("_")[0]
        if owner in ("metaworld", "myosuite") and owner not in suites:
            raise UsageError(
                f"--protocol.{field.replace('_', '-')} has no effect on a task of "
                f"{' or '.join(suites)}: leave it out"
            )


def _in_words(field: str) -> str:
    return field.replace("_", " ")
