"""Figure "hyperparams": DAC's three new hyperparameters, four values each, against SAC.

The paper shows its grids only in a picture; these values are ours. The default stands among the
four, once, as plain `dac`: twelve agents are ten.
"""

from dualac.experiments.shipped.benchmark import RESETS
from dualac.experiments.spec import Contender, Experiment, Grid, Scale

TARGET_KLS = (0.05, 0.1, 0.5)
STD_MULTIPLIERS = (0.75, 1.0, 1.5)
ADJUSTMENT_RATES = (3e-6, 1e-5, 1e-4)


def _dac_with(name: str, value: float, *paths: str) -> Contender:
    return Contender(f"dac+{name}{value:g}", "dac", dict.fromkeys(paths, value))


CONTENDERS = (
    "dac",
    "sac",
    *(_dac_with("kl", kl, "explorer.target_kl") for kl in TARGET_KLS),
    *(_dac_with("std", std, "explorer.std_multiplier") for std in STD_MULTIPLIERS),
    *(
        _dac_with("lr", lr, "explorer.optimism.lr", "explorer.kl_weight.lr")
        for lr in ADJUSTMENT_RATES
    ),
)
EXPERIMENT = Experiment(
    "sensitivity",
    "Does DAC need its hyperparameters to be just so?",
    (Grid(CONTENDERS, ("dac-15",), seeds=10, steps=500_000, replay_ratios=(2, 16), resets=RESETS),),
    figures=("sensitivity",),
    small=Scale(tasks=("dmc/cheetah-run",), seeds=2, steps=100_000, replay_ratios=(2,)),
)
