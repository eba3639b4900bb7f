"""The whole family on one screen: name -> row (pessimism, policy, explorer, critic)."""

from dualac.agents.algorithm import Algorithm
from dualac.agents.bandit import Bandit
from dualac.agents.critics import Quantile, Scalar
from dualac.agents.duals import Held, Learnt
from dualac.agents.explorers import FromPolicy, Noise, UpperBoundShift
from dualac.agents.optimist import OptimisticActor
from dualac.agents.pessimism import DualDescent, ExactCertainty, Fixed, SubsetMin
from dualac.agents.policies import Deterministic, Soft
from dualac.parts.paths import replaced

DAC = Algorithm(pessimism=Fixed(-0.2), policy=Soft(), explorer=OptimisticActor(), critic=Scalar())
SAC = Algorithm(pessimism=Fixed(-1.0), policy=Soft(), explorer=FromPolicy(), critic=Scalar())

ALGORITHMS: dict[str, Algorithm] = {
    "dac": DAC,
    "sac": SAC,
    "td3": Algorithm(
        pessimism=Fixed(-1.0, climbs="first"),
        policy=Deterministic(),
        explorer=Noise(),
        critic=Scalar(),
    ),
    "ddpg": Algorithm(
        pessimism=Fixed(0.0),
        policy=Deterministic(delay=1, target_noise=0.0),
        explorer=Noise(),
        critic=Scalar(k=1),
    ),
    "oac": Algorithm(
        pessimism=Fixed(-0.75), policy=Soft(), explorer=UpperBoundShift(), critic=Scalar()
    ),
    "top": Algorithm(pessimism=Bandit(), policy=Deterministic(), explorer=Noise(), critic=Scalar()),
    "gpl": Algorithm(
        pessimism=DualDescent(), policy=Soft(), explorer=FromPolicy(), critic=Scalar()
    ),
    "redq": Algorithm(
        pessimism=SubsetMin(2), policy=Soft(delay=20), explorer=FromPolicy(), critic=Scalar(k=10)
    ),
    # Variants of the paper
    "dac-ln": replaced(DAC, {"critic.layer_norm": True}),
    "dac-dog": replaced(DAC, {"critic.layer_norm": True, "critic.hidden": (256, 256, 256)}),
    "dac-epistemic": replaced(DAC, {"critic": Quantile(upper_bound="epistemic")}),
    "dac-aleatoric": replaced(DAC, {"critic": Quantile(upper_bound="aleatoric")}),
    "dac-both": replaced(DAC, {"critic": Quantile(upper_bound="both")}),
    # The authors' public code, written for the first version of the paper
    "dac-v1": Algorithm(
        pessimism=Fixed(-1.0),
        policy=Soft(hidden=(256, 256, 256)),
        explorer=OptimisticActor(
            form="independent",
            hidden=(256, 256, 256),
            target_kl=0.5,
            optimism=Learnt(-0.5),
            kl_weight=Learnt(1.0),
            largest_kl_weight=20.0,
            barrier=True,
        ),
        critic=Scalar(hidden=(256, 256, 256), layer_norm=True),
        explorer_restart_every=25_000,
    ),
    # The paper's seven ablations
    "dac:only-optimist": replaced(DAC, {"judged": "explorer"}),
    "dac:no-kl": replaced(DAC, {"explorer.kl_weight": Held(0.0)}),
    "dac:deterministic-optimist": replaced(DAC, {"explorer.form": "deterministic"}),
    "dac:deterministic-pessimist": replaced(DAC, {"policy.successor": "mode"}),
    "dac:no-adjustments": replaced(
        DAC, {"explorer.optimism": Held(1.0), "explorer.kl_weight": Held(0.25)}
    ),
    "dac:no-kl-weight-adjustment": replaced(DAC, {"explorer.kl_weight": Held(0.25)}),
    "dac:no-optimism-adjustment": replaced(DAC, {"explorer.optimism": Held(1.0)}),
    # The theorem's exact side in place of its approximation: not in the paper
    "dac:exact-certainty": replaced(DAC, {"pessimism": ExactCertainty(-0.2)}),
    "sac:exact-certainty": replaced(SAC, {"pessimism": ExactCertainty(-1.0)}),
}
