"""Figure "adjustments": how optimism, KL weight and the critics' spread move on each task."""

from dualac.experiments.shipped.benchmark import FOUR_TASKS, RESETS
from dualac.experiments.spec import Experiment, Grid

EXPERIMENT = Experiment(
    "adjustments",
    "Where do the two duals of DAC come to rest?",
    (Grid(("dac",), ("dac-30",), seeds=10, steps=1_000_000, replay_ratios=(2, 16), resets=RESETS),),
    figures=("adjustments",),
    small=FOUR_TASKS,
)
