"""What callers give beside actions, in the form that backends take: states and control steps."""

from __future__ import annotations

from typing import Any

import numpy as np

from plangym_ext.states.envelope import stacked

#: `dt` of a single control step for every row.
ONE_STEP = np.ones((), np.int32)
ONE_STEP.flags.writeable = False


def checked_dt(dt: Any, num_rows: int | None, where: str) -> np.ndarray:
    """`dt` as int32, of shape `()` or `[B]`; None rows stand for a single step."""
    if type(dt) is int and dt == 1:
        return ONE_STEP
    held = np.asarray(dt)
    if held.shape not in ((), (num_rows,)) or held.dtype.kind not in "iu":
        rows = "" if num_rows is None else f" or ({num_rows},) int"
        raise ValueError(
            f"{where}: dt must be an int{rows}, control steps per row; "
            f"got {held.shape} {held.dtype}"
        )
    if held.size and (held.min() < 1 or held.max() > np.iinfo(np.int32).max):
        raise ValueError(
            f"{where}: dt must be at least 1 in every row; got {held.min()} to {held.max()}"
        )
    return held.astype(np.int32)


def one_array(states: Any, where: str) -> Any:
    """A sequence of `[S]` rows as one array; anything else as it is."""
    if not isinstance(states, list | tuple):
        return states
    for index, state in enumerate(states):
        if state is None:
            raise ValueError(
                f"{where}: states[{index}] is None; expected a state in every row. "
                "Pass states=None to continue all rows, or a state for each."
            )
    return stacked(states, where)
