"""The whole family on one screen: name -> row of choices.

An algorithm is an attitude to risk (pessimism), an actor (policy), someone who explores (explorer) and what is learned (critic).
"""

from dualac.agents.actor_critic import Algorithm
from dualac.agents.critics import Scalar
from dualac.agents.explorers import FromPolicy, OptimisticActor
from dualac.agents.policies import Soft
from dualac.agents.risk import Fixed

ALGORITHMS: dict[str, Algorithm] = {
    "dac": Algorithm(pessimism=Fixed(-0.2), policy=Soft(), explorer=OptimisticActor(), critic=Scalar()),
    "sac": Algorithm(pessimism=Fixed(-1.0), policy=Soft(), explorer=FromPolicy(), critic=Scalar()),
}
