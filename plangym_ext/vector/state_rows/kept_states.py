"""KeptStates: committed row states, with rollback of failed or interrupted calls.

    reach --> keep      the call has happened
      '-----> forget    it failed, or was interrupted: rows are where they were

An interrupt may come at any line. So all that belongs to rows is one object, which is replaced by
one assignment, and nothing that it holds is ever written to.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from gymnasium import spaces

from plangym_ext.states.envelope import as_wide, stacked_rows
from plangym_ext.vector.errors import VectorResetNeeded
from plangym_ext.vector.shown import ObsBuffer


class Kept(NamedTuple):
    """All rows at one moment.

    Attributes:
        states: `[n, S]` uint8, without seals.
        fresh: `[n]` bool, rows that were never reset.
        shown: `[n, *obs]`, their observations.
        note: of the vector env.
        seeds: of each row's last seeded reset, by row; -1 for one that is not known.
    """

    states: np.ndarray
    fresh: np.ndarray
    shown: np.ndarray
    note: Any
    seeds: dict[int, int]


class KeptStates:
    """States of n rows with commit and rollback; see the module.

    Args:
        num_rows: n.
        width: S, bytes of a state; more once a state is wider.
        space: of one row's observations, an array.

    Attributes:
        now: the rows after the last call that was kept.
        reached: after the present call, which is not kept yet; None for none.
        none_fresh: the array of rows that were never reset, if it was found to name none.
    """

    def __init__(self, num_rows: int, width: int, space: spaces.Space[Any]) -> None:
        self._obs = ObsBuffer(space, num_rows)
        shown = self._obs.leaves(slice(None))[0].copy()
        states, fresh = np.zeros((num_rows, width), np.uint8), np.ones(num_rows, bool)
        self.now = Kept(states, fresh, shown, None, {})
        self.reached: Kept | None = None
        #: Seeds that the present call gives.
        self._seeded: dict[int, int] = {}
        #: The observations that are in the buffer.
        self._in_buffer: np.ndarray | None = shown
        self.none_fresh: np.ndarray | None = None

    @property
    def obs(self) -> ObsBuffer:
        """Observations of the rows, after the present call if it has come so far."""
        shown = (self.reached or self.now).shown
        if shown is not self._in_buffer:
            self._in_buffer = None  # whatever an interrupt leaves of the copy
            self._obs.put_batch(slice(None), shown)
            self._in_buffer = shown
        return self._obs

    def seed_of(self, row: int) -> int:
        """Return the seed of a row's last seeded reset; -1 if it is not known."""
        return self.now.seeds.get(row, -1)

    def seed(self, seeds: dict[int, int]) -> None:
        """Note the seeds that the call gives to rows; -1 for one that is not known."""
        self._seeded = self._seeded | seeds

    def reach(self, states: np.ndarray, obs: np.ndarray) -> None:
        """Record where a call of all rows leads; observations are copied."""
        shown = obs.astype(self.now.shown.dtype)
        self.reached = Kept(states, self.now.fresh, shown, None, {})

    def reach_some(self, rows: Sequence[int], states: np.ndarray, obs: np.ndarray) -> None:
        """Record where a call of some rows leads: `[k, S]` states, `[k, *obs]`."""
        shown = self.now.shown.copy()
        shown[rows] = obs
        states = _replaced(self.now.states, rows, states)
        self.reached = Kept(states, self.now.fresh, shown, None, {})

    def reach_each(
        self, rows: Sequence[int], states: Sequence[np.ndarray], shown: Sequence[Any] | None
    ) -> None:
        """Record the new states of rows moved one by one, and their observations.

        Args:
            rows: which; they have been reset, or have come to a state.
            states: `[S]` of each; widths may differ.
            shown: observation of each; None leaves them.
        """
        kept = self.now.shown
        if shown is not None:
            kept = kept.copy()
            put = ObsBuffer(self._obs.space, len(kept), (kept,)).put
            for number, obs in zip(rows, shown, strict=True):
                put(number, obs)
        found = _replaced(self.now.states, rows, stacked_rows(states))
        self.reached = Kept(found, self.now.fresh, kept, None, {})
        self.reach_reset(rows)

    def reach_reset(self, rows: Sequence[int]) -> None:
        """Note that the call has reset rows."""
        assert self.reached is not None
        fresh = self.reached.fresh.copy()
        fresh[rows] = False
        self.reached = self.reached._replace(fresh=fresh)

    def keep(self, note: Any) -> None:
        """Commit the call, together with `note`."""
        states, fresh, shown, _, _ = self.reached or self.now
        seeds = self.now.seeds | self._seeded if self._seeded else self.now.seeds
        # From here on, and not before, the call has happened.
        self.now = Kept(states, fresh, shown, note, seeds)
        self.reached, self._seeded = None, {}

    def forget(self) -> None:
        """Drop what is left of a call that failed or was interrupted."""
        self.reached, self._seeded = None, {}

    def check_begun(self, rows: Sequence[int]) -> None:
        """Refuse to step rows that were never reset; learn whether there are any.

        Raises:
            VectorResetNeeded: one was not.
        """
        fresh = self.now.fresh
        if fresh[list(rows)].any():
            raise VectorResetNeeded(
                f"step: sub-envs {np.flatnonzero(fresh).tolist()} were never reset. Call reset "
                "first."
            )
        if not fresh.any():
            self.none_fresh = fresh


def _replaced(kept: np.ndarray, rows: Sequence[int], states: np.ndarray) -> np.ndarray:
    """Return states of all rows with those of some rows replaced, as wide as the widest."""
    found = as_wide(kept, states.shape[1])
    found = found.copy() if found is kept else found
    found[list(rows)] = as_wide(states, found.shape[1])
    return found
