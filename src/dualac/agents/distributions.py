"""The one distribution: a diagonal Gaussian squashed by tanh. Written by hand because the libraries
that offer it break with each JAX release.
"""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from dualac.types import Key

HALF_LOG_2PI = 0.5 * math.log(2.0 * math.pi)


@jax.custom_jvp
def log_slope(x: Array) -> Array:
    """log(1 - tanh(x)^2), stable for large |x|. Its own slope is -2 tanh(x), which is there
    already.
    """
    return 2.0 * (math.log(2.0) - x - jax.nn.softplus(-2.0 * x))


log_slope.defjvps(lambda dx, _, x: -2.0 * jnp.tanh(x) * dx)


class TanhNormal(NamedTuple):
    """a = tanh(x), x ~ N(mean, diag(exp(log_std))^2)."""

    mean: Float[Array, "*batch action"]
    log_std: Float[Array, "*batch action"]

    def sample(
        self, noise: Float[Array, "*batch action"]
    ) -> tuple[Float[Array, "*batch action"], Float[Array, "*batch"]]:
        """An action made of standard normals, and its log-probability, which needs the pre-tanh
        sample: tanh has no inverse in float32 near +-1.
        """
        x = self.mean + jnp.exp(self.log_std) * noise
        return jnp.tanh(x), self._log_prob(x, noise)

    def sample_action(self, key: Key) -> Float[Array, "*batch action"]:
        """An action by this key."""
        return self.sample(jax.random.normal(key, self.mean.shape, self.mean.dtype))[0]

    def log_prob(self, x: Float[Array, "*batch action"]) -> Float[Array, "*batch"]:
        """Log-density of tanh(x), given the pre-tanh x."""
        return self._log_prob(x, (x - self.mean) * jnp.exp(-self.log_std))

    def _log_prob(self, x: Array, z: Array) -> Float[Array, "*batch"]:
        """`z` is x in standard deviations from the mean."""
        gaussian = -0.5 * z**2 - self.log_std - HALF_LOG_2PI
        return (gaussian - log_slope(x)).sum(axis=-1)

    def mode(self) -> Float[Array, "*batch action"]:
        return jnp.tanh(self.mean)

    def kl(self, other: "TanhNormal") -> Float[Array, "*batch"]:
        """KL(self || other). tanh is one invertible map for both, so this is the KL of the
        Gaussians.
        """
        log_ratio = self.log_std - other.log_std
        shift = (self.mean - other.mean) * jnp.exp(-other.log_std)
        return (-log_ratio + 0.5 * (jnp.exp(2.0 * log_ratio) + shift**2) - 0.5).sum(axis=-1)

    def widened(self, multiplier: float) -> "TanhNormal":
        """The same with `multiplier` times the standard deviation."""
        return self._replace(log_std=self.log_std + math.log(multiplier))

    def distance(self, action: Float[Array, "*batch action"]) -> Float[Array, "*batch"]:
        """How far an action lies from the mean, in standard deviations: root mean square over
        dimensions, 1 on average for samples of its own.
        """
        x = jnp.arctanh(jnp.clip(action, -1.0 + 1e-6, 1.0 - 1e-6))
        return jnp.sqrt((((x - self.mean) * jnp.exp(-self.log_std)) ** 2).mean(axis=-1))
