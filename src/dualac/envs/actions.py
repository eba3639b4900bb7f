"""Scaling of actions from [-1, 1] to the task's own box."""

from __future__ import annotations

from typing import Any, final

import numpy as np
from gymnasium import spaces

# The function that np.clip wraps: a simulator steps in 30 microseconds, and the wrapper costs
# several.
from numpy._core.umath import clip  # pyright: ignore[reportAttributeAccessIssue]

from dualac.errors import UsageError


@final
class Scaling:
    """The map from a vector in [-1, 1] to a box of any shape. It clips; both ends are exact."""

    def __init__(self, space: spaces.Space[Any], task: str) -> None:
        box = _learnable(space, task)
        self.size = box.low.size
        self._shape, self._dtype, self._task = box.shape, box.dtype, task
        self._low = box.low.reshape(-1).astype(np.float64)
        self._high = box.high.reshape(-1).astype(np.float64)
        self._unit_low = np.full(self.size, -1.0, np.float32)
        self._unit_high = np.full(self.size, 1.0, np.float32)
        is_unit = bool((self._low == -1).all() and (self._high == 1).all())
        is_vector = box.shape == (self.size,)
        self._identity = is_unit and is_vector and np.can_cast(np.float32, self._dtype)

    def __call__(self, action: np.ndarray) -> np.ndarray:
        vector = np.asarray(action, np.float32)
        if vector.shape != self._unit_low.shape:  # a simulator would broadcast it in silence
            raise UsageError(
                f"{self._task} takes an action of shape {(self.size,)}, not {vector.shape}"
            )
        unit = clip(vector, self._unit_low, self._unit_high)
        if self._identity:
            return unit
        # Weights of the two ends: offset plus slope would miss the upper end by a rounding.
        wide = unit.astype(np.float64)
        scaled = (0.5 - 0.5 * wide) * self._low + (0.5 + 0.5 * wide) * self._high
        inside = np.minimum(np.maximum(scaled, self._low), self._high)
        return inside.astype(self._dtype).reshape(self._shape)


def _learnable(space: spaces.Space[Any], task: str) -> spaces.Box:
    """Return the space as a box of actions that can be learned, or refuse it."""
    refusal = f"{task} acts in {space}"
    if not isinstance(space, spaces.Box):
        raise UsageError(
            f"{refusal}: only continuous actions (a bounded Box) can be learned here, not "
            f"{type(space).__name__} ones"
        )
    if space.low.size == 0:
        raise UsageError(f"{refusal}: there is no action to take")
    if not np.issubdtype(space.dtype, np.floating):
        raise UsageError(
            f"{refusal}: its actions are of the integer dtype {space.dtype}, not continuous"
        )
    if not (np.isfinite(space.low).all() and np.isfinite(space.high).all()):
        raise UsageError(
            f"{refusal}: its actions are unbounded; wrap it in gymnasium.wrappers.RescaleAction "
            "or declare finite bounds"
        )
    if not (space.low < space.high).all():
        raise UsageError(f"{refusal}: the box is degenerate, low is not below high everywhere")
    return space
