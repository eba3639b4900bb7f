"""The figures of docs/theory.md, computed from the theory or from a trained run."""

import math
from collections.abc import Iterator
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
from dualac.runs.arrays import Arrays
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
from dualac.training.checkpoint import Checkpoints
from dualac.training.evaluation import play
from dualac.training.policy import LoadedAgent, load_agent
from dualac.training.run import require_same_task
from dualac.training.streams import BASELINE, episode_seed

# Of a plane: columns, actions in each, visited states that a column is the mean of.
COLUMNS, ROWS, STATES = 64, 101, 32
KEY = 0  # of what is sampled for a picture


APPROXIMATE = [name for name in Forms._fields if name != "exact"]


def theory_figures(
    values: list[float], beta: float, weights: list[float] | None, folder: Path
) -> list[Path]:
    """Draw utilities, premia, the forms' errors and gradients. Return the files."""
    v, w = possible(values, weights)
    if not (float(spread(v, w)) > 0 and beta):
        raise UsageError("a picture of risk needs values that differ and a beta other than 0")
    worths = [utility_figure(attitude, v, w) for attitude in (-abs(beta), 0.0, abs(beta))]
    return [
        draw.utilities(worths, folder / "utility.png"),
        draw.premiums(*premium_figure(v, w), folder / "premium.png"),
        draw.errors(*error_figure(v, w), folder / "error.png"),
        draw.gradient_gaps(*gradient_figure(v, beta, w), folder / "gradient.png"),
    ]


def possible(values: list[float], weights: list[float] | None) -> tuple[Any, Any]:
    """Make a lottery of the values that can be: others have no place in a picture."""
    v, w = lottery(values, weights)
    return (v, w) if w is None else (v[w > 0.0], w[w > 0.0])


def utility_figure(beta: float, values: Any, weights: Any) -> Worth:
    """Compute a utility and what it makes of the values.

    U is drawn about the value that weighs most, which changes no preference: e^(2 beta V) itself
    may overflow.
    """
    low, high, utility = float(values.min()), float(values.max()), Exponential(beta)
    margin = min(0.08 * (high - low), 0.5 / abs(beta) if beta else math.inf)
    about = high if beta > 0 else low
    even = jnp.linspace(low - margin, high + margin, 200)
    # Where the curve bends, however little of the whole that is.
    bent = about + margin * jnp.linspace(-8.0, 8.0, 161)
    x = jnp.sort(jnp.concatenate([even, jnp.clip(bent, low - margin, high + margin)]))
    worth = utility.value(values - about)
    return Worth(
        f"{_attitude(beta)}, β = {beta:g}",
        np.asarray(x),
        np.asarray(utility.value(x - about)),
        np.asarray(values),
        np.asarray(worth),
        float(mean(values, weights)),
        float(mean(worth, weights)),
        float(certainty_equivalent(values, utility, weights)),
    )


def _attitude(beta: float) -> str:
    if beta > 0:
        return "convex: seeks risk"
    return "concave: shuns risk" if beta else "linear: indifferent"


def premium_figure(values: Any, weights: Any) -> tuple[Any, Any, Any, float]:
    """Compute betas, each form's premium, the possible range, and where the series diverges."""
    edge = 1 / (math.sqrt(2) * float(spread(values, weights)))
    betas = jnp.linspace(-4 * edge, 4 * edge, 201)
    centre = float(mean(values, weights))
    by_form = jax.vmap(lambda beta: forms(values, beta, weights))(betas)._asdict()
    premiums = {name: np.asarray(form) - centre for name, form in by_form.items()}
    possible = (float(values.min()) - centre, float(values.max()) - centre)
    return np.asarray(betas), premiums, possible, edge


def error_figure(values: Any, weights: Any) -> tuple[Any, Any, dict[str, Any]]:
    """Compute the error of each approximation, as a share of the spread: betas, spreads, errors."""
    apart = _standardised(values, weights)
    sizes, betas = jnp.linspace(0.02, 3.0, 120), jnp.linspace(-2.0, 2.0, 161)

    def at(size: Any) -> Forms:
        return jax.vmap(lambda beta: forms(size * apart, beta, weights))(betas)

    surfaces = jax.vmap(at)(sizes)
    errors = {
        name: np.asarray(jnp.abs(getattr(surfaces, name) - surfaces.exact) / sizes[:, None])
        for name in APPROXIMATE
    }
    return np.asarray(betas), np.asarray(sizes), errors


def gradient_figure(values: Any, beta: float, weights: Any) -> tuple[Any, Any, dict[str, float]]:
    """Compute scales, each form's distance from the exact gradients, and its order."""
    apart = _standardised(values, weights)
    scales = jnp.geomspace(2e-4, 0.6, 60) / abs(beta)
    slopes = jax.vmap(lambda scale: gradients(scale * apart, beta, weights))(scales)
    orders = gradient_orders(values, beta, weights)
    gaps = {
        name: np.asarray(jnp.abs(getattr(slopes, name) - slopes.exact).max(axis=1))
        for name in APPROXIMATE
    }
    return np.asarray(scales), gaps, {name: float(getattr(orders, name)) for name in APPROXIMATE}


def _standardised(values: Any, weights: Any) -> Any:
    return deviations(values, weights) / float(spread(values, weights))


class Covered(NamedTuple):
    """A plane as it is drawn, and the critics' mean spread at each actor's actions."""

    plane: Coverage
    pessimist: float
    optimist: float


class Trained(NamedTuple):
    """A run's agent, and its transitions, oldest first."""

    loaded: LoadedAgent
    lived: Arrays


def read(path: Path, step: int | None = None, *, trust: bool = False) -> Trained:
    loaded = load_agent(path, step, trust=trust)
    return Trained(loaded, Checkpoints(path, *loaded.run.identities()).transitions(loaded.step))


def coverage(trained: Trained, samples: int) -> Covered:
    """Show pessimistic underexploration in a trained run, over the plane of states and actions."""
    loaded, lived = trained
    _require_optimist(loaded)
    row, state = loaded.run.algorithm, loaded.state
    embed, name = embedding(lived["obs"])
    edges = np.linspace(*_range(embed(lived["obs"])), COLUMNS + 1)
    rows = np.linspace(-1.0, 1.0, ROWS + 1)
    states, column = _chosen(np.digitize(embed(lived["obs"]), edges[1:-1]))
    fields = _fields(row, state, lived["obs"][states], (rows[1:] + rows[:-1]) / 2)
    disagree, pessimist, optimist = (_by_column(np.asarray(field), column) for field in fields)
    visited = np.column_stack([embed(lived["obs"][-samples:]), lived["action"][-samples:, 0]])
    played = [_played(loaded, optimistic, samples) for optimistic in (False, True)]
    first, second = (np.column_stack([embed(obs), action[:, 0]]) for obs, action in played)
    title = f"{loaded.run.name} on {describe(loaded)}"
    plane = Coverage(
        title, name, edges, rows, disagree, pessimist, optimist, visited, first, second
    )
    return Covered(plane, *_spreads(row, state, jnp.asarray(lived["obs"][states])))


def _require_optimist(loaded: LoadedAgent) -> None:
    optimistic = isinstance(loaded.run.algorithm.explorer, OptimisticActor)
    if not optimistic or loaded.spec.action_dim != 1:
        raise UsageError(
            "coverage draws a pessimist and an optimist over states and one action, not "
            f"{loaded.run.name} with {loaded.spec.action_dim} actions; "
            "dualac train dac gym/Pendulum-v1 --steps 8k --warmup 1k --replay-ratio 1 gives one "
            "to draw"
        )


def _spreads(row: Algorithm, state: Any, obs: jax.Array) -> Iterator[float]:
    """Measure the critics' mean spread at the actions of the pessimist, then of the optimist."""
    for actor in _actors(row, state):
        action = actor(obs).sample_action(jax.random.key(KEY))
        values = row.critic.values(state.critic.online.params, obs, action).mean(axis=-1)
        yield float(spread(values).mean())


def describe(loaded: LoadedAgent) -> str:
    return f"{loaded.run.task} after {loaded.step} steps"


def embedding(obs: np.ndarray) -> tuple[Any, str]:
    """Return a map of states to one number, and its name: an angle or a principal component."""
    if obs.shape[1] > 1 and np.allclose((obs[:, :2] ** 2).sum(axis=1), 1.0, atol=1e-3):
        name = "angle of the pendulum, 0 is upright"
        return lambda states: np.arctan2(states[:, 1], states[:, 0]), name
    centre, scale = obs.mean(axis=0), obs.std(axis=0) + 1e-6
    direction = np.linalg.svd((obs - centre) / scale, full_matrices=False)[2][0]
    return lambda states: (states - centre) / scale @ direction, "state: first principal component"


def saturation(trained: Trained, samples: int) -> Saturated:
    """Compute a policy's means before tanh, and its actions, at the states visited last."""
    loaded, obs = trained.loaded, jnp.asarray(trained.lived["obs"][-samples:])
    before = loaded.run.algorithm.policy.before_tanh(loaded.state.policy, obs)
    memory = loaded.agent.begin(jax.random.key(KEY))
    actions, _ = loaded.agent.explore(loaded.state, memory, obs, jax.random.key(KEY))
    return Saturated(_label(loaded), np.asarray(before), np.asarray(actions))


def gaussians(
    folder: Path, means: tuple[float, ...] = (0.0, 1.0, 2.0), deviation: float = 0.5
) -> Path:
    """Draw Gaussians of one deviation: the farther from zero, the less is left after tanh."""
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
    """Compute the critics' spread and both actors' densities, (states, actions) each."""
    states = jnp.asarray(obs)
    distributions = [actor(states) for actor in _actors(row, state)]

    def at(action: jax.Array) -> tuple[jax.Array, ...]:
        each = jnp.full((len(obs), 1), action)
        values = row.critic.values(state.critic.online.params, states, each).mean(axis=-1)
        densities = (jnp.exp(one.log_prob(jnp.arctanh(each))) for one in distributions)
        return spread(values), *densities

    over_actions = jax.jit(lambda: jax.lax.map(at, jnp.asarray(actions, jnp.float32)))
    return tuple(field.T for field in over_actions())


def _actors(row: Algorithm, state: Any) -> tuple[Any, Any]:
    """Return the distributions of the pessimist and of the optimist, as functions of states."""
    policy, explorer, view = row.policy, row.explorer, agent_view(row, state)
    assert isinstance(policy, Soft) and isinstance(explorer, OptimisticActor)  # see coverage
    return (
        lambda obs: policy.distribution(state.policy, obs),
        lambda obs: explorer.distribution(state.explorer, view, obs),
    )


def _played(loaded: LoadedAgent, optimistic: bool, samples: int) -> tuple[np.ndarray, np.ndarray]:
    actor = _actors(loaded.run.algorithm, loaded.state)[optimistic]

    @jax.jit
    def sample(obs: Any, count: Any) -> Any:
        return actor(obs).sample_action(jax.random.fold_in(jax.random.key(KEY), count))

    steps: list[tuple[np.ndarray, np.ndarray]] = []

    def act(obs: np.ndarray) -> np.ndarray:
        action = np.asarray(sample(obs, len(steps)))
        steps.append((obs, action))
        return action

    env = Guarded(loaded.run.task, loaded.run.protocol)
    require_same_task(loaded.path, env.describe())
    episode = 0
    while len(steps) < samples:
        _, broken = play(env, act, episode_seed(KEY, BASELINE, episode))
        if broken:
            raise broken
        episode += 1
    env.close()
    obs, actions = zip(*steps[:samples], strict=True)
    return np.stack(obs), np.stack(actions)


def _range(numbers: np.ndarray) -> tuple[float, float]:
    return float(numbers.min()), float(numbers.max())


def _chosen(columns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Choose a few states of each column, evenly over time; return them and their columns."""
    by_column = [np.flatnonzero(columns == column) for column in range(COLUMNS)]
    few = [
        states[np.linspace(0, len(states) - 1, min(STATES, len(states))).astype(int)]
        for states in by_column
    ]
    return np.concatenate(few), np.repeat(np.arange(COLUMNS), [len(states) for states in few])


def _by_column(field: np.ndarray, column: np.ndarray) -> np.ndarray:
    """Average over the states of each column; NaN where none was visited."""
    means = np.full((COLUMNS, field.shape[1]), np.nan)
    for number in np.unique(column):
        means[number] = field[column == number].mean(axis=0)
    return means


def _label(loaded: LoadedAgent) -> str:
    """Name the run's algorithm, and what of it is not as the table has it."""
    row = ALGORITHMS.get(loaded.run.name)
    differences = changes(row, loaded.run.algorithm) if row else ()
    changed = [f"{path}={to_python(value)}" for path, _, value in differences]
    return ", ".join([loaded.run.name, *changed])
