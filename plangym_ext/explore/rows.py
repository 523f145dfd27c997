"""Rows of one exploration round: current cells and the action segments played."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from plangym_ext.explore.entries import NO_KEYS, Arrived
from plangym_ext.explore.paths import ROOT, Paths
from plangym_ext.states.envelope import as_wide

#: While a round is played, its k-th segment is LATEST - k: numbers are given when it is over, to
#: those that are kept.
LATEST = ROOT - 1


def named(segments: npt.NDArray[np.int64], numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return segments with `numbers[k]` in the place of LATEST - k, fresh."""
    own = segments <= LATEST
    found = segments.copy()
    found[own] = numbers[LATEST - segments[own]]
    return found


@dataclass
class Places:
    """L places on trajectories, from which rows continue."""

    states: npt.NDArray[np.uint8]  # [L, S]
    scores: npt.NDArray[np.float64]  # [L] earned so far
    steps: npt.NDArray[np.int64]  # [L] taken so far
    segment: npt.NDArray[np.int64]  # [L] of the trajectory
    taken: npt.NDArray[np.int64]  # [L] actions of that segment
    cell: npt.NDArray[np.int64]  # [L]
    ended: npt.NDArray[np.bool_]  # [L] the episode is over

    def __getitem__(self, rows: Any) -> Places:
        """Return some of them, copies for indices."""
        return Places(*(one[rows] for one in vars(self).values()))


class Rows:
    """B rows that play a round, and its K segments so far.

    A row plays one segment after the other: a new one begins where its episode has ended.

    Attributes:
        states: `[B, S]` where the rows are.
        cell: `[B]` their cells.
    """

    def __init__(self, count: int) -> None:
        self.states: npt.NDArray[np.uint8]
        self.cell: npt.NDArray[np.int64]
        self._count = count
        self._time = 0
        self._scores, self._steps = np.zeros(count), np.zeros(count, np.int64)
        self._ended = np.zeros(count, np.bool_)
        self._segment = np.zeros(count, np.int64)  # k of the one that each row plays
        # Of the segments, [K]:
        self._row = np.zeros(0, np.int64)
        self._start, self._stop = np.zeros(0, np.int64), np.zeros(0, np.int64)
        self._parent, self._taken = np.zeros(0, np.int64), np.zeros(0, np.int64)
        self._kept = np.zeros(0, np.bool_)

    @classmethod
    def begun(cls, places: Places) -> Rows:
        """Return rows at `[B]` places."""
        found = cls(len(places.cell))
        found.states, found.cell = places.states.copy(), places.cell.copy()
        found.begin_again(np.arange(found._count), places)
        return found

    def begin_again(self, rows: npt.NDArray[np.int64], places: Places) -> None:
        """Let rows `[L]` begin segments at `[L]` places."""
        self.states = as_wide(self.states, places.states.shape[1])
        self.states[rows] = as_wide(places.states, self.states.shape[1])
        self._scores[rows], self._steps[rows] = places.scores, places.steps
        self.cell[rows], self._ended[rows] = places.cell, False
        self._segment[rows] = len(self._row) + np.arange(len(rows))
        time = np.full(len(rows), self._time)
        self._row = np.concatenate([self._row, rows])
        self._start = np.concatenate([self._start, time])
        self._stop = np.concatenate([self._stop, time])
        self._parent = np.concatenate([self._parent, places.segment])
        self._taken = np.concatenate([self._taken, places.taken])
        self._kept = np.concatenate([self._kept, np.zeros(len(rows), np.bool_)])

    def move(
        self, states: Any, rewards: npt.NDArray[np.float64], ended: npt.NDArray[np.bool_]
    ) -> None:
        """Record a step of all rows."""
        # Its own: rows of it may be written.
        self.states, self._ended = states, ended
        self._scores += rewards
        self._steps += 1
        self._time += 1
        self._stop[self._segment] = self._time

    def arrived(self) -> Arrived:
        """Return the rows in the form of `Archive.arrive`."""
        taken = self._time - self._start[self._segment]
        return Arrived(
            NO_KEYS,
            self.states,
            self._scores,
            self._steps,
            self._ended,
            LATEST - self._segment,
            taken,
        )

    def note(self, improved: npt.NDArray[np.bool_]) -> None:
        """Record the segments of rows `[B]` bool that improved the archive."""
        self._kept[self._segment[improved]] = True

    def store(
        self, paths: Paths, actions: npt.NDArray[Any], *, every: bool
    ) -> npt.NDArray[np.int64]:
        """Add the segments to the paths; return their numbers `[K]`, ROOT for those left out.

        Args:
            paths: that they are added to.
            actions: `[H, B, *act]` of the round.
            every: not only those that improved the archive.
        """
        kept = self._kept | every
        numbers = np.where(kept, len(paths) + np.cumsum(kept) - 1, ROOT)
        # Segments come after those that they go on from, which have improved the archive.
        parent = named(self._parent, numbers)
        paths.add(
            parent[kept],
            self._taken[kept],
            actions,
            self._row[kept],
            self._start[kept],
            self._stop[kept],
        )
        return numbers

    def places(self, numbers: npt.NDArray[np.int64] | None = None) -> Places:
        """Return the rows' places, with the segment numbers of `store`."""
        segment = LATEST - self._segment
        return Places(
            self.states,
            self._scores.copy(),
            self._steps.copy(),
            segment if numbers is None else named(segment, numbers),
            self._time - self._start[self._segment],
            self.cell,
            self._ended,
        )
