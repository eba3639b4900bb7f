"""The metrics of train.jsonl that show how an agent deals with risk."""

from typing import NamedTuple


class Metric(NamedTuple):
    """A number to follow through training: where it is logged, and what people see of it."""

    key: str
    title: str  # above a chart
    columns: tuple[str, ...]  # of train.jsonl; of two, the first over the size of the second
    logarithmic: bool = False  # whether it falls by orders of magnitude
    band: tuple[str, str] | None = None  # columns of the least and the largest value around it
    symbol: str = ""  # above a column of a terminal; without one it is not shown there
    form: str = "{:.3f}"  # of a number in a terminal


KL_OVER_STATES = "KL over states: median, band 10 to 90 %"
KL_BAND = ("train/kl_q10", "train/kl_q90")
DISAGREEMENT = "critics' spread, optimist / pessimist"
DATA_DISTANCE = "data's distance from the policy, in deviations"
_METRICS = (
    Metric("pessimism", "pessimism", ("train/pessimism",), symbol="beta_p", form="{:.2f}"),
    Metric("ratio", "Q spread / Q mean", ("train/q_std", "train/q_mean"), logarithmic=True),
    Metric("optimism", "optimism", ("train/optimism",), symbol="beta_o", form="{:.2f}"),
    Metric("kl_weight", "KL weight", ("train/kl_weight",), symbol="KL weight"),
    Metric("kl", "KL per action dimension", ("train/kl",), logarithmic=True, symbol="KL"),
    Metric("kl_median", KL_OVER_STATES, ("train/kl_median",), logarithmic=True, band=KL_BAND),
    Metric("kl_q99", "KL that 1 % of states exceed", ("train/kl_q99",), logarithmic=True),
    Metric("std_ratio", "executed deviation / pessimist's", ("train/optimist_std_ratio",)),
    Metric("shift", "optimist's shift, in pessimist's deviations", ("train/optimist_shift",)),
    Metric("disagreement", DISAGREEMENT, ("train/optimist_spread_ratio",)),
    Metric("data_distance", DATA_DISTANCE, ("train/data_distance",), logarithmic=True),
    Metric("temperature", "temperature", ("train/ent_coef",), logarithmic=True, symbol="alpha"),
    Metric("saturation", "mean |pre-tanh action|", ("train/saturation",)),
)
METRICS = {metric.key: metric for metric in _METRICS}
