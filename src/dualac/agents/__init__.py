"""What learns: the parts of a row, and the agent that a row describes. Pure JAX."""

from dualac.agents.agent import make_agent
from dualac.agents.algorithm import Algorithm
from dualac.agents.algorithms import ALGORITHMS
from dualac.agents.bandit import Bandit
from dualac.agents.critics import Critic, Quantile, Scalar
from dualac.agents.distributions import TanhNormal
from dualac.agents.duals import Dual, Held, Learnt
from dualac.agents.explorers import AgentView, Explorer, FromPolicy, Noise, UpperBoundShift
from dualac.agents.optimist import OptimisticActor
from dualac.agents.optimizer import Adam, Trained
from dualac.agents.pessimism import DualDescent, ExactCertainty, Fixed, Pessimism, SubsetMin
from dualac.agents.policies import Deterministic, Policy, Soft

__all__ = [
    "ALGORITHMS", "Adam", "AgentView", "Algorithm", "Bandit", "Critic", "Deterministic", "Dual",
    "DualDescent", "ExactCertainty", "Explorer", "Fixed", "FromPolicy", "Held", "Learnt",
    "Noise", "OptimisticActor", "Pessimism", "Policy", "Quantile", "Scalar", "Soft",
    "SubsetMin", "TanhNormal", "Trained", "UpperBoundShift", "make_agent",
]  # fmt: skip
