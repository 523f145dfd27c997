"""Which actions rows may play, as the infos of their envs tell: action masks."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from plangym_ext.errors import InvalidObservation
from plangym_ext.learn.sampling.actors.infos import info_column

Ndarray = npt.NDArray[Any]

#: The info of an env that says which actions of a Discrete space may be played next.
MASK = "action_mask"


def legal_actions(infos: Any, space: spaces.Space[Any], num_rows: int) -> Ndarray | None:
    """Return `[k, A]` bool, fresh: what rows may play next; None where no env has said.

    Args:
        infos: of k rows, as gymnasium's vector envs give them: what a reset says, and a step; of
            a row that was reset in the same step what that reset said. A row without a mask may
            play everything.
        space: of the actions; masks of any but Discrete ones are not looked at.
        num_rows: k.

    Raises:
        InvalidObservation: a mask is not one number for each action.
    """
    if not isinstance(space, spaces.Discrete):
        return None
    values, known = info_column(infos, MASK)
    if values is None:
        return None
    legal = np.ones((num_rows, int(space.n)), bool)
    if values.dtype == object:  # as gymnasium keeps lists
        values = [np.asarray(value) for value in values[known]]
        wrong = [value.shape for value in values if value.shape != legal.shape[1:]]
    else:
        wrong = [values.shape[1:]] * (values.shape != legal.shape)
        values = values[known] if not wrong else values
    if wrong:
        raise InvalidObservation(
            f"sampler: the info {MASK!r} must have a number for each of the {legal.shape[1]} "
            f"actions; got {wrong[0]}. Correct the env, or leave masks out: action_mask=False."
        )
    if len(values):
        legal[known] = values
    return legal


def tells_masks(venv: Any) -> bool:
    """Return whether envs say what may be played; resets them."""
    space = venv.single_action_space
    if not isinstance(space, spaces.Discrete):
        return False
    return legal_actions(venv.reset(seed=0)[1], space, venv.num_envs) is not None
