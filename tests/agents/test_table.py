"""What holds for every row of the table."""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tiny

from dualac.agents.actor_critic import make_agent
from dualac.agents.algorithms import ALGORITHMS
from dualac.agents.critics import Scalar
from dualac.errors import UsageError
from dualac.spelling import options, replaced

OBS = tiny.batch_of(3).obs


def leaves(tree):
    return [(jax.tree_util.keystr(path), leaf) for path, leaf in jax.tree_util.tree_leaves_with_path(tree)]


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
    assert {"dac", "sac"} <= set(ALGORITHMS)
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
    other = dac.state._replace(explorer=dac.state.explorer._replace(actor=dac.state.explorer.actor._replace(params=params)))
    key = jax.random.key(0)
    assert not np.array_equal(dac.explore(dac.state, (), OBS, key)[0], dac.explore(other, (), OBS, key)[0])
    assert np.array_equal(dac.exploit(dac.state, (), OBS)[0], dac.exploit(other, (), OBS)[0])


def test_exploring_works_for_one_observation_and_for_many(each):
    for obs in (OBS[0], OBS):
        action, memory = each.explore(each.state, (), obs, jax.random.key(1))
        assert action.shape == (*obs.shape[:-1], tiny.SPEC.action_dim)
        assert action.dtype == jnp.float32
        assert np.abs(action).max() <= 1
        assert memory == ()


def test_exploring_is_random_and_decided_by_its_key(each):
    one, again, other = (each.explore(each.state, (), OBS, jax.random.key(seed))[0] for seed in (1, 1, 2))
    assert np.array_equal(one, again)
    assert not np.array_equal(one, other)


def test_exploiting_is_deterministic_and_the_same_for_one_observation_and_for_many(each):
    many, memory = each.exploit(each.state, (), OBS)
    again, _ = each.exploit(each.state, (), OBS)
    one, _ = each.exploit(each.state, (), OBS[4])
    assert memory == ()
    assert np.array_equal(many, again)
    np.testing.assert_allclose(one, many[4], atol=1e-6)


def test_an_update_moves_everything_that_is_trained(each):
    for before, after in zip(tiny.trained_parts(each.fresh), tiny.trained_parts(each.state), strict=True):
        for (path, old), (_, new) in zip(leaves(before), leaves(after), strict=True):
            assert not np.array_equal(old, new), path
    for (path, old), (_, new) in zip(leaves(each.fresh.critic.target), leaves(each.state.critic.target), strict=True):
        assert not np.array_equal(old, new), path


def test_an_update_is_decided_by_state_batch_and_key(each):
    (one, _), (again, _) = (each.update(each.state, tiny.batch_of(50), jax.random.key(50)) for _ in range(2))
    other, _ = each.update(each.state, tiny.batch_of(50), jax.random.key(51))
    assert tiny.same(one, again)
    assert not tiny.same(one, other)


def test_metrics_are_finite_scalars(each):
    _, metrics = each.update(each.state, tiny.batch_of(50), jax.random.key(50))
    assert {"critic_loss", "q_mean", "q_std", "actor_loss", "nonfinite"} <= set(metrics)
    for name, metric in metrics.items():
        assert metric.shape == () and np.isfinite(metric), name


def test_hearing_of_an_episode_returns_a_state_of_the_same_kind(each):
    heard = each.agent.hear(each.state, jnp.float32(12.0), jax.random.key(0))
    assert jax.tree.structure(heard) == jax.tree.structure(each.state)
    assert tiny.same((heard.policy, heard.explorer, heard.critic), (each.state.policy, each.state.explorer, each.state.critic))


def test_every_leaf_is_strongly_typed_before_and_after_an_update(each):
    for state in (each.fresh, each.state):
        assert [path for path, leaf in leaves(state) if leaf.aval.weak_type] == []


def test_an_update_keeps_the_kind_of_every_leaf(each):
    kinds = [[(path, leaf.shape, leaf.dtype) for path, leaf in leaves(state)] for state in (each.fresh, each.state)]
    assert kinds[0] == kinds[1]


def test_no_two_leaves_of_a_compiled_start_share_a_buffer(each):
    assert shared(each.fresh) == []


def test_no_two_leaves_of_uncompiled_critics_share_a_buffer():
    """The targets would be the critics themselves, had they not been copied; a compiled start would hide it."""
    assert shared(Scalar(k=1, hidden=(1,)).init(jax.random.key(0), tiny.SPEC)) == []


def test_different_keys_start_different(each):
    again, other = (tiny.compiled(each.agent.init)(jax.random.key(seed)) for seed in (0, 1))
    assert tiny.same(again, each.fresh)
    assert not tiny.same(other, each.fresh)


@pytest.mark.parametrize("name", list(ALGORITHMS))
def test_a_donated_update_is_traced_once_and_takes_every_buffer(name):
    """JAX warns, and so the test fails, if a donated buffer could not be used again."""
    agent = make_agent(tiny.small(ALGORITHMS[name]), tiny.SPEC)
    traces = []

    @functools.partial(tiny.compiled, donate_argnums=0)
    def update(state, batch, key):
        traces.append(name)
        return agent.update(state, batch, key)

    state = tiny.compiled(agent.init)(jax.random.key(0))
    for step in range(4):
        given = state
        state, _ = update(state, tiny.batch_of(step), jax.random.key(step))
        assert all(leaf.is_deleted() for leaf in jax.tree.leaves(given))
    assert len(traces) == 1
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(state))
