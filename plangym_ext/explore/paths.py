"""Paths: action segments that link each cell to the cell it was reached from."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

#: The parent of segments that begin where the episode does.
ROOT = -1
_ROOM = 1024  # actions that there is room for at first


class Paths:
    """Immutable segments of actions, so that trajectories through them never change.

    A cell's entry may be replaced by a better trajectory, while others began on the former one. So
    a segment is linked to a place on another segment and not to a cell.

    Args:
        shape: of one action.
        dtype: of one action.
    """

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype) -> None:
        self._actions = np.empty((0, *shape), dtype)
        self._used = 0
        self._start = np.empty(0, np.int64)
        self._parent = np.empty(0, np.int64)
        self._taken = np.empty(0, np.int64)

    def __len__(self) -> int:
        return len(self._start)

    def add(
        self,
        parent: npt.NDArray[np.int64],
        taken: npt.NDArray[np.int64],
        actions: npt.NDArray[Any],
        row: npt.NDArray[np.int64],
        start: npt.NDArray[np.int64],
        stop: npt.NDArray[np.int64],
    ) -> None:
        """Add L segments, numbered from `len(self)` on.

        Args:
            parent: `[L]` segments that they go on from, or ROOT.
            taken: `[L]` after how many actions of these.
            actions: `[H, B, *act]`, of which segment i is `actions[start[i]:stop[i], row[i]]`.
            row: `[L]`.
            start: `[L]`.
            stop: `[L]`.
        """
        lengths = stop - start
        # Where each begins among the new actions.
        offsets = np.cumsum(lengths) - lengths
        total = int(lengths.sum())
        if self._used + total > len(self._actions):
            # At least doubled: to grow by each round's would copy all actions again and again.
            more = max(len(self._actions), total, _ROOM)
            room = np.empty((more, *self._actions.shape[1:]), self._actions.dtype)
            self._actions = np.concatenate([self._actions, room])
        # [total] times in the round, segment by segment.
        times = np.arange(total) + np.repeat(start - offsets, lengths)
        self._actions[self._used : self._used + total] = actions[times, np.repeat(row, lengths)]
        self._start = np.concatenate([self._start, self._used + offsets])
        self._parent = np.concatenate([self._parent, parent])
        self._taken = np.concatenate([self._taken, taken])
        self._used += total

    def actions(self, segment: int, taken: int) -> npt.NDArray[Any]:
        """Return the actions from the root to a place on a segment, `[T, *act]`, fresh."""
        parts = [self._actions[:0]]
        while segment != ROOT:
            start = self._start[segment]
            parts.append(self._actions[start : start + taken])
            segment, taken = int(self._parent[segment]), int(self._taken[segment])
        return np.concatenate(parts[::-1])

    def hold(self, segment: npt.NDArray[Any], taken: npt.NDArray[Any]) -> bool:
        """Return whether places `[L]` lie on known segments; ROOT takes any position."""
        if not ((segment >= ROOT) & (segment < len(self)) & (taken >= 0)).all():
            return False
        on = segment != ROOT
        lengths = np.diff(self._start, append=self._used)
        return bool((taken[on] <= lengths[segment[on]]).all())

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return all of it, by name; views."""
        return {
            "path_actions": self._actions[: self._used],
            "path_start": self._start,
            "path_parent": self._parent,
            "path_taken": self._taken,
        }

    def load(self, arrays: dict[str, npt.NDArray[Any]]) -> None:
        """Load a result of `arrays`.

        Raises:
            ValueError: the links do not lead back to the root.
        """
        actions, start = arrays["path_actions"], arrays["path_start"]
        parent, taken = arrays["path_parent"], arrays["path_taken"]
        if actions.shape[1:] != self._actions.shape[1:] or actions.dtype != self._actions.dtype:
            raise ValueError(
                f"actions must be [T, {self._actions.shape[1:]}] {self._actions.dtype}; got "
                f"{actions.shape} {actions.dtype}"
            )
        for name, found in (("start", start), ("parent", parent), ("taken", taken)):
            if found.dtype != np.int64 or found.ndim != 1:
                raise ValueError(f"path_{name} must be [L] int64; got {found.shape} {found.dtype}")
        # Parents come before their children, so that no walk to the root goes in circles.
        if not _linked(start, parent, taken, len(actions)):
            raise ValueError("segments are not linked to earlier ones")
        self._actions, self._used = actions.astype(self._actions.dtype), len(actions)
        self._start, self._parent = start.astype(np.int64), parent.astype(np.int64)
        self._taken = taken.astype(np.int64)


def _linked(
    start: npt.NDArray[Any], parent: npt.NDArray[Any], taken: npt.NDArray[Any], total: int
) -> bool:
    """Return whether segments `[L]` of `total` actions go on from places on earlier ones."""
    order = np.arange(len(start))
    if not start.shape == parent.shape == taken.shape == order.shape:
        return False
    lengths = np.diff(start, append=total)
    if (start[:1] < 0).any() or (lengths < 0).any():
        return False
    if (parent < ROOT).any() or (parent >= order).any() or (taken < 0).any():
        return False
    # What is taken of the root is never read.
    return bool(((parent == ROOT) | (taken <= lengths[parent])).all())
