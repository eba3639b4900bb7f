"""The one distribution: a diagonal Gaussian squashed by tanh.

It is written by hand because the libraries that offer it break with each JAX release.
"""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array

from dualac.types import Actions, Key, PerState

HALF_LOG_2PI = 0.5 * math.log(2.0 * math.pi)


@jax.custom_jvp
def log_slope(x: Array) -> Array:
    """Return log(1 - tanh(x)^2), stable for large |x|; its own slope is -2 tanh(x)."""
    return 2.0 * (math.log(2.0) - x - jax.nn.softplus(-2.0 * x))


log_slope.defjvps(lambda dx, _, x: -2.0 * jnp.tanh(x) * dx)


class TanhNormal(NamedTuple):
    """a = tanh(x), x ~ N(mean, diag(exp(log_std))^2)."""

    mean: Actions
    log_std: Actions

    def sample(self, noise: Actions) -> tuple[Actions, PerState]:
        """Make an action of standard normals; return it and its log-probability.

        That needs the sample before tanh: tanh has no inverse in float32 near +-1.
        """
        x = self.mean + jnp.exp(self.log_std) * noise
        return jnp.tanh(x), self._log_prob(x, noise)

    def sample_action(self, key: Key) -> Actions:
        return self.sample(jax.random.normal(key, self.mean.shape, self.mean.dtype))[0]

    def log_prob(self, x: Actions) -> PerState:
        """Return the log-density of tanh(x), from x before tanh."""
        return self._log_prob(x, (x - self.mean) * jnp.exp(-self.log_std))

    def _log_prob(self, x: Array, z: Array) -> PerState:
        """Return the log-density of tanh(x); `z` is x in standard deviations from the mean."""
        gaussian = -0.5 * z**2 - self.log_std - HALF_LOG_2PI
        return (gaussian - log_slope(x)).sum(axis=-1)

    def mode(self) -> Actions:
        return jnp.tanh(self.mean)

    def kl(self, other: "TanhNormal") -> PerState:
        """Return KL(self || other), which is that of the Gaussians: tanh is invertible."""
        log_ratio = self.log_std - other.log_std
        shift = (self.mean - other.mean) * jnp.exp(-other.log_std)
        return (-log_ratio + 0.5 * (jnp.exp(2.0 * log_ratio) + shift**2) - 0.5).sum(axis=-1)

    def widened(self, multiplier: float) -> "TanhNormal":
        """Return it with `multiplier` times the standard deviation."""
        return self._replace(log_std=self.log_std + math.log(multiplier))

    def distance(self, action: Actions) -> PerState:
        """Return an action's root mean square distance from the mean, in standard deviations."""
        x = jnp.arctanh(jnp.clip(action, -1.0 + 1e-6, 1.0 - 1e-6))
        return jnp.sqrt((((x - self.mean) * jnp.exp(-self.log_std)) ** 2).mean(axis=-1))
