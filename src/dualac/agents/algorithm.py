"""An algorithm as a row of choices."""

from dataclasses import dataclass, is_dataclass
from typing import Literal, final

from dualac.agents.critics import Critic
from dualac.agents.explorers import Explorer
from dualac.agents.pessimism import Pessimism
from dualac.agents.policies import Policy
from dualac.errors import UsageError
from dualac.parts.fields import check_fields


@final
@dataclass(frozen=True)
class Algorithm:
    """A row of choices: how it feels about risk, what acts, who explores, what is learned."""

    pessimism: Pessimism
    """how an ensemble of critics becomes one number"""
    policy: Policy
    """what the actor is and what it costs"""
    explorer: Explorer
    """who acts in the environment"""
    critic: Critic
    """what is learned"""
    gamma: float = 0.99
    """discount of future rewards (gamma)"""
    judged: Literal["policy", "explorer"] = "policy"
    """who is evaluated, and acts in the TD target; the explorer for the only-optimist ablation"""
    explorer_restart_every: int = 0
    """steps after which the explorer alone starts afresh, 0 is never; the public code has 25000"""

    def __post_init__(self) -> None:
        """Refuse parts that do not fit when the row is built, not when it trains."""
        check_fields(self)
        for part in (self.pessimism, self.policy, self.explorer, self.critic):
            if not is_dataclass(part):
                raise UsageError(
                    f"{type(part).__name__} is written down with a run and needs "
                    "@dataclass(frozen=True) above its class"
                )
        if not 0 <= self.gamma < 1:
            raise UsageError(f"gamma must be in [0, 1), not {self.gamma}")
        self.pessimism.check(self.critic.k)
        self.explorer.check(self.policy, self.pessimism.floor())
        self._check_who_is_evaluated()
        self._check_upper_bound()
        self._check_restarts()

    def _check_who_is_evaluated(self) -> None:
        if self.judged == "policy":
            return
        if not self.explorer.can_be_evaluated:
            raise UsageError(
                "judged='explorer' needs an explorer that is a distribution of its own, such as "
                f"an OptimisticActor that is not deterministic; {self.explorer} is none"
            )
        if self.policy.chooses_successor:
            raise UsageError(
                "policy.successor says how the policy acts in the TD target, but there "
                "judged='explorer' has the explorer act"
            )

    def _check_upper_bound(self) -> None:
        field = self.critic.changed_upper_bound
        if field and not self.explorer.uses_upper_bound:
            raise UsageError(
                f"critic.{field} says what an optimist sees, and {type(self.explorer).__name__} "
                "looks at no upper bound"
            )
        needs_two = self.explorer.uses_upper_bound and self.critic.upper_bound_needs_two
        if needs_two and self.critic.k == 1:
            raise UsageError(
                "an optimist seeks what the critics disagree about: critic.k must be at least 2"
            )

    def _check_restarts(self) -> None:
        if self.explorer_restart_every < 0:
            raise UsageError(
                f"explorer_restart_every must not be negative: {self.explorer_restart_every}"
            )
        if self.explorer_restart_every and not self.explorer.learns:
            raise UsageError(
                f"explorer_restart_every must be 0: {type(self.explorer).__name__} learns nothing"
            )
