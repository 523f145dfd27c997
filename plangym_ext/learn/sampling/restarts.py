"""Rows of an actor whose episodes begin from stored states."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from plangym_ext.arrays.nested import leaves
from plangym_ext.arrays.spaces import SpaceLayout
from plangym_ext.core.state_set import StateSet
from plangym_ext.learn.sampling.noise import RowNoise
from plangym_ext.learn.sampling.venv_rows import VenvRows

Ndarray = npt.NDArray[Any]

#: Stream of the random numbers that decide where episodes begin.
_STREAM = 2


class Restarts:
    """Draws where episodes begin, and brings the envs there.

    Args:
        venv: the envs, which have reset themselves when their episodes ended.
        states: what may be drawn.
        layout: of the observations.
        seed: of the sampler.
        rows: numbers of these rows.

    Attributes:
        table: `[N]` float64, see `Starts.table`; set before each fragment.
        start: `[b]` int64, index of the state that the episode in progress began from, -1 where
            it began by a reset.
        restored: how many were brought to a state since `begin_fragment`.
    """

    def __init__(
        self,
        venv: VenvRows,
        states: StateSet,
        layout: SpaceLayout,
        seed: int,
        rows: range,
    ) -> None:
        self._venv, self._states = venv, states
        self._leaves = [np.asarray(part) for part in layout.split(states.obs)]
        self._noise = RowNoise(seed, rows, stream=_STREAM)
        self.table: npt.NDArray[np.float64] = np.zeros(len(states))
        self.start = np.full(len(rows), -1, np.int64)
        self.restored = 0
        self._ended: list[Ndarray] = []

    def begin_fragment(self) -> None:
        """Forget the episodes that have ended."""
        self._ended, self.restored = [], 0

    def add(self, rows: Ndarray, steps: npt.NDArray[np.uint64], obs: Any) -> None:
        """Note that episodes have ended in `[k]` rows, and begin the next ones.

        Args:
            rows: which.
            steps: `[b]` uint64, those that each row has taken.
            obs: nested arrays `[b, ...]` of what is seen next, in which that of the states is
                written.
        """
        self._ended.append(self.start[rows])
        self.begin(rows, steps, obs)

    def begin(self, rows: Ndarray, steps: npt.NDArray[np.uint64], obs: Any) -> None:
        """Draw where episodes begin in rows that were reset; see `add`."""
        self._noise.move_to(steps)
        drawn = np.searchsorted(self.table, self._noise.uniform()[rows, 0], side="right")
        chosen = drawn < len(self.table)
        self.start[rows] = np.where(chosen, drawn, -1)
        if not chosen.any():
            return
        rows, drawn = rows[chosen], drawn[chosen]
        self._venv.restore(rows, self._states.states[drawn])
        for target, source in zip(leaves(obs), self._leaves, strict=True):
            target[rows] = source[drawn]
        self.restored += len(rows)

    def ended(self) -> npt.NDArray[np.int64]:
        """Return `[E]`, where the episodes began that have ended, in the order of (step, row)."""
        return np.concatenate([*self._ended, np.zeros(0, np.int64)])
