"""One object that writes a run's numbers to all places where people look for them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TextIO


class Logger:
    """Writes `progress.csv`, `progress.jsonl`, `params.json`, `timings.csv` and TensorBoard.

    Everything that the run computes goes to the progress files, which are the same bytes
    for the same run, resumed or not; everything that clocks say goes to `timings.csv`.

    Args:
        folder: made if it is not there.
        params: written to `params.json`: settings, seed, versions.
        resume: go on with the log in the folder; call `truncate_after` with the step of
            the checkpoint. False refuses a folder with a log.
        tensorboard: also write event files; None: if tensorboard is installed.
        total: steps of the whole run, for the progress bar; None if unknown.
        show: whether to show the table and the bar.
        columns: of the table; None: as many as fit.
        stream: where to show them; standard error if None.

    Raises:
        FolderTaken: the folder holds a log and `resume` is False.
    """

    def __init__(
        self,
        folder: Path | str,
        *,
        params: Mapping[str, Any] | None = None,
        resume: bool = False,
        tensorboard: bool | None = None,
        total: int | None = None,
        show: bool = True,
        columns: list[str] | None = None,
        stream: TextIO | None = None,
    ) -> None:
        raise NotImplementedError

    def log(
        self,
        step: int,
        values: Mapping[str, float],
        *,
        timings: Mapping[str, float] | None = None,
    ) -> None:
        """Write one row and show it.

        Args:
            step: larger than that of the row before.
            values: numbers by name, such as "eval/return"; new names may come at any time.
            timings: numbers that depend on the clock, such as "steps_per_second".
        """
        raise NotImplementedError

    def progress(self, step: int, text: str = "") -> None:
        """Move the bar between two rows."""
        raise NotImplementedError

    def truncate_after(self, step: int) -> None:
        """Drop all rows behind `step`, and what a kill left half written.

        An interrupted run that calls it with the step of its checkpoint, and goes on, ends
        with the progress files of a run that was never interrupted.
        """
        raise NotImplementedError

    def flush(self) -> None:
        """Bring everything to the disk: before a checkpoint that refers to it."""
        raise NotImplementedError

    def close(self) -> None:
        """Close the files; safe to call twice."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        """Return the logger; it is closed when the block ends."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
