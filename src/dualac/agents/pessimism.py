"""Attitudes to risk: how an ensemble of critics becomes one number.

The paper's thesis is that agents differ in the certainty equivalent they climb. Its working form,
used by all of them, is

    certainty(q, beta) = mean_i q_i + beta * spread_i q_i

with beta < 0 a pessimist, 0 indifferent to risk, > 0 an optimist.
For two critics spread is |q_1 - q_2| / 2, so beta = -1 *is* the minimum and +1 the maximum.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, final

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from dualac.agents.optimizer import Adam, Trained, require_rates
from dualac.errors import UsageError
from dualac.parts.fields import check_fields
from dualac.theory.forms import deviation_form, exact_form, variance_form
from dualac.theory.moments import spread
from dualac.types import AtomValues, CriticValues, Key, Metrics

# What beta weighs: the critics' deviation, as in every algorithm, or their variance, as in the
# paper's theorem.
Stat = Literal["std", "var"]

LEAST_UNIT = 1e-30  # of the spread, to divide by
# Of an exact certainty equivalent: below, float32 has only its limit, and t may overflow.
LEAST_BETA = -1e6


def certainty(
    qs: Float[Array, "critics *rest"], beta: float | Float[Array, ""], stat: Stat = "std"
) -> Float[Array, "*rest"]:
    """Return Q^beta = Q_mu + beta Q_sigma, the value of an uncertain value at an attitude beta.

    Only the deviation scales with the reward. With the variance, which the paper's theorem has, the
    same beta is another attitude on another scale.
    """
    return deviation_form(qs, beta) if stat == "std" else variance_form(qs, beta)


def refuse_optimism(*betas: float) -> None:
    for beta in betas:
        if not math.isfinite(beta) or beta > 0:
            raise UsageError(
                f"pessimism is negative or zero (-1 is the minimum of two critics), not {beta}"
            )


def require_disagreement(critics: int, weighed: bool, field: str = "beta") -> None:
    if critics == 1 and weighed:
        raise UsageError(
            "one critic disagrees with nobody: beta weighs nothing; raise critic.k, or set "
            f"pessimism.{field} 0"
        )


class Pessimism(ABC):
    """An attitude to risk: a frozen dataclass with an `objective`, and perhaps a `backup`."""

    headline: ClassVar[str | None] = None  # the field that lists show even at its default

    def __post_init__(self) -> None:
        check_fields(self)

    def backup(self, state: Any, zs: CriticValues, key: Key) -> AtomValues:
        """Return what the TD target takes of the slow critics: what the actor climbs, or else."""
        return self.objective(state, zs)

    @abstractmethod
    def objective(self, state: Any, zs: CriticValues) -> AtomValues:
        """Return what the actor climbs."""

    def check(self, critics: int) -> None:
        """Refuse an ensemble of this size, if it makes no sense."""

    def floor(self) -> float:
        """Return the beta below which no optimist may fall: 0 for an actor that climbs the mean."""
        return 0.0

    def init(self, key: Key) -> Any:
        return ()

    def reset(self, state: Any, key: Key) -> Any:
        """Return what is left of it when every network starts afresh."""
        return self.init(key)

    def learn(self, state: Any, zs: CriticValues, target: AtomValues) -> tuple[Any, Metrics]:
        return state, {}

    def observe_return(self, state: Any, episode_return: Float[Array, ""], key: Key) -> Any:
        return state


@final
@dataclass(frozen=True)
class Fixed(Pessimism):
    """One beta for the TD target and the actor; `backup_beta` gives the TD target another one."""

    beta: float
    """weight of the critics' spread (beta_p): -1 is the minimum of two critics, 0 their mean"""
    backup_beta: float | None = None
    """another weight for the TD target only"""
    climbs: Literal["certainty", "first"] = "certainty"
    """what the actor climbs: the certainty of all critics, or the first critic alone, as TD3's"""
    ensemble_stat: Stat = "std"
    """what beta weighs: the critics' standard deviation, or their variance, the theorem's"""

    def __post_init__(self) -> None:
        super().__post_init__()
        refuse_optimism(self.beta, self.beta if self.backup_beta is None else self.backup_beta)
        if self.climbs == "first" and self.backup_beta is not None:
            raise UsageError(
                "an actor that climbs the first critic weighs no spread: beta is the TD target's "
                "already, backup_beta is one too many"
            )

    def check(self, critics: int) -> None:
        weighed = any((self.beta, self.backup_beta, self.ensemble_stat != "std"))
        require_disagreement(critics, weighed)

    def floor(self) -> float:
        return self.beta

    def backup(self, state: tuple[()], zs: CriticValues, key: Key) -> AtomValues:
        beta = self.beta if self.backup_beta is None else self.backup_beta
        return certainty(zs, beta, self.ensemble_stat)

    def objective(self, state: tuple[()], zs: CriticValues) -> AtomValues:
        return zs[0] if self.climbs == "first" else certainty(zs, self.beta, self.ensemble_stat)


@final
@dataclass(frozen=True)
class ExactCertainty(Pessimism):
    """The certainty equivalent itself: Q_mu + (1/t) log E_i e^(t (q_i - Q_mu)).

    The theorem has t = 2 beta, which is about Q_mu + beta Q_sigma^2: a variance, whose weight
    depends on the scale of the rewards. Here t = 2 beta / S, where S is the mean of Q_sigma over
    the batch and a constant to all gradients. That is about Q_mu + beta Q_sigma^2 / S, which scales
    with the rewards, and is Fixed(beta) where the critics disagree as much as they usually do.
    It lies between the critics. Its gradient is a softmax over them, and finite where they agree.
    """

    beta: float
    """attitude to risk, as in Fixed: at the usual spread the weight of the critics' spread"""
    unit: Literal["spread", "value"] = "spread"
    """what beta is measured in: the usual spread (t = 2 beta / S), or values (t = 2 beta)"""

    def __post_init__(self) -> None:
        super().__post_init__()
        refuse_optimism(self.beta)
        if self.beta < LEAST_BETA:
            raise UsageError(
                f"a beta of {self.beta} is the minimum to all digits, which Fixed(-1) takes of "
                f"two critics; give at least {LEAST_BETA:g}"
            )

    def check(self, critics: int) -> None:
        require_disagreement(critics, bool(self.beta))

    def floor(self) -> float:
        """Return beta, but at least -1: of two critics that is the minimum."""
        return max(self.beta, -1.0)

    def objective(self, state: tuple[()], zs: CriticValues) -> AtomValues:
        usual = jax.lax.stop_gradient(spread(zs)).mean() if self.unit == "spread" else 1.0
        return exact_form(zs, self.beta / jnp.maximum(usual, LEAST_UNIT))


@final
@dataclass(frozen=True)
class SubsetMin(Pessimism):
    """REDQ: the TD target takes the minimum of `m` random critics, the actor climbs their mean."""

    headline: ClassVar[str | None] = "m"

    m: int = 2
    """how many critics the TD target takes the minimum of (M)"""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.m < 1:
            raise UsageError(f"SubsetMin takes the minimum of at least one critic, not of {self.m}")

    def check(self, critics: int) -> None:
        if self.m > critics:
            raise UsageError(
                f"SubsetMin({self.m}) draws {self.m} critics, but there are {critics}; raise "
                "critic.k or lower pessimism.m"
            )

    def backup(self, state: tuple[()], zs: CriticValues, key: Key) -> AtomValues:
        # One draw for the whole batch.
        chosen = jax.random.choice(key, zs.shape[0], (self.m,), replace=False)
        return zs[chosen].min(axis=0)

    def objective(self, state: tuple[()], zs: CriticValues) -> AtomValues:
        return certainty(zs, 0.0)


@final
@dataclass(frozen=True)
class DualDescent(Pessimism):
    """GPL: Q = Q_mu + b E|q_i - q_j| over pairs of critics.

    Adam moves b down the gradient of b E[y - Q_mu]. Targets above the critics, which is
    overestimation, make it more pessimistic. For two critics b = -1/2 is the minimum.
    """

    headline: ClassVar[str | None] = "start"

    start: float = -0.5
    """weight of the distance between critics (b) before the first update; the paper's"""
    lr: float = 1e-4
    """Adam's learning rate"""
    b1: float = 0.9
    """Adam's momentum"""
    never_optimistic: bool = False
    """keep b at zero or below; the paper sets no bound"""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not -math.inf < self.start <= 0:
            raise UsageError(
                "pessimism is negative or zero (-0.5 is the minimum of two critics here), not "
                f"{self.start}"
            )
        require_rates(self, self.lr, self.b1)

    @property
    def optimizer(self) -> Adam:
        return Adam(self.lr, self.b1)

    def check(self, critics: int) -> None:
        if critics < 2:
            raise UsageError(
                "DualDescent weighs the distance between critics: critic.k must be at least 2"
            )

    def init(self, key: Key) -> Trained:
        return self.optimizer.init(jnp.asarray(self.start, jnp.float32))

    def objective(self, state: Trained, zs: CriticValues) -> AtomValues:
        pairs = zs.shape[0] * (zs.shape[0] - 1)
        distances = jnp.abs(zs[:, None] - zs[None]).sum(axis=(0, 1))
        return zs.mean(axis=0) + state.params * distances / pairs

    def learn(
        self, state: Trained, zs: CriticValues, target: AtomValues
    ) -> tuple[Trained, Metrics]:
        error = jax.lax.stop_gradient(target.mean() - zs.mean())
        moved, _ = self.optimizer.step(state, error)
        bounded = jnp.minimum(moved.params, 0.0) if self.never_optimistic else moved.params
        return moved._replace(params=bounded), {"pessimism": state.params}
