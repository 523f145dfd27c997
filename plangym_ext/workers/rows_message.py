"""What a worker is told of a batch: where its arrays lie in shared memory."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from plangym_ext.arrays.storage import SharedBlock

#: 64-bit words behind the arrays of a page for each worker: a cache line of its own.
_LINE = 8
#: The first of them: the row that it is running, or none.
ROW, NO_ROW = 0, -1


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
        """The array, in this process's mapping of the block."""
        memory = block.ndarray((block.nbytes,), np.uint8)
        return np.ndarray(self.shape, self.dtype, memory, self.offset, self.strides)


class RowsMessage(NamedTuple):
    """One batch. Equal messages describe the same memory, so views of it can be kept.

    Attributes:
        page: number of the block that holds the batch's arrays.
        num_rows: B.
        horizon: H.
        infos: one of `row_request.INFOS`.
        places: fields that lie elsewhere.
        by_source: whether row i begins at row `sources[i]` of the states.
        by_target: whether row i's state is copied to row `targets[i]` of the store.
        unchecked, single: as of `RowRequest`.
    """

    page: int
    num_rows: int
    horizon: int
    infos: str
    places: tuple[Place, ...] = ()
    by_source: bool = False
    by_target: bool = False
    unchecked: str = ""
    single: bool = False


def worker_lines(page: np.ndarray, num_workers: int) -> np.ndarray:
    """`[W, 8]` int64 at the end of a page: what workers 0 to W - 1 say of themselves.

    The last line is worker 0's: a worker need not know how many there are.
    """
    lines: np.ndarray = page[-lines_bytes(num_workers) :].view(np.int64)
    return lines.reshape(num_workers, _LINE)[::-1]


def lines_bytes(num_workers: int) -> int:
    """Bytes that a page needs behind its arrays."""
    return num_workers * _LINE * np.dtype(np.int64).itemsize
