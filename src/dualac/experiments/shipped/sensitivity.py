"""Figure "hyperparams": DAC's three new hyperparameters, four values each, against SAC.

The paper shows its grids only in a picture; these values are ours. The default stands among the
four, once, as plain `dac`: twelve agents are ten.
"""

from dualac.experiments.shipped.benchmark import RESETS
from dualac.experiments.spec import Contender, Experiment, Grid, Scale

TARGET_KLS = (0.05, 0.1, 0.5)
STD_MULTIPLIERS = (0.75, 1.0, 1.5)
ADJUSTMENT_RATES = (3e-6, 1e-5, 1e-4)

CONTENDERS = (
    "dac",
    "sac",
    *(Contender(f"dac+kl{value:g}", "dac", {"explorer.target_kl": value}) for value in TARGET_KLS),
    *(
        Contender(f"dac+std{value:g}", "dac", {"explorer.std_multiplier": value})
        for value in STD_MULTIPLIERS
    ),
    *(
        Contender(
            f"dac+lr{value:g}",
            "dac",
            {"explorer.optimism.lr": value, "explorer.kl_weight.lr": value},
        )
        for value in ADJUSTMENT_RATES
    ),
)
EXPERIMENT = Experiment(
    "sensitivity",
    "Does DAC need its hyperparameters to be just so?",
    (Grid(CONTENDERS, ("dac-15",), seeds=10, steps=500_000, replay_ratios=(2, 16), resets=RESETS),),
    figures=("sensitivity",),
    small=Scale(tasks=("dmc/cheetah-run",), seeds=2, steps=100_000, replay_ratios=(2,)),
)
