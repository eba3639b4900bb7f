"""Figure "wallclock": DAC and SAC against time, on a machine that does nothing else."""

from dualac.experiments.shipped.benchmark import RESETS
from dualac.experiments.spec import Experiment, Grid, Scale

AGENTS = ("dac", "sac")
EXPERIMENT = Experiment(
    "wallclock",
    "Is DAC worth its second actor when time is counted instead of steps?",
    (Grid(AGENTS, ("dac-30",), seeds=10, steps=1_000_000, replay_ratios=(2, 16), resets=RESETS),),
    figures=("wall-clock",),
    small=Scale(tasks=("dmc/cheetah-run",), seeds=2, steps=100_000, replay_ratios=(2,)),
)
