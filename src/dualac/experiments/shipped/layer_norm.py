"""Figure "layernorm": normalised critics, and REDQ, whose actor moves once in 16 updates."""

from dualac.experiments.shipped.benchmark import RESETS
from dualac.experiments.spec import Contender, Experiment, Grid, Scale

AGENTS = ("dac", "dac-ln", Contender("redq", changes={"policy.delay": 16}))
DMC = (
    "dmc/acrobot-swingup", "dmc/cheetah-run", "dmc/hopper-hop", "dmc/humanoid-run",
    "dmc/humanoid-stand", "dmc/humanoid-walk", "dmc/swimmer-swimmer6", "dmc/pendulum-swingup",
    "dmc/quadruped-run", "dmc/walker-run",
)  # fmt: skip
EXPERIMENT = Experiment(
    "layer-norm",
    "What does layer norm add, and what an ensemble of ten?",
    (Grid(AGENTS, DMC, seeds=10, steps=1_000_000, replay_ratios=(16,), resets=RESETS),),
    figures=("layer-norm",),
    small=Scale(tasks=("dmc/cheetah-run",), contenders=("dac", "dac-ln"), seeds=2, steps=50_000),
)
