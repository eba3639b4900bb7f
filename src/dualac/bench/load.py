"""What is measured."""

from typing import NamedTuple


class Load(NamedTuple):
    """What is measured: the sizes of a task and of an update, as in training."""

    obs: int = 17
    actions: int = 6
    batch: int = 256
    replay_ratio: int = 16  # updates in one compiled call
    seeds: int = 1  # more than one is a vmapped pack
    width: int = 0  # of every hidden layer; 0 leaves the row's own
    critics: int = 0  # how many; 0 leaves the row's own
