"""Scalars that hold a statistic at its target.

They are the temperature alpha, the optimism beta_o and the KL weight tau. Each is positive (above
a floor) and descends `value * slack`: a positive slack lowers it, a negative one raises it. `Held`
instead of `Learnt` is the paper's "no adjustment" ablation.
"""

import math
from dataclasses import dataclass
from typing import final

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from dualac.agents.optimizer import Adam, Trained, require_rates
from dualac.errors import UsageError
from dualac.parts.fields import check_fields

DualState = Trained | tuple[()]  # a held scalar has nothing to remember


@final
@dataclass(frozen=True)
class Held:
    """A constant."""

    value: float
    """the constant"""

    def __post_init__(self) -> None:
        check_fields(self)

    def check(self, floor: float = 0.0) -> None:
        if not floor <= self.value < math.inf:
            raise UsageError(
                f"this held scalar must be finite and at least {floor:.3g}, not {self.value}"
            )

    def init(self, floor: float = 0.0) -> DualState:
        return ()

    def read(self, state: DualState, floor: float = 0.0) -> Float[Array, ""]:
        return jnp.asarray(self.value, jnp.float32)

    def adjust(self, state: DualState, slack: Float[Array, ""]) -> DualState:
        return ()


@final
@dataclass(frozen=True)
class Learnt:
    """floor + exp(x), where Adam moves x: about `lr` an update, whatever the scale of the rewards.

    `bounded` is the form of the paper's successor BRO: exp(-10 + 8.75 (1 + tanh x)), without a
    floor, in (4.5e-5, 1808).
    """

    start: float
    """its value before the first update"""
    lr: float = 3e-5
    """Adam's learning rate"""
    b1: float = 0.5
    """Adam's momentum"""
    bounded: bool = False
    """keep it in (4.5e-5, 1808), as BRO does"""

    def __post_init__(self) -> None:
        check_fields(self)
        if not math.isfinite(self.start):
            raise UsageError(f"{self}: start must be finite")
        require_rates(self, self.lr, self.b1)

    @property
    def optimizer(self) -> Adam:
        return Adam(self.lr, self.b1)

    def check(self, floor: float = 0.0) -> None:
        low, high = floor, math.inf
        if self.bounded:
            low, high = math.exp(-10.0), math.exp(7.5)
        if not low < self.start < high:
            raise UsageError(
                f"this learnt scalar must start between {low:.3g} and {high:.3g}, not at "
                f"{self.start:.3g}"
            )

    def init(self, floor: float = 0.0) -> DualState:
        if self.bounded:
            raw = math.atanh((math.log(self.start) + 10.0) / 8.75 - 1.0)
        else:
            raw = math.log(self.start - floor)
        return self.optimizer.init(jnp.asarray(raw, jnp.float32))

    def read(self, state: DualState, floor: float = 0.0) -> Float[Array, ""]:
        assert isinstance(state, Trained)
        return self._positive(state.params) + (0.0 if self.bounded else floor)

    def adjust(self, state: DualState, slack: Float[Array, ""]) -> DualState:
        assert isinstance(state, Trained)
        slope = jax.grad(lambda raw: self._positive(raw) * jax.lax.stop_gradient(slack))
        return self.optimizer.step(state, slope(state.params))[0]

    def _positive(self, raw: Array) -> Array:
        return jnp.exp(-10.0 + 8.75 * (1.0 + jnp.tanh(raw))) if self.bounded else jnp.exp(raw)


Dual = Held | Learnt
