"""Rows of numbers for the eye: what is shown while a run goes on."""

from __future__ import annotations

import shutil
import time
from collections.abc import Mapping, Sequence
from typing import TextIO

from plangym_ext.run.progress import ProgressLine

_STEP_WIDTH, _WIDTH = 10, 9  # of the step, and of other numbers at least
_BAR, _SHORT_BAR = 24, 8
_TELLING = 0.01  # share of a run that tells how long the rest takes: the beginning compiles


class LiveTable:
    """A table that grows by a line per row, and a progress bar below it.

    Args:
        total: steps of the whole run; None if unknown, and then there is no bar.
        columns: to be shown, as many as fit; None: those of the row, and the heading is
            repeated when they change.
        stream: where to write; standard error if None.
    """

    def __init__(
        self,
        total: int | None = None,
        columns: Sequence[str] | None = None,
        stream: TextIO | None = None,
    ) -> None:
        self._total, self._wanted = total, columns
        self._line = ProgressLine(stream)
        self._heading = ""
        self._start: tuple[int, float] | None = None

    def row(self, step: int, values: Mapping[str, int | float]) -> None:
        """Show a row, and the heading if it is another one than before."""
        names = list(self._wanted or values)
        heading, cells = f"{'step':>{_STEP_WIDTH}}", f"{step:>{_STEP_WIDTH}}"
        for name in names:
            wide = max(_WIDTH, len(name))
            if len(heading) + 2 + wide > _columns():
                break
            heading += f"  {name:>{wide}}"
            cells += f"  {_short(values.get(name)):>{wide}}"
        if heading != self._heading:
            self._line.above(heading)
            self._heading = heading
        self._line.above(cells)
        self.progress(step)

    def progress(self, step: int, text: str = "") -> None:
        """Move the bar, unless it was moved a moment ago."""
        if not self._line.is_due:
            return
        now = time.monotonic()
        first, began = self._start = self._start or (step, now)
        rest = f"  {text}" if text else ""
        if self._total and first + _TELLING * self._total < step < self._total:
            # By this process's own steps: those before it was resumed took no time of it.
            left = (now - began) * (self._total - step) / (step - first)
            rest = f"  {_clock(left)} left{rest}"
        # A line that fills the last column would wrap, and could not be written over.
        width = _columns() - 1
        shown = self._bar(step, _BAR) + rest
        if len(shown) > width:
            shown = self._bar(step, _SHORT_BAR) + rest
        self._line.update(shown[:width])

    def _bar(self, step: int, length: int) -> str:
        """Return the step, and a bar of so many characters if it is known where it ends."""
        if not self._total:
            return f"step {step:,}"
        share = min(step / self._total, 1.0)
        bar = ("#" * round(length * share)).ljust(length, ".")
        return f"step {step:,}/{self._total:,} [{bar}] {share:4.0%}"

    def close(self) -> None:
        """Leave the line of the bar."""
        self._line.leave()


def _columns() -> int:
    # Asked each time: a terminal may be made smaller while a run goes on.
    return shutil.get_terminal_size((100, 24)).columns


def _short(value: int | float | None) -> str:
    if value is None:
        return ""
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
