"""Who acts: the policy itself, blurred or shifted, or DAC's optimist beside it."""

import dataclasses
import functools
import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support import tiny

from dualac.agents.algorithms import ALGORITHMS
from dualac.agents.distributions import TanhNormal
from dualac.agents.duals import Held, Learnt
from dualac.agents.explorers import AgentView, FromPolicy, Noise, UpperBoundShift
from dualac.agents.optimist import OptimisticActor
from dualac.errors import UsageError

FLOOR = -0.2
KEY = jax.random.key(7)
OBS = tiny.batch_of(7, size=4).obs
NOISE = np.asarray(jax.random.normal(KEY, (4, 2)))  # what that key draws for a batch of actions
PERTURBATION = OptimisticActor(hidden=tiny.HIDDEN)
FORMS = {
    "perturbation": PERTURBATION,
    "simple": OptimisticActor(form="simple", hidden=tiny.HIDDEN),
    "independent": OptimisticActor(form="independent", hidden=tiny.HIDDEN),
    "deterministic": OptimisticActor(form="deterministic", hidden=tiny.HIDDEN),
    "still": OptimisticActor(hidden=tiny.HIDDEN, head_gain=0.0),
}
DEPARTED = dict(mean=0.5, std=0.8)  # from a pessimist that is a standard Gaussian: the known answer


@pytest.fixture(scope="module")
def states():
    """Each form as it starts."""
    return tiny.compiled(
        lambda: {
            name: part.init(jax.random.key(0), tiny.SPEC, FLOOR) for name, part in FORMS.items()
        }
    )()


class Beside(NamedTuple):
    """Surroundings in which the pessimist is the same everywhere."""

    mean: float = 0.0
    std: float = 1.0


def rising(obs, action, optimism):
    """Return an upper bound that rises with the action, and with optimism."""
    return optimism * action.sum(axis=-1)


@functools.cache
def _compiled(function, upper):
    def run(state, pessimist, obs):
        noise = {"act": (KEY,), "improve": (NOISE,), "diagnose": ()}[function.__name__]
        return function(
            state,
            AgentView(lambda _: pessimist, lambda _: pessimist.mode(), upper, FLOOR),
            obs,
            *noise,
        )

    return tiny.compiled(run)


def run(function, state, beside, obs=OBS, upper=rising):
    shape = (*obs.shape[:-1], tiny.SPEC.action_dim)
    pessimist = TanhNormal(
        np.full(shape, beside.mean, np.float32), np.full(shape, np.log(beside.std), np.float32)
    )
    return _compiled(function, upper)(state, pessimist, obs)


def acted(part, state, beside, obs=OBS):
    return np.asarray(run(part.act, state, beside, obs))


def improved(part, state, beside, upper=rising):
    return run(part.improve, state, beside, upper=upper)


def median_kl(part, state, beside):
    return float(run(part.diagnose, state, beside)["kl_median"])


def flat(obs, action, optimism):
    """Values that do not depend on the action."""
    return jnp.zeros(obs.shape[:-1]) * action.sum(axis=-1)


def departed(state, mean, std):
    """Return the perturbation that turns a standard Gaussian into this one.

    Its trunk says one, and its heads the rest.
    """
    params = jax.tree.map(np.zeros_like, state.actor.params)["params"]
    for layer in params["Trunk_0"].values():
        layer["bias"] = np.ones_like(layer["bias"])
    params["shift"]["kernel"] = np.full_like(params["shift"]["kernel"], mean / 8)
    params["log_multiplier"]["kernel"] = np.full_like(
        params["log_multiplier"]["kernel"], math.atanh(math.log(std)) / 8
    )
    return state._replace(actor=state.actor._replace(params={"params": params}))


@pytest.mark.parametrize("form", FORMS)
def test_every_form_acts_on_one_observation_and_on_many(states, form):
    for obs in (OBS[0], OBS):
        action = acted(FORMS[form], states[form], Beside(), obs)
        assert action.shape == (*obs.shape[:-1], tiny.SPEC.action_dim)
        assert np.abs(action).max() <= 1


@pytest.mark.parametrize("form", FORMS)
def test_every_form_improves(states, form):
    learnt, metrics = improved(FORMS[form], states[form], Beside(0.1, 0.5))
    for before, after in zip(states[form], learnt, strict=True):
        assert not tiny.same(before.params, after.params)
    assert set(metrics) == {
        "optimistic_actor_loss",
        "optimistic_actor_grad_norm",
        "kl",
        "optimism",
        "kl_weight",
    }
    assert all(np.isfinite(metric) for metric in metrics.values())


@pytest.mark.parametrize("form", ["perturbation", "simple"])
def test_the_tied_forms_follow_the_pessimist_and_the_independent_does_not(states, form):
    for which, follows in ((form, True), ("independent", False)):
        one, other = (acted(FORMS[which], states[which], Beside(mean)) for mean in (0.0, 0.5))
        assert np.array_equal(one, other) != follows


def test_the_simple_form_keeps_the_pessimist_s_deviation(states):
    """So its divergence is that of the shift alone: half the square of shift / sigma in each
    dimension.
    """
    part, state = FORMS["simple"], states["simple"]
    _, metrics = improved(part, state, Beside(0.3, 0.5))
    shift = np.arctanh(acted(part, state, Beside(0.3, 0.5))) - 0.3 - 1.25 * 0.5 * NOISE
    assert float(metrics["kl"]) == pytest.approx((shift**2 / (2 * 0.5**2)).mean(), rel=0.02)


def test_the_deterministic_form_acts_without_noise_and_answers_for_its_shift_alone(states):
    part, state = FORMS["deterministic"], states["deterministic"]
    action = acted(part, state, Beside(0.3, 0.5))
    shift = np.arctanh(action) - 0.3
    assert 0 < np.abs(shift).max() < 0.1  # of noise there would be 1.25 * 0.5
    _, metrics = improved(part, state, Beside(0.3, 0.5))
    assert float(metrics["kl"]) == pytest.approx((shift**2 / (2 * 0.5**2)).mean(), rel=0.02)
    weight = 0.25 * 2 * float(metrics["kl"])
    assert float(metrics["optimistic_actor_loss"]) == pytest.approx(
        -action.sum(axis=-1).mean() + weight, rel=1e-4
    )


def test_an_optimist_may_be_paid_for_its_entropy_as_the_policy_is(states):
    """By the density of what it does, not of what it would do before widening."""
    plain, state = FORMS["perturbation"], states["perturbation"]
    paid = dataclasses.replace(plain, optimistic_entropy=True)
    same = np.full((*OBS.shape[:-1], tiny.SPEC.action_dim), 0.3, np.float32)
    pessimist = TanhNormal(same, -same)
    view = AgentView(
        lambda _: pessimist,
        lambda _: pessimist.mode(),
        rising,
        FLOOR,
        lambda log_prob: -0.1 * log_prob,
    )
    of_paid, of_plain = (
        float(part.improve(state, view, OBS, NOISE)[1]["optimistic_actor_loss"])
        for part in (paid, plain)
    )
    log_prob = plain.distribution(state, view, OBS).sample(NOISE)[1]
    assert of_paid - of_plain == pytest.approx(0.1 * float(log_prob.mean()), rel=1e-4)


@pytest.mark.parametrize("std", [0.02, 1.0])
@pytest.mark.parametrize("kl", ["optimist-pessimist", "pessimist-optimist"])
def test_without_head_gain_it_starts_as_the_pessimist_exactly(states, std, kl):
    part = dataclasses.replace(FORMS["still"], kl=kl)
    _, metrics = improved(part, states["still"], Beside(0.7, std))
    assert float(metrics["kl"]) == median_kl(part, states["still"], Beside(0.7, std)) == 0.0


def test_it_acts_with_a_wider_deviation_than_it_answers_for(states):
    part, view = FORMS["still"], Beside(0.1, 0.5)
    np.testing.assert_allclose(
        acted(part, states["still"], view), np.tanh(0.1 + 1.25 * 0.5 * NOISE), rtol=1e-5
    )
    assert float(improved(part, states["still"], view)[1]["kl"]) == 0.0


def test_it_is_judged_by_actions_of_the_wider_deviation(states):
    _, metrics = improved(FORMS["still"], states["still"], Beside(0.1, 0.5))
    actions = acted(FORMS["still"], states["still"], Beside(0.1, 0.5))
    assert float(metrics["optimistic_actor_loss"]) == pytest.approx(
        -actions.sum(axis=-1).mean(), rel=1e-5
    )  # optimism is 1, the KL 0


@pytest.mark.parametrize(("multiplier", "floor"), [(1.25, 0.05810645), (0.75, 0.06893207)])
def test_a_controller_that_sees_the_executed_deviation_has_a_floor(states, multiplier, floor):
    own = dataclasses.replace(FORMS["still"], std_multiplier=multiplier)
    executed = dataclasses.replace(own, controller="executed")
    (_, of_own), (_, of_executed) = (
        improved(part, states["still"], Beside(0.1, 0.5)) for part in (own, executed)
    )
    assert float(of_executed["kl"]) == pytest.approx(floor, abs=1e-6)
    assert float(of_own["kl"]) == 0.0
    assert float(of_executed["optimistic_actor_loss"]) == float(
        of_own["optimistic_actor_loss"]
    )  # the penalty is the same


@pytest.mark.parametrize(
    ("kl", "known"), [("optimist-pessimist", 0.16814355), ("pessimist-optimist", 0.25341895)]
)
def test_the_divergence_has_its_known_value_in_each_direction(states, kl, known):
    part = dataclasses.replace(PERTURBATION, kl=kl, kl_weight=Held(0.25))
    state = departed(states["perturbation"], **DEPARTED)._replace(kl_weight=())
    _, metrics = improved(part, state, Beside(), flat)
    assert float(metrics["kl"]) == pytest.approx(known, abs=1e-6)
    # The weight multiplies the sum over dimensions, of which there are two, not their mean.
    assert float(metrics["optimistic_actor_loss"]) == pytest.approx(0.25 * 2 * known, abs=1e-6)


def test_the_perturbation_is_relative_to_the_pessimist_s_deviation(states):
    """Multiplier 0.8 and shift 0.5 on a pessimist of deviation 0.5: -log 0.8 + (0.8^2 +
    (0.5/0.5)^2)/2 - 1/2.
    """
    _, metrics = improved(
        PERTURBATION, departed(states["perturbation"], **DEPARTED), Beside(-0.3, 0.5)
    )
    assert float(metrics["kl"]) == pytest.approx(-math.log(0.8) + (0.64 + 1) / 2 - 0.5, abs=1e-5)


@pytest.mark.parametrize(("target", "above"), [(0.1, True), (0.2, False)])
def test_above_its_target_optimism_falls_and_the_weight_rises_and_below_the_reverse(
    states, target, above
):
    """The divergence is 0.168 a dimension."""
    part = dataclasses.replace(PERTURBATION, target_kl=target)
    before = departed(states["perturbation"], **DEPARTED)
    after, _ = improved(part, before, Beside())
    assert (float(after.optimism.params) < float(before.optimism.params)) == above
    assert (float(after.kl_weight.params) > float(before.kl_weight.params)) == above
    assert abs(float(after.optimism.params - before.optimism.params)) == pytest.approx(
        3e-5, rel=0.01
    )
    assert abs(float(after.kl_weight.params - before.kl_weight.params)) == pytest.approx(
        3e-5, rel=0.01
    )


@settings(max_examples=20)
@given(st.floats(-1.0, 1.0), st.floats(0.5, 2.0), st.floats(0.3, 3.0))
def test_optimism_and_weight_never_move_the_same_way(states, mean, std, beside):
    before = departed(states["perturbation"], mean, std)
    after, metrics = improved(PERTURBATION, before, Beside(0.0, beside))
    excess = float(metrics["kl"]) - 0.25
    moved = (
        float(after.optimism.params - before.optimism.params),
        float(after.kl_weight.params - before.kl_weight.params),
    )
    if abs(excess) > 1e-6:
        assert (np.sign(moved[0]), np.sign(moved[1])) == (-np.sign(excess), np.sign(excess))


def test_without_a_price_the_divergence_is_measured_and_optimism_adjusted_all_the_same(states):
    part = dataclasses.replace(ALGORITHMS["dac:no-kl"].explorer, hidden=tiny.HIDDEN)
    before = departed(states["perturbation"], **DEPARTED)._replace(kl_weight=())
    after, metrics = improved(part, before, Beside())
    actions = acted(part, before, Beside())
    assert float(metrics["optimistic_actor_loss"]) == pytest.approx(
        -actions.sum(axis=-1).mean(), rel=1e-5
    )
    assert float(metrics["kl"]) == pytest.approx(0.16814355, abs=1e-6)
    assert float(metrics["kl_weight"]) == 0.0
    assert float(after.optimism.params) > float(before.optimism.params)


@pytest.mark.parametrize(("weight", "counted"), [(50.0, 20.0), (15.0, 15.0)])
def test_a_largest_weight_bounds_what_the_loss_counts_and_not_the_weight(states, weight, counted):
    part = dataclasses.replace(PERTURBATION, largest_kl_weight=20.0)
    state = departed(states["perturbation"], **DEPARTED)
    state = state._replace(kl_weight=state.kl_weight._replace(params=jnp.float32(math.log(weight))))
    after, metrics = improved(part, state, Beside(), flat)
    assert float(metrics["optimistic_actor_loss"]) == pytest.approx(
        counted * 2 * 0.16814355, rel=1e-5
    )
    assert float(metrics["kl_weight"]) == pytest.approx(weight, rel=1e-5)
    assert float(after.kl_weight.params) < float(
        state.kl_weight.params
    )  # below the target KL it falls, bounded or not


@pytest.mark.parametrize(
    ("above", "pushed"), [(0.5, 0.0), (0.0011, 0.0), (0.0009, 1.0), (1e-6, 1.0)]
)
def test_a_barrier_pushes_optimism_up_within_a_thousandth_of_the_pessimist_and_nowhere_else(
    states, above, pushed
):
    state = departed(states["perturbation"], **DEPARTED)
    state = state._replace(optimism=state.optimism._replace(params=jnp.float32(math.log(above))))
    (with_it, _), (without, _) = (
        improved(dataclasses.replace(PERTURBATION, barrier=barrier), state, Beside())
        for barrier in (True, False)
    )
    gradients = [
        float(learnt.optimism.adam.mean) / (1 - 0.5) / above for learnt in (with_it, without)
    ]
    assert gradients[1] - gradients[0] == pytest.approx(pushed, abs=1e-4)
    assert tiny.same(with_it.kl_weight, without.kl_weight)


def test_it_starts_with_the_optimism_and_the_weight_of_the_paper(states):
    def upper(obs, action, optimism):
        return jnp.broadcast_to(optimism, obs.shape[:-1]) + 0.0 * action.sum(axis=-1)

    _, metrics = improved(FORMS["still"], states["still"], Beside(), upper)
    assert float(metrics["optimism"]) == pytest.approx(1.0)
    assert float(metrics["kl_weight"]) == pytest.approx(0.25)
    assert float(metrics["optimistic_actor_loss"]) == pytest.approx(
        -1.0
    )  # the upper bound was asked for with that optimism


def test_optimism_never_falls_below_the_pessimist(states):
    part = dataclasses.replace(PERTURBATION, optimism=Learnt(1.0, lr=1.0), target_kl=1e-3)
    state = departed(states["perturbation"], **DEPARTED)
    standard = TanhNormal(jnp.zeros((4, 2)), jnp.zeros((4, 2)))
    view = AgentView(lambda _: standard, lambda _: standard.mode(), rising, FLOOR)

    def step(optimism, _):
        learnt, metrics = part.improve(state._replace(optimism=optimism), view, OBS, NOISE)
        return learnt.optimism, metrics["optimism"]

    _, seen = tiny.compiled(lambda start: jax.lax.scan(step, start, length=500))(state.optimism)
    assert (np.diff(seen) <= 0).all()
    assert (np.asarray(seen) >= np.float32(FLOOR)).all()
    assert float(seen[-1]) == pytest.approx(FLOOR, abs=1e-3)


def test_where_values_say_nothing_the_optimist_stays_the_pessimist(states):
    learnt, _ = improved(FORMS["still"], states["still"], Beside(0.3, 0.5), flat)
    assert tiny.same(learnt.actor.params, states["still"].actor.params)


def test_without_adjustment_nothing_but_the_actor_moves(states):
    part = dataclasses.replace(PERTURBATION, optimism=Held(1.0), kl_weight=Held(0.25))
    before = states["perturbation"]._replace(
        optimism=part.optimism.init(FLOOR), kl_weight=part.kl_weight.init()
    )
    after, metrics = improved(part, before, Beside())
    assert after.optimism == after.kl_weight == ()
    assert not tiny.same(before.actor.params, after.actor.params)
    assert (float(metrics["optimism"]), float(metrics["kl_weight"])) == (1.0, 0.25)


def test_the_median_is_logged_beside_the_mean(states):
    """One state in which the pessimist is nearly certain dominates the mean."""
    state, beside = (
        departed(states["perturbation"], **DEPARTED),
        Beside(std=np.asarray([[1.0], [1.0], [1.0], [0.01]])),
    )
    assert median_kl(PERTURBATION, state, beside) == pytest.approx(0.168, abs=1e-3)
    assert float(improved(PERTURBATION, state, beside)[1]["kl"]) > 100


def test_the_median_is_of_the_kl_that_the_duals_hold(states):
    executed = dataclasses.replace(PERTURBATION, controller="executed")
    state, beside = (
        departed(states["perturbation"], **DEPARTED),
        Beside(),
    )  # the same everywhere: median and mean are one
    of_own, of_executed = (
        float(improved(part, state, beside)[1]["kl"]) for part in (PERTURBATION, executed)
    )
    assert of_executed != pytest.approx(of_own, rel=0.1)
    assert [median_kl(part, state, beside) for part in (PERTURBATION, executed)] == pytest.approx(
        [of_own, of_executed], rel=1e-5
    )


def test_diagnosis_tells_how_far_the_optimist_departs(states):
    """By hand: the pessimist is a standard Gaussian, the optimist has mean 0.5 and deviation 0.8,
    widened by 1.25 where it acts.
    """
    measured = run(PERTURBATION.diagnose, departed(states["perturbation"], **DEPARTED), Beside())
    kl = 0.5 * (0.8**2 + 0.5**2 - 1.0) - math.log(0.8)
    for name in ("kl_q10", "kl_median", "kl_q90", "kl_q99"):
        assert float(measured[name]) == pytest.approx(kl, rel=1e-5)
    assert float(measured["optimist_shift"]) == pytest.approx(0.5, rel=1e-5)
    assert float(measured["optimist_std_ratio"]) == pytest.approx(1.25 * 0.8, rel=1e-5)


def test_diagnosis_compares_the_disagreement_at_both_actors_modes(states):
    def wider(obs, action, optimism):
        return optimism * (1.0 + action.sum(axis=-1))

    measured = run(
        PERTURBATION.diagnose, departed(states["perturbation"], **DEPARTED), Beside(), upper=wider
    )
    assert float(measured["optimist_spread_ratio"]) == pytest.approx(
        1.0 + tiny.SPEC.action_dim * math.tanh(0.5), rel=1e-5
    )


def test_from_policy_samples_the_policy_and_learns_nothing():
    np.testing.assert_allclose(
        acted(FromPolicy(), (), Beside(0.1, 0.5)), np.tanh(0.1 + 0.5 * NOISE), rtol=1e-5
    )
    assert improved(FromPolicy(), (), Beside()) == ((), {})


@pytest.mark.parametrize("sigma", [0.0, 0.1, 5.0])
def test_noise_blurs_the_policy_s_best_action_and_learns_nothing(sigma):
    part = Noise(sigma)
    np.testing.assert_allclose(
        acted(part, (), Beside(0.7, 0.5)), np.clip(np.tanh(0.7) + sigma * NOISE, -1, 1), atol=1e-6
    )
    assert improved(part, (), Beside()) == ((), {})


# UpperBoundShift: OAC

OAC = UpperBoundShift()
SHIFT_KL = 3.69**2 / 2


def _shifted(part):
    """Beside a policy around 0, for an upper bound with these slopes: how far the mean moves in
    standard deviations, and the divergence.
    """

    @tiny.compiled
    def run(log_std, slopes):
        policy = TanhNormal(jnp.zeros_like(slopes), log_std)
        moved = part.shifted(policy, lambda mean: (slopes * mean).sum(axis=-1))
        return (moved.mean * jnp.exp(-log_std), moved.kl(policy), moved.log_std)

    return lambda log_std, slopes: tuple(
        map(np.asarray, run(jnp.float32(log_std), jnp.float32(slopes)))
    )


shifted = _shifted(OAC)
slopes = st.builds(
    lambda sign, power: sign * 10.0**power,
    st.sampled_from([-1.0, 0.0, 1.0]),
    st.floats(-30.0, 30.0),
)
pairs = st.tuples(slopes, slopes)
log_stds = st.tuples(st.floats(-9.0, 2.0), st.floats(-9.0, 2.0))


@settings(max_examples=40)
@given(pairs.filter(any), log_stds)
def test_the_shift_s_divergence_is_its_constraint_for_every_gradient(slope, log_std):
    _, divergence, after = shifted(log_std, slope)
    assert float(divergence) == pytest.approx(SHIFT_KL, rel=1e-4)
    np.testing.assert_array_equal(after, np.float32(log_std))


@settings(max_examples=20)
@given(st.tuples(st.floats(0.1, 9.0), st.floats(-9.0, 9.0)), st.floats(-25.0, 25.0))
def test_the_shift_depends_on_the_gradient_s_direction_alone(slope, power):
    one, other = (
        shifted((-1.0, 0.5), np.asarray(slope) * scale)[0] for scale in (1.0, 10.0**power)
    )
    np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-4)


def test_where_the_upper_bound_is_flat_nothing_shifts():
    moved, divergence, _ = shifted((0.0, -3.0), (0.0, 0.0))
    np.testing.assert_array_equal(moved, [0.0, 0.0])
    assert float(divergence) == 0.0


def test_a_flat_state_and_a_steep_one_do_not_see_one_another():
    moved, divergence, _ = shifted(np.zeros((3, 2)), [[0.0, 0.0], [0.0, 1e-20], [3e10, 4e10]])
    np.testing.assert_allclose(moved, 3.69 * np.asarray([[0, 0], [0, 1], [0.6, 0.8]]), rtol=1e-5)
    np.testing.assert_allclose(divergence, [0, SHIFT_KL, SHIFT_KL], rtol=1e-5)


def test_a_kl_may_be_given_in_place_of_the_shift_s_length():
    """The authors' 23.53 is a length of 6.86."""
    moved, divergence, _ = _shifted(UpperBoundShift(kl=23.53))((0.0, 0.0), (0.0, -2.0))
    assert float(divergence) == pytest.approx(23.53, rel=1e-5)
    np.testing.assert_allclose(moved, [0, -6.86003], rtol=1e-5)


def test_the_shift_climbs_the_upper_bound_at_its_own_optimism_through_tanh():
    """By the formula: Sigma g over the root of g' Sigma g, the slope of tanh in g. Another optimism
    would bend it to the second action.
    """

    def upper(obs, action, optimism):
        return 2.0 * action[..., 0] - action[..., 1] + 1e6 * (optimism - 4.36) * action[..., 1]

    mean, std = np.asarray([0.5, -1.0]), np.asarray([0.5, 0.2])
    slope = np.asarray([2.0, -1.0]) * (1 - np.tanh(mean) ** 2)
    expected = mean + 3.69 * std**2 * slope / np.sqrt((std**2 * slope**2).sum())
    action = np.asarray(run(OAC.act, (), Beside(mean, std), upper=upper))
    np.testing.assert_allclose(action, np.tanh(expected + std * NOISE), rtol=1e-4)
    assert improved(OAC, (), Beside()) == ((), {})


@pytest.mark.parametrize(
    "wrong",
    [
        dict(shift=-1.0),
        dict(kl=-0.1),
        dict(kl=math.inf),
        dict(optimism=math.nan),
        dict(shift=1.0, kl=0.5),
    ],
)
def test_senseless_shifts_are_refused(wrong):
    with pytest.raises(UsageError):
        UpperBoundShift(**wrong)


def test_negative_noise_is_refused():
    with pytest.raises(UsageError, match="sigma"):
        Noise(-0.1)


@pytest.mark.parametrize(
    "wrong",
    [
        dict(target_kl=-0.1),
        dict(target_kl=0.0),
        dict(target_kl=math.nan),
        dict(target_kl=math.inf),
        dict(std_multiplier=0.0),
        dict(std_multiplier=-1.25),
        dict(std_multiplier=math.nan),
        dict(std_multiplier=math.inf),
        dict(head_gain=-0.01),
        dict(lr=0.0),
        dict(lr=-3e-4),
        dict(hidden=()),
        dict(hidden=(8, 0)),
        dict(form="deterministic", std_multiplier=1.5),
        dict(form="deterministic", controller="executed"),
        dict(form="deterministic", optimistic_entropy=True),
        dict(form="stubborn"),
        dict(kl="none"),
        dict(largest_kl_weight=0.0),
    ],
)
def test_senseless_optimists_are_refused(wrong):
    with pytest.raises(UsageError):
        OptimisticActor(**wrong)


def test_a_head_gain_is_refused_where_there_are_no_heads():
    with pytest.raises(UsageError, match="independent actor has none"):
        OptimisticActor(form="independent", head_gain=0.0)


@pytest.mark.parametrize(
    "wrong",
    [
        dict(optimism=Held(-0.3)),
        dict(kl_weight=Held(-0.25)),
        dict(kl_weight=Learnt(0.0)),
        dict(kl_weight=Held(math.inf)),
    ],
)
def test_duals_below_their_floor_are_refused_when_the_row_is_built(wrong):
    with pytest.raises(UsageError):
        tiny.with_part(ALGORITHMS["dac"], "explorer", **wrong)


def test_no_price_on_departing_from_the_pessimist_is_allowed():
    assert tiny.with_part(
        ALGORITHMS["dac"], "explorer", kl_weight=Held(0.0)
    ).explorer.kl_weight == Held(0.0)


@pytest.mark.parametrize("start", [-0.2, -0.5])
def test_an_optimist_that_starts_no_higher_than_the_pessimist_is_refused_when_the_row_is_built(
    start,
):
    with pytest.raises(UsageError, match=r"must start between -0\.2"):
        tiny.with_part(ALGORITHMS["dac"], "explorer", optimism=Learnt(start))


def test_an_optimist_may_start_between_pessimism_and_indifference():
    row = tiny.with_part(ALGORITHMS["dac"], "explorer", optimism=Learnt(-0.1))
    assert float(
        row.explorer.optimism.read(row.explorer.optimism.init(-0.2), -0.2)
    ) == pytest.approx(-0.1)
