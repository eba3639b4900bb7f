"""Parts of a user's own: checked like the library's, and with the same rights."""

from dataclasses import dataclass
from typing import ClassVar

import jax
import numpy as np
import pytest
from tests.support import tiny

from dualac.agents import (
    Algorithm,
    Explorer,
    Fixed,
    OptimisticActor,
    Quantile,
    Scalar,
    Soft,
    make_agent,
)
from dualac.errors import UsageError

OBS = tiny.batch_of(7, size=4).obs


@dataclass(frozen=True)
class Bolder(Explorer):
    """The policy one standard deviation to the right, and wider: a distribution."""

    width: float = 2.0

    def distribution(self, state, view, obs):
        policy = view.policy(obs)
        return policy._replace(mean=policy.mean + 1.0).widened(self.width)

    def act(self, state, view, obs, key):
        return self.distribution(state, view, obs).sample_action(key)


@dataclass(frozen=True)
class Still(Explorer):
    """Never moves: no distribution, and nothing to learn."""

    def act(self, state, view, obs, key):
        return 0 * view.exploit(obs)


@dataclass(frozen=True)
class Greedy(Still):
    """Says that it looks at the upper bound."""

    uses_upper_bound: ClassVar[bool] = True


@dataclass(frozen=True)
class Learner(Still):
    def improve(self, state, view, obs, noise):
        return state, {}


def row(explorer, critic=None, **values):
    critic = critic or Scalar(hidden=(8,))
    return Algorithm(Fixed(0.0), Soft(hidden=(8,)), explorer, critic, **values)


def test_an_explorer_that_is_a_distribution_can_be_evaluated():
    agent = make_agent(row(Bolder(), judged="explorer"), tiny.SPEC)
    state = agent.init(jax.random.key(0))
    policy = Soft(hidden=(8,)).distribution(state.policy, OBS)
    action, _ = agent.exploit(state, (), OBS)
    np.testing.assert_allclose(action, np.tanh(policy.mean + 1.0), rtol=1e-5, atol=1e-6)


def test_an_explorer_that_is_evaluated_acts_in_the_target_too():
    batch, key = tiny.batch_of(1), jax.random.key(1)
    losses = []
    for judged in ("policy", "explorer"):
        agent = make_agent(row(Bolder(), judged=judged), tiny.SPEC)
        update = tiny.compiled(tiny.update_by_key(agent))
        losses.append(float(update(agent.init(jax.random.key(0)), batch, key, 0)[1]["critic_loss"]))
    assert losses[0] != pytest.approx(losses[1], rel=1e-3)


@pytest.mark.parametrize(
    ("explorer", "values", "sentence"),
    [
        (Still, dict(judged="explorer"), "judged='explorer' needs.*Still.* is none"),
        (Still, dict(explorer_restart_every=10), "Still learns nothing"),
        (Still, dict(critic=Quantile(upper_bound="both")), "Still looks at no upper bound"),
        (Greedy, dict(critic=Scalar(k=1)), "critic.k must be at least 2"),
        (lambda: Bolder(width="wide"), {}, "width cannot be 'wide'"),
    ],
)
def test_an_explorer_of_one_s_own_is_checked_like_the_library_s(explorer, values, sentence):
    with pytest.raises(UsageError, match=sentence):
        row(explorer(), **values)


def test_an_explorer_that_offers_what_a_row_asks_for_is_accepted():
    row(Learner(), explorer_restart_every=10)
    row(Greedy(), critic=Quantile(upper_bound="both"))
    row(Greedy(), critic=Quantile(k=1, upper_bound="aleatoric"))


def test_only_an_explorer_that_holds_a_kl_has_a_target():
    assert OptimisticActor(target_kl=0.1).kl_target == 0.1
    assert Still().kl_target is None
