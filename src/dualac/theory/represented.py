"""Values that are known as a Gaussian or by quantiles, as values with weights."""

import functools

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from dualac.errors import UsageError
from dualac.theory.moments import Numbers, Scalar, floats, lottery, refuse, require_count


def gaussian(
    centre: Scalar, deviation: Scalar, nodes: int = 32
) -> tuple[Float[Array, "nodes *rest"], Float[Array, "nodes"]]:
    """Return Gauss and Hermite's values and weights, with the first 2 `nodes` - 1 moments of
    N(centre, deviation^2).

    For an exponential utility no nodes are needed: `gaussian_forms` is exact. With them it is right
    to 1e-3 deviations for 2 |beta| deviation up to 8 with 32 nodes and to 10 with 64; beyond, what
    counts lies farther out than they reach, or than float32 can weigh.
    """
    centre, deviation = floats(centre), floats(deviation)
    nodes = require_count(nodes, "a Gaussian has at least one node")
    if centre.shape != deviation.shape:
        raise UsageError(
            f"a Gaussian has as many deviations as means, not {deviation.shape} and {centre.shape}"
        )
    refuse(~(deviation >= 0.0), "a standard deviation is not negative")
    refuse(~(jnp.isfinite(centre) & jnp.isfinite(deviation)), "mean and deviation must be finite")
    standard, weights = _hermite(nodes)
    apart = jnp.asarray(standard, centre.dtype).reshape((-1,) + (1,) * centre.ndim)
    return centre[None] + deviation[None] * apart, jnp.asarray(weights, centre.dtype)


@functools.cache
def _hermite(nodes: int) -> tuple[list[float], list[float]]:
    """Return nodes and weights of a standard Gaussian, in float64 whatever JAX is set to: float32
    would get the tails wrong by orders of magnitude.

    The nodes are the eigenvalues of the matrix with sqrt(1), sqrt(2), ... beside its diagonal
    (Golub and Welsch). A weight is one over the sum of the squared orthonormal polynomials there,
    which is right for the smallest too; the eigenvectors' first entries are not.
    """
    with jax.ensure_compile_time_eval(), jax.enable_x64(True):
        beside = jnp.sqrt(jnp.arange(1.0, nodes))
        standard = jnp.linalg.eigvalsh(jnp.diag(beside, 1) + jnp.diag(beside, -1))
        weights = _christoffel(standard)
        return standard.tolist(), (weights / weights.sum()).tolist()


@jax.jit
def _christoffel(standard: Float[Array, "nodes"]) -> Float[Array, "nodes"]:
    """Return Christoffel's numbers: one over the sum of squared orthonormal polynomials."""

    def add_square(n: Array, carry: tuple[Array, ...]) -> tuple[Array, ...]:
        before, here, total = carry
        after = (standard * here - jnp.sqrt(n - 1.0) * before) / jnp.sqrt(1.0 * n)
        return here, after, total + after**2

    one = jnp.ones_like(standard)
    *_, total = jax.lax.fori_loop(1, len(standard), add_square, (0.0 * one, one, one))
    # Hundreds of nodes overflow the total, where they weigh nothing.
    return jnp.where(jnp.isfinite(total), 1.0 / total, 0.0)


def quantiles(
    values: Numbers, levels: Numbers | None = None
) -> tuple[Float[Array, "n *rest"], Float[Array, "n"]]:
    """Return values at increasing `levels`, with weights: each stands for the probabilities that
    are nearer to its level than to another.

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
