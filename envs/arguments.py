"""Argument checks of the library's own small envs: actions and `[S]` uint8 state rows."""

from __future__ import annotations

import operator
from typing import SupportsIndex

import numpy as np
from numpy.typing import NDArray

from plangym_ext.errors import DamagedState, InvalidAction


def check_action(where: str, action: SupportsIndex, count: int) -> int:
    """Return `action` as an int in [0, count).

    Raises:
        InvalidAction: it is no integer, or out of range; `where` begins the message.
    """
    try:
        # Not `int`, which would take 1.7 for 1; numpy's integers have an index, too.
        index = operator.index(action)
    except TypeError:
        index = -1
    if not 0 <= index < count:
        raise InvalidAction(f"{where}: expected an integer action in [0, {count}); got {action!r}.")
    return index


def check_row(where: str, state: NDArray[np.uint8], width: int) -> bytes:
    """Return the bytes of a `[width]` uint8 state.

    Raises:
        DamagedState: wrong shape or dtype; `where` begins the message.
    """
    row = np.asarray(state)
    if row.shape != (width,) or row.dtype != np.uint8:
        raise DamagedState(
            f"{where}: expected [{width}] uint8; got {list(row.shape)} {row.dtype}. "
            "Pass a row from get_state of an env made with the same arguments."
        )
    return row.tobytes()
