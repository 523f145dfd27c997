"""Action spaces of planners: Discrete and bounded Box."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from plangym_ext.errors import InvalidOption

Floats = npt.NDArray[np.float64]


def discrete_actions(space: Any, planner: str) -> tuple[int, int]:
    """Return how many actions a `Discrete` space has, and its first one.

    Judged by its attributes: naming the class would import gymnasium here.
    """
    if not (hasattr(space, "n") and hasattr(space, "start")):
        raise InvalidOption(
            f"{planner}: plans over discrete actions; got the action space {space}. "
            f"Use a planner for continuous actions, such as CEM ('cem' on the command line), or "
            f"wrap the env so that its actions are Discrete."
        )
    return int(space.n), int(space.start)


class Box(NamedTuple):
    """A bounded space of continuous actions."""

    low: Any  # [*act]
    high: Any  # [*act]
    size: int  # D, numbers in an action

    def actions(self, units: Floats) -> npt.NDArray[Any]:
        """Scale `[n, H, D]` float64, clipped to [-1, 1], to fresh actions `[n, H, *act]`."""
        shaped = np.clip(units, -1.0, 1.0).reshape(*units.shape[:2], *self.low.shape)
        wide = self.low.astype(np.float64), self.high.astype(np.float64)
        found = (wide[0] + (shaped + 1.0) * 0.5 * (wide[1] - wide[0])).astype(self.low.dtype)
        # Rounding to the space's own type may step over its edge.
        return np.clip(found, self.low, self.high)

    def units(self, actions: npt.NDArray[Any]) -> Floats:
        """Scale actions `[n, *act]` to fresh `[n, D]` float64 in [-1, 1]."""
        low, wide = self.low.astype(np.float64), self.high.astype(np.float64) - self.low
        # A number that may be one thing only is that, whatever is said of it.
        shares = (actions - low) / np.where(wide > 0.0, wide, 1.0)
        units: Floats = np.clip(shares * 2.0 - 1.0, -1.0, 1.0)
        return units.reshape(len(actions), self.size)


def box_actions(space: Any, planner: str) -> Box:
    """Return the bounds of a space, if it is a bounded `Box` of floats.

    Judged by its attributes: naming the class would import gymnasium here.
    """
    low, high = getattr(space, "low", None), getattr(space, "high", None)
    if low is None or high is None or np.asarray(low).dtype.kind != "f":
        raise InvalidOption(
            f"{planner}: plans over continuous actions; got the action space {space}. "
            f"Use a planner for discrete actions, such as MCTS ('mcts' on the command line)."
        )
    if not (np.isfinite(low).all() and np.isfinite(high).all()):
        raise InvalidOption(
            f"{planner}: samples between the bounds of the action space, which must be finite; "
            f"got {space}. Wrap the env so that its actions are bounded, with RescaleAction."
        )
    return Box(low, high, max(1, int(np.prod(low.shape))))
