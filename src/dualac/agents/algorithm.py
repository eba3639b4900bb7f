"""An algorithm as a row of choices."""

from dataclasses import dataclass, is_dataclass
from typing import Literal, final

from dualac.agents.critics import Critic
from dualac.agents.explorers import Explorer, FromPolicy, Noise, UpperBoundShift
from dualac.agents.optimist import OptimisticActor
from dualac.agents.pessimism import Pessimism
from dualac.agents.policies import Policy, Soft
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
    """who is evaluated, and acts in the TD target; the only-optimist ablation has the explorer
    there
    """
    explorer_restart_every: int = 0
    """environment steps after which the explorer alone starts afresh, 0 is never; the authors'
    public code has 25000
    """

    def __post_init__(self) -> None:
        """Parts that do not fit are refused when the row is built, not when it trains."""
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
        own = self.explorer if isinstance(self.explorer, OptimisticActor) else None
        if self.judged == "explorer" and (own is None or own.form == "deterministic"):
            raise UsageError(
                "judged='explorer' needs an explorer that is a distribution of its own: an "
                "OptimisticActor, not a deterministic one"
            )
        if (
            self.judged == "explorer"
            and isinstance(self.policy, Soft)
            and self.policy.successor != "sample"
        ):
            raise UsageError(
                "policy.successor says how the policy acts in the TD target, but there "
                "judged='explorer' has the explorer act"
            )
        seen_by_an_optimist = [
            name
            for name in ("ensemble_stat", "upper_bound")
            if getattr(self.critic, name, None) != getattr(type(self.critic), name, None)
        ]
        if seen_by_an_optimist and isinstance(self.explorer, FromPolicy | Noise):
            raise UsageError(
                f"critic.{seen_by_an_optimist[0]} says what an optimist sees, and "
                f"{type(self.explorer).__name__} looks at no upper bound"
            )
        seeks_disagreement = (
            isinstance(self.explorer, OptimisticActor | UpperBoundShift)
            and getattr(self.critic, "upper_bound", "epistemic") == "epistemic"
        )
        if self.critic.k == 1 and seeks_disagreement:
            raise UsageError(
                "an optimist seeks what the critics disagree about: critic.k must be at least 2"
            )
        if self.explorer_restart_every < 0 or (
            self.explorer_restart_every
            and isinstance(self.explorer, FromPolicy | Noise | UpperBoundShift)
        ):
            raise UsageError(
                "explorer_restart_every must be 0 for an explorer that learns nothing, and never "
                "negative"
            )
