"""Table "design_ablation": DAC with one of its parts taken away, seven times."""

from dualac.experiments.shipped.benchmark import RESETS, TWO_TASKS
from dualac.experiments.spec import Experiment, Grid

AGENTS = (
    "dac",
    "dac:only-optimist",
    "dac:no-kl",
    "dac:deterministic-optimist",
    "dac:deterministic-pessimist",
    "dac:no-adjustments",
    "dac:no-kl-weight-adjustment",
    "dac:no-optimism-adjustment",
)
EXPERIMENT = Experiment(
    "ablation",
    "What is each part of DAC worth?",
    (Grid(AGENTS, ("dac-15",), seeds=10, steps=500_000, replay_ratios=(2, 16), resets=RESETS),),
    figures=("design-table",),
    small=TWO_TASKS,
)
