"""The figures of docs/theory.md: what they show is computed here, from the theory or from a trained
run, and drawn in `analysis`.
"""

import math
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from dualac.agents.algorithm import Algorithm
from dualac.agents.algorithms import ALGORITHMS
from dualac.agents.distributions import TanhNormal
from dualac.agents.optimist import OptimisticActor
from dualac.agents.policies import Soft
from dualac.agents.update import agent_view
from dualac.analysis.figures import theory as draw
from dualac.analysis.figures.theory import Coverage, Saturated, Worth
from dualac.envs.faults.guarded import Guarded
from dualac.errors import UsageError
from dualac.parts.paths import changes
from dualac.parts.text import to_python
from dualac.theory import (
    Exponential,
    Forms,
    certainty_equivalent,
    forms,
    gradient_orders,
    gradients,
    spread,
)
from dualac.theory.moments import deviations, lottery, mean
from dualac.training.checkpoint import Arrays, Checkpoints
from dualac.training.evaluation import play
from dualac.training.policy import LoadedAgent, load_agent
from dualac.training.streams import BASELINE, episode_seed

COLUMNS, ROWS, STATES = (
    64,
    101,
    32,
)  # of a plane: columns, actions in each, visited states that a column is the mean of
KEY = 0  # of what is sampled for a picture


def theory_figures(
    values: list[float], beta: float, weights: list[float] | None, folder: Path
) -> list[Path]:
    """The utility figure, the premium against beta, the errors of the approximations and the
    distance of their gradients.
    """
    v, w = lottery(values, weights)
    if w is not None:
        v, w = v[w > 0.0], w[w > 0.0]  # what cannot be has no place in a picture
    low, high, centre, deviation = (
        float(v.min()),
        float(v.max()),
        float(mean(v, w)),
        float(spread(v, w)),
    )
    if not (deviation > 0 and beta):
        raise UsageError("a picture of risk needs values that differ and a beta other than 0")
    edge = 1 / (
        math.sqrt(2) * deviation
    )  # of the betas with which the logarithm's series converges
    betas = jnp.linspace(-4 * edge, 4 * edge, 201)
    premium = jax.vmap(lambda one: forms(v, one, w))(betas)
    apart = deviations(v, w) / deviation
    sizes, scales = jnp.linspace(0.02, 3.0, 120), jnp.geomspace(2e-4, 0.6, 60) / abs(beta)
    grid = jnp.linspace(-2.0, 2.0, 161)
    surfaces = jax.vmap(lambda size: jax.vmap(lambda one: forms(size * apart, one, w))(grid))(sizes)
    slopes = jax.vmap(lambda scale: gradients(scale * apart, beta, w))(scales)
    orders = gradient_orders(v, beta, w)
    approximate = [name for name in Forms._fields if name != "exact"]
    error = {
        name: np.asarray(jnp.abs(getattr(surfaces, name) - surfaces.exact) / sizes[:, None])
        for name in approximate
    }
    gap = {
        name: np.asarray(jnp.abs(getattr(slopes, name) - slopes.exact).max(axis=1))
        for name in approximate
    }
    return [
        draw.utilities(
            [_worth(one, v, w) for one in (-abs(beta), 0.0, abs(beta))], folder / "utility.png"
        ),
        draw.premiums(
            np.asarray(betas),
            {n: np.asarray(f) - centre for n, f in premium._asdict().items()},
            (low - centre, high - centre),
            edge,
            folder / "premium.png",
        ),
        draw.errors(np.asarray(grid), np.asarray(sizes), error, folder / "error.png"),
        draw.gradient_gaps(
            np.asarray(scales),
            gap,
            {name: float(getattr(orders, name)) for name in approximate},
            folder / "gradient.png",
        ),
    ]


def _worth(beta: float, values: Any, weights: Any) -> Worth:
    """U is drawn as it is about the value that weighs most, which changes no preference: e^(2 beta
    V) itself may overflow.
    """
    low, high = float(values.min()), float(values.max())
    utility, margin = (
        Exponential(beta),
        min(0.08 * (high - low), 0.5 / abs(beta) if beta else math.inf),
    )
    about = high if beta > 0 else low
    bent = jnp.clip(
        about + margin * jnp.linspace(-8.0, 8.0, 161), low - margin, high + margin
    )  # however little of the whole that is
    x = jnp.sort(jnp.concatenate([jnp.linspace(low - margin, high + margin, 200), bent]))
    kind = (
        "convex: seeks risk"
        if beta > 0
        else "concave: shuns risk"
        if beta
        else "linear: indifferent"
    )
    worth = utility.value(values - about)
    certain = float(certainty_equivalent(values, utility, weights))
    where = (
        np.asarray(x),
        np.asarray(utility.value(x - about)),
        np.asarray(values),
        np.asarray(worth),
    )
    return Worth(
        f"{kind}, β = {beta:g}",
        *where,
        float(mean(values, weights)),
        float(mean(worth, weights)),
        certain,
    )


class Covered(NamedTuple):
    """A plane as it is drawn, and the critics' mean spread at what each actor does in the same
    visited states.
    """

    plane: Coverage
    pessimist: float
    optimist: float


class Trained(NamedTuple):
    """A run's agent, and what it lived, oldest first."""

    loaded: LoadedAgent
    lived: Arrays


def read(path: Path, step: int | None = None) -> Trained:
    loaded = load_agent(path, step)
    return Trained(loaded, Checkpoints(path, *loaded.run.identities()).transitions(loaded.step))


def coverage(trained: Trained, samples: int) -> Covered:
    """Pessimistic underexploration in a trained run: critics and both actors over the plane of
    states and actions, and `samples` of each.
    """
    loaded, lived = trained
    row, state = loaded.run.algorithm, loaded.state
    if not isinstance(row.explorer, OptimisticActor) or loaded.spec.action_dim != 1:
        raise UsageError(
            "coverage draws a pessimist and an optimist over states and one action, not "
            f"{loaded.run.name} with {loaded.spec.action_dim} actions; "
            "dualac train dac gym/Pendulum-v1 --steps 8k --warmup 1k --replay-ratio 1 gives one "
            "to draw"
        )
    embed, name = embedding(lived["obs"])
    edges = np.linspace(*_range(embed(lived["obs"])), COLUMNS + 1)
    rows = np.linspace(-1.0, 1.0, ROWS + 1)
    states, column = _chosen(np.digitize(embed(lived["obs"]), edges[1:-1]))
    fields = _fields(row, state, lived["obs"][states], (rows[1:] + rows[:-1]) / 2)
    disagree, pessimist, optimist = (_by_column(np.asarray(field), column) for field in fields)
    visited = np.column_stack([embed(lived["obs"][-samples:]), lived["action"][-samples:, 0]])
    done = [_played(loaded, optimistic, samples) for optimistic in (False, True)]
    first, second = (np.column_stack([embed(obs), action[:, 0]]) for obs, action in done)
    here = jnp.asarray(lived["obs"][states])
    chosen = [actor(here).sample_action(jax.random.key(KEY)) for actor in _actors(row, state)]
    met = [
        float(
            spread(row.critic.values(state.critic.online.params, here, action).mean(axis=-1)).mean()
        )
        for action in chosen
    ]
    title = f"{loaded.run.name} on {told(loaded)}"
    plane = Coverage(
        title, name, edges, rows, disagree, pessimist, optimist, visited, first, second
    )
    return Covered(plane, met[0], met[1])


def told(loaded: LoadedAgent) -> str:
    return f"{loaded.run.task} after {loaded.step} steps"


def embedding(obs: np.ndarray) -> tuple[Any, str]:
    """States as one number: the angle of which the first two observations are cosine and sine, a
    pendulum's, else the first principal component.
    """
    if obs.shape[1] > 1 and np.allclose((obs[:, :2] ** 2).sum(axis=1), 1.0, atol=1e-3):
        return lambda seen: np.arctan2(
            seen[:, 1], seen[:, 0]
        ), "angle of the pendulum, 0 is upright"
    centre, scale = obs.mean(axis=0), obs.std(axis=0) + 1e-6
    direction = np.linalg.svd((obs - centre) / scale, full_matrices=False)[2][0]
    return lambda seen: (seen - centre) / scale @ direction, "state: first principal component"


def saturation(trained: Trained, samples: int) -> Saturated:
    """What a run's policy wants before tanh, and what is executed, at the states it visited
    last.
    """
    loaded, obs = trained.loaded, jnp.asarray(trained.lived["obs"][-samples:])
    before = loaded.run.algorithm.policy.before_tanh(loaded.state.policy, obs)
    memory = loaded.agent.begin(jax.random.key(KEY))
    actions, _ = loaded.agent.explore(loaded.state, memory, obs, jax.random.key(KEY))
    return Saturated(_label(loaded), np.asarray(before), np.asarray(actions))


def gaussians(
    folder: Path, means: tuple[float, ...] = (0.0, 1.0, 2.0), deviation: float = 0.5
) -> Path:
    """Gaussians of one deviation, before and after tanh: the farther from zero, the less of it is
    left.
    """
    x = jnp.linspace(-3.0, 5.0, 400)
    a = jnp.linspace(-0.999, 0.9995, 800)
    policies = [
        TanhNormal(jnp.full((1,), centre), jnp.full((1,), math.log(deviation))) for centre in means
    ]
    normal = [
        jnp.exp(-(((x - centre) / deviation) ** 2) / 2) / (deviation * math.sqrt(2 * math.pi))
        for centre in means
    ]
    squashed = [jnp.exp(jax.vmap(policy.log_prob)(jnp.arctanh(a)[:, None])) for policy in policies]
    left = [jnp.sqrt(jnp.trapezoid(p * a**2, a) - jnp.trapezoid(p * a, a) ** 2) for p in squashed]
    labels = [
        f"μ = {centre:g}: deviation {deviation:g}, {float(std):.2f} after"
        for centre, std in zip(means, left, strict=True)
    ]
    pairs = ((np.asarray(x), np.asarray(normal)), (np.asarray(a), np.asarray(squashed)))
    return draw.gaussians(*pairs, labels, folder / "gaussians.png")


def _fields(
    row: Algorithm, state: Any, obs: np.ndarray, actions: np.ndarray
) -> tuple[jax.Array, ...]:
    """At each of these states and actions: the critics' spread, the pessimist's density and the
    optimist's. (states, actions) each.
    """
    pessimist, optimist = _actors(row, state)
    view, seen = [actor(jnp.asarray(obs)) for actor in (pessimist, optimist)], jnp.asarray(obs)

    def at(action: jax.Array) -> tuple[jax.Array, ...]:
        each = jnp.full((len(obs), 1), action)
        qs = row.critic.values(state.critic.online.params, seen, each).mean(axis=-1)
        return (spread(qs), *(jnp.exp(actor.log_prob(jnp.arctanh(each))) for actor in view))

    return tuple(
        field.T for field in jax.jit(lambda: jax.lax.map(at, jnp.asarray(actions, jnp.float32)))()
    )


def _actors(row: Algorithm, state: Any) -> tuple[Any, Any]:
    assert isinstance(row.policy, Soft) and isinstance(
        row.explorer, OptimisticActor
    )  # seen to by the explorer's check, and by coverage
    policy, explorer, view = row.policy, row.explorer, agent_view(row, state)
    return lambda obs: policy.distribution(state.policy, obs), lambda obs: explorer.distribution(
        state.explorer, view, obs
    )


def _played(loaded: LoadedAgent, optimistic: bool, samples: int) -> tuple[np.ndarray, np.ndarray]:
    """States and actions of new episodes by one of the two actors."""
    actor = _actors(loaded.run.algorithm, loaded.state)[optimistic]
    sample = jax.jit(
        lambda obs, key, count: actor(obs).sample_action(jax.random.fold_in(key, count))
    )
    seen: list[tuple[np.ndarray, np.ndarray]] = []

    def act(obs: np.ndarray) -> np.ndarray:
        seen.append((obs, np.asarray(sample(obs, jax.random.key(KEY), len(seen)))))
        return seen[-1][1]

    env = Guarded(loaded.run.task, loaded.run.protocol)
    episode = 0
    while len(seen) < samples:
        _, broken = play(env, act, episode_seed(KEY, BASELINE, episode))
        if broken:
            raise broken
        episode += 1
    env.close()
    obs, actions = zip(*seen[:samples], strict=True)
    return np.stack(obs), np.stack(actions)


def _range(numbers: np.ndarray) -> tuple[float, float]:
    return float(numbers.min()), float(numbers.max())


def _chosen(columns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Of the states of each column a few, evenly over time; and the column of each."""
    found = [np.flatnonzero(columns == column) for column in range(COLUMNS)]
    few = [one[np.linspace(0, len(one) - 1, min(STATES, len(one))).astype(int)] for one in found]
    return np.concatenate(few), np.repeat(np.arange(COLUMNS), [len(one) for one in few])


def _by_column(field: np.ndarray, column: np.ndarray) -> np.ndarray:
    """The mean over the states of each column; NaN where none was visited."""
    means = np.full((COLUMNS, field.shape[1]), np.nan)
    for number in np.unique(column):
        means[number] = field[column == number].mean(axis=0)
    return means


def _label(loaded: LoadedAgent) -> str:
    """The run's algorithm, and what of it is not as the table has it."""
    row = ALGORITHMS.get(loaded.run.name)
    differs = changes(row, loaded.run.algorithm) if row else ()
    return ", ".join(
        [loaded.run.name, *(f"{path}={to_python(value)}" for path, _, value in differs)]
    )
