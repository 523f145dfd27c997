"""Rows that go on from batch to batch: where each is, and whether it has ended there."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np


class ContinuedRows:
    """The rows of a handle that are stepped without states.

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
        fresh = np.broadcast_to(state, (new, len(state)))
        known, fresh = equally_wide(self.states, fresh)
        self.states = np.concatenate([known, fresh])
        self.ended = np.concatenate([self.ended, np.zeros(new, bool)])

    def keep(self, states: np.ndarray, ended: np.ndarray) -> None:
        """Rows 0 to B - 1 are now at `states`, which are theirs; later ones stay where they are."""
        if len(self.states) <= len(states):
            self.states, self.ended = states, ended
        else:
            self.states, states = equally_wide(self.states, states)
            self.states[: len(states)] = states
            self.ended[: len(states)] = ended

    def drop(self) -> None:
        """Forget them all."""
        self.states = np.zeros((0, 0), np.uint8)
        self.ended = np.zeros(0, bool)


def equally_wide(first: np.ndarray, second: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Two `[*, S]` arrays of states, the narrower rows followed by zeros."""
    width = max(first.shape[1], second.shape[1])
    wide = [
        rows if rows.shape[1] == width else np.pad(rows, ((0, 0), (0, width - rows.shape[1])))
        for rows in (first, second)
    ]
    return wide[0], wide[1]
