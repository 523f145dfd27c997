"""Action masks in infos: reading and checking which actions are legal."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from plangym_ext.errors import InvalidObservation

#: The info that says it.
MASK = "action_mask"


def flat_mask(value: Any) -> Any:
    """Return a mask of actions in any form as one array; None without a mask.

    Args:
        value: an array, a list or tuple of numbers, or of masks of the parts of an action, one
            after the other. What is none of these comes back as it is.
    """
    if value is None or isinstance(value, np.ndarray):
        return value
    if isinstance(value, Mapping):
        value = tuple(value.values())
    try:
        if isinstance(value, list | tuple) and any(np.ndim(part) for part in value):
            return np.concatenate([np.ravel(flat_mask(part)) for part in value])
        found = np.asarray(value)
    except (TypeError, ValueError):
        return value
    return found if found.dtype.kind in "biuf" else value


def mask_width(space: Any) -> int | None:
    """Return the length of an action space's mask; None if such spaces have no mask.

    As many as actions of `Discrete`; of `MultiDiscrete` those of all parts, one after the other.
    """
    if hasattr(space, "nvec"):
        return int(np.sum(space.nvec))
    # MultiBinary has an `n`, too.
    return int(space.n) if hasattr(space, "n") and hasattr(space, "start") else None


def choices_of(space: Any) -> int | None:
    """Return the total number of choices that the mask of an action space covers.

    Those of Dict and Tuple are in the order of their parts, a bit of MultiBinary has two, and what
    a Box holds has none. None: there are none.
    """
    if hasattr(space, "spaces"):
        parts = getattr(space.spaces, "values", lambda: space.spaces)()
        return sum(choices_of(part) or 0 for part in parts) or None
    width = mask_width(space)
    is_bits = width is None and hasattr(space, "n")
    return 2 * math.prod(space.shape) if is_bits else width


def checked_mask(
    mask: Any, space: Any, where: str, width_of: Callable[[Any], int | None] = mask_width
) -> npt.NDArray[Any] | None:
    """Return the mask of an info as one array `[A]`; None: the info has none.

    Args:
        mask: what the info says.
        space: of the actions.
        where: for messages.
        width_of: returns A; `choices_of` where parts of all kinds have choices.

    Raises:
        InvalidObservation: it has not one number for each action, or such actions have no masks.
    """
    if mask is None:
        return None
    found, width = flat_mask(mask), width_of(space)
    if width is None:
        raise InvalidObservation(
            f"{where}: the info {MASK!r} must be for Discrete or MultiDiscrete actions; the env "
            f"returns it for {space}. Leave it out of the infos, or wrap the env so that its "
            f"actions are Discrete."
        )
    if not isinstance(found, np.ndarray) or found.shape != (width,):
        raise InvalidObservation(
            f"{where}: the info {MASK!r} must have a number for each of the {width} actions; got "
            f"{_looks(found)}. Correct the env."
        )
    return found


def _looks(mask: Any) -> str:
    return f"shape {mask.shape}" if isinstance(mask, np.ndarray) else repr(mask)[:60]
