"""What holds for every row of the table."""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tests.support import tiny

from dualac.agents.agent import make_agent
from dualac.agents.algorithm import Algorithm
from dualac.agents.algorithms import ALGORITHMS
from dualac.agents.bandit import Bandit
from dualac.agents.critics import Quantile, Scalar
from dualac.agents.duals import Held, Learnt
from dualac.agents.explorers import FromPolicy, Noise, UpperBoundShift
from dualac.agents.optimist import OptimisticActor
from dualac.agents.pessimism import DualDescent, ExactCertainty, Fixed, SubsetMin
from dualac.agents.policies import Deterministic, Soft
from dualac.errors import UsageError
from dualac.parts.paths import options, replaced
from dualac.training.packed_state import PackedState

OBS = tiny.batch_of(3).obs


def leaves(tree):
    return [
        (jax.tree_util.keystr(path), leaf)
        for path, leaf in jax.tree_util.tree_leaves_with_path(tree)
    ]


def shared(tree):
    """Paths of leaves that lie in memory that another one occupies."""
    seen, twice = {}, []
    for path, leaf in leaves(tree):
        address = leaf.unsafe_buffer_pointer()
        if address in seen:
            twice.append((seen[address], path))
        seen[address] = path
    return twice


def test_the_table_has_the_rows_of_the_paper_s_choices():
    family = {"dac", "sac", "td3", "ddpg", "oac", "top", "gpl", "redq"}
    variants = {"dac-ln", "dac-dog", "dac-epistemic", "dac-aleatoric", "dac-both", "dac-v1"}
    assert family | variants <= set(ALGORITHMS)
    ours = {"dac:exact-certainty", "sac:exact-certainty"}
    assert len([name for name in ALGORITHMS if ":" in name and name not in ours]) == 7
    assert {name: ALGORITHMS[name].pessimism for name in ours} == {
        name: ExactCertainty(-0.2 if "dac" in name else -1.0) for name in ours
    }
    assert ALGORITHMS["dac"].pessimism.floor() == -0.2
    assert ALGORITHMS["sac"].pessimism.floor() == -1.0


@pytest.mark.parametrize("wrong", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("name", list(ALGORITHMS))
def test_no_number_of_a_row_may_be_infinite_or_none_at_all(name, wrong):
    row = ALGORITHMS[name]
    for path in [option.path for option in options(row) if option.hint in (float, float | None)]:
        with pytest.raises(UsageError):
            replaced(row, {path: wrong})
            pytest.fail(f"{path} may be {wrong}")


def test_dac_explores_with_the_optimist_and_exploits_with_the_pessimist(dac):
    params = jax.tree.map(lambda leaf: leaf + 0.5, dac.state.explorer.actor.params)
    other = dac.state._replace(
        explorer=dac.state.explorer._replace(actor=dac.state.explorer.actor._replace(params=params))
    )
    key = jax.random.key(0)
    assert not np.array_equal(
        dac.explore(dac.state, (), OBS, key)[0], dac.explore(other, (), OBS, key)[0]
    )
    assert np.array_equal(dac.exploit(dac.state, (), OBS)[0], dac.exploit(other, (), OBS)[0])


def test_oac_explores_further_than_its_policy_would_and_exploits_the_policy(oac):
    """The shift, seen through the whole agent: 3.69 deviations off the mean, in the direction in
    which its own critics' upper bound rises.
    """
    distribution = oac.row.policy.distribution(oac.state.policy, OBS)
    action, _ = oac.explore(oac.state, (), OBS, jax.random.key(1))
    noise = np.asarray(jax.random.normal(jax.random.key(1), distribution.mean.shape))
    steps = (np.arctanh(np.asarray(action, np.float64)) - distribution.mean) / np.exp(
        distribution.log_std
    ) - noise
    np.testing.assert_allclose(np.linalg.norm(steps, axis=-1), 3.69, rtol=0.02)
    np.testing.assert_allclose(oac.exploit(oac.state, (), OBS)[0], distribution.mode(), atol=1e-6)


def test_exploring_works_for_one_observation_and_for_many(each):
    for obs in (OBS[0], OBS):
        action, memory = each.explore(each.state, (), obs, jax.random.key(1))
        assert action.shape == (*obs.shape[:-1], tiny.SPEC.action_dim)
        assert action.dtype == jnp.float32
        assert np.abs(action).max() <= 1
        assert memory == ()


def test_exploring_is_random_and_decided_by_its_key(each):
    one, again, other = (
        each.explore(each.state, (), OBS, jax.random.key(seed))[0] for seed in (1, 1, 2)
    )
    deterministic = getattr(each.row.explorer, "form", None) == "deterministic"  # an ablation
    assert np.array_equal(one, again)
    assert np.array_equal(one, other) == deterministic


def test_exploiting_is_deterministic_and_the_same_for_one_observation_and_for_many(each):
    many, memory = each.exploit(each.state, (), OBS)
    again, _ = each.exploit(each.state, (), OBS)
    one, _ = each.exploit(each.state, (), OBS[4])
    assert memory == ()
    assert np.array_equal(many, again)
    np.testing.assert_allclose(one, many[4], atol=1e-6)


def test_an_update_moves_everything_that_is_trained(each):
    for before, after in zip(
        tiny.trained_parts(each.fresh), tiny.trained_parts(each.state), strict=True
    ):
        for (path, old), (_, new) in zip(leaves(before), leaves(after), strict=True):
            assert not np.array_equal(old, new), path
    slow = [
        [state.critic.target, getattr(state.policy, "target", ())]
        for state in (each.fresh, each.state)
    ]
    for (path, old), (_, new) in zip(*map(leaves, slow), strict=True):
        assert not np.array_equal(old, new), path


def test_an_update_is_decided_by_state_batch_and_key(each):
    (one, _), (again, _) = (
        each.update(each.state, tiny.batch_of(50), jax.random.key(50)) for _ in range(2)
    )
    other, _ = each.update(each.state, tiny.batch_of(50), jax.random.key(51))
    draws = getattr(each.row.policy, "target_noise", True)  # DDPG's update draws nothing
    assert tiny.same(one, again)
    assert tiny.same(one, other) != bool(draws)


def test_metrics_are_finite_scalars(each):
    _, metrics = each.update(each.state, tiny.batch_of(50), jax.random.key(50))
    assert {"critic_loss", "q_mean", "q_std", "actor_loss", "nonfinite"} <= set(metrics)
    for name, metric in metrics.items():
        assert metric.shape == () and np.isfinite(metric), name


def test_hearing_of_an_episode_returns_a_state_of_the_same_kind(each):
    heard = each.agent.observe_return(each.state, jnp.float32(12.0), jax.random.key(0))
    assert jax.tree.structure(heard) == jax.tree.structure(each.state)
    assert tiny.same(
        (heard.policy, heard.explorer, heard.critic),
        (each.state.policy, each.state.explorer, each.state.critic),
    )


def test_every_leaf_is_strongly_typed_before_and_after_an_update(each):
    for state in (each.fresh, each.state):
        assert [path for path, leaf in leaves(state) if leaf.aval.weak_type] == []


def test_an_update_keeps_the_kind_of_every_leaf(each):
    kinds = [
        [(path, leaf.shape, leaf.dtype) for path, leaf in leaves(state)]
        for state in (each.fresh, each.state)
    ]
    assert kinds[0] == kinds[1]


def test_no_two_leaves_of_a_compiled_start_share_a_buffer(each):
    assert shared(each.fresh) == []


def test_no_two_leaves_of_uncompiled_critics_share_a_buffer():
    """The targets would be the critics themselves, had they not been copied; a compiled start would
    hide it.
    """
    assert shared(Scalar(k=1, hidden=(1,)).init(jax.random.key(0), tiny.SPEC)) == []


def test_what_is_dear_to_measure_is_finite_too(each):
    measured = tiny.compiled(each.agent.diagnose)(each.state, tiny.batch_of(60))
    named = {
        "q_std_over_mean",
        "critic_dormant",
        "critic_param_norm",
        "actor_param_norm",
        "saturation",
        "actor_dormant",
    }
    if isinstance(each.row.explorer, OptimisticActor):
        named |= {
            "optimistic_actor_param_norm",
            "optimistic_actor_dormant",
            "kl_q10",
            "kl_median",
            "kl_q90",
            "kl_q99",
        }
        named |= {"optimist_std_ratio", "optimist_shift", "optimist_spread_ratio"}
    if each.row.policy.stochastic:
        named |= {"data_distance"}
    assert set(measured) == named
    for name, value in measured.items():
        assert value.shape == () and np.isfinite(value) and value >= 0, name
        assert "dormant" not in name or value <= 1


def test_the_value_of_an_action_is_the_critics_mean(each):
    batch = tiny.batch_of(60)
    values = np.asarray(
        each.row.critic.values(each.state.critic.online.params, batch.obs, batch.action)
    )
    np.testing.assert_allclose(
        each.agent.value(each.state, batch.obs, batch.action),
        values.mean(axis=(0, 2)),
        rtol=1e-4,
        atol=1e-5,
    )


def test_what_exploiting_reads_is_all_that_it_needs(each):
    packed = PackedState(each.state)
    held = packed.pack(each.state)
    reads = packed.read_by(each.agent.exploit, each.agent.begin(jax.random.key(0)), OBS)
    part = packed.unpack({number: held[number] for number in reads})
    np.testing.assert_array_equal(
        each.exploit(part, (), OBS)[0], each.exploit(each.state, (), OBS)[0]
    )


@pytest.mark.parametrize(("name", "kept"), [("top", True), ("gpl", False)])
def test_a_reset_starts_all_afresh_but_the_bandit(name, kept, request):
    some, key = request.getfixturevalue(name), jax.random.key(5)
    moved = jax.tree.map(
        lambda leaf: leaf + 1 if leaf.dtype in (jnp.float32, jnp.int32) else leaf, some.state
    )
    reset, started = tiny.compiled(
        lambda state: (some.agent.reset(state, key), some.agent.init(key))
    )(moved)
    assert tiny.same(reset[1:], started[1:])
    assert tiny.same(reset.pessimism, moved.pessimism if kept else started.pessimism)
    assert not tiny.same(moved.pessimism, started.pessimism)


def test_the_explorer_can_start_afresh_alone(dac):
    key = jax.random.key(5)
    restarted, started = tiny.compiled(
        lambda state: (dac.agent.reset(state, key, only_explorer=True), dac.agent.init(key))
    )(dac.state)
    assert tiny.same(restarted.explorer, started.explorer)
    assert tiny.same(restarted._replace(explorer=()), dac.state._replace(explorer=()))


def test_different_keys_start_different(each):
    again, other = (tiny.compiled(each.agent.init)(jax.random.key(seed)) for seed in (0, 1))
    assert tiny.same(again, each.fresh)
    assert not tiny.same(other, each.fresh)


def test_a_donated_update_is_traced_once_and_takes_every_buffer(every):
    """JAX warns, and so the test fails, if a donated buffer could not be used again."""
    agent = make_agent(tiny.small(ALGORITHMS[every]), tiny.SPEC)
    traces = []

    @functools.partial(tiny.compiled, donate_argnums=0)
    def update(state, batch, key, count):
        traces.append(every)
        return tiny.update_by_key(agent)(state, batch, key, count)

    state = tiny.compiled(agent.init)(jax.random.key(0))
    for step in range(4):
        given = state
        state, _ = update(state, tiny.batch_of(step), jax.random.key(step), np.uint32(step))
        assert all(leaf.is_deleted() for leaf in jax.tree.leaves(given))
    assert len(traces) == 1
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(state))


@pytest.mark.table
def test_a_pack_of_seeds_learns_what_each_learns_alone(every):
    """To float tolerance, through updates at which the actors wait and some at which they do
    not.
    """
    row = tiny.quick(tiny.small(ALGORITHMS[every]), 1e-3)
    row = tiny.with_part(row, "policy", delay=min(row.policy.delay, 2))
    agent = make_agent(row, tiny.SPEC)
    alone, packed = (
        tiny.compiled(tiny.update_by_key(agent)),
        tiny.compiled(jax.vmap(tiny.update_by_key(agent), in_axes=(0, 0, 0, None))),
    )
    init = tiny.compiled(agent.init)
    states = [init(jax.random.key(seed)) for seed in (3, 4)]
    pack = jax.tree.map(lambda *leaves: jnp.stack(leaves), *states)
    for step in range(4):
        batches = [tiny.batch_of(10 * step + seed) for seed in (3, 4)]
        keys = [jax.random.key(100 * step + seed) for seed in (3, 4)]
        states = [
            alone(*one, np.uint32(step))[0] for one in zip(states, batches, keys, strict=True)
        ]
        pack, metrics = packed(
            pack,
            jax.tree.map(lambda *leaves: jnp.stack(leaves), *batches),
            jnp.stack(keys),
            np.uint32(step),
        )
        assert not np.asarray(metrics["nonfinite"]).any()
    for seed, state in enumerate(states):
        ours = jax.tree.map(lambda leaf, seed=seed: leaf[seed], pack)
        for (path, one), (_, other) in zip(leaves(ours), leaves(state), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-4, err_msg=path)


GAUSSIAN, POINT = Soft(), Deterministic()


@pytest.mark.parametrize(
    ("parts", "sentence"),
    [
        (
            dict(policy=POINT, explorer=OptimisticActor()),
            "OptimisticActor departs from a distribution.*Deterministic is not a distribution",
        ),
        (
            dict(policy=POINT, explorer=UpperBoundShift()),
            "UpperBoundShift moves the mean.*Deterministic is not a distribution",
        ),
        (
            dict(policy=POINT, explorer=FromPolicy()),
            "the policy's own randomness.*give it the explorer Noise",
        ),
        (dict(pessimism=SubsetMin(3)), "draws 3 critics, but there are 2"),
        (dict(pessimism=DualDescent(), critic=Scalar(k=1)), "critic.k must be at least 2"),
        (dict(explorer=UpperBoundShift(optimism=-1.5)), "lies below the pessimism"),
        (dict(explorer=OptimisticActor(optimism=Held(-1.5))), "at least -1"),
        (dict(judged="explorer"), "judged='explorer' needs"),
        (dict(judged="explorer", explorer=UpperBoundShift()), "judged='explorer' needs"),
        (
            dict(judged="explorer", explorer=OptimisticActor(form="deterministic")),
            "not deterministic",
        ),
        (
            dict(judged="explorer", explorer=OptimisticActor(), policy=Soft(successor="mode")),
            "successor",
        ),
        (dict(judged="nobody"), "judged"),
        (dict(pessimism=Soft()), "pessimism cannot be Soft"),
        (dict(pessimism=-1.0), "pessimism cannot be -1.0"),
        (dict(policy=Fixed(-1.0)), "policy cannot be Fixed"),
        (dict(policy=Soft), "policy cannot be"),
        (dict(explorer=None), "explorer cannot be None"),
        (dict(critic=Scalar), "critic cannot be"),
        (dict(gamma="x"), "gamma cannot be 'x'"),
        (dict(critic=Scalar(k=1)), "one critic disagrees with nobody"),
        (
            dict(pessimism=Bandit(), critic=Scalar(k=1)),
            "one critic disagrees with nobody.*pessimism.arms 0",
        ),
        (
            dict(pessimism=Fixed(0.0), explorer=OptimisticActor(), critic=Scalar(k=1)),
            "critic.k must be at least 2",
        ),
        (
            dict(explorer=OptimisticActor(optimism=Learnt(1.0, bounded=True), barrier=True)),
            "the barrier is idle",
        ),
        (
            dict(explorer_restart_every=2.5, explorer=OptimisticActor()),
            "explorer_restart_every cannot be 2.5",
        ),
        (dict(explorer_restart_every=10), "explorer_restart_every"),
        (dict(explorer_restart_every=-1, explorer=OptimisticActor()), "explorer_restart_every"),
    ],
)
def test_parts_that_do_not_fit_are_refused_with_a_sentence_when_the_row_is_built(parts, sentence):
    with pytest.raises(UsageError, match=sentence):
        Algorithm(
            **dict(pessimism=Fixed(-1.0), policy=GAUSSIAN, explorer=FromPolicy(), critic=Scalar())
            | parts
        )


@pytest.mark.parametrize(
    ("part", "wrong"),
    [
        (Soft, dict(temperature=0.2)),
        (Soft, dict(delay=1.5)),
        (Soft, dict(hidden=256)),
        (OptimisticActor, dict(optimism=1.0)),
        (OptimisticActor, dict(barrier=("no"))),
        (OptimisticActor, dict(barrier=True, optimism=Held(1.0))),
        (OptimisticActor, dict(largest_kl_weight=20.0, kl_weight=Held(1.0))),
        (OptimisticActor, dict(controller="executed", optimism=Held(1.0), kl_weight=Held(1.0))),
        (Scalar, dict(k=2.5)),
        (Scalar, dict(hidden=(256.5,))),
        (Scalar, dict(layer_norm=("no"))),
        (Fixed, dict(beta="a")),
        (Bandit, dict(arms=-1.0)),
        (Bandit, dict(window=2.5)),
        (SubsetMin, dict(m=1.5)),
        (Held, dict(value=("much"))),
        (Deterministic, dict(target_noise=0.0, noise_clip=0.1)),
        (Quantile, dict(n=1, upper_bound="aleatoric")),
        (Quantile, dict(n=1, upper_bound="both")),
    ],
)
def test_values_of_another_kind_are_refused_with_a_sentence_when_the_part_is_built(part, wrong):
    with pytest.raises(UsageError):
        part(**wrong)


def test_a_bandit_without_arms_is_refused_with_a_sentence():
    with pytest.raises(UsageError, match="at least one arm"):
        Bandit(())


def test_noise_explores_for_any_policy():
    for policy in (GAUSSIAN, POINT):
        Algorithm(pessimism=Fixed(-1.0), policy=policy, explorer=Noise(), critic=Scalar())
