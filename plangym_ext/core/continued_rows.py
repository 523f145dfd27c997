"""ContinuedRows: current states of the rows that a handle steps without given states."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from plangym_ext.core.results import RowResults
from plangym_ext.states.envelope import as_wide


class ContinuedRows:
    """States and endings of the rows that are stepped without given states.

    Attributes:
        states: `[B, S]` uint8, where they are.
        ended: `[B]` bool, which have ended there.
    """

    states: np.ndarray
    ended: np.ndarray

    def __init__(self) -> None:
        self.drop()

    def first(self, count: int, root: Callable[[], np.ndarray]) -> None:
        """Make sure that there are `count` rows; new ones begin at the `[S]` state of `root`."""
        new = count - len(self.states)
        if new <= 0:
            return
        state = root()
        # The env may have widened its rows since the older ones were last stepped.
        width = max(self.states.shape[1], len(state))
        # Not by a concatenation with one row shown several times: it can come out in Fortran's
        # order, and what steps rows takes each of them for bytes side by side.
        states = np.empty((count, width), np.uint8)
        states[: len(self.states)] = as_wide(self.states, width)
        states[len(self.states) :] = as_wide(state[None], width)
        self.states = states
        self.ended = np.concatenate([self.ended, np.zeros(new, bool)])

    def keep(self, states: np.ndarray, ended: np.ndarray) -> None:
        """Continue rows 0 to B - 1 from `states`, which they keep; leave later ones as they are."""
        if len(self.states) <= len(states):
            # Taken over, not copied: nothing else holds what such a batch returns (see `move`).
            self.states, self.ended = states, ended
        else:
            # Either may be the wider one: rows are as wide as they were when last stepped.
            self.states = as_wide(self.states, states.shape[1])
            self.states[: len(states)] = as_wide(states, self.states.shape[1])
            self.ended[: len(states)] = ended

    def move(self, found: RowResults, *, shared: bool) -> None:
        """Set the rows' states after a step; `shared` if the caller holds the states too."""
        # They keep an array that the caller has no hand on.
        states = found.states.copy() if shared else found.states
        self.keep(states, found.terminated | found.truncated)

    def drop(self) -> None:
        """Forget them all."""
        self.states = np.zeros((0, 0), np.uint8)
        self.ended = np.zeros(0, bool)
