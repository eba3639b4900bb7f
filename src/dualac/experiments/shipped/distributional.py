"""Figures "distributional1, 2": quantile critics, and which uncertainty the optimist seeks."""

from dualac.experiments.shipped.benchmark import RESETS
from dualac.experiments.spec import Experiment, Grid, Scale

AGENTS = ("dac", "dac-epistemic", "dac-aleatoric", "dac-both")
TASKS = (
    "dmc/acrobot-swingup", "dmc/cheetah-run", "dmc/hopper-hop", "dmc/humanoid-stand",
    "dmc/humanoid-walk", "metaworld/box-close", "metaworld/drawer-open", "metaworld/hammer",
    "metaworld/push", "metaworld/sweep",
)  # fmt: skip
EXPERIMENT = Experiment(
    "distributional",
    "Should an optimist seek what the critics disagree about, or what is uncertain in itself?",
    (Grid(AGENTS, TASKS, seeds=10, steps=1_000_000, replay_ratios=(2, 16), resets=RESETS),),
    figures=("distributional",),
    small=Scale(tasks=("dmc/cheetah-run",), seeds=1, steps=50_000, replay_ratios=(2,)),
)
