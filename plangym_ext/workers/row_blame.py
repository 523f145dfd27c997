"""Which row is to blame if workers keep dying over a batch."""

from __future__ import annotations

from collections.abc import Iterable

from plangym_ext.errors import WorkerDied
from plangym_ext.workers.rows_message import NO_ROW

#: Workers that one row may kill before it is held to be the cause.
MAX_KILLS = 2
#: Rounds in a row that may lose workers without any row being done or blamed for it.
_MAX_IDLE_ROUNDS = 3


class RowBlame:
    """The deaths over the rows of one batch.

    Attributes:
        num_left: rows that are not done.
    """

    def __init__(self, num_rows: int) -> None:
        self.num_left = num_rows
        self._kills: dict[int, int] = {}
        self._idle_rounds = 0

    def note(
        self, deaths: Iterable[tuple[int, WorkerDied]], num_left: int
    ) -> tuple[int, WorkerDied] | None:
        """Note the deaths of one round.

        Args:
            deaths: with the row that was being run and is not done, or `NO_ROW`.
            num_left: rows that are not done now.

        Returns:
            The row that has killed `MAX_KILLS` workers and the last of these deaths, if there
            is one.

        Raises:
            WorkerDied: workers die again and again, and no row gets done.
        """
        idle = num_left == self.num_left
        self.num_left = num_left
        last = None
        for row, last in deaths:
            if row != NO_ROW:
                idle = False
                self._kills[row] = self._kills.get(row, 0) + 1
                if self._kills[row] >= MAX_KILLS:
                    return row, last
        self._idle_rounds = self._idle_rounds + 1 if idle else 0
        if last is not None and self._idle_rounds >= _MAX_IDLE_ROUNDS:
            raise last
        return None
