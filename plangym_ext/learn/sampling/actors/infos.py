"""Extraction of info fields and action masks from a vector env's batched infos."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from plangym_ext.core.masks import MASK, checked_mask, mask_width
from plangym_ext.errors import InvalidObservation

#: The info of an env that tells the end of an episode from that of a game.
GAME_OVER = "game_over"


def info_column(infos: Any, name: str) -> tuple[Any, Any]:
    """Return the values `[n]` of an info, and `[n]` bool which are known.

    Args:
        infos: as gymnasium's vector envs give them.
        name: "a.b" is b of the dict a.

    Returns:
        None for both if no env has given it. Numbers that gymnasium keeps as objects, such as
        `np.bool_`, come as numbers.
    """
    *path, key = name.split(".")
    for part in path:
        infos = infos.get(part, {})
    values = infos.get(key)
    if values is None:
        return None, None
    known = infos[f"_{key}"]
    return _numbers(values, known) if values.dtype.hasobject else values, known


def _numbers(values: Any, known: Any) -> Any:
    """Return objects `[n]` as numbers if all that are known are some."""
    told = values[known]
    if not len(told) or not all(isinstance(one, bool | int | float | np.generic) for one in told):
        return values
    listed = np.array(told.tolist())
    if listed.dtype.kind not in "biuf":
        return values
    found = np.zeros(len(values), listed.dtype)
    found[known] = listed
    return found


def missing_info(name: str, infos: Any, where: str) -> InvalidObservation:
    """Return the error for an info that an option names and an env has not given."""
    there = sorted(key for key in infos if not key.startswith("_"))
    return InvalidObservation(
        f"sampler: {where} names the info {name!r}, which the envs did not give; they gave "
        f"{there}. Correct the name, or leave it out."
    )


def check_numbers(name: str, values: Any, where: str) -> None:
    """Refuse values `[n]` of an info for a logged mean if they are not numbers.

    Raises:
        InvalidObservation: they are not.
    """
    if values.dtype.kind not in "biuf":
        raise InvalidObservation(
            f"sampler: {where} names the info {name!r}, which must be a number; got "
            f"{values[0]!r}. Leave it out, or have the env give a number."
        )


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
