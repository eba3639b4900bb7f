"""Values of state and action, by an ensemble. A scalar critic has an axis of one atom."""

import functools
import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple, final

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from dualac import ops
from dualac.agents import networks
from dualac.agents.optimizer import Adam, Params, Trained, require_rates
from dualac.agents.pessimism import Stat, certainty, spread
from dualac.errors import UsageError
from dualac.parts.fields import check_fields
from dualac.types import AtomValues, CriticValues, Key, PerState, Spec, Transition


class CriticState(NamedTuple):
    online: Trained
    target: Params


class Regression(NamedTuple):
    """A step of the critics: their values before it, the loss and the length of its gradient."""

    values: CriticValues
    loss: Float[Array, ""]
    grad_norm: Float[Array, ""]


@dataclass(frozen=True)
class Critic(ABC):
    """`k` critics, their optimiser and their slow copies. A kind adds its loss and upper bound."""

    headline: ClassVar[str | None] = None  # the field that lists show even at its default

    k: int = 2
    """how many critics (k)"""
    hidden: tuple[int, ...] = (256, 256)
    """widths of their hidden layers"""
    layer_norm: bool = False
    """normalise each hidden layer before its ReLU"""
    lr: float = 3e-4
    """Adam's learning rate"""
    polyak: float = 0.005
    """how far the target critics move to the critics each time they do (the usual tau)"""

    def __post_init__(self) -> None:
        check_fields(self)
        sensible = 1 <= self.k <= 1000 and networks.sensible(self.hidden)
        if not (sensible and 0 < self.polyak <= 1):
            raise UsageError(
                f"{self}: k must be 1 to 1000, hidden sizes 1 to 65536, polyak in (0, 1]"
            )
        require_rates(self, self.lr)

    @property
    def optimizer(self) -> Adam:
        return Adam(self.lr)

    def init(self, key: Key, spec: Spec) -> CriticState:
        params = networks.init_critics(
            key, spec, self.k, self.hidden, layer_norm=self.layer_norm, atoms=self._atoms()
        )
        # A copy of its own: a donated state may not hold one buffer twice.
        return CriticState(self.optimizer.init(params), jax.tree.map(jnp.copy, params))

    def values(self, params: Params, obs: Array, action: Array) -> CriticValues:
        return networks.critics(params, obs, action)

    def learn(
        self, state: CriticState, batch: Transition, target: AtomValues
    ) -> tuple[CriticState, Regression]:
        def loss_of(params: Params) -> tuple[Array, Array]:
            zs = self.values(params, batch.obs, batch.action)
            return self._loss(zs, target), zs

        (loss, zs), grads = jax.value_and_grad(loss_of, has_aux=True)(state.online.params)
        online, grad_norm = self.optimizer.step(state.online, grads)
        return state._replace(online=online), Regression(zs, loss, grad_norm)

    def update_targets(self, state: CriticState) -> CriticState:
        """Move the slow copies a little closer."""
        target = ops.polyak_average(state.target, state.online.params, self.polyak)
        return state._replace(target=target)

    def dormant(self, state: CriticState, obs: Array, action: Array) -> Float[Array, ""]:
        return networks.dormant(state.online.params, obs, action)

    @property
    def upper_bound_needs_two(self) -> bool:
        """Whether one critic alone has no upper bound above its mean."""
        return False

    @property
    def changed_upper_bound(self) -> str | None:
        """The field that says what an optimist sees, where it is not at its default."""
        return None

    @abstractmethod
    def upper(self, zs: CriticValues, optimism: Float[Array, ""]) -> PerState:
        """Return what an optimist sees."""

    def _atoms(self) -> int:
        return 1

    @abstractmethod
    def _loss(self, zs: CriticValues, target: AtomValues) -> Float[Array, ""]: ...


@final
@dataclass(frozen=True)
class Scalar(Critic):
    """Critics of one number: loss = mean over the batch of sum_i (q_i - y)^2."""

    ensemble_stat: Stat = "std"
    """what beta_o weighs: the critics' standard deviation, or their variance, the theorem's"""

    @property
    def upper_bound_needs_two(self) -> bool:
        return True

    @property
    def changed_upper_bound(self) -> str | None:
        return "ensemble_stat" if self.ensemble_stat != "std" else None

    def upper(self, zs: CriticValues, optimism: Float[Array, ""]) -> PerState:
        """Return what an optimist sees: Q_mu + beta_o Q_sigma."""
        return certainty(zs, optimism, self.ensemble_stat).mean(axis=-1)

    def _loss(self, zs: CriticValues, target: AtomValues) -> Float[Array, ""]:
        return ((zs - target[None]) ** 2).mean(axis=(1, 2)).sum()


@final
@dataclass(frozen=True)
class Quantile(Critic):
    """Critics of `n` quantiles of the return, at levels (2j - 1) / 2n.

    Their loss is the quantile Huber loss |level_l - 1(u < 0)| H(u), u = y_j - z_l: summed over the
    predicted index l and over critics, averaged over the target's index j and the batch.
    """

    n: int = 100
    """quantiles of each critic (K)"""
    upper_bound: Literal["epistemic", "aleatoric", "both"] = "epistemic"
    """what an optimist adds to the mean: the critics' disagreement, the return's spread, or both"""
    kappa: float = 1.0
    """where the Huber loss turns from a square to a line (kappa)"""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 1 <= self.n <= 10_000 or not 0 < self.kappa < math.inf:
            raise UsageError(f"{self}: n must be 1 to 10000 and kappa positive")
        if self.n == 1 and self.upper_bound != "epistemic":
            raise UsageError(
                "one quantile has no spread to be optimistic about: raise critic.n, or set "
                "critic.upper_bound epistemic"
            )

    @property
    def upper_bound_needs_two(self) -> bool:
        return self.upper_bound == "epistemic"

    @property
    def changed_upper_bound(self) -> str | None:
        return "upper_bound" if self.upper_bound != "epistemic" else None

    def upper(self, zs: CriticValues, optimism: Float[Array, ""]) -> PerState:
        """Return what an optimist sees: mean_j (Q_mu,j + beta_o Q_sigma,j).

        An aleatoric bound has beta_o sigma_Z instead of the second term, and a bound of both kinds
        has it as well. sigma_Z is the mean over critics of the return's own deviation.
        """
        if self.upper_bound == "epistemic":
            return certainty(zs, optimism).mean(axis=-1)
        of_return = optimism * spread(jnp.moveaxis(zs, -1, 0)).mean(axis=0)
        if self.upper_bound == "aleatoric":
            return zs.mean(axis=0).mean(axis=-1) + of_return
        return certainty(zs, optimism).mean(axis=-1) + of_return

    def _atoms(self) -> int:
        return self.n

    def _loss(self, zs: CriticValues, target: AtomValues) -> Float[Array, ""]:
        return quantile_huber(zs, target, self.kappa)


@functools.partial(jax.custom_vjp, nondiff_argnums=(2,))
def quantile_huber(
    zs: CriticValues, target: Float[Array, "batch targets"], kappa: float
) -> Float[Array, ""]:
    """Return sum_l mean_j |level_l - 1(u < 0)| H(u) / kappa, u = y_j - z_l.

    No gradient passes to the target.
    """
    return _loss_and_slope(zs, target, kappa)[0]


def _loss_and_slope(zs: Array, target: Array, kappa: float) -> tuple[Array, Array]:
    losses, slopes = ops.quantile_loss(zs, target, kappa)
    return losses.sum() / (kappa * target.size), slopes / (kappa * target.size)


quantile_huber.defvjp(_loss_and_slope, lambda kappa, slope, weight: (weight * slope, None))
