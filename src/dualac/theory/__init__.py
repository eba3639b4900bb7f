"""The paper's theorem as code: utilities, certainty equivalents, risk premia, exact beside
approximate. Pure JAX, in float32 and float64.

    from dualac.theory import Exponential, certainty_equivalent, forms
    certainty_equivalent([1.0, 3.0], Exponential(-0.2))    # 1.8051163
    forms([1.0, 3.0], beta=-0.2)                           # exact, logarithmic, variance, deviation
"""

from dualac.theory.certainty import Expansion, certainty_equivalent, risk_premium, taylor
from dualac.theory.forms import (
    Forms,
    forms,
    gaussian_forms,
    gaussian_gradients,
    gradient_orders,
    gradients,
    series_argument,
)
from dualac.theory.moments import spread
from dualac.theory.represented import gaussian, quantiles
from dualac.theory.utilities import Exponential, Linear, Logarithmic, Power, Prospect, Quadratic
from dualac.theory.utility import Utility

__all__ = [
    "Expansion", "Exponential", "Forms", "Linear", "Logarithmic", "Power", "Prospect",
    "Quadratic", "Utility", "certainty_equivalent", "forms", "gaussian", "gaussian_forms",
    "gaussian_gradients", "gradient_orders", "gradients", "quantiles", "risk_premium",
    "series_argument", "spread", "taylor",
]  # fmt: skip
