"""The policies: what the soft one climbs and what holds its entropy, and how the deterministic one
is blurred.
"""

import dataclasses
import math

import jax
import numpy as np
import pytest
from tests.support import tiny

from dualac.agents.duals import Held, Learnt
from dualac.agents.policies import Deterministic, Policy, Soft
from dualac.errors import UsageError

OBS = tiny.batch_of(5).obs
NOISE = jax.random.normal(jax.random.key(5), (len(OBS), tiny.SPEC.action_dim))


def objective(obs, action):
    return 3.0 * action[:, 0] - action[:, 1]


def sampled(learner):
    return tiny.compiled(lambda state: learner.row.policy.distribution(state, OBS).sample(NOISE))(
        learner.state.policy
    )


@pytest.fixture(scope="module")
def improved():
    """Return a function that improves a policy from a given state, compiled once for each part."""
    compiled = {}

    def improve(part, state):
        if part not in compiled:
            compiled[part] = tiny.compiled(lambda state: part.improve(state, objective, OBS, NOISE))
        return compiled[part](state)

    return improve


def test_it_is_paid_minus_alpha_log_pi_for_the_action_it_takes_next(sac):
    action, bonus = tiny.compiled(sac.row.policy.backup)(sac.state.policy, OBS, NOISE)
    sample_action, log_prob = sampled(sac)
    alpha = math.exp(float(sac.state.policy.temperature.params))
    np.testing.assert_array_equal(action, sample_action)
    np.testing.assert_allclose(bonus, -alpha * np.asarray(log_prob), rtol=1e-6)


def test_its_loss_is_the_price_of_predictability_less_the_value(sac, improved):
    _, metrics = improved(sac.row.policy, sac.state.policy)
    action, log_prob = sampled(sac)
    alpha = math.exp(float(sac.state.policy.temperature.params))
    assert float(metrics["actor_loss"]) == pytest.approx(
        float((alpha * log_prob - objective(OBS, action)).mean()), rel=1e-5
    )
    assert float(metrics["entropy"]) == pytest.approx(-float(log_prob.mean()), rel=1e-5)
    assert float(metrics["ent_coef"]) == pytest.approx(alpha, rel=1e-6)


def test_improving_moves_the_action_towards_value(sac, improved):
    state = sac.state.policy
    for _ in range(5):
        state, _ = improved(sac.row.policy, state)
    exploit = tiny.compiled(sac.row.policy.exploit)
    before, after = (exploit(which, OBS) for which in (sac.state.policy, state))
    assert float(objective(OBS, after).mean()) > float(objective(OBS, before).mean())


@pytest.mark.parametrize("above", [True, False])
def test_the_temperature_falls_while_entropy_is_above_its_target_and_rises_below(
    sac, improved, above
):
    """The target is that for one dimension times their number: it is placed a little to either side
    of the entropy measured.
    """
    entropy = float(improved(sac.row.policy, sac.state.policy)[1]["entropy"])
    target = (entropy - 0.1 if above else entropy + 0.1) / tiny.SPEC.action_dim
    learnt, _ = improved(
        dataclasses.replace(sac.row.policy, entropy_per_dim=target), sac.state.policy
    )
    # Adam's momentum is set aside: what counts is which way this batch pushed.
    pushed = learnt.temperature.adam.mean - 0.9 * sac.state.policy.temperature.adam.mean
    assert (float(pushed) > 0) == above


def test_the_first_step_of_the_temperature_goes_the_right_way(sac, improved):
    """An untrained policy is far too certain, so predictability becomes dearer; for a target lower
    still, cheaper.
    """
    for target, direction in ((-0.5, 1), (-50.0, -1)):
        learnt, _ = improved(
            dataclasses.replace(sac.row.policy, entropy_per_dim=target), sac.fresh.policy
        )
        assert np.sign(learnt.temperature.params - sac.fresh.policy.temperature.params) == direction


def test_the_target_entropy_is_minus_half_the_actions():
    assert Soft().entropy_per_dim * 6 == -3.0


def test_a_held_temperature_stays(sac):
    part = dataclasses.replace(sac.row.policy, temperature=Held(0.1))
    state = sac.state.policy._replace(temperature=part.temperature.init())
    learnt, metrics = tiny.compiled(lambda state: part.improve(state, objective, OBS, NOISE))(state)
    assert learnt.temperature == ()
    assert float(metrics["ent_coef"]) == pytest.approx(0.1)


def test_exploiting_takes_the_mode(sac):
    policy = tiny.compiled(sac.row.policy.distribution)(sac.state.policy, OBS)
    np.testing.assert_allclose(sac.exploit(sac.state, (), OBS)[0], np.tanh(policy.mean), rtol=1e-6)


@pytest.mark.parametrize(
    "wrong",
    [
        dict(hidden=()),
        dict(hidden=(8, 0)),
        dict(lr=0.0),
        dict(lr=-1.0),
        dict(temperature=Learnt(0.0)),
        dict(temperature=Held(-1.0)),
    ],
)
def test_senseless_policies_are_refused(wrong):
    with pytest.raises(UsageError):
        Soft(**wrong)


def test_a_mode_for_a_successor_is_the_squashed_mean_without_pay_for_entropy(sac):
    part = dataclasses.replace(sac.row.policy, successor="mode")
    for noise in (NOISE, -NOISE):
        action, bonus = tiny.compiled(part.backup)(sac.state.policy, OBS, noise)
        np.testing.assert_allclose(action, sac.exploit(sac.state, (), OBS)[0], rtol=1e-6)
        np.testing.assert_array_equal(bonus, np.zeros(len(OBS)))


# Deterministic: TD3, DDPG, TOP


@pytest.fixture
def blurred(top):
    """Return the next action of a policy of TD3's parameters under this much noise, and the action
    without.
    """
    slow = top.state.policy._replace(
        actor=top.state.policy.actor._replace(params=top.state.policy.target)
    )
    still = np.asarray(top.exploit(top.state._replace(policy=slow), (), OBS)[0])

    def act(state=top.state.policy, **changes):
        part = dataclasses.replace(top.row.policy, **changes)
        return tuple(map(np.asarray, tiny.compiled(part.backup)(state, OBS, NOISE))), still

    return act


def test_the_target_s_action_is_that_of_the_slow_copy_under_clipped_noise(blurred, top):
    assert (top.row.policy.target_noise, top.row.policy.noise_clip) == (0.2, 0.5)
    (action, bonus), still = blurred()
    noise = np.clip(0.2 * np.asarray(NOISE), -0.5, 0.5)
    np.testing.assert_allclose(action, np.clip(still + noise, -1, 1), atol=1e-6)
    np.testing.assert_array_equal(bonus, np.zeros(len(OBS)))


def test_the_target_s_noise_is_clipped_and_so_is_the_action(blurred):
    (action, _), still = blurred(target_noise=100.0)
    sign = np.sign(NOISE)
    np.testing.assert_allclose(action, np.clip(still + 0.5 * sign, -1, 1), atol=1e-6)
    assert (np.abs(action) == 1).any()


def test_without_target_noise_the_slow_copy_acts_exactly(blurred, top):
    (action, _), still = blurred(target_noise=0.0)
    np.testing.assert_allclose(action, still, atol=1e-6)
    assert not np.allclose(
        action, top.exploit(top.state, (), OBS)[0], atol=1e-4
    )  # which is the actor's


def test_the_deterministic_actor_climbs_the_value_of_its_own_action(top):
    learnt, metrics = tiny.compiled(
        lambda state: top.row.policy.improve(state, objective, OBS, NOISE)
    )(top.state.policy)
    before, after = (
        top.exploit(top.state._replace(policy=state), (), OBS)[0]
        for state in (top.state.policy, learnt)
    )
    assert float(metrics["actor_loss"]) == pytest.approx(
        -float(objective(OBS, before).mean()), rel=1e-5
    )
    assert float(objective(OBS, after).mean()) > float(objective(OBS, before).mean())
    assert tiny.same(learnt.target, top.state.policy.target)


def test_the_slow_actor_follows_by_half_a_percent(top):
    state = top.state.policy
    followed = top.row.policy.update_targets(state)
    expected = jax.tree.map(
        lambda slow, fast: 0.995 * np.asarray(slow) + 0.005 * np.asarray(fast),
        state.target,
        state.actor.params,
    )
    assert tiny.distance(followed.target, expected) < 1e-6
    assert tiny.same(top.fresh.policy.target, top.fresh.policy.actor.params)


def test_what_an_actor_says_before_tanh_becomes_its_action(top, sac):
    obs = tiny.batch_of(5).obs
    for some in (top, sac):
        policy, state = some.row.policy, some.state.policy
        np.testing.assert_allclose(
            np.tanh(policy.before_tanh(state, obs)), policy.exploit(state, obs), atol=1e-6
        )
        np.testing.assert_allclose(
            Policy.before_tanh(policy, state, obs), policy.before_tanh(state, obs), atol=1e-2
        )  # as for a kind of one's own


def test_saturation_is_the_mean_absolute_pre_tanh_action(top, sac):
    for some in (top, sac):
        action = np.asarray(some.exploit(some.state, (), OBS)[0], np.float64)
        measured = tiny.compiled(some.row.policy.diagnose)(some.state.policy, OBS)["saturation"]
        assert float(measured) == pytest.approx(np.abs(np.arctanh(action)).mean(), rel=1e-2)


@pytest.mark.parametrize(
    "wrong",
    [
        dict(delay=0),
        dict(delay=-2),
        dict(target_noise=-0.1),
        dict(target_noise=math.nan),
        dict(noise_clip=0.0),
        dict(noise_clip=math.inf),
        dict(polyak=0.0),
        dict(polyak=1.5),
        dict(hidden=()),
        dict(lr=0.0),
    ],
)
def test_senseless_deterministic_policies_are_refused(wrong):
    with pytest.raises(UsageError):
        Deterministic(**wrong)


@pytest.mark.parametrize(
    "wrong", [dict(delay=0), dict(successor="worst"), dict(entropy_per_dim=math.nan)]
)
def test_other_senseless_soft_policies_are_refused(wrong):
    with pytest.raises(UsageError):
        Soft(**wrong)
