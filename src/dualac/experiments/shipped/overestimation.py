"""Figure "overestimation": what the critics promise over what is returned."""

from dualac.experiments.shipped.benchmark import RESETS
from dualac.experiments.spec import Experiment, Grid, Scale

EXPERIMENT = Experiment(
    "overestimation",
    "Does a pessimist for learning, beside an optimist for exploring, keep the critics honest?",
    (
        Grid(
            ("dac", "sac", "top"),
            ("dac-15",),
            seeds=10,
            steps=500_000,
            replay_ratios=(2, 16),
            resets=RESETS,
        ),
    ),
    figures=("overestimation",),
    small=Scale(
        tasks=("dmc/cheetah-run", "dmc/hopper-hop"), seeds=2, steps=100_000, replay_ratios=(2,)
    ),
)
