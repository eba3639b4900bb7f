"""The critics' losses, and what an optimist sees in them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support import tiny

from dualac.agents.algorithm import Algorithm
from dualac.agents.critics import Quantile, Scalar, quantile_huber
from dualac.agents.explorers import FromPolicy, Noise, UpperBoundShift
from dualac.agents.pessimism import Fixed
from dualac.agents.policies import Soft
from dualac.errors import UsageError

K, BATCH, N = 2, 3, 4
PARTS = {kappa: Quantile(k=K, n=N, kappa=kappa) for kappa in (1.0, 0.25)}
losses = {kappa: tiny.compiled(part._loss) for kappa, part in PARTS.items()}


def plain_loss(zs, target, kappa):
    """Sum over critics and predicted quantiles, mean over the target's quantiles and the batch,
    pair by pair.
    """
    total = 0.0
    for critic in range(zs.shape[0]):
        for state in range(zs.shape[1]):
            for at, predicted in enumerate(zs[critic, state]):
                level = (2 * (at + 1) - 1) / (2 * zs.shape[2])
                for y in target[state]:
                    u = y - predicted
                    huber = 0.5 * u**2 if abs(u) <= kappa else kappa * (abs(u) - 0.5 * kappa)
                    total += abs(level - (u < 0)) * huber / kappa / target.shape[1] / zs.shape[1]
    return total


@settings(max_examples=15)
@given(st.integers(0, 10**6), st.sampled_from([0.1, 1.0, 30.0]), st.sampled_from(sorted(PARTS)))
def test_the_quantile_loss_is_that_of_every_pair(seed, scale, kappa):
    rng = np.random.default_rng(seed)
    zs, target = (
        rng.normal(scale=scale, size=shape).astype(np.float32)
        for shape in ((K, BATCH, N), (BATCH, N))
    )
    expected = plain_loss(zs.astype(np.float64), target.astype(np.float64), kappa)
    assert float(losses[kappa](zs, target)) == pytest.approx(expected, rel=1e-4)


def test_the_quantile_loss_is_least_at_the_quantiles():
    """Those of the uniform distribution on [0, 10]. One higher, a tenth more of the returns lies
    below: that is the slope.
    """
    part = Quantile(k=1, n=N, kappa=1e-3)
    returns = (jnp.arange(1000.0)[None] + 0.5) / 100
    truth = 10 * (jnp.arange(4.0)[None, None] + 0.5) / 4
    slope = tiny.compiled(jax.grad(lambda zs: part._loss(zs, returns)))
    np.testing.assert_allclose(slope(truth), np.zeros((1, 1, N)), atol=2e-3)
    np.testing.assert_allclose(slope(truth + 1), np.full((1, 1, N), 0.1), atol=2e-3)


@pytest.mark.parametrize("kind", ["epistemic", "aleatoric", "both"])
@pytest.mark.parametrize("critics", [2, 3])
def test_the_upper_bound_adds_the_critics_disagreement_the_return_s_spread_or_both(kind, critics):
    zs = np.random.default_rng(critics).normal(size=(critics, 4, 5)).astype(np.float32)
    disagreement = zs.std(axis=0).mean(axis=-1)  # of each quantile, over the critics
    spread = zs.std(axis=-1).mean(axis=0)  # of each critic, over its quantiles
    more = {"epistemic": disagreement, "aleatoric": spread, "both": disagreement + spread}[kind]
    part = Quantile(k=critics, n=5, upper_bound=kind)
    np.testing.assert_allclose(
        tiny.compiled(part.upper)(zs, np.float32(0.7)), zs.mean(axis=(0, 2)) + 0.7 * more, rtol=1e-5
    )


def test_the_upper_bound_of_scalar_critics_is_their_certainty():
    zs = jnp.asarray([[[10.0]], [[12.0]]])
    assert Scalar().upper(zs, jnp.float32(1.0)).tolist() == [12.0]
    assert Scalar().upper(zs, jnp.float32(4.36)).tolist() == pytest.approx([15.36])
    assert Scalar(ensemble_stat="var").upper(zs + zs, jnp.float32(4.36)).tolist() == pytest.approx(
        [22 + 4.36 * 4]
    )
    with pytest.raises(UsageError, match="ensemble_stat"):
        Scalar(ensemble_stat="variance")  # pyright: ignore[reportArgumentType]


def test_a_pessimist_compares_critics_quantile_by_quantile():
    """The minimum at each level, not the quantiles of the critic with the lower mean."""
    zs = jnp.asarray([[[0.0, 6.0]], [[2.0, 3.0]]])
    assert Fixed(-1.0).backup((), zs, jax.random.key(0)).tolist() == [[0.0, 3.0]]


def test_quantile_critics_learn_every_quantile_of_a_random_return():
    """The return is 0 or 1 by a coin: the lower quantiles go to 0, the upper ones to 1, and their
    mean to a half.
    """
    part = Quantile(k=1, hidden=(8,), n=4, lr=3e-2, kappa=0.05)
    batch = tiny.batch_of(0, 64)._replace(obs=jnp.ones((64, 3)), action=jnp.zeros((64, 2)))

    @tiny.compiled
    def learnt():
        def step(state, _):
            return part.learn(state, batch, jnp.tile(jnp.arange(64.0)[:, None] % 2, (1, 4)))[
                0
            ], None

        state, _ = jax.lax.scan(step, part.init(jax.random.key(0), tiny.SPEC), length=400)
        return part.values(state.online.params, batch.obs[0], batch.action[0])

    np.testing.assert_allclose(learnt(), [[0, 0, 1, 1]], atol=0.1)


@pytest.mark.parametrize(
    "wrong",
    [dict(n=0), dict(n=-1), dict(kappa=0.0), dict(kappa=-1.0), dict(k=0), dict(upper_bound="none")],
)
def test_senseless_quantile_critics_are_refused(wrong):
    with pytest.raises(UsageError):
        Quantile(**wrong)


@pytest.mark.parametrize("critic", [Scalar(ensemble_stat="var"), Quantile(upper_bound="both")])
@pytest.mark.parametrize("explorer", [FromPolicy(), Noise()])
def test_what_only_an_optimist_sees_is_refused_where_nobody_looks(critic, explorer):
    with pytest.raises(UsageError, match="looks at no upper bound"):
        Algorithm(Fixed(-1.0), Soft(), explorer, critic)
    Algorithm(Fixed(-1.0), Soft(), UpperBoundShift(), critic)


def test_the_slope_of_the_quantile_loss_is_that_of_all_pairs_at_once():
    draw = np.random.default_rng(0)
    zs, target = (
        jnp.asarray(2 * draw.normal(size=shape), jnp.float32) for shape in ((2, 4, 5), (4, 5))
    )

    def all_pairs(zs):
        error = target[None, :, None, :] - zs[..., None]  # critics, batch, predicted, target
        weight = jnp.abs(((jnp.arange(5) + 0.5) / 5)[None, None, :, None] - (error < 0.0))
        square, line = 0.5 * error**2, 0.7 * (jnp.abs(error) - 0.35)
        huber = jnp.where(jnp.abs(error) <= 0.7, square, line)
        return (weight * huber / 0.7).mean(axis=(1, 3)).sum()

    ours, slope = jax.value_and_grad(quantile_huber)(zs, target, 0.7)
    known, expected = jax.value_and_grad(all_pairs)(zs)
    assert float(ours) == pytest.approx(float(known), rel=1e-5)
    np.testing.assert_allclose(slope, expected, atol=1e-6)
