"""The one update of all model-free algorithms."""

from dataclasses import dataclass, is_dataclass
from functools import partial
from typing import Any, Literal, NamedTuple, final

import jax
import jax.numpy as jnp
from jaxtyping import Array

from dualac.agents.critics import Critic, CriticState
from dualac.agents.distributions import TanhNormal
from dualac.agents.explorers import (
    AgentView,
    Explorer,
    FromPolicy,
    Noise,
    OptimisticActor,
    UpperBoundShift,
)
from dualac.agents.optimizer import Trained, all_finite, without_optimizers
from dualac.agents.pessimism import Pessimism, spread
from dualac.agents.policies import Policy, Soft
from dualac.errors import UsageError
from dualac.ops import length
from dualac.parts.fields import check_fields
from dualac.types import Agent, Key, Metrics, Normals, Spec, Transition

PESSIMISM = 3  # its stream of keys, beside the three that init is split into


@final
@dataclass(frozen=True)
class Algorithm:
    """A row of choices: how it feels about risk, what acts, who explores, what is learned."""

    pessimism: Pessimism
    """how an ensemble of critics becomes one number"""
    policy: Policy
    """what the actor is and what it costs"""
    explorer: Explorer
    """who acts in the environment"""
    critic: Critic
    """what is learned"""
    gamma: float = 0.99
    """discount of future rewards (gamma)"""
    judged: Literal["policy", "explorer"] = "policy"
    """who is evaluated, and acts in the TD target; the only-optimist ablation has the explorer
    there
    """
    explorer_restart_every: int = 0
    """environment steps after which the explorer alone starts afresh, 0 is never; the authors'
    public code has 25000
    """

    def __post_init__(self) -> None:
        """Parts that do not fit are refused when the row is built, not when it trains."""
        check_fields(self)
        for part in (self.pessimism, self.policy, self.explorer, self.critic):
            if not is_dataclass(part):
                raise UsageError(
                    f"{type(part).__name__} is written down with a run and needs "
                    "@dataclass(frozen=True) above its class"
                )
        if not 0 <= self.gamma < 1:
            raise UsageError(f"gamma must be in [0, 1), not {self.gamma}")
        self.pessimism.check(self.critic.k)
        self.explorer.check(self.policy, self.pessimism.floor())
        own = self.explorer if isinstance(self.explorer, OptimisticActor) else None
        if self.judged == "explorer" and (own is None or own.form == "deterministic"):
            raise UsageError(
                "judged='explorer' needs an explorer that is a distribution of its own: an "
                "OptimisticActor, not a deterministic one"
            )
        if (
            self.judged == "explorer"
            and isinstance(self.policy, Soft)
            and self.policy.successor != "sample"
        ):
            raise UsageError(
                "policy.successor says how the policy acts in the TD target, but there "
                "judged='explorer' has the explorer act"
            )
        seen_by_an_optimist = [
            name
            for name in ("ensemble_stat", "upper_bound")
            if getattr(self.critic, name, None) != getattr(type(self.critic), name, None)
        ]
        if seen_by_an_optimist and isinstance(self.explorer, FromPolicy | Noise):
            raise UsageError(
                f"critic.{seen_by_an_optimist[0]} says what an optimist sees, and "
                f"{type(self.explorer).__name__} looks at no upper bound"
            )
        seeks_disagreement = (
            isinstance(self.explorer, OptimisticActor | UpperBoundShift)
            and getattr(self.critic, "upper_bound", "epistemic") == "epistemic"
        )
        if self.critic.k == 1 and seeks_disagreement:
            raise UsageError(
                "an optimist seeks what the critics disagree about: critic.k must be at least 2"
            )
        if self.explorer_restart_every < 0 or (
            self.explorer_restart_every
            and isinstance(self.explorer, FromPolicy | Noise | UpperBoundShift)
        ):
            raise UsageError(
                "explorer_restart_every must be 0 for an explorer that learns nothing, and never "
                "negative"
            )


class State(NamedTuple):
    """Everything that learns; one field a part, () where it has nothing to remember."""

    pessimism: Any
    policy: Any
    explorer: Any
    critic: CriticState


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


def agent_view(row: Algorithm, state: State) -> AgentView:
    def upper(obs: Array, action: Array, optimism: Array) -> Array:
        return row.critic.upper(
            row.critic.values(state.critic.online.params, obs, action), optimism
        )

    policy, exploit = (
        partial(row.policy.distribution, state.policy),
        partial(row.policy.exploit, state.policy),
    )
    return AgentView(
        policy, exploit, upper, row.pessimism.floor(), partial(row.policy.bonus, state.policy)
    )


def optimist(row: Algorithm, state: State, obs: Array) -> TanhNormal:
    """The explorer where it is the one who is judged."""
    assert isinstance(row.explorer, OptimisticActor)
    return row.explorer.distribution(state.explorer, agent_view(row, state), obs)


class UpdateNoise(NamedTuple):
    """What one update leaves to chance: three actors' noise, and a key for how critics are put
    together.
    """

    successor: Normals
    policy: Normals
    explorer: Normals
    backup: Key

    def shaped(self, shape: tuple[int, ...]) -> "UpdateNoise":
        """Its normals as noise on actions of this shape."""
        return UpdateNoise(
            self.successor.reshape(shape),
            self.policy.reshape(shape),
            self.explorer.reshape(shape),
            self.backup,
        )


def draw(key: Key, size: int) -> UpdateNoise:
    """For a batch whose actions are so many numbers. The normals are flat: drawn in the shape of
    actions they would take three times as long.
    """
    k_critic, *k_actors = jax.random.split(key, 3)
    k_successor, k_backup = jax.random.split(k_critic)
    successor, policy, explorer = jax.vmap(lambda one: jax.random.normal(one, (size,)))(
        jnp.stack([k_successor, *k_actors])
    )  # by one program
    return UpdateNoise(successor, policy, explorer, k_backup)


def successor(row: Algorithm, state: State, next_obs: Array, noise: Normals) -> tuple[Array, Array]:
    """The action of the TD target, and what being there is worth beyond its value."""
    if row.judged == "policy":
        return row.policy.backup(state.policy, next_obs, noise)
    action, log_prob = optimist(row, state, next_obs).sample(noise)
    return action, row.policy.bonus(state.policy, log_prob)


def learn_values(
    row: Algorithm, state: State, batch: Transition, noise: UpdateNoise
) -> tuple[State, Metrics]:
    """y = r + gamma (certainty of the target critics at a' ~ pi(s') + what the policy is paid for
    being there).
    """
    action, bonus = successor(row, state, batch.next_obs, noise.successor)
    next_zs = row.critic.values(state.critic.target, batch.next_obs, action)
    future = row.pessimism.backup(state.pessimism, next_zs, noise.backup) + bonus[:, None]
    target = jax.lax.stop_gradient(
        batch.reward[:, None] + row.gamma * batch.discount[:, None] * future
    )

    critic, seen = row.critic.learn(state.critic, batch, target)
    pessimism, of_pessimism = row.pessimism.learn(state.pessimism, seen.values, target)
    qs = seen.values.mean(axis=-1)
    metrics = {
        "critic_loss": seen.loss,
        "critic_grad_norm": seen.grad_norm,
        "q_mean": qs.mean(),
        "q_std": spread(qs).mean(),
    } | of_pessimism
    # The critics' own values are tested, before any aggregate could swallow a NaN.
    return state._replace(critic=critic, pessimism=pessimism), metrics | {
        "finite": all_finite((seen, next_zs, of_pessimism))
    }


def improve_policy(
    row: Algorithm, state: State, obs: Array, noise: Normals
) -> tuple[State, Metrics]:
    def objective(obs: Array, action: Array) -> Array:
        return row.pessimism.objective(
            state.pessimism, row.critic.values(state.critic.online.params, obs, action)
        ).mean(axis=-1)

    policy, metrics = row.policy.improve(state.policy, objective, obs, noise)
    return state._replace(policy=policy), metrics


def improve_explorer(
    row: Algorithm, state: State, obs: Array, noise: Normals
) -> tuple[State, Metrics]:
    explorer, metrics = row.explorer.improve(state.explorer, agent_view(row, state), obs, noise)
    return state._replace(explorer=explorer), metrics


def update_targets(row: Algorithm, state: State) -> State:
    return state._replace(
        critic=row.critic.update_targets(state.critic),
        policy=row.policy.update_targets(state.policy),
    )


def improve(row: Algorithm, state: State, obs: Array, noise: UpdateNoise) -> tuple[State, Metrics]:
    """The policy on the new critics, then the explorer on the new policy."""
    state, of_policy = improve_policy(row, state, obs, noise.policy)
    state, of_explorer = improve_explorer(row, state, obs, noise.explorer)
    metrics = of_policy | of_explorer
    return update_targets(row, state) if row.policy.targets_wait else state, metrics | {
        "finite": all_finite(metrics)
    }


def update(
    row: Algorithm, state: State, batch: Transition, key: Key, count: int | Array | None = None
) -> tuple[State, Metrics]:
    return step(row, state, batch, draw(key, batch.action.size), count)


def step(
    row: Algorithm,
    state: State,
    batch: Transition,
    noise: UpdateNoise,
    count: int | Array | None = None,
) -> tuple[State, Metrics]:
    """Critics, their targets, then the actors on the new critics: at every update, or at every
    `delay`th (`count` came before this one).
    """
    if count is None and row.policy.delay > 1:
        raise UsageError(
            f"the actors move once in {row.policy.delay} updates: tell update() how many came "
            "before (count)"
        )
    noise = noise.shaped(batch.action.shape)
    state, of_critic = learn_values(row, state, batch, noise)
    if not row.policy.targets_wait:
        state = update_targets(row, state)
    if row.policy.delay == 1:
        state, of_actors = improve(row, state, batch.obs, noise)
    else:
        # `count` is one for all seeds of a pack, so that under vmap this stays a branch; NaN is
        # what was not measured.
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
        update=partial(update, row),
        draw=draw,
        step=partial(step, row),
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
