"""Figure "hardtasks": the hardest of the control suite, three million steps.

The paper compares with SR-SAC (32 updates a step, a reset every 2.56M updates) and TD-MPC, which
this library does not have. It does not say at which replay ratio DAC ran here: both of its own are
planned.
"""

from dualac.experiments.spec import Contender, Experiment, Grid, Scale

STEPS = 3_000_000
EXPERIMENT = Experiment(
    "dog-humanoid",
    "Does a model-free agent with two actors solve what was thought to need a model?",
    (
        Grid(
            ("dac-dog",),
            ("dog-humanoid",),
            seeds=5,
            steps=STEPS,
            replay_ratios=(2, 16),
            resets={16: tuple(range(160_000, STEPS, 160_000))},
        ),
        Grid(
            (Contender("sr-sac", "sac", run={"reset_every": 80_000}),),
            ("dog-humanoid",),
            seeds=5,
            steps=STEPS,
            replay_ratios=(32,),
        ),
    ),
    figures=("hard-tasks",),
    small=Scale(
        tasks=("dmc/humanoid-walk",),
        contenders=("dac-dog",),
        seeds=2,
        steps=200_000,
        replay_ratios=(2,),
    ),
)
