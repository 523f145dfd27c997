"""KeptStates: committed row states, with rollback of failed or interrupted calls.

    begin --> reach --> keep      the call has happened
       '--------'-----> forget    it failed, or was interrupted: rows are where they were

An interrupt may come at any line. So what belongs together is one object, which is replaced by
one assignment, and whatever is left of a call that was not kept is undone by the next `forget`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from plangym_ext.states.envelope import as_wide, stacked_rows
from plangym_ext.vector.errors import VectorResetNeeded
from plangym_ext.vector.shown import ObsBuffer

#: States `[n, S]` uint8, rows that were never reset `[n]` bool, the note, and the seed of each
#: row's last seeded reset.
_Kept = tuple[np.ndarray, np.ndarray, Any, dict[int, int]]


class KeptStates:
    """States of n rows with commit and rollback; see the module.

    Args:
        num_rows: n.
        width: S, bytes of a state; more once a state is wider.

    Attributes:
        now: states `[n, S]` uint8 without seals, rows that were never reset `[n]` bool, the
            note that belongs to these, and rows' seeds: one object, never written to.
        reached: the first two of a call that was not kept yet; None for none.
        begun: whether a native call was begun that writes to the memory of the states before
            these, and whose own were not kept: the call after it would write over those kept.
        obs: what rows show; set before the first call.
    """

    obs: ObsBuffer

    def __init__(self, num_rows: int, width: int) -> None:
        states = np.zeros((num_rows, width), np.uint8)
        self.now: _Kept = states, np.ones(num_rows, bool), None, {}
        #: Seeds that a call gives which was not kept yet.
        self._seeded: dict[int, int] = {}
        self.reached: tuple[np.ndarray, np.ndarray] | None = None
        #: What was kept for rows that were never reset, if it was found to name none.
        self._none_fresh: np.ndarray | None = None
        self.begun = False
        #: What rows showed before that call, and what was kept then.
        self._before: tuple[_Kept, tuple[Any, ...]] | None = None

    @property
    def fresh(self) -> np.ndarray:
        """`[n]` bool: rows that were never reset; not to be written to."""
        return self.now[1]

    def seed_of(self, row: int) -> int:
        """Return the seed of a row's last seeded reset; -1 if it is not known."""
        return self.now[3].get(row, -1)

    def seed(self, seeds: dict[int, int]) -> None:
        """Note the seeds that the call gives to rows; -1 for one that is not known."""
        self._seeded = self._seeded | seeds

    def reach(self, states: np.ndarray, fresh: np.ndarray) -> None:
        """Record a call's new states; the rows' observations may be written from here on."""
        # First what rows show, as an interrupt that comes after it has something to give back.
        self._before = self.now, self.obs.taken(range(len(fresh)))
        self.reached = states, fresh

    def reach_some(self, rows: Sequence[int], states: np.ndarray) -> None:
        """Note where a call leads that moved some rows, to `[k, S]` states."""
        self.reach(_replaced(self.now[0], rows, states), self.fresh)

    def reach_each(
        self, rows: Sequence[int], states: Sequence[np.ndarray], shown: Sequence[Any] | None
    ) -> None:
        """Record the new states of rows moved one by one, and their observations.

        Args:
            rows: which; they have been reset, or have come to a state.
            states: `[S]` of each; widths may differ.
            shown: observation of each; None leaves them.
        """
        fresh = self.fresh.copy()
        fresh[rows] = False
        self.reach(_replaced(self.now[0], rows, stacked_rows(states)), fresh)
        if shown is not None:
            for number, obs in zip(rows, shown, strict=True):
                self.obs.put(number, obs)

    def reach_reset(self, rows: Sequence[int]) -> None:
        """Note that the call has reset rows."""
        if self.reached is not None:
            states, fresh = self.reached
            fresh = fresh.copy()
            fresh[rows] = False
            self.reached = states, fresh

    def keep(self, note: Any) -> None:
        """Commit the call, together with `note`."""
        states, fresh, _, seeds = self.now
        if self.reached is not None:
            states, fresh = self.reached
        if self._seeded:
            seeds = seeds | self._seeded
        self.now = states, fresh, note, seeds  # from here on, and not before, the call has happened
        self.reached, self._before, self.begun, self._seeded = None, None, False, {}

    def forget(self) -> None:
        """Restore the observations from before an interrupted or failed call."""
        if self._before is not None:
            kept, shown = self._before
            if kept is self.now:  # else the interrupt came within `keep`
                self.obs.give(range(len(self.fresh)), shown)
        if self.begun:
            # The next native call would write over the memory of these.
            states, *others = self.now
            self.now = states.copy(), *others
        self.reached, self._before, self.begun, self._seeded = None, None, False, {}

    def check_begun(self, rows: Sequence[int]) -> None:
        """Refuse to step rows that were never reset; quick where there are none, as nearly always.

        Raises:
            VectorResetNeeded: one was not.
        """
        fresh = self.now[1]
        if fresh is self._none_fresh:
            return
        if fresh[list(rows)].any():
            raise VectorResetNeeded(
                f"step: sub-envs {np.flatnonzero(fresh).tolist()} were never reset. Call reset "
                "first."
            )
        if not fresh.any():
            self._none_fresh = fresh


def _replaced(kept: np.ndarray, rows: Sequence[int], states: np.ndarray) -> np.ndarray:
    """Return states of all rows with those of some rows replaced, as wide as the widest."""
    found = as_wide(kept, states.shape[1])
    found = found.copy() if found is kept else found
    found[list(rows)] = as_wide(states, found.shape[1])
    return found
