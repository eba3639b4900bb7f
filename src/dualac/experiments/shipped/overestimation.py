"""Figure "overestimation": what the critics promise over what is returned."""

from dualac.experiments.shipped.benchmark import RESETS, TWO_TASKS
from dualac.experiments.spec import Experiment, Grid

AGENTS = ("dac", "sac", "top")
EXPERIMENT = Experiment(
    "overestimation",
    "Does a pessimist for learning, beside an optimist for exploring, keep the critics honest?",
    (Grid(AGENTS, ("dac-15",), seeds=10, steps=500_000, replay_ratios=(2, 16), resets=RESETS),),
    figures=("overestimation",),
    small=TWO_TASKS,
)
