"""The paper's ablations: what each takes away, and what it leaves."""

import jax
import numpy as np
import pytest
from tests.support import tiny

from dualac.agents.algorithms import ALGORITHMS
from dualac.agents.duals import Held
from dualac.agents.update import sample_noise

BATCH, KEY = tiny.batch_of(99), jax.random.key(99)
DAC = ALGORITHMS["dac"]


@pytest.fixture(scope="module")
def only_optimist():
    return tiny.learner(tiny.quick(tiny.small(ALGORITHMS["dac:only-optimist"])), updates=5)


def optimist(some, obs):
    return some.row.explorer.distribution(some.state.explorer, tiny.agent_view(some), obs)


def test_only_the_optimist_is_judged_where_it_is_alone(only_optimist):
    judged, _ = only_optimist.exploit(only_optimist.state, (), BATCH.obs)
    np.testing.assert_allclose(judged, optimist(only_optimist, BATCH.obs).mode(), atol=1e-6)
    pessimist = only_optimist.row.policy.exploit(only_optimist.state.policy, BATCH.obs)
    assert np.abs(judged - pessimist).max() > 1e-4


def test_only_the_optimist_acts_in_the_target_where_it_is_alone(only_optimist):
    row, state = only_optimist.row, only_optimist.state
    noise = sample_noise(KEY, BATCH.action.size).successor.reshape(BATCH.action.shape)

    @tiny.compiled
    def loss():
        action, log_prob = optimist(only_optimist, BATCH.next_obs).sample(noise)
        future = row.pessimism.backup(
            (), row.critic.values(state.critic.target, BATCH.next_obs, action), KEY
        )
        alpha = row.policy.temperature.read(state.policy.temperature)
        y = BATCH.reward + 0.99 * BATCH.discount * (future[:, 0] - alpha * log_prob)
        return (
            (
                row.critic.values(state.critic.online.params, BATCH.obs, BATCH.action)[..., 0]
                - y[None]
            )
            ** 2
        ).sum() / len(y)

    assert float(only_optimist.update(state, BATCH, KEY)[1]["critic_loss"]) == pytest.approx(
        float(loss()), rel=1e-4
    )


def test_where_the_optimist_is_alone_the_pessimist_still_learns_as_its_anchor(only_optimist):
    after, _ = only_optimist.update(only_optimist.state, BATCH, KEY)
    assert not tiny.same(after.policy.actor.params, only_optimist.state.policy.actor.params)


@pytest.mark.parametrize(
    ("name", "optimism", "kl_weight"),
    [
        ("dac:no-adjustments", Held(1.0), Held(0.25)),
        ("dac:no-kl-weight-adjustment", DAC.explorer.optimism, Held(0.25)),
        ("dac:no-optimism-adjustment", Held(1.0), DAC.explorer.kl_weight),
        ("dac:no-kl", DAC.explorer.optimism, Held(0.0)),
    ],
)
def test_a_scalar_that_is_not_adjusted_is_held_where_dac_starts(name, optimism, kl_weight):
    assert ALGORITHMS[name] == tiny.with_part(
        DAC, "explorer", optimism=optimism, kl_weight=kl_weight
    )


def test_a_deterministic_optimist_explores_the_same_whatever_the_key():
    row = tiny.small(ALGORITHMS["dac:deterministic-optimist"])
    some = tiny.learner(row, updates=0)
    one, other = (
        some.explore(some.state, (), BATCH.obs, jax.random.key(seed))[0] for seed in (1, 2)
    )
    assert np.array_equal(one, other)
    np.testing.assert_allclose(one, optimist(some, BATCH.obs).mode(), atol=1e-6)


def test_a_deterministic_pessimist_samples_nothing_for_the_target_and_still_learns_from_samples():
    row = ALGORITHMS["dac:deterministic-pessimist"]
    assert row == tiny.with_part(DAC, "policy", successor="mode")
