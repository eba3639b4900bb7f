"""An algorithm as an agent: how it begins, acts and is looked at."""

from functools import partial

import jax
import jax.numpy as jnp
from jaxtyping import Array

from dualac.agents.algorithm import Algorithm
from dualac.agents.optimizer import Trained, without_optimizers
from dualac.agents.pessimism import spread
from dualac.agents.update import State, agent_view, optimist, sample_noise, update
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


def reset(row: Algorithm, spec: Spec, state: State, key: Key) -> State:
    return init(row, spec, key)._replace(
        pessimism=row.pessimism.reset(state.pessimism, jax.random.fold_in(key, PESSIMISM))
    )


def restart_explorer(row: Algorithm, spec: Spec, state: State, key: Key) -> State:
    return state._replace(explorer=init(row, spec, key).explorer)


def diagnose(row: Algorithm, state: State, batch: Transition) -> Metrics:
    """What is too dear to be asked at every update."""
    qs = row.critic.values(state.critic.online.params, batch.obs, batch.action).mean(axis=-1)
    actors = {
        "actor": getattr(state.policy, "actor", None),
        "optimistic_actor": getattr(state.explorer, "actor", None),
    }
    learned = {"critic": state.critic.online} | {
        name: one for name, one in actors.items() if isinstance(one, Trained)
    }
    # The median: where the policy is nearly certain one old action is a thousand deviations away.
    distances = (
        {
            "data_distance": jnp.median(
                row.policy.distribution(state.policy, batch.obs).distance(batch.action)
            )
        }
        if row.policy.stochastic
        else {}
    )
    return {
        **distances,
        "q_std_over_mean": spread(qs).mean() / jnp.abs(qs.mean(axis=0)).mean(),
        "critic_dormant": row.critic.dormant(state.critic, batch.obs, batch.action),
        **{f"{name}_param_norm": length(one.params) for name, one in learned.items()},
        **row.policy.diagnose(state.policy, batch.obs),
        **row.explorer.diagnose(state.explorer, agent_view(row, state), batch.obs),
    }


def explore(
    row: Algorithm, state: State, memory: tuple[()], obs: Array, key: Key
) -> tuple[Array, tuple[()]]:
    return row.explorer.act(state.explorer, agent_view(row, state), obs, key), memory


def exploit(row: Algorithm, state: State, memory: tuple[()], obs: Array) -> tuple[Array, tuple[()]]:
    return row.policy.exploit(state.policy, obs) if row.judged == "policy" else optimist(
        row, state, obs
    ).mode(), memory


def judged(row: Algorithm, state: State) -> State:
    return without_optimizers(
        State._make(((), state.policy, state.explorer if row.judged == "explorer" else (), ()))
    )


def exploring(row: Algorithm, state: State) -> State:
    return without_optimizers(
        State._make(
            (
                (),
                state.policy,
                state.explorer,
                state.critic._replace(target=()) if row.explorer.asks_critics else (),
            )
        )
    )


def value(row: Algorithm, state: State, obs: Array, action: Array) -> Array:
    return row.critic.values(state.critic.online.params, obs, action).mean(axis=(0, -1))


def valuing(state: State) -> State:
    return without_optimizers(State((), (), (), state.critic._replace(target=())))  # pyright: ignore[reportArgumentType]


def observe_return(row: Algorithm, state: State, episode_return: Array, key: Key) -> State:
    return state._replace(
        pessimism=row.pessimism.observe_return(state.pessimism, episode_return, key)
    )


def make_agent(row: Algorithm, spec: Spec) -> Agent:
    """The pure functions of an algorithm on a task of these sizes."""
    return Agent(
        init=partial(init, row, spec),
        noise=sample_noise,
        update=partial(update, row),
        explore=partial(explore, row),
        exploit=partial(exploit, row),
        observe_return=partial(observe_return, row),
        reset=partial(reset, row, spec),
        restart_explorer=partial(restart_explorer, row, spec),
        judged=partial(judged, row),
        exploring=partial(exploring, row),
        diagnose=partial(diagnose, row),
        value=partial(value, row),
        valuing=valuing,
    )
