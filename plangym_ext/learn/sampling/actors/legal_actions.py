"""Action masks of rows, from the infos of their envs."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from plangym_ext.core.masks import MASK, checked_mask, mask_width
from plangym_ext.errors import InvalidObservation
from plangym_ext.learn.sampling.actors.infos import info_column

Ndarray = npt.NDArray[Any]


def legal_actions(infos: Any, space: spaces.Space[Any], num_rows: int) -> Ndarray | None:
    """Return the legal actions of rows, `[k, A]` bool, fresh; None without any mask.

    A is `mask_width`: of `MultiDiscrete` the actions of all parts, one after the other.

    Args:
        infos: of k rows, as gymnasium's vector envs give them: what a reset says, and a step; of
            a row that was reset in the same step what that reset said. A row without a mask may
            play everything.
        space: of the actions.
        num_rows: k.

    Raises:
        InvalidObservation: a mask is not one number for each action, or such actions have no
            masks; see `mask_width`.
    """
    values, known = info_column(infos, MASK)
    if values is None or not known.any():
        return None
    try:
        masks = [checked_mask(value, space, "sampler") for value in values[known]]
    except InvalidObservation as error:
        raise InvalidObservation(f"{error} To ignore masks: action_mask=False.") from None
    width = mask_width(space)
    assert width is not None
    legal = np.ones((num_rows, width), bool)
    for row, mask in zip(np.flatnonzero(known).tolist(), masks, strict=True):
        if mask is not None:
            legal[row] = mask
    return legal


def tells_masks(venv: Any) -> bool:
    """Return whether envs have action masks; resets them."""
    space = venv.single_action_space
    return legal_actions(venv.reset(seed=0)[1], space, venv.num_envs) is not None
