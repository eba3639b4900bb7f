"""One update: its target, its order, what flows where, and what it notices."""

import dataclasses
import math
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.scipy.stats import norm
from tests.support import tiny

from dualac import ops
from dualac.agents.agent import make_agent
from dualac.agents.algorithm import Algorithm
from dualac.agents.algorithms import ALGORITHMS
from dualac.agents.bandit import Bandit
from dualac.agents.critics import Critic, CriticState, Regression, Scalar
from dualac.agents.distributions import TanhNormal
from dualac.agents.explorers import FromPolicy
from dualac.agents.networks import critics, gaussian_actor, perturbation
from dualac.agents.optimizer import Trained
from dualac.agents.pessimism import Fixed, SubsetMin
from dualac.agents.policies import Policy
from dualac.errors import UsageError
from dualac.types import Transition

BATCH, KEY = tiny.batch_of(99), jax.random.key(99)
NORMALS = jax.random.normal(KEY, BATCH.action.shape)


@dataclass(frozen=True)
class Scripted(Policy):
    """A policy whose next action has log-probability -1.5, at temperature 0.2."""

    stochastic, targets_wait = True, False

    def init(self, key, spec):
        return ()

    def distribution(self, state, obs):
        return TanhNormal(jnp.zeros((*obs.shape[:-1], 2)), jnp.zeros((*obs.shape[:-1], 2)))

    def backup(self, state, next_obs, noise):
        return jnp.zeros((len(next_obs), 2)), jnp.full(len(next_obs), -0.2 * -1.5)

    def improve(self, state, objective, obs, noise):
        return (), {"actor_loss": jnp.float32(0.0)}

    def exploit(self, state, obs):
        return self.distribution(state, obs).mode()


@dataclass(frozen=True)
class Recorder(Critic):
    """Two critics that say 10 and 12 at every quantile and more at the higher ones, and report the
    target they are given as their loss.
    """

    more: tuple[float, ...] = (0.0,)

    def init(self, key, spec):
        return CriticState(Trained((), ()), ())

    def values(self, params, obs, action):
        return jnp.broadcast_to(
            jnp.asarray([10.0, 12.0])[:, None, None] + jnp.asarray(self.more)[None, None],
            (2, len(obs), len(self.more)),
        )

    def learn(self, state, batch, target):
        return state, Regression(
            self.values((), batch.obs, batch.action), target[:, -1].sum(), jnp.float32(0.0)
        )

    def update_targets(self, state):
        return state

    def upper(self, zs, optimism):
        return zs.mean(axis=(0, -1))

    def _loss(self, zs, target):
        return target.sum()


@pytest.mark.parametrize(
    ("pessimism", "target"),
    [
        (Fixed(-0.2), 11.989),
        (Fixed(-1.0), 11.197),
        (Fixed(0.0), 12.187),
        (Fixed(-0.2, backup_beta=-1.0), 11.197),
        (ALGORITHMS["td3"].pessimism, 11.197),
        (ALGORITHMS["gpl"].pessimism, 11.197),
        (SubsetMin(2), 11.197),
        (Bandit((0.0,)), 12.187),
    ],
    ids=str,
)
def test_the_target_has_its_known_value(pessimism, target):
    """Check r + gamma (Q_mu + beta_p Q_sigma - alpha log pi).

    The entropy is inside the discount: outside, it would be 11.992 at -0.2.
    """
    agent = make_agent(Algorithm(pessimism, Scripted(), FromPolicy(), Recorder()), tiny.SPEC)
    step = Transition(*(np.zeros(shape, np.float32) for shape in ((1, 3), (1, 2), 1, 1, (1, 3))))
    update = tiny.compiled(
        lambda discount: tiny.update_by_key(agent)(
            agent.init(KEY), step._replace(reward=np.ones(1), discount=discount), KEY, 0
        )
    )
    (_, through), (_, ended) = update(np.ones(1, np.float32)), update(np.zeros(1, np.float32))
    assert float(through["critic_loss"]) == pytest.approx(target, abs=2e-6)
    assert float(ended["critic_loss"]) == 1.0


def test_the_target_of_each_quantile_is_paid_for_entropy_and_discounted_alike():
    agent = make_agent(
        Algorithm(Fixed(-0.2), Scripted(), FromPolicy(), Recorder(more=(0.0, 3.0))), tiny.SPEC
    )
    step = Transition(*(np.ones(shape, np.float32) for shape in ((1, 3), (1, 2), 1, 1, (1, 3))))
    _, metrics = tiny.compiled(tiny.update_by_key(agent))(agent.init(KEY), step, KEY, 0)
    assert float(metrics["critic_loss"]) == pytest.approx(11.989 + 0.99 * 3, abs=2e-6)
    assert float(metrics["q_mean"]) == 12.5


def test_the_critics_loss_sums_over_critics_and_averages_over_the_batch(dac):
    target = jnp.asarray(np.linspace(-1, 1, 16), jnp.float32)[:, None]
    _, seen = tiny.compiled(dac.row.critic.learn)(dac.state.critic, BATCH, target)
    values = np.asarray(
        tiny.compiled(dac.row.critic.values)(
            dac.state.critic.online.params, BATCH.obs, BATCH.action
        )
    )
    assert values.shape == (2, 16, 1)
    np.testing.assert_allclose(seen.values, values, rtol=1e-5)
    assert float(seen.loss) == pytest.approx(
        ((values - np.asarray(target)) ** 2).sum() / 16, rel=1e-5
    )


def test_the_targets_start_as_the_critics_and_follow_by_half_a_percent(each):
    polyak = each.row.critic.polyak
    assert polyak == 0.005
    assert tiny.same(each.fresh.critic.target, each.fresh.critic.online.params)
    after, _ = each.update(each.state, BATCH, KEY)
    expected = jax.tree.map(
        lambda old, new: 0.995 * np.asarray(old) + 0.005 * np.asarray(new),
        each.state.critic.target,
        after.critic.online.params,
    )
    assert tiny.distance(after.critic.target, expected) < 1e-6
    assert tiny.distance(after.critic.target, each.state.critic.target) > 1e-4


def test_a_target_half_way_to_a_critic_that_stands_still_is_138_updates_old():
    behind = 1.0
    for updates in range(1, 1001):
        behind = ops.polyak_average(behind, 0.0, 0.005)
        if updates == 138:
            assert behind == pytest.approx(0.50070871, abs=1e-8)
    assert 1 - behind == pytest.approx(0.99334603, abs=1e-8)


# One update of DAC, written again from its equations, in steps that may be done in any order.


def optimist_of(eta, mean, log_std, obs):
    shift, log_multiplier = perturbation(eta, obs, mean)
    return mean + shift, log_std + log_multiplier


def critics_of(theta, obs, action):
    """Return the mean of both, and half their distance."""
    one, other = critics(theta, obs, action)[..., 0]
    return (one + other) / 2, jnp.abs(one - other) / 2


def sample_action(mean, log_std, key):
    x = mean + jnp.exp(log_std) * jax.random.normal(key, mean.shape)
    return jnp.tanh(x), (
        norm.logpdf(x, mean, jnp.exp(log_std)) - jnp.log1p(-(jnp.tanh(x) ** 2))
    ).sum(axis=-1)


def stepped(learner, grads, lr=1e-2, b1=0.9):
    """Make a step of Adam as its paper writes it."""
    t = learner.adam.seen + 1
    m = jax.tree.map(lambda m, g: b1 * m + (1 - b1) * g, learner.adam.mean, grads)
    v = jax.tree.map(lambda v, g: 0.999 * v + (1 - 0.999) * g * g, learner.adam.square, grads)

    def moved(p, m, v):
        m_hat, v_hat = m / (1 - b1**t), v / (1 - 0.999**t)
        return p - lr * m_hat / (jnp.sqrt(v_hat) + 1e-8)

    return jax.tree.map(moved, learner.params, m, v), (t, m, v)


@tiny.compiled
def critic_step(theta, theta_target, phi, alpha, key):
    action, log_prob = sample_action(*gaussian_actor(phi, BATCH.next_obs), key)
    q_mean, q_spread = critics_of(theta_target, BATCH.next_obs, action)
    y = BATCH.reward + 0.99 * BATCH.discount * (q_mean - 0.2 * q_spread - alpha * log_prob)

    def loss(params):
        qs = critics(params, BATCH.obs, BATCH.action)[..., 0]
        return ((qs - y[None]) ** 2).sum() / len(y)

    return stepped(theta, jax.grad(loss)(theta.params))


@tiny.compiled
def policy_step(phi, temperature, alpha, theta, key):
    def loss(params):
        action, log_prob = sample_action(*gaussian_actor(params, BATCH.obs), key)
        q_mean, q_spread = critics_of(theta, BATCH.obs, action)
        return (alpha * log_prob - q_mean + 0.2 * q_spread).mean(), -log_prob.mean()

    grads, entropy = jax.grad(loss, has_aux=True)(phi.params)
    alpha_grad = jnp.exp(temperature.params) * (entropy - -0.5 * 2)  # d/dx of exp(x) (H - H*)
    return stepped(phi, grads), stepped(temperature, alpha_grad, lr=1.0)


@tiny.compiled
def explorer_step(explorer, phi, theta, key):
    beta, tau = -0.2 + jnp.exp(explorer.optimism.params), jnp.exp(explorer.kl_weight.params)
    mean, log_std = gaussian_actor(phi, BATCH.obs)

    def loss(eta):
        o_mean, o_log_std = optimist_of(eta, mean, log_std, BATCH.obs)
        action, _ = sample_action(o_mean, o_log_std + math.log(1.25), key)
        q_mean, q_spread = critics_of(theta, BATCH.obs, action)
        variances = jnp.exp(2 * o_log_std), jnp.exp(2 * log_std)
        kl = (
            (log_std - o_log_std + (variances[0] + (o_mean - mean) ** 2) / (2 * variances[1]) - 0.5)
            .sum(axis=-1)
            .mean()
        )
        return -(q_mean + beta * q_spread).mean() + tau * kl, kl

    grads, kl = jax.grad(loss, has_aux=True)(explorer.actor.params)
    excess = kl / 2 - 0.25
    return (
        stepped(explorer.actor, grads),
        stepped(explorer.optimism, jnp.exp(explorer.optimism.params) * excess, b1=0.5),
        stepped(explorer.kl_weight, -tau * excess, b1=0.5),
    )


@pytest.fixture(scope="module")
def keys():
    k_critic, k_policy, k_explorer = jax.random.split(KEY, 3)
    return jax.random.split(k_critic)[0], k_policy, k_explorer


NOISE, EVIDENT = 1e-4, 1e-3  # relative; float32 gives 2e-5 for another order of operations


def test_an_update_is_critics_then_policy_on_the_new_critics_then_explorer_on_the_new_policy(
    dac, keys
):
    """By hand from the equations; then any other order is shown to give another answer.

    The temperature leaps, so that the new one can be distinguished from the old.
    """
    row = tiny.with_part(
        dac.row, "policy", temperature=dataclasses.replace(dac.row.policy.temperature, lr=1.0)
    )
    before = dac.state
    after, _ = tiny.compiled(tiny.update_by_key(make_agent(row, tiny.SPEC)))(before, BATCH, KEY, 0)
    online, alpha = before.critic.online, jnp.exp(before.policy.temperature.params)

    theta = critic_step(online, before.critic.target, before.policy.actor.params, alpha, keys[0])
    assert tiny.distance(theta, tuple(after.critic.online)) < NOISE

    def policy(alpha, theta):
        return policy_step(before.policy.actor, before.policy.temperature, alpha, theta, keys[1])

    phi, temperature = policy(alpha, theta[0])
    actor = tuple(after.policy.actor)
    assert tiny.distance(phi, actor) < NOISE
    assert tiny.distance(temperature, tuple(after.policy.temperature)) < NOISE
    assert tiny.distance(policy(alpha, online.params)[0], actor) > EVIDENT  # on the old critics
    assert (
        tiny.distance(policy(alpha, before.critic.target)[0], actor) > EVIDENT
    )  # on the target critics
    assert (
        tiny.distance(policy(jnp.exp(temperature[0]), theta[0])[0], actor) > EVIDENT
    )  # with the new temperature

    def explorer(phi, theta):
        return explorer_step(before.explorer, phi, theta, keys[2])

    expected = tuple(tuple(part) for part in after.explorer)
    assert tiny.distance(explorer(phi[0], theta[0]), expected) < NOISE
    assert (
        tiny.distance(explorer(before.policy.actor.params, theta[0]), expected) > EVIDENT
    )  # beside the old policy
    assert tiny.distance(explorer(phi[0], online.params), expected) > EVIDENT  # on the old critics


def test_the_pessimism_learns_from_the_critics_before_their_step_and_the_actor_climbs_the_new_one(
    gpl, keys
):
    """GPL, its pessimism leaping so that the new differs from the old: the target is the old one's,
    the actor's value the new one's.
    """
    row = tiny.with_part(gpl.row, "pessimism", lr=1.0)
    before = gpl.state
    after, metrics = tiny.compiled(tiny.update_by_key(make_agent(row, tiny.SPEC)))(
        before, BATCH, KEY, 0
    )

    @tiny.compiled
    def expected(b, theta):
        action, bonus = row.policy.backup(
            before.policy, BATCH.next_obs, jax.random.normal(keys[0], BATCH.action.shape)
        )
        next_mean, next_spread = critics_of(before.critic.target, BATCH.next_obs, action)
        y = BATCH.reward + 0.99 * BATCH.discount * (
            next_mean + before.pessimism.params * 2 * next_spread + bonus
        )
        error = (
            y.mean() - critics_of(before.critic.online.params, BATCH.obs, BATCH.action)[0].mean()
        )

        def objective(obs, action):
            q_mean, q_spread = critics_of(theta, obs, action)
            return q_mean + b * 2 * q_spread

        return error, row.policy.improve(
            before.policy, objective, BATCH.obs, jax.random.normal(keys[1], BATCH.action.shape)
        )[0]

    b = after.pessimism.params
    error, policy = expected(b, after.critic.online.params)
    assert float(after.pessimism.adam.mean) / 0.1 == pytest.approx(float(error), rel=1e-3)
    assert abs(float(b - before.pessimism.params)) == pytest.approx(1.0, rel=1e-3)
    assert float(metrics["pessimism"]) == float(before.pessimism.params)
    assert tiny.distance(policy.actor, after.policy.actor) < NOISE
    assert (
        tiny.distance(
            expected(before.pessimism.params, after.critic.online.params)[1].actor,
            after.policy.actor,
        )
        > EVIDENT
    )


def test_the_critics_loss_has_no_gradient_but_that_of_the_critics(each):
    with ops.reference_only():  # whose slopes have slopes themselves
        grads = tiny.compiled(
            jax.grad(
                lambda state: tiny.update_by_key(each.agent)(state, BATCH, KEY, tiny.due(each.row))[
                    1
                ]["critic_loss"],
                allow_int=True,
            )
        )(each.state)
    of_critics = grads.critic.online.params
    others = grads._replace(
        critic=grads.critic._replace(online=grads.critic.online._replace(params=()))
    )
    assert all(np.asarray(leaf).any() for leaf in jax.tree.leaves(of_critics))
    assert not any(
        np.asarray(leaf).any()
        for leaf in jax.tree.leaves(others)
        if leaf.dtype != jax.dtypes.float0
    )


def test_what_the_actors_did_does_not_move_the_critics(dac):
    """Had the actors' losses touched the critics, these would not be where the critics' part alone
    takes them.
    """
    after, _ = dac.update(dac.state, BATCH, KEY)
    policy = dac.state.policy._replace(
        actor=dac.state.policy.actor._replace(adam=standing(dac.state.policy.actor.adam))
    )
    still, _ = dac.update(dac.state._replace(policy=policy), BATCH, KEY)
    assert not tiny.same(after.policy.actor.params, still.policy.actor.params)
    assert tiny.same(after.critic, still.critic)


def test_the_explorer_moves_neither_critics_nor_policy(dac):
    params = jax.tree.map(lambda leaf: leaf + 0.1, dac.state.explorer.actor.params)
    explorer = dac.state.explorer._replace(actor=dac.state.explorer.actor._replace(params=params))
    (one, _), (two, _) = (
        dac.update(state, BATCH, KEY)
        for state in (dac.state, dac.state._replace(explorer=explorer))
    )
    assert tiny.same((one.critic, one.policy), (two.critic, two.policy))


def explored(learner, phi):
    """Return the explorer's step as a function of the pessimist's parameters."""
    state = learner.state._replace(
        policy=learner.state.policy._replace(actor=learner.state.policy.actor._replace(params=phi))
    )
    return learner.row.explorer.improve(
        state.explorer, tiny.agent_view(learner, state), BATCH.obs, NORMALS
    )


def test_the_optimist_s_loss_has_no_gradient_in_the_pessimist_though_it_depends_on_it(dac):
    phi = dac.state.policy.actor.params

    @tiny.compiled
    def sides(phi):
        value, grads = jax.value_and_grad(
            lambda phi: explored(dac, phi)[1]["optimistic_actor_loss"]
        )(phi)
        return value, grads

    loss, grads = sides(phi)
    moved, _ = sides(jax.tree.map(lambda leaf: leaf + 0.1, phi))
    assert not any(np.asarray(leaf).any() for leaf in jax.tree.leaves(grads))
    assert float(loss) != float(moved)


def standing(adam):
    """Adam, made to believe that gradients are huge, stands still."""
    return adam._replace(square=jax.tree.map(lambda leaf: np.full_like(leaf, 1e38), adam.square))


@pytest.mark.parametrize("field", ["action", "reward", "discount", "next_obs"])
def test_given_the_same_critics_actors_learn_from_observations_alone(each, field):
    """What was done, what it earned and where it led reach the actors through the critics only."""
    other = BATCH._replace(**{field: getattr(tiny.batch_of(7), field)})
    online = each.state.critic.online
    state = each.state._replace(
        critic=each.state.critic._replace(online=online._replace(adam=standing(online.adam)))
    )
    if isinstance(
        state.pessimism, Trained
    ):  # what the critics' errors teach it, it may pass on to the actor
        state = state._replace(
            pessimism=state.pessimism._replace(adam=standing(state.pessimism.adam))
        )
    (one, _), (two, _) = (each.update(state, batch, KEY) for batch in (BATCH, other))
    assert tiny.same(one.critic.online.params, two.critic.online.params)
    assert tiny.same((one.policy, one.explorer), (two.policy, two.explorer))
    three, _ = each.update(state, BATCH._replace(obs=tiny.batch_of(7).obs), KEY)
    assert not tiny.same(one.policy, three.policy)


def poisoned(params, network):
    """One weight of one network is not a number."""
    return jax.tree_util.tree_map_with_path(
        lambda path, leaf: leaf.at[:].set(jnp.nan) if f"'{network}'" in str(path) else leaf, params
    )


def nonfinite(learner, state, batch=BATCH):
    return float(learner.update(state, batch, KEY)[1]["nonfinite"])


def test_all_finite_is_no_alarm(each):
    assert nonfinite(each, each.state) == 0.0


@pytest.mark.parametrize("poison", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("field", ["reward", "obs", "next_obs", "action"])
def test_one_value_that_is_not_finite_in_the_batch_is_noticed(each, field, poison):
    values = getattr(BATCH, field)
    batch = BATCH._replace(**{field: values.at[(3,) + (0,) * (values.ndim - 1)].set(poison)})
    assert nonfinite(each, each.state, batch) == 1.0


@pytest.mark.parametrize("place", ["first", "last"])
@pytest.mark.parametrize("which", ["online", "target"])
def test_a_nan_in_one_critic_is_noticed(each, place, which):
    critics, critic = each.state.critic, f"value_{0 if place == 'first' else each.row.critic.k - 1}"
    if which == "online":
        critics = critics._replace(
            online=critics.online._replace(params=poisoned(critics.online.params, critic))
        )
    else:
        critics = critics._replace(target=poisoned(critics.target, critic))
    assert nonfinite(each, each.state._replace(critic=critics)) == 1.0


def test_a_nan_in_the_optimist_is_noticed(dac):
    explorer = dac.state.explorer
    broken = explorer._replace(
        actor=explorer.actor._replace(params=poisoned(explorer.actor.params, "shift"))
    )
    assert nonfinite(dac, dac.state._replace(explorer=broken)) == 1.0


@pytest.mark.parametrize("gamma", [1.0, 1.01, -0.1, math.nan, math.inf])
def test_a_discount_outside_zero_to_one_is_refused(gamma):
    with pytest.raises(UsageError, match="gamma"):
        dataclasses.replace(ALGORITHMS["dac"], gamma=gamma)


@pytest.mark.parametrize(
    "wrong",
    [
        dict(k=0),
        dict(k=-1),
        dict(hidden=()),
        dict(hidden=(8, 0)),
        dict(lr=0.0),
        dict(lr=-1.0),
        dict(polyak=0.0),
        dict(polyak=1.1),
    ],
)
def test_senseless_critics_are_refused(wrong):
    with pytest.raises(UsageError):
        Scalar(**wrong)


def test_a_polyak_weight_that_is_no_number_is_refused():
    with pytest.raises(UsageError):
        Scalar(polyak=math.nan)
