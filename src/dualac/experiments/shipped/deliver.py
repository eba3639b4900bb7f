"""Does DAC deliver, and which part of it? Five agents that differ in one choice each, on ten tasks
of three suites.

`sac-0.2` is DAC without its optimist: SAC with the milder pessimism, a control that the paper never
ran. `dac-bounded` has its duals in the form of the paper's successor. The runs stand in the order
in which they are begun: whenever it is stopped, all agents have been given the same.
"""

from dualac.experiments.spec import Contender, Experiment, Grid

BOUNDED = {"explorer.optimism.bounded": True, "explorer.kl_weight.bounded": True}
AGENTS = (
    "sac",
    Contender("sac-0.2", "sac", {"pessimism.beta": -0.2}),
    "dac",
    Contender("dac-bounded", "dac", BOUNDED),
    "oac",
)
# Where a first look saw the agents differ, or nearly.
SHARPEST = ("dmc/cheetah-run", "dmc/walker-run", "dmc/pendulum-swingup")
OTHERS = (
    "dmc/hopper-hop", "dmc/acrobot-swingup", "dmc/quadruped-run",
    "metaworld/hammer", "metaworld/drawer-open", "myosuite/key-turn-easy", "myosuite/reach-easy",
)  # fmt: skip
FEW, MANY = 5, 8


EXPERIMENT = Experiment(
    "deliver",
    "Does DAC deliver what its paper claims, and which part of it?",
    tuple(
        Grid(AGENTS, (task,), seeds=(seed,), steps=100_000)
        for seed in range(MANY)
        for task in (SHARPEST + OTHERS if seed < FEW else SHARPEST)
    ),
    figures=("sample-efficiency", "final-score", "curves", "adjustments"),
    order="as-planned",
)
