"""One style for every picture: an algorithm keeps its colour, and colour-blind readers see it."""

import zlib
from collections.abc import Iterable
from typing import Any, NamedTuple

from matplotlib.axis import Axis
from matplotlib.ticker import LogFormatter

# Okabe and Ito's, without the yellow that white paper swallows, and with two that can be seen on a
# light and on a dark page.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#7F7F7F", "#8C6D31")
OWN: dict[str, str] = dict(
    zip(("dac", "sac", "td3", "oac", "top", "gpl", "redq", "ddpg"), COLOURS, strict=True)
)
DASHES = ("", "6 3", "2 2", "8 3 2 3")  # as SVG writes them; for more agents than colours
STYLE: dict[Any, Any] = {
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.3,
    "font.size": 10,
    "text.parse_math": False,  # a name with two dollar signs is a name
    "svg.hashsalt": "dualac",
    "svg.fonttype": "none",
    "pdf.fonttype": 42,
}


class Decimals(LogFormatter):
    """Labels of logarithmic axes in decimals: STYLE turns off the mathematics of matplotlib's."""

    def __call__(self, x: float, pos: int | None = None) -> str:
        return f"{x:g}" if super().__call__(x, pos) else ""


def legible(*axes: Axis) -> None:
    for axis in axes:
        axis.set_major_formatter(Decimals())
        axis.set_minor_formatter(Decimals())


def shortened(name: str, most: int) -> str:
    return name if len(name) <= most else name[: most - 1] + "…"


class Ink(NamedTuple):
    colour: str
    dash: str

    @property
    def linestyle(self) -> Any:
        """The dash as matplotlib writes it."""
        return (0, tuple(map(float, self.dash.split()))) if self.dash else "-"


def inks(agents: Iterable[str]) -> dict[str, Ink]:
    """Choose an ink for each agent.

    Those of the family are fixed. One of them with other settings, `dac [...]`, is a dash of its
    colour while there are dashes. Others get a colour from their name, or the next that is free.
    """
    agents = sorted(set(agents))
    chosen = {agent: Ink(OWN[agent], "") for agent in agents if agent in OWN}
    for agent in agents:
        if agent not in chosen:
            wishes = _wishes(agent)
            taken = set(chosen.values())
            chosen[agent] = next((ink for ink in wishes if ink not in taken), wishes[0])
    return chosen


def _wishes(agent: str) -> list[Ink]:
    """List the inks that an agent outside of the family may get, the best first."""
    own = OWN.get(agent.partition(" [")[0])
    first = COLOURS.index(own) if own else zlib.crc32(agent.encode()) % len(COLOURS)
    turned = COLOURS[first:] + COLOURS[:first]
    of_family = [Ink(turned[0], dash) for dash in DASHES] if own else []
    return of_family + [Ink(colour, dash) for dash in DASHES for colour in turned]
