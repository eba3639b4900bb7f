"""An algorithm as an agent: how it begins, acts and is looked at."""

from functools import partial

import jax
import jax.numpy as jnp
from jaxtyping import Array

from dualac.agents.algorithm import Algorithm
from dualac.agents.optimizer import Trained
from dualac.agents.pessimism import spread
from dualac.agents.update import State, agent_view, explorer_distribution, sample_noise, update
from dualac.ops import length
from dualac.types import Agent, Key, Metrics, Spec, Transition

PESSIMISM = 3  # its stream of keys, beside the three that init is split into


def init(row: Algorithm, spec: Spec, key: Key) -> State:
    k_policy, k_explorer, k_critic = jax.random.split(key, 3)
    return State(
        row.pessimism.init(jax.random.fold_in(key, PESSIMISM)),
        row.policy.init(k_policy, spec),
        row.explorer.init(k_explorer, spec, row.pessimism.floor()),
        row.critic.init(k_critic, spec),
    )


def reset(
    row: Algorithm, spec: Spec, state: State, key: Key, *, only_explorer: bool = False
) -> State:
    """Start afresh, but for what the pessimism knows of the task; or the explorer alone."""
    fresh = init(row, spec, key)
    if only_explorer:
        return state._replace(explorer=fresh.explorer)
    pessimism = row.pessimism.reset(state.pessimism, jax.random.fold_in(key, PESSIMISM))
    return fresh._replace(pessimism=pessimism)


def diagnose(row: Algorithm, state: State, batch: Transition) -> Metrics:
    qs = row.critic.values(state.critic.online.params, batch.obs, batch.action).mean(axis=-1)
    actors = {
        "actor": getattr(state.policy, "actor", None),
        "optimistic_actor": getattr(state.explorer, "actor", None),
    }
    learned = {name: actor for name, actor in actors.items() if isinstance(actor, Trained)}
    learned["critic"] = state.critic.online
    metrics = {
        "q_std_over_mean": spread(qs).mean() / jnp.abs(qs.mean(axis=0)).mean(),
        "critic_dormant": row.critic.dormant(state.critic, batch.obs, batch.action),
        **{f"{name}_param_norm": length(part.params) for name, part in learned.items()},
        **row.policy.diagnose(state.policy, batch.obs),
        **row.explorer.diagnose(state.explorer, agent_view(row, state), batch.obs),
    }
    if row.policy.stochastic:
        # The median: where the policy is nearly certain one old action is a thousand deviations
        # away.
        policy = row.policy.distribution(state.policy, batch.obs)
        metrics["data_distance"] = jnp.median(policy.distance(batch.action))
    return metrics


def begin(key: Key) -> tuple[()]:
    """Return the memory of an episode: no row of the table remembers anything within one."""
    return ()


def explore(
    row: Algorithm, state: State, memory: tuple[()], obs: Array, key: Key
) -> tuple[Array, tuple[()]]:
    return row.explorer.act(state.explorer, agent_view(row, state), obs, key), memory


def exploit(row: Algorithm, state: State, memory: tuple[()], obs: Array) -> tuple[Array, tuple[()]]:
    """Return the action of the actor that is evaluated, without noise."""
    if row.judged == "policy":
        return row.policy.exploit(state.policy, obs), memory
    return explorer_distribution(row, state, obs).mode(), memory


def value(row: Algorithm, state: State, obs: Array, action: Array) -> Array:
    return row.critic.values(state.critic.online.params, obs, action).mean(axis=(0, -1))


def observe_return(row: Algorithm, state: State, episode_return: Array, key: Key) -> State:
    pessimism = row.pessimism.observe_return(state.pessimism, episode_return, key)
    return state._replace(pessimism=pessimism)


def make_agent(row: Algorithm, spec: Spec) -> Agent:
    """Return the pure functions of an algorithm on a task of these sizes."""
    return Agent(
        init=partial(init, row, spec),
        noise=sample_noise,
        update=partial(update, row),
        begin=begin,
        explore=partial(explore, row),
        exploit=partial(exploit, row),
        value=partial(value, row),
        diagnose=partial(diagnose, row),
        observe_return=partial(observe_return, row),
        reset=partial(reset, row, spec),
    )
