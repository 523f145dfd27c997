"""Heap: arena memory for items of varying length, used by jagged arrays.

Items are never changed in place. Writing a cell appends its new item to the
arena of its column and points the cell there; when the arena is full, the
items that cells still point at are moved together. So rewriting an item
cannot touch its neighbours, two cells may share an item (rotation copies
cells), and processes that write to different columns do not meet.
"""

from __future__ import annotations

import warnings
from typing import Any, Literal, NoReturn, TypeAlias

import numpy as np
import numpy.typing as npt

from plangym_ext.arrays.buffer import Storage, allocate
from plangym_ext.arrays.storage import SharedBlock

Ndarray: TypeAlias = npt.NDArray[Any]
OnOverflow: TypeAlias = Literal["raise", "grow", "drop"]

# Where a cell's item lies in the arena of its column; all zeros is no points.
CELL = np.dtype([("offset", np.int64), ("length", np.int64)])
# Of each column: end of the last item, and points that may be used.
_STATE = np.dtype([("used", np.int64), ("limit", np.int64)])

# Shared memory cannot move once others map it, so an arena that may grow
# reserves its address space at once. Pages that are never written cost nothing.
SHARED_GROWTH = 8


class Heap:
    """The arenas of one jagged array; its views share it."""

    __slots__ = ("_blocks", "_points", "_state", "on_overflow", "storage")

    def __init__(
        self,
        points: Ndarray,
        state: Ndarray,
        blocks: tuple[SharedBlock | None, SharedBlock | None],
        storage: Storage,
        on_overflow: OnOverflow,
    ) -> None:
        self._points = points  # [columns, reserved points, *feature]
        self._state = state  # [columns] _STATE
        # Held because a receiver reaches the memory through our descriptors.
        self._blocks = blocks
        self.storage = storage
        self.on_overflow = on_overflow

    @classmethod
    def create(
        cls,
        columns: int,
        limit: int,
        feature_shape: tuple[int, ...],
        dtype: np.dtype[Any],
        storage: Storage,
        on_overflow: OnOverflow,
    ) -> Heap:
        """Return empty arenas of `limit` points per column."""
        spare = SHARED_GROWTH if on_overflow == "grow" and storage != "local" else 1
        points, block = allocate((columns, limit * spare, *feature_shape), dtype, storage)
        state, state_block = allocate((columns,), _STATE, storage)
        state["limit"] = limit
        return cls(points, state, (block, state_block), storage, on_overflow)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of one value of a point."""
        return self._points.dtype

    @property
    def feature_shape(self) -> tuple[int, ...]:
        """Shape of one point."""
        return self._points.shape[2:]

    def gather(self, columns: Ndarray, cells: Ndarray) -> Ndarray:
        """Return the points of all cells, one after the other.

        Args:
            columns: `[n]` int, column of each cell.
            cells: `[n]` CELL.

        Returns:
            `[points, *feature]`, fresh.
        """
        lengths = cells["length"]
        reserved = self._points.shape[1]
        ends = np.cumsum(lengths)
        # Place of each cell's first point in the flat store, less the points
        # of the cells before it: adding a running number gives every place.
        starts = columns * reserved + cells["offset"] - (ends - lengths)
        total = int(ends[-1]) if len(ends) else 0
        places = np.repeat(starts, lengths) + np.arange(total)
        # Not -1: features of size 0 leave the number of points open.
        flat = self._points.reshape(len(self._points) * reserved, *self.feature_shape)
        return np.asarray(flat[places])

    def put(self, column: int, table: Ndarray, row: int, item: Ndarray) -> None:
        """Store the item of one cell.

        Args:
            column: arena to use.
            table: `[rows]` CELL, all cells of the column; `table[row]` is set.
            row: cell to write.
            item: `[points, *feature]`; converted to the dtype.

        Raises:
            ValueError: the arena is full and must not grow.
        """
        length = len(item)
        state = self._state[column]
        if state["used"] + length > state["limit"] and not self._make_room(
            column, table, row, length
        ):
            table[row] = (0, 0)
            return
        used = int(state["used"])
        self._points[column, used : used + length] = item
        table[row] = (used, length)
        state["used"] = used + length

    def _make_room(self, column: int, table: Ndarray, row: int, length: int) -> bool:
        """Return whether `length` points fit after the last item now."""
        state = self._state[column]
        # The item about to be replaced is not worth keeping, but nothing may
        # change before it is clear that the new one fits.
        live = table[(table["length"] > 0) & (np.arange(len(table)) != row)]
        # Cells may share an item; this leaves one of each, sorted by offset.
        live = live[np.unique(live["offset"], return_index=True)[1]]
        need = int(live["length"].sum()) + length
        if need > state["limit"]:
            if self.on_overflow == "raise":
                self._overflow(column, need, int(state["limit"]))
            if self.on_overflow == "drop":
                warnings.warn(
                    f"JaggedArray: an item of {length} points was dropped: column {column} holds "
                    f"{need - length} of {state['limit']} points. Raise max_mean_num_elem.",
                    RuntimeWarning,
                    stacklevel=4,
                )
                return False
            self._grow(column, need)
        table[row] = (0, 0)
        self._compact(column, table, live)
        return True

    def _compact(self, column: int, table: Ndarray, live: Ndarray) -> None:
        """Move the items of `live`, sorted by offset, to the front of the arena."""
        points = self._points[column]
        lengths = live["length"]
        starts = np.cumsum(lengths) - lengths
        places = np.repeat(live["offset"] - starts, lengths) + np.arange(lengths.sum())
        points[: len(places)] = points[places]
        filled = table["length"] > 0
        moved = np.searchsorted(live["offset"], table["offset"][filled])
        table["offset"][filled] = starts[moved]
        self._state["used"][column] = len(places)

    def _grow(self, column: int, need: int) -> None:
        reserved = self._points.shape[1]
        limit = max(need, 2 * int(self._state["limit"][column]))
        if self.storage == "local" and limit > reserved:
            columns = len(self._points)
            larger = np.zeros((columns, limit, *self.feature_shape), self.dtype)
            larger[:, :reserved] = self._points
            self._points = larger
        elif need > reserved:
            self._overflow(column, need, reserved)
        self._state["limit"][column] = min(limit, self._points.shape[1])

    def _overflow(self, column: int, need: int, limit: int) -> NoReturn:
        remedy = "raise max_mean_num_elem"
        if self.on_overflow == "raise":
            remedy += ", or pass on_overflow='grow' or 'drop'"
        raise ValueError(
            f"JaggedArray: the items of column {column} must have at most {limit} points together; "
            f"with the new one there are {need}. It was not written; {remedy}."
        )

    def copy(self) -> Heap:
        """Return a heap with memory of its own."""
        points, block = allocate(self._points.shape, self.dtype, self.storage)
        state, state_block = allocate(self._state.shape, _STATE, self.storage)
        points[...] = self._points
        state[...] = self._state
        return Heap(points, state, (block, state_block), self.storage, self.on_overflow)

    def close(self) -> None:
        """Release the memory. Only the cells can tell that the array is closed."""
        self._points = np.zeros((0, 0, *self.feature_shape), self.dtype)
        self._state = np.zeros(0, _STATE)
        self._blocks = (None, None)

    def __reduce__(self) -> tuple[Any, ...]:
        if self._blocks[0] is None:
            return Heap, (self._points, self._state, self._blocks, self.storage, self.on_overflow)
        return _attach, (
            self._blocks,
            self._points.shape,
            self.dtype.str,
            self.storage,
            self.on_overflow,
        )


def _attach(
    blocks: tuple[SharedBlock, SharedBlock],
    shape: tuple[int, ...],
    dtype: str,
    storage: Storage,
    on_overflow: OnOverflow,
) -> Heap:
    points = blocks[0].ndarray(shape, dtype)
    state = blocks[1].ndarray(shape[:1], _STATE)
    return Heap(points, state, blocks, storage, on_overflow)
