"""Values that are known otherwise than by an ensemble: as a Gaussian, or by quantiles. Both become values with weights, which all else here takes."""

import jax.numpy as jnp
from jaxtyping import Array, Float

from dualac.errors import UsageError
from dualac.theory.moments import Numbers, Scalar, floats, lottery, refuse


def gaussian(centre: Scalar, deviation: Scalar, nodes: int = 32) -> tuple[Float[Array, "nodes *rest"], Float[Array, "nodes"]]:
    """Values and weights with the first 2 `nodes` - 1 moments of N(centre, deviation^2): Gauss and Hermite's.

    They are the eigenvalues of the matrix with sqrt(1), sqrt(2), ... beside its diagonal (Golub and Welsch); the weights, its eigenvectors'
    first entries squared. For an exponential utility no nodes are needed: `gaussian_forms` is exact.
    """
    centre, deviation = floats(centre), floats(deviation)
    if nodes < 1 or centre.shape != deviation.shape:
        raise UsageError(
            f"a Gaussian has at least one node, and as many deviations as means, not {nodes} nodes, {deviation.shape} and {centre.shape}"
        )
    refuse(~(deviation >= 0.0), "a standard deviation is not negative")
    beside = jnp.sqrt(jnp.arange(1.0, nodes, dtype=centre.dtype))
    standard, vectors = jnp.linalg.eigh(jnp.diag(beside, 1) + jnp.diag(beside, -1))
    apart = standard.reshape((-1,) + (1,) * centre.ndim)
    weights = vectors[0] ** 2
    return centre[None] + deviation[None] * apart, weights / weights.sum()


def quantiles(values: Numbers, levels: Numbers | None = None) -> tuple[Float[Array, "n *rest"], Float[Array, "n"]]:
    """Values at increasing `levels`, with weights: each stands for the probabilities that are nearer to its level than to another.

    Without levels they are those of a quantile critic, (2j - 1) / 2n, and the weights are equal.
    """
    values, _ = lottery(values)
    n = values.shape[0]
    if levels is None:
        return values, jnp.full((n,), 1.0 / n, values.dtype)
    levels = floats(levels).astype(values.dtype)
    if levels.shape != (n,):
        raise UsageError(f"{n} quantiles need {n} levels, not levels of shape {levels.shape}")
    refuse(~((levels > 0.0) & (levels < 1.0)), "the levels of quantiles lie between 0 and 1")
    refuse(~(jnp.diff(levels) > 0.0), "the levels of quantiles increase")
    between = (levels[1:] + levels[:-1]) / 2.0
    edges = jnp.concatenate([jnp.zeros(1, values.dtype), between, jnp.ones(1, values.dtype)])
    return values, jnp.diff(edges)
