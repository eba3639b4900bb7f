"""Figures 1 and "modelfree": every model-free agent on thirty tasks, two replay ratios."""

from dualac.experiments.spec import Experiment, Grid, Scale

# At the high replay ratio every agent starts afresh five times.
RESETS = {16: (160_000, 320_000, 480_000, 640_000, 800_000)}
# Small versions that several experiments share.
TWO_TASKS = Scale(("dmc/cheetah-run", "dmc/hopper-hop"), seeds=2, steps=100_000, replay_ratios=(2,))
SUITES = ("dmc/cheetah-run", "dmc/walker-run", "metaworld/drawer-open", "myosuite/key-turn-easy")
FOUR_TASKS = Scale(SUITES, seeds=2, steps=100_000, replay_ratios=(2,))
AGENTS = ("dac", "sac", "td3", "oac", "top", "gpl")

EXPERIMENT = Experiment(
    "benchmark",
    "How sample-efficient are the risk-aware agents, and how good in the end?",
    (Grid(AGENTS, ("dac-30",), seeds=10, steps=1_000_000, replay_ratios=(2, 16), resets=RESETS),),
    figures=("sample-efficiency", "final-score", "curves", "adjustments"),
    small=FOUR_TASKS,
)
