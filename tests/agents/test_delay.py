"""Actors that move more rarely than their critics."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import jaxprs_in_params
from tests.support import tiny

from dualac.agents.algorithms import ALGORITHMS

BATCH, KEY = tiny.batch_of(99), jax.random.key(99)


def test_td3_moves_its_actor_and_every_slow_copy_at_every_second_update_and_its_critics_at_each(
    top,
):
    assert top.row.policy.delay == 2
    assert ALGORITHMS["top"].policy == ALGORITHMS["td3"].policy
    for count in range(4):
        after, metrics = top.update(top.state, BATCH, KEY, np.uint32(count))
        waited = count % 2 == 0
        for part in ("actor", "target"):
            assert tiny.same(getattr(after.policy, part), getattr(top.state.policy, part)) == waited
        assert tiny.same(after.critic.target, top.state.critic.target) == waited
        assert not tiny.same(after.critic.online, top.state.critic.online)
        assert np.isnan(metrics["actor_loss"]) == np.isnan(metrics["actor_grad_norm"]) == waited
        assert np.isfinite(metrics["critic_loss"]) and metrics["nonfinite"] == 0


def test_redq_moves_its_actor_once_in_twenty_updates_and_its_slow_critics_at_each(redq):
    assert redq.row.policy.delay == 20
    for count in (0, 10, 18, 19, 20, 39):
        after, metrics = redq.update(redq.state, BATCH, KEY, np.uint32(count))
        waited = count not in (19, 39)
        assert tiny.same(after.policy, redq.state.policy) == waited
        assert not tiny.same(after.critic.target, redq.state.critic.target)
        assert all(
            np.isnan(metrics[name]) == waited for name in ("actor_loss", "entropy", "ent_coef")
        )


def test_critics_learn_the_same_whether_the_actor_waits_or_not(top, redq):
    for some in (top, redq):
        idle, due = (
            some.update(some.state, BATCH, KEY, count)[0]
            for count in (np.uint32(0), tiny.due(some.row))
        )
        assert tiny.same(idle.critic.online, due.critic.online)


def test_what_is_not_finite_is_noticed_while_the_actor_waits(top):
    broken = BATCH._replace(reward=BATCH.reward.at[3].set(jnp.nan))
    assert top.update(top.state, broken, KEY, np.uint32(0))[1]["nonfinite"] == 1


def equations(jaxpr):
    for equation in jaxpr.eqns:
        yield equation
        for inner in jaxprs_in_params(equation.params):
            yield from equations(inner)


def branches(update, count):
    """Return the predicates of a pack's branches, and how many selections of the size of an
    actor's kernel there are.
    """
    axis = None if np.ndim(count) == 0 else 0
    state, batch, keys = jax.tree.map(
        lambda leaf: jnp.stack([leaf, leaf]), (update.state, BATCH, KEY)
    )
    traced = jax.make_jaxpr(jax.vmap(tiny.update_by_key(update.agent), in_axes=(0, 0, 0, axis)))(
        state, batch, keys, count
    )
    found = list(equations(traced.jaxpr))
    kernel = (2, *update.state.policy.actor.params["params"]["mean"]["kernel"].shape)
    chosen = [
        equation
        for equation in found
        if equation.primitive.name == "select_n" and equation.outvars[0].aval.shape == kernel
    ]
    return [
        equation.invars[0].aval.shape for equation in found if equation.primitive.name == "cond"
    ], len(chosen)


def test_in_a_pack_the_delay_is_a_branch_and_not_a_selection(top):
    """With a count of its own for each seed it would become one: every update would then pay for
    the actor's.
    """
    assert branches(top, np.uint32(0)) == ([()], 0)
    conditions, chosen = branches(top, np.zeros(2, np.uint32))
    assert conditions == [] and chosen > 0
