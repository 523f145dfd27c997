"""Waiting: rows of an actor that idle from an episode's end to the next fragment."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from plangym_ext.arrays.nested import leaves
from plangym_ext.learn.sampling.actors.columns import Columns


class Waiting:
    """The rows of an actor that wait.

    Args:
        columns: of the actor.
        sticky: whether waiting rows show the first observation of their next episode; else
            they show zeros. After the last step they show it in either case.
    """

    def __init__(self, columns: Columns, *, sticky: bool) -> None:
        self._columns, self._sticky = columns, sticky
        self._waits = np.zeros(columns.num_rows, bool)

    @property
    def stepped(self) -> npt.NDArray[Any] | None:
        """`[k]` rows that do not wait; None for all."""
        return np.flatnonzero(~self._waits) if self._waits.any() else None

    def begin(self) -> None:
        """Begin a fragment: no row waits."""
        self._waits[:] = False
        self._columns.valid[:] = True

    def add(self, t: int, rows: npt.NDArray[Any]) -> None:
        """Make rows wait that ended in step t, with the first observation of the next fragment."""
        columns = self._columns
        # Nothing is left to wait for: row T already shows what the next fragment begins with.
        if t + 1 == columns.num_steps:
            return
        self._waits[rows] = True
        columns.valid[t + 1 :, rows] = False
        # Row T keeps it, for `show` and for the next fragment.
        for shown, kept in zip(self._shown(t + 1), self._shown(columns.num_steps), strict=True):
            kept[rows] = shown[rows]

    def _shown(self, t: int) -> list[Any]:
        """Return what rows show at t: leaves of the observation, and which actions are legal."""
        columns = self._columns
        legal = [] if columns.legal is None else [columns.legal[t]]
        return [*leaves(columns.obs[t]), *legal]

    def clear(self, t: int) -> None:
        """Write zeros for waiting rows in step t."""
        columns, waits = self._columns, self._waits
        columns.earned[t, waits] = 0
        columns.terminated[t, waits] = columns.truncated[t, waits] = False
        for leaf in (*leaves(columns.action[t]), *columns.agent_info[t], *columns.env_info[t]):
            leaf[waits] = 0

    def show(self, t: int) -> None:
        """Write the waiting rows' observations at t."""
        columns, waits = self._columns, self._waits
        last = t == columns.num_steps
        # Row T begins an episode of the next fragment, whatever was shown while waiting.
        columns.first[t, waits] = last or self._sticky
        columns.prev_reward[t, waits] = 0
        for leaf in leaves(columns.prev_action[t]):
            leaf[waits] = 0
        for leaf, kept in zip(self._shown(t), self._shown(columns.num_steps), strict=True):
            if not last:
                leaf[waits] = kept[waits] if self._sticky else 0
