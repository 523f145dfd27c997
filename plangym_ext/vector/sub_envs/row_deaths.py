"""RowDeaths: limit on repeated worker deaths in one call."""

from __future__ import annotations

import signal
import time
from collections import Counter

from plangym_ext.errors import PoisonState, WorkerDied
from plangym_ext.workers.batch_layout import NO_ROW
from plangym_ext.workers.limits import (
    MAX_KILLS,
    MAX_SIGNALS,
    MAX_SIGNALS_AT_ROW,
    SIGNALS_SECONDS,
)

#: Signals that others send, too, such as the system when memory runs short.
FROM_OTHERS = (-signal.SIGKILL, -signal.SIGTERM)


class RowDeaths:
    """Counts the deaths of one worker during one call.

    Args:
        first: number in the vector env of its first row.
        rows: how many it has.
    """

    def __init__(self, first: int, rows: int) -> None:
        self._first, self._rows = first, rows
        self._counts: Counter[tuple[str, int]] = Counter()
        self._begun: float | None = None

    def note(self, death: WorkerDied, doing: str, row: int, played: str) -> WorkerDied | None:
        """Note one.

        Args:
            death: how the worker ended.
            doing: what it was at, in words.
            row: number in the worker of the row that was moved, or `NO_ROW`.
            played: what was played in that row, in words; "" for `NO_ROW`.

        Returns:
            None to try again, or the error for the caller.
        """
        self._counts[doing, row] += 1
        count = self._counts[doing, row]
        others = death.exit_status in FROM_OTHERS
        now = time.monotonic()
        self._begun = self._begun or now
        if row == NO_ROW:
            often = count >= (MAX_SIGNALS if others else MAX_KILLS)
            long = not others or now - self._begun >= SIGNALS_SECONDS
            return self.named(death, row) if often and long else None
        if count < (MAX_SIGNALS_AT_ROW if others else MAX_KILLS):
            return None
        number = self._first + row
        return PoisonState(
            f"sub-env {number} has killed {count} workers, one after the other, with "
            f"{played}; the last: {death} All sub-envs are where they were before.",
            row=number,
            worker=death.worker,
            pid=death.pid,
            exit_status=death.exit_status,
            last_command=death.last_command,
        )

    def named(self, death: WorkerDied, row: int) -> WorkerDied:
        """Return the same error, with the sub-envs that it concerns."""
        return WorkerDied(
            f"{self.where(row)}: {death}",
            worker=death.worker,
            pid=death.pid,
            exit_status=death.exit_status,
            last_command=death.last_command,
        )

    def where(self, row: int) -> str:
        """Return a row's number in the vector env; for `NO_ROW` those of all rows of the worker."""
        if row != NO_ROW:
            return f"sub-env {self._first + row}"
        if self._rows == 1:
            return f"sub-env {self._first}"
        return f"sub-envs {self._first} to {self._first + self._rows - 1}"
