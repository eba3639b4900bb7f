"""The one update of all model-free algorithms."""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array

from dualac.agents.algorithm import Algorithm
from dualac.agents.critics import CriticState
from dualac.agents.distributions import TanhNormal
from dualac.agents.explorers import AgentView
from dualac.agents.pessimism import spread
from dualac.types import Key, Metrics, Normals, Transition


class State(NamedTuple):
    """Everything that learns: a field for each part, () where it has nothing to remember."""

    pessimism: Any
    policy: Any
    explorer: Any
    critic: CriticState


def agent_view(row: Algorithm, state: State) -> AgentView:
    def upper(obs: Array, action: Array, optimism: Array) -> Array:
        zs = row.critic.values(state.critic.online.params, obs, action)
        return row.critic.upper(zs, optimism)

    return AgentView(
        policy=partial(row.policy.distribution, state.policy),
        exploit=partial(row.policy.exploit, state.policy),
        upper=upper,
        floor=row.pessimism.floor(),
        bonus=partial(row.policy.bonus, state.policy),
    )


def explorer_distribution(row: Algorithm, state: State, obs: Array) -> TanhNormal:
    """Return the distribution of the explorer, where it is what is evaluated."""
    return row.explorer.distribution(state.explorer, agent_view(row, state), obs)


class UpdateNoise(NamedTuple):
    """What an update leaves to chance: noise of three actors, a key for the choice of critics."""

    successor: Normals
    policy: Normals
    explorer: Normals
    backup: Key

    def shaped(self, shape: tuple[int, ...]) -> "UpdateNoise":
        """Return its normals as noise on actions of this shape."""
        return self._replace(
            successor=self.successor.reshape(shape),
            policy=self.policy.reshape(shape),
            explorer=self.explorer.reshape(shape),
        )


def sample_noise(key: Key, size: int) -> UpdateNoise:
    """Draw the noise of one update, for a batch whose actions are `size` numbers.

    The normals are flat: in the shape of actions they would take three times as long to draw.
    """
    k_critic, *k_actors = jax.random.split(key, 3)
    k_successor, k_backup = jax.random.split(k_critic)
    keys = jnp.stack([k_successor, *k_actors])
    successor, policy, explorer = jax.vmap(lambda key: jax.random.normal(key, (size,)))(keys)
    return UpdateNoise(successor, policy, explorer, k_backup)


def successor(row: Algorithm, state: State, next_obs: Array, noise: Normals) -> tuple[Array, Array]:
    """Return the action of the TD target, and what being there is worth beyond its value."""
    if row.judged == "policy":
        return row.policy.backup(state.policy, next_obs, noise)
    action, log_prob = explorer_distribution(row, state, next_obs).sample(noise)
    return action, row.policy.bonus(state.policy, log_prob)


def learn_values(
    row: Algorithm, state: State, batch: Transition, noise: UpdateNoise
) -> tuple[State, Metrics]:
    """Regress the critics on y = r + gamma (certainty of target critics at a' ~ pi(s') + bonus)."""
    action, bonus = successor(row, state, batch.next_obs, noise.successor)
    next_zs = row.critic.values(state.critic.target, batch.next_obs, action)
    future = row.pessimism.backup(state.pessimism, next_zs, noise.backup) + bonus[:, None]
    target = jax.lax.stop_gradient(
        batch.reward[:, None] + row.gamma * batch.discount[:, None] * future
    )

    critic, regression = row.critic.learn(state.critic, batch, target)
    pessimism, of_pessimism = row.pessimism.learn(state.pessimism, regression.values, target)
    qs = regression.values.mean(axis=-1)
    metrics = {
        "critic_loss": regression.loss,
        "critic_grad_norm": regression.grad_norm,
        "q_mean": qs.mean(),
        "q_std": spread(qs).mean(),
        **of_pessimism,
        # The critics' own values are tested, before any aggregate could swallow a NaN.
        "finite": all_finite((regression, next_zs, of_pessimism)),
    }
    return state._replace(critic=critic, pessimism=pessimism), metrics


def improve_policy(
    row: Algorithm, state: State, obs: Array, noise: Normals
) -> tuple[State, Metrics]:
    def objective(obs: Array, action: Array) -> Array:
        zs = row.critic.values(state.critic.online.params, obs, action)
        return row.pessimism.objective(state.pessimism, zs).mean(axis=-1)

    policy, metrics = row.policy.improve(state.policy, objective, obs, noise)
    return state._replace(policy=policy), metrics


def improve_explorer(
    row: Algorithm, state: State, obs: Array, noise: Normals
) -> tuple[State, Metrics]:
    explorer, metrics = row.explorer.improve(state.explorer, agent_view(row, state), obs, noise)
    return state._replace(explorer=explorer), metrics


def all_finite(tree: Any) -> Array:
    return jnp.all(jnp.stack([jnp.isfinite(leaf).all() for leaf in jax.tree.leaves(tree)]))


def update_targets(row: Algorithm, state: State) -> State:
    return state._replace(
        critic=row.critic.update_targets(state.critic),
        policy=row.policy.update_targets(state.policy),
    )


def improve(row: Algorithm, state: State, obs: Array, noise: UpdateNoise) -> tuple[State, Metrics]:
    """Move the policy on the new critics, then the explorer on the new policy."""
    state, of_policy = improve_policy(row, state, obs, noise.policy)
    state, of_explorer = improve_explorer(row, state, obs, noise.explorer)
    if row.policy.targets_wait:
        state = update_targets(row, state)
    metrics = of_policy | of_explorer
    return state, metrics | {"finite": all_finite(metrics)}


def update(
    row: Algorithm, state: State, batch: Transition, noise: UpdateNoise, count: int | Array
) -> tuple[State, Metrics]:
    """Move the critics and their targets, then the actors on the new critics.

    The actors move at every `delay`th update; `count` updates came before this one.
    """
    noise = noise.shaped(batch.action.shape)
    state, of_critic = learn_values(row, state, batch, noise)
    if not row.policy.targets_wait:
        state = update_targets(row, state)
    if row.policy.delay == 1:
        state, of_actors = improve(row, state, batch.obs, noise)
    else:
        # `count` is one for all seeds of a pack, so that under vmap this stays a branch. A metric
        # that was not measured is NaN.
        blank = jax.eval_shape(lambda: improve(row, state, batch.obs, noise))[1]
        idle = {
            name: jnp.full(like.shape, name == "finite" or jnp.nan, like.dtype)
            for name, like in blank.items()
        }
        due = (jnp.asarray(count) + 1) % row.policy.delay == 0
        state, of_actors = jax.lax.cond(
            due, lambda: improve(row, state, batch.obs, noise), lambda: (state, idle)
        )
    finite = of_critic.pop("finite") & of_actors.pop("finite")
    return state, of_critic | of_actors | {"nonfinite": jnp.where(finite, 0.0, 1.0)}
