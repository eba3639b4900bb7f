"""TOP's pessimism: a bandit that chooses how pessimistic an episode is."""

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, final

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from dualac.agents.pessimism import Pessimism, certainty, refuse_optimism, require_disagreement
from dualac.errors import UsageError
from dualac.types import AtomValues, CriticValues, Key, Metrics


class BanditState(NamedTuple):
    """What the bandit knows of the task; checkpoints call their arrays by these names."""

    weights: Float[Array, "arms"]
    arm: Int[Array, ""]  # the one of this episode
    last: Float[Array, ""]  # return of the episode before
    gains: Float[Array, "window"]  # of each episode over the one before it, the newest last
    heard: Int[Array, ""]  # how many episodes have ended


@final
@dataclass(frozen=True)
class Bandit(Pessimism):
    """TOP: each episode draws its beta from `arms`, with probability proportional to exp(w).

    The gain of an episode is its return minus the last one. It is standardised over the last
    `window` gains and gives f. The arm that was played, and only that one, then has
    w <- decay w, w <- w + lr f / max(exp(w), 1e-4). The bandit outlives resets: it knows about the
    task, not about the networks.
    """

    headline: ClassVar[str | None] = "arms"

    arms: tuple[float, ...] = (-1.0, 0.0)
    """the betas to choose from"""
    lr: float = 0.1
    """how much one episode moves its arm's weight"""
    decay: float = 0.9
    """what is left of a weight when its arm is played"""
    window: int = 5
    """episodes over which a gain is standardised"""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.arms:
            raise UsageError("a bandit needs at least one arm to play")
        refuse_optimism(*self.arms)
        if not (0 < self.lr < math.inf and 0 <= self.decay <= 1 and 1 <= self.window <= 1000):
            raise UsageError(f"{self}: lr must be positive, decay in [0, 1], window 1 to 1000")

    def check(self, critics: int) -> None:
        require_disagreement(critics, any(self.arms), "arms")

    def floor(self) -> float:
        return min(self.arms)

    def init(self, key: Key) -> BanditState:
        zero, none = jnp.zeros((), jnp.float32), jnp.zeros((), jnp.int32)
        weights = jnp.zeros((len(self.arms),), jnp.float32)
        gains = jnp.zeros((self.window,), jnp.float32)
        return BanditState(weights, _draw(key, weights), zero, gains, none)

    def reset(self, state: BanditState, key: Key) -> BanditState:
        return state

    def objective(self, state: BanditState, zs: CriticValues) -> AtomValues:
        return certainty(zs, self._beta(state))

    def learn(self, state: BanditState, zs: Array, target: Array) -> tuple[BanditState, Metrics]:
        return state, {"pessimism": self._beta(state)}

    def observe_return(
        self, state: BanditState, episode_return: Float[Array, ""], key: Key
    ) -> BanditState:
        gain = episode_return - state.last
        gains = jnp.concatenate([state.gains[1:], gain[None]])
        episodes = state.heard + 1
        filled = jnp.arange(self.window) >= self.window - episodes
        count = jnp.minimum(episodes, self.window).astype(jnp.float32)
        mean = jnp.where(filled, gains, 0.0).sum() / count
        deviation = jnp.sqrt(jnp.where(filled, (gains - mean) ** 2, 0.0).sum() / count) + 1e-4
        feedback = (gain - mean) / jnp.where(episodes > 1, deviation, 1.0)
        weight = self.decay * state.weights[state.arm]
        weight += self.lr * feedback / jnp.maximum(jnp.exp(weight), 1e-4)
        weights = state.weights.at[state.arm].set(weight)
        return BanditState(weights, _draw(key, weights), episode_return, gains, episodes)

    def _beta(self, state: BanditState) -> Float[Array, ""]:
        return jnp.asarray(self.arms, jnp.float32)[state.arm]


def _draw(key: Key, weights: Float[Array, "arms"]) -> Int[Array, ""]:
    return jax.random.categorical(key, weights).astype(jnp.int32)
