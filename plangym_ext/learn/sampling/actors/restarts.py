"""Restarts: episodes of an actor that begin from stored states."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from plangym_ext.arrays.nested import leaves
from plangym_ext.arrays.spaces import SpaceLayout
from plangym_ext.core.state_set import StateSet
from plangym_ext.learn.sampling.actors.columns import Columns
from plangym_ext.learn.sampling.actors.venv_rows import VenvRows
from plangym_ext.learn.sampling.noise import RowNoise

Ndarray = npt.NDArray[Any]

#: Stream of the random numbers that decide where episodes begin.
STREAM = 2


class Restarts:
    """Draws the start states of episodes, and sets the envs to them.

    Args:
        venv: the envs, which have reset themselves when their episodes ended.
        columns: of these rows, in which what is seen in the states is written.
        states: what may be drawn; None: all episodes begin by a reset, and nothing is done.
        layout: of the observations.
        noise: of these rows, which nothing else draws from.

    Attributes:
        table: `[N]` float64, see `Starts.table`.
        start: `[b]` int64, index of the state that the episode in progress began from, -1 where
            it began by a reset; None without states.
        restored: how many episodes of this fragment began from a state.
    """

    def __init__(
        self,
        venv: VenvRows,
        columns: Columns,
        states: StateSet | None,
        layout: SpaceLayout,
        noise: RowNoise,
    ) -> None:
        self._venv, self._columns, self._states, self._noise = venv, columns, states, noise
        self.table: npt.NDArray[np.float64] = np.zeros(0)
        self.start: npt.NDArray[np.int64] | None = None
        self.restored = 0
        self._ended: list[Ndarray] = []
        if states is not None:
            self._leaves = [np.asarray(part) for part in layout.split(states.obs)]
            self.start = np.full(len(noise), -1, np.int64)

    def begin_fragment(self, table: npt.NDArray[np.float64] | None) -> None:
        """Drop the records of ended episodes.

        Args:
            table: that episodes begin by from now on; None: as before.
        """
        self._ended, self.restored = [], 0
        if table is not None:
            self.table = table

    def begin_all(self, steps: npt.NDArray[np.uint64], legal: Ndarray | None) -> None:
        """Draw where all rows begin, which were reset; see `add`.

        Args:
            steps: `[b]`, as for `add`.
            legal: `[b, A]` bool, what the rows may play; changed where one begins from a state.
        """
        if self.start is not None:
            self._begin(np.arange(len(self.start)), steps, self._columns.obs[-1], legal)

    def leave(self, rows: Ndarray) -> None:
        """Record that the episodes of some rows began with a reset."""
        if self.start is not None:
            self.start[rows] = -1

    def add(self, t: int, going_on: Ndarray, steps: Ndarray) -> None:
        """Record the episodes that ended in step t, and begin the next ones.

        Args:
            t: the step.
            going_on: `[b]` bool, those whose game goes on all the same, without another beginning.
            steps: `[b]` uint64, those that each row had taken before.
        """
        if self.start is None:
            return
        columns = self._columns
        (rows,) = ((columns.terminated[t] | columns.truncated[t]) & ~going_on).nonzero()
        if not len(rows):
            return
        # Before the next ones are drawn, which write over it.
        self._ended.append(self.start[rows])
        legal = None if columns.legal is None else columns.legal[t + 1]
        self.restored += self._begin(rows, steps + np.uint64(1), columns.obs[t + 1], legal)

    def _begin(
        self, rows: Ndarray, steps: npt.NDArray[np.uint64], obs: Any, legal: Ndarray | None
    ) -> int:
        """Begin episodes in some rows; return how many of them from a state."""
        assert self._states is not None
        assert self.start is not None
        self._noise.move_to(steps)
        # Drawn in all rows and used in some: a row's number does not depend on which others have
        # ended. "right" passes over states of no weight, whose sum is that of the one before.
        drawn = np.searchsorted(self.table, self._noise.uniform()[rows, 0], side="right")
        chosen = drawn < len(self.table)
        self.start[rows] = np.where(chosen, drawn, -1)
        if not chosen.any():
            return 0
        rows, drawn = rows[chosen], drawn[chosen]
        # The envs have reset themselves already; what they showed is written over below.
        self._venv.restore(rows, self._states.states[drawn])
        for target, source in zip(leaves(obs), self._leaves, strict=True):
            target[rows] = source[drawn]
        if legal is not None:
            legal[rows] = True if self._states.legal is None else self._states.legal[drawn]
        return len(rows)

    def fields(self) -> dict[str, Ndarray]:
        """Return "start" `[E]` int64 of the episodes that ended, in the order of (step, row)."""
        if self.start is None:
            return {}
        # The empty one is for fragments in which no episode ended.
        return {"start": np.concatenate([*self._ended, np.zeros(0, np.int64)])}

    def state_dict(self) -> dict[str, Ndarray]:
        """Return where the episodes in progress began, `[b]` by name."""
        return {} if self.start is None else {"start": self.start.copy()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a `state_dict`, also from one without start states."""
        if self.start is not None:
            self.start[:] = state.get("start", -1)
