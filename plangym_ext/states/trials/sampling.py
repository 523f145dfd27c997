"""Actions to try an env with."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces


def sampled(space: spaces.Space[Any], info: Any) -> Any:
    """Return a random action, of those alone that the info of a Discrete env allows.

    Args:
        space: of the actions; its generator is advanced.
        info: of the last step or reset; with "action_mask" it says what may be played.
    """
    mask: Any = info.get("action_mask") if isinstance(info, dict) else None
    if not isinstance(space, spaces.Discrete) or np.shape(mask) != (int(space.n),):
        return space.sample()
    legal = np.asarray(mask).astype(bool)
    # Where nothing is allowed, as after an ending, gymnasium's draw would be the first action.
    return space.sample(mask=legal.astype(np.int8)) if legal.any() else space.sample()


def info_of(shown: Any) -> Any:
    """Return the info of what a reset returned; none of an env of the old Gym, which has none."""
    return shown[1] if isinstance(shown, tuple) and len(shown) == 2 else {}
