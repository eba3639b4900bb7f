"""How a training ended: the learned policy's score beside a random one's, and a picture."""

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from rich.console import Console
from rich.table import Table

from dualac.analysis.data.curves import evaluation_curve
from dualac.analysis.figures.curves import learning_curve
from dualac.envs.faults.guarded import Guarded
from dualac.training.evaluation import DECIDED_BY, evaluate, summary, whole
from dualac.training.policy import LoadedPolicy
from dualac.training.run import load
from dualac.training.streams import BASELINE, episode_seed


def summarise(paths: list[Path], console: Console, isolated: float | None = None) -> None:
    """Print the learned policies' scores beside a random one's, by task and algorithm."""
    groups: dict[Path, list[Path]] = {}
    for path in paths:
        groups.setdefault(path.parent, []).append(path)
    for home, runs in groups.items():
        _summarise_group(home, runs, console, isolated)


def _summarise_group(
    home: Path, runs: list[Path], console: Console, isolated: float | None
) -> None:
    first = load(runs[0])
    env = Guarded(first.task, first.protocol, isolated=isolated)
    episodes = range(first.protocol.eval_episodes)
    random = random_rows(env, [episode_seed(0, BASELINE, episode) for episode in episodes])
    env.close()
    baseline = summary(random).get("eval/mean_reward")
    random_score = "-" if baseline is None else f"{baseline:.1f}"
    for path in runs:
        curve = evaluation_curve(path)
        score = f"learned policy {curve.returns[-1]:.1f} at step {curve.steps[-1]}"
        console.print(
            f"seed {load(path).seed}: {score}, random policy {random_score}; {path}",
            soft_wrap=True,
        )
    picture = learning_curve({first.name: runs}, first.task, home / "curve.png", baseline)
    console.print(f"learning curve: {picture}", soft_wrap=True)


def random_rows(env: gymnasium.Env, seeds: list[int]) -> list[dict[str, Any]]:
    """Play episodes of uniformly random actions, a function of their seeds."""
    generator = np.random.default_rng(seeds)

    def act(obs: Any) -> np.ndarray:
        return generator.uniform(-1.0, 1.0, env.action_space.shape).astype(np.float32)

    return evaluate([env], lambda seed: act, seeds)


def evaluation_as_json(
    policy: LoadedPolicy, rows: list[dict[str, Any]], random: list[dict[str, Any]]
) -> dict[str, Any]:
    """Return an evaluation beside a random policy's, with a row an episode."""
    return {
        "task": policy.run.task,
        "step": policy.step,
        **summary(rows, policy.run.protocol.success),
        "random/mean_reward": summary(random).get("eval/mean_reward"),
        "broken": len(rows) - len(whole(rows)),
        "episodes": rows,
    }


def show_evaluation(
    policy: LoadedPolicy, rows: list[dict[str, Any]], random: list[dict[str, Any]], console: Console
) -> None:
    counted = len(whole(rows))
    title = f"{policy.run.name} on {policy.run.task}, step {policy.step}, {counted} episodes"
    table = Table(box=None, title=title, title_justify="left")
    for title in ("", "mean", "std", "min", "max"):
        table.add_column(title, justify="right")
    for name, played in (("learned", rows), ("random", random)):
        returns = [row["return"] for row in whole(played)]
        if not returns:
            table.add_row(name, *("-" for _ in range(4)))
            continue
        means = summary(played)
        spread = (min(returns), max(returns))
        numbers = (means["eval/mean_reward"], means["eval/std_reward"], *spread)
        table.add_row(name, *(f"{number:.1f}" for number in numbers))
    console.print(table)
    for name, played in (("learned", rows), ("random", random)):
        if broken := len(played) - len(whole(played)):
            console.print(
                f"{broken} of {len(played)} episodes of the {name} policy broke; they do not count",
                soft_wrap=True,
            )
    if "eval/success_rate" in summary(rows):
        rates = {rule: summary(rows, rule)["eval/success_rate"] for rule in DECIDED_BY}
        by_rule = ", ".join(f"{rate:.0%} by {rule} step" for rule, rate in rates.items())
        console.print(f"success {by_rule}")
