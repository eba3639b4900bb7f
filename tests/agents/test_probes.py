"""The real update on problems whose values are known."""

import numpy as np
import pytest
from tests.support import probes

from dualac.agents.algorithms import ALGORITHMS

QUICK = ("dac", "sac", "td3")
rows = pytest.mark.parametrize(
    "name",
    [name if name in QUICK else pytest.param(name, marks=pytest.mark.table) for name in ALGORITHMS],
)
CLOSE = 0.05


@rows
def test_a_constant_reward_at_the_end_is_the_value(name):
    values = probes.learned(name, probes.constant_reward()).values
    np.testing.assert_allclose(values, 1.0, atol=CLOSE)


@rows
def test_a_reward_that_depends_on_the_observation_is_told_apart(name):
    problem = probes.reward_by_observation()
    values = probes.learned(name, problem).values
    np.testing.assert_allclose(values, np.broadcast_to(problem.reward, values.shape), atol=CLOSE)


@rows
def test_a_reward_two_steps_away_is_discounted_once(name):
    values = probes.learned(name, probes.two_steps()).values
    here, there = values[:, 0::2], values[:, 1::2]
    np.testing.assert_allclose(there, 1.0, atol=CLOSE)
    np.testing.assert_allclose(here, probes.GAMMA, atol=CLOSE)


@rows
def test_the_policy_and_whoever_explores_move_to_the_better_action(name):
    found = probes.learned(name, probes.reward_by_action(best=(0.5, -0.5)))
    np.testing.assert_allclose(found.exploited.mean(axis=0), [0.5, -0.5], atol=0.15)
    np.testing.assert_allclose(found.explored.mean(axis=0), [0.5, -0.5], atol=0.2)


@rows
def test_a_time_limit_is_not_an_end(name):
    """1 for ever at gamma 1/2 is worth 2. Were the cut taken for an end, 1: that is shown too, so
    that the probe is known to see it.
    """
    values = probes.learned(name, probes.cut_by_a_time_limit()).values
    np.testing.assert_allclose(values, 1 / (1 - probes.GAMMA), atol=2 * CLOSE)
    mistaken = probes.learned(name, probes.cut_by_a_time_limit(discount=0.0)).values
    np.testing.assert_allclose(mistaken, 1.0, atol=CLOSE)
