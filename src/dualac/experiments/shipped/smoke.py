"""Two minutes on two cores: whether a sweep works here, from the plan to the frame."""

from dualac.experiments.spec import Experiment, Grid

SHORT = {
    "warmup": 500,
    "eval_every": 500,
    "log_every": 250,
    "checkpoint_every": 500,
    "protocol.eval_episodes": 1,
}
AGENTS, TASKS = ("dac", "sac", "td3"), ("dmc/pendulum-swingup",)
EXPERIMENT = Experiment(
    "smoke",
    "Does a sweep work on this machine?",
    (Grid(AGENTS, TASKS, seeds=2, steps=1_000, replay_ratios=(1,), run=SHORT),),
    figures=("final-score", "curves"),
)
