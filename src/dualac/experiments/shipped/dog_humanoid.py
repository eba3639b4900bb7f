"""Figure "hardtasks": the hardest of the control suite, three million steps.

The paper compares with SR-SAC (32 updates a step, a reset every 2.56M updates) and TD-MPC, which
this library does not have. It does not say at which replay ratio DAC ran here: both of its own are
planned.
"""

from dualac.experiments.spec import Contender, Experiment, Grid, Scale

STEPS = 3_000_000
TASKS = ("dog-humanoid",)
RESETS = {16: tuple(range(160_000, STEPS, 160_000))}
SR_SAC = Contender("sr-sac", "sac", run={"reset_every": 80_000})
EXPERIMENT = Experiment(
    "dog-humanoid",
    "Does a model-free agent with two actors solve what was thought to need a model?",
    (
        Grid(("dac-dog",), TASKS, seeds=5, steps=STEPS, replay_ratios=(2, 16), resets=RESETS),
        Grid((SR_SAC,), TASKS, seeds=5, steps=STEPS, replay_ratios=(32,)),
    ),
    figures=("hard-tasks",),
    small=Scale(("dmc/humanoid-walk",), ("dac-dog",), 2, 200_000, (2,)),
)
