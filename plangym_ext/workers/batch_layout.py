"""BatchLayout: places of a batch's arrays in shared memory."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, NamedTuple

import numpy as np

from plangym_ext.arrays.storage import SharedBlock
from plangym_ext.core.results import RowResults
from plangym_ext.core.row_request import RowRequest
from plangym_ext.core.rows import NO_ROW as NO_ROW
from plangym_ext.core.rows import RowBatch
from plangym_ext.errors import WorkerDied, WorkerTimeout
from plangym_ext.workers.remote_errors import ErrorReport

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


# Rows: the rows of one batch in memory, and the workers that run them ---------


class Death(NamedTuple):
    """A worker's death.

    Attributes:
        rows: `(first, stop)`, one of which it was running; empty if that is not known.
        error: how it ended.
    """

    rows: tuple[int, int]
    error: WorkerDied


class Round(NamedTuple):
    """Unusual end of a round.

    Attributes:
        deaths: of workers that took part.
        failures: first row, report and worker of each error of an env.
        excess: bytes that states need more than their rows have.
        left: rows that are not done, `[n]` int64.
    """

    deaths: list[Death]
    failures: list[tuple[int, ErrorReport, str]]
    excess: int
    left: np.ndarray


class Rows(ABC):
    """Transport of one batch: its rows on a page, and the workers that run them in rounds.

    Attributes:
        request: whose rows.
        batch: views of them in this process.
        state_width: S, the bytes of the rows that there is room for.
        writes_elsewhere: whether workers write to memory that the caller may use again.
    """

    request: RowRequest
    batch: RowBatch
    state_width: int
    writes_elsewhere = False

    @abstractmethod
    def begin(self) -> None:
        """Take memory, copy the inputs in, and offer all rows."""

    @abstractmethod
    def offer_again(self, left: np.ndarray, deaths: list[Death]) -> None:
        """Offer the unfinished rows so that a row that kills its worker can be identified."""

    @abstractmethod
    def waiting(self) -> list[Any]:
        """Return workers that may be running rows; the round is over when there are none."""

    @abstractmethod
    def listen(self, timeout: float) -> bool:
        """Read messages, replace dead workers; return whether any came within the timeout."""

    @abstractmethod
    def end_round(self) -> Round | None:
        """End a round that is over; None if all went as usual."""

    @abstractmethod
    def hung(self) -> tuple[list[Any], float | None]:
        """Return workers without progress for too long, and the limit in seconds."""

    @abstractmethod
    def stopped(self, hung: list[Any], seconds: float | None) -> WorkerTimeout:
        """Stop and replace workers that hang, and return the error that names them.

        The others go on with the rows that they have begun, whose results are not used.
        """

    @abstractmethod
    def row_of(self, worker: Any) -> int:
        """Return the row that a worker is running, or the first of its share; else `NO_ROW`."""

    @abstractmethod
    def ask_to_finish(self) -> None:
        """Ask every worker to report when it has finished; once a round."""

    @abstractmethod
    def cancel(self) -> None:
        """Forget workers, which are all gone."""

    @abstractmethod
    def results(self) -> RowResults:
        """Return the results of all rows, which are done: views of the page, or copies."""

    @abstractmethod
    def release(self) -> None:
        """Release the memory, which no worker writes to any more; `begin` may have failed."""

    def discard(self) -> None:  # noqa: B027 - actors have begun all that they were sent
        """Withdraw the rows that no worker has begun."""

    def abort(self) -> None:  # noqa: B027 - actors come to the end of what they were sent
        """Replace workers that are running rows, which would go on writing."""

    def action(self, row: int) -> Any:
        """Return the action of a row, or its actions if it plays several; fresh."""
        layout = self.batch.layout.action
        action = layout.join(tuple(actions[row].copy() for actions in self.batch.actions))
        return action[0] if self.request.horizon == 1 and layout.is_flat else action

    def state(self, row: int) -> np.ndarray:
        """Return fresh `[S]` uint8: where a row begins."""
        slots = self.request.slots
        source = row if slots is None else int(slots.sources[row])
        state: np.ndarray = self.request.states[source].copy()
        return state
