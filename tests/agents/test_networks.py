"""Sizes, initialisers and independence of the networks."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tests.support.tiny import compiled

from dualac.agents import networks
from dualac.agents.algorithms import ALGORITHMS
from dualac.agents.critics import Quantile, Scalar
from dualac.agents.optimist import OptimisticActor
from dualac.agents.policies import Deterministic, Soft
from dualac.types import Spec

CHEETAH = Spec(obs_dim=17, action_dim=6)
WEIGHTS = (
    [0.19935544, -0.5617649, -0.11724246],
    [0.1016326, 0.07754885, 0.26741755],
    [0.16097365, 0.66780216, -0.38489404],
)


def numbers(params):
    return sum(math.prod(leaf.shape) for leaf in jax.tree.leaves(params))


def actor(part, spec=CHEETAH):
    return jax.eval_shape(lambda key: part.init(key, spec), jax.random.key(0)).actor.params


def critics(part, spec=CHEETAH):
    return jax.eval_shape(lambda key: part.init(key, spec), jax.random.key(0)).online.params


def optimist(part, spec=CHEETAH):
    return jax.eval_shape(lambda key: part.init(key, spec, -1.0), jax.random.key(0)).actor.params


def test_the_actor_has_the_paper_s_size():
    assert numbers(actor(Soft())) == 73_484
    assert numbers(actor(Soft(hidden=(256, 256, 256)))) == 139_276


def test_the_critics_have_the_paper_s_size():
    assert numbers(critics(Scalar(k=1))) == 72_193
    assert numbers(critics(Scalar())) == 144_386


def test_a_layer_norm_critic_has_the_paper_s_size():
    assert numbers(critics(Scalar(k=1, layer_norm=True))) == 73_217
    assert numbers(critics(Scalar(k=1, layer_norm=True, hidden=(256, 256, 256)))) == 139_521


def test_a_quantile_critic_has_the_paper_s_size():
    assert numbers(critics(Quantile(k=1))) == 97_636


def test_the_variants_for_hard_tasks_have_their_sizes():
    assert (
        numbers(critics(ALGORITHMS["dac-dog"].critic))
        == numbers(critics(ALGORITHMS["dac-v1"].critic))
        == 2 * 139_521
    )
    assert numbers(actor(ALGORITHMS["dac-dog"].policy)) == 73_484
    assert (
        numbers(actor(ALGORITHMS["dac-v1"].policy))
        == numbers(optimist(ALGORITHMS["dac-v1"].explorer))
        == 139_276
    )


def test_a_deterministic_actor_is_one_without_the_head_of_the_deviation():
    assert numbers(actor(Deterministic())) == 73_484 - 257 * 6


def test_the_perturbation_has_the_size_of_bias_free_heads_on_observation_and_mean():
    assert numbers(optimist(OptimisticActor())) == 75_008


def test_the_simple_form_has_no_multiplier_and_the_independent_is_a_whole_actor():
    assert numbers(optimist(OptimisticActor(form="simple"))) == 75_008 - 256 * 6
    assert numbers(optimist(OptimisticActor(form="independent"))) == 73_484


@pytest.fixture(scope="module")
def wide():
    """One wide hidden layer: the heads are those of the paper's networks, and only they are looked
    at.
    """
    hidden, keys = (256,), jax.random.split(jax.random.key(0), 3)
    build = compiled(
        lambda: (
            Soft(hidden).init(keys[0], CHEETAH).actor.params["params"],
            OptimisticActor(hidden=hidden).init(keys[1], CHEETAH, -0.2).actor.params["params"],
            Scalar(hidden=hidden).init(keys[2], CHEETAH).online.params["params"],
        )
    )
    return build()


def gram(kernel):
    kernel = np.asarray(kernel, np.float64)
    return kernel.T @ kernel


def test_heads_are_orthogonal_with_their_gains(wide):
    policy, explorer, critic = wide
    np.testing.assert_allclose(gram(policy["mean"]["kernel"]), 2 * np.eye(6), atol=1e-5)
    np.testing.assert_allclose(gram(policy["log_std"]["kernel"]), np.eye(6), atol=1e-5)
    np.testing.assert_allclose(gram(explorer["shift"]["kernel"]), 1e-4 * np.eye(6), atol=1e-9)
    np.testing.assert_allclose(
        gram(explorer["log_multiplier"]["kernel"]), 1e-4 * np.eye(6), atol=1e-9
    )
    np.testing.assert_allclose(gram(critic["value_0"]["kernel"]), [[2]], atol=1e-5)


def test_hidden_layers_are_orthogonal_with_gain_sqrt_two(wide):
    policy, _, critic = wide
    np.testing.assert_allclose(
        gram(policy["Trunk_0"]["Dense_0"]["kernel"].T), 2 * np.eye(17), atol=1e-5
    )
    np.testing.assert_allclose(
        gram(critic["critic_0"]["Dense_0"]["kernel"].T), 2 * np.eye(23), atol=1e-5
    )


def test_biases_start_at_zero_and_the_perturbation_s_heads_have_none(wide):
    paths = [
        (jax.tree_util.keystr(path), leaf)
        for path, leaf in jax.tree_util.tree_leaves_with_path(wide)
    ]
    assert all(not np.asarray(leaf).any() for path, leaf in paths if "bias" in path)
    assert set(wide[1]["shift"]) == set(wide[1]["log_multiplier"]) == {"kernel"}


def test_critics_start_different(wide):
    assert not np.array_equal(wide[2]["value_0"]["kernel"], wide[2]["value_1"]["kernel"])
    assert not np.array_equal(
        wide[2]["critic_0"]["Dense_0"]["kernel"], wide[2]["critic_1"]["Dense_0"]["kernel"]
    )


def test_an_untrained_head_at_the_origin_is_narrow(sac):
    policy = compiled(sac.row.policy.distribution)(sac.fresh.policy, np.zeros(3, np.float32))
    np.testing.assert_array_equal(policy.mean, np.zeros(2))
    np.testing.assert_array_equal(policy.log_std, np.full(2, -4.0))
    assert float(policy.log_std[0]) + 0.5 * math.log(2 * math.pi * math.e) == pytest.approx(
        -2.58106147, abs=1e-8
    )


def test_a_critic_does_not_see_the_parameters_of_another(sac):
    at = np.ones((1, 3), np.float32), np.ones((1, 2), np.float32)
    jacobian = compiled(jax.jacrev(lambda params: sac.row.critic.values(params, *at)[:, 0, 0]))(
        sac.state.critic.online.params
    )["params"]
    for of in ("critic", "value"):
        assert all(
            not np.asarray(leaf)[1].any() and np.asarray(leaf)[0].any()
            for leaf in jax.tree.leaves(jacobian[f"{of}_0"])
            if leaf.size > 2
        )
        assert all(
            not np.asarray(leaf)[0].any() and np.asarray(leaf)[1].any()
            for leaf in jax.tree.leaves(jacobian[f"{of}_1"])
            if leaf.size > 2
        )


@pytest.mark.parametrize("layer_norm", [True, False])
def test_layer_norm_and_nothing_else_makes_a_critic_blind_to_the_scale_of_its_first_layer(
    layer_norm,
):
    part = Scalar(k=1, hidden=(8,), layer_norm=layer_norm)
    at = np.ones((4, 3), np.float32), np.ones((4, 2), np.float32)

    @compiled
    def both():
        params = part.init(jax.random.key(0), Spec(3, 2)).online.params
        louder = jax.tree_util.tree_map_with_path(
            lambda path, leaf: 10 * leaf if "Dense_0" in str(path) else leaf, params
        )
        return part.values(params, *at), part.values(louder, *at)

    soft, loud = both()
    assert np.allclose(soft, loud, rtol=1e-3) == layer_norm


def with_activity(params, trunk, *activity):
    """Return the parameters of one hidden layer that says this whatever it sees."""
    params = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape), params)
    params["params"][trunk]["Dense_0"]["bias"] = jnp.asarray(activity)
    return params


@pytest.mark.parametrize(
    ("activity", "share"),
    [
        ((1.0, 1.0, 1.0, 1.0), 0.0),
        ((1.0, 0.0, -1.0, 1.0), 0.5),
        ((1.0, 1.0, 1.0, 0.01), 0.25),
        ((1.0, 1.0, 1.0, 0.03), 0.0),
        ((0.0, 0.0, -1.0, 0.0), 1.0),
    ],
)
def test_dormant_is_the_share_of_units_that_say_next_to_nothing(activity, share):
    params = networks.init_deterministic_actor(jax.random.key(0), Spec(3, 2), (4,))
    asleep = networks.dormant(with_activity(params, "Trunk_0", *activity), jnp.ones((5, 3)))
    assert float(asleep) == share


def test_dormant_units_are_counted_in_every_critic_against_their_own_layer():
    """The second critic is a hundred times louder: beside it the first would seem asleep."""
    params = Scalar(k=2, hidden=(4,)).init(jax.random.key(0), Spec(3, 2)).online.params
    params = with_activity(params, "critic_0", 1.0, 1.0, 0.0, 1.0)
    params["params"]["critic_1"]["Dense_0"]["bias"] = jnp.full(4, 100.0)
    assert float(networks.dormant(params, jnp.ones((5, 3)), jnp.ones((5, 2)))) == 1 / 8


def test_layer_norm_has_mean_zero_and_variance_one_before_its_scale_and_bias():
    x = jnp.asarray([[1.0, 2.0, 3.0, 6.0]])  # of mean 3 and variance 3.5
    found = networks.layer_norm(x, jnp.asarray([1.0, 1.0, 2.0, 1.0]), jnp.asarray([0, 0, 5.0, 1]))
    root = math.sqrt(3.5)
    np.testing.assert_allclose(found, [[-2 / root, -1 / root, 5.0, 3 / root + 1]], rtol=1e-5)


def test_initial_weights_are_those_of_every_version_before():
    """Drawn by flax 0.12.8, once: a kernel's key is a function of the seed and of its name."""
    actor = Soft(hidden=(8,)).init(jax.random.key(5), Spec(3, 2)).actor.params["params"]
    value = Scalar(k=2, hidden=(8,)).init(jax.random.key(5), Spec(3, 2)).online.params["params"]
    np.testing.assert_allclose(actor["Trunk_0"]["Dense_0"]["kernel"][0, :3], WEIGHTS[0], rtol=1e-5)
    np.testing.assert_allclose(actor["log_std"]["kernel"][:3, 0], WEIGHTS[1], rtol=1e-5)
    np.testing.assert_allclose(value["value_1"]["kernel"][:3, 0], WEIGHTS[2], rtol=1e-5)
