"""BatchLayout: places of a batch's arrays in shared memory."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from plangym_ext.arrays.storage import SharedBlock
from plangym_ext.core.rows import NO_ROW as NO_ROW

#: 64-bit words that a page has for each worker after its arrays: a cache line of its own.
_LINE = 8
#: The first of them: the row that it is running, or `NO_ROW`.
ROW = 0


class Place(NamedTuple):
    """An array somewhere in a shared block, for a field of the batch.

    Attributes:
        field: name of the field, as `RowLayout` has it; "store" for the slots.
        block: number of the block.
        offset: byte at which the first element lies.
        shape, dtype, strides: as numpy has them.
    """

    field: str
    block: int
    offset: int
    shape: tuple[int, ...]
    dtype: str
    strides: tuple[int, ...]

    def view(self, block: SharedBlock) -> np.ndarray:
        """Return the array, in this process's mapping of the block; it lives as long as that."""
        memory = block.ndarray((block.nbytes,), np.uint8)
        return np.ndarray(self.shape, self.dtype, memory, self.offset, self.strides)


class BatchLayout(NamedTuple):
    """Places of a batch's arrays. Equal `content` means the same memory.

    Attributes:
        page: number of the block that holds the batch's arrays.
        num_rows: B.
        horizon: H.
        infos: one of `row_request.INFOS`.
        state_width: S, bytes of a state's row.
        places: fields that lie elsewhere.
        by_source: whether row i begins at row `sources[i]` of the states.
        by_target: whether row i's state is copied to row `targets[i]` of the store.
        unchecked, single: as of `RowRequest`.
        number: that workers know it by.
    """

    page: int
    num_rows: int
    horizon: int
    infos: str
    state_width: int
    places: tuple[Place, ...] = ()
    by_source: bool = False
    by_target: bool = False
    unchecked: str = ""
    single: bool = False
    number: int = -1

    @property
    def content(self) -> tuple[Any, ...]:
        """All but the number."""
        return self[:-1]


def worker_lines(page: np.ndarray, num_workers: int) -> np.ndarray:
    """Return the workers' status lines `[W, 8]` int64 at the end of a page.

    The last line is worker 0's: a worker need not know how many there are. It is a view, which
    lives as long as the page.
    """
    lines: np.ndarray = page[-lines_bytes(num_workers) :].view(np.int64)
    return lines.reshape(num_workers, _LINE)[::-1]


def lines_bytes(num_workers: int) -> int:
    """Return the bytes that a page needs after its arrays."""
    return num_workers * _LINE * np.dtype(np.int64).itemsize
