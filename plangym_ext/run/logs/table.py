"""LiveTable: terminal table and progress bar of a training run."""

from __future__ import annotations

import shutil
import time
from collections.abc import Mapping, Sequence
from typing import TextIO

from plangym_ext.run.progress import ProgressLine

_STEP_WIDTH, _WIDTH = 10, 9  # of the step, and of other numbers at least
_BAR, _SHORT_BAR = 24, 8
_ROW_SECONDS = 1.0  # least time between two rows: what comes sooner is shown as one
#: Column that the table works out of steps and the clock.
STEP_RATE = "steps/s"
_SUMMED = ("episodes",)  # of rows that are shown as one; of others the newest value holds
_TELLING = 0.01  # share of a run that tells how long the rest takes: the beginning compiles


class LiveTable:
    """A table that grows by at most a line a second, and a progress bar below it.

    Args:
        total: steps of the whole run; None if unknown, and then there is no bar.
        columns: to be shown, as many as fit; None: those of the row, and the heading is
            repeated when they change. Of a tuple of names the first is shown that rows have.
        stream: where to write; standard error if None.
    """

    def __init__(
        self,
        total: int | None = None,
        columns: Sequence[str | tuple[str, ...]] | None = None,
        stream: TextIO | None = None,
    ) -> None:
        self._total, self._wanted = total, columns
        self._held: dict[str, int | float] = {}
        self._seen: set[str] = set()
        self._last: tuple[int, float] | None = None
        self._held_step, self._next_row = 0, 0.0
        self._line = ProgressLine(stream)
        self._heading = ""
        self._start: tuple[int, float] | None = None

    def row(self, step: int, values: Mapping[str, int | float]) -> None:
        """Show a row, or hold it if another one was shown just before."""
        sums = {name: self._held.get(name, 0) + values[name] for name in _SUMMED if name in values}
        self._held, self._held_step = {**self._held, **values, **sums}, step
        self._seen.update(values)
        if time.monotonic() >= self._next_row:
            self._show_held()
        self.progress(step)

    def text(self, step: int, text: str) -> None:
        """Show lines in place of a row."""
        for line in text.splitlines():
            self._line.above(line)
        self.progress(step)

    def _show_held(self) -> None:
        """Show what is held, and the heading if it is another one than before."""
        step, values, now = self._held_step, self._held, time.monotonic()
        names = list(values) if self._wanted is None else [self._name(one) for one in self._wanted]
        before = self._last or self._start
        if before is not None and step > before[0] and now > before[1]:
            values = {**values, STEP_RATE: round((step - before[0]) / (now - before[1]))}
        self._held, self._last, self._next_row = {}, (step, now), now + _ROW_SECONDS
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

    def _name(self, wanted: str | tuple[str, ...]) -> str:
        """Return the name of a column: of several, the one that was in a row."""
        if isinstance(wanted, str):
            return wanted
        return next((name for name in wanted if name in self._seen), wanted[0])

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

    def leave(self) -> None:
        """Show the held row, and leave the line of the bar before other output."""
        if self._held:
            self._show_held()
        self._line.leave()


def _columns() -> int:
    # Asked each time: a terminal may be made smaller while a run goes on.
    return shutil.get_terminal_size((100, 24)).columns


def _short(value: int | float | None) -> str:
    if value is None:
        return ""
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def as_text(row: Mapping[str, int | float]) -> str:
    """Return the step, and below it an indented line for every other number."""
    wide = max(map(len, row))
    lines = [f"  {n:<{wide}}  {_short(value)}" for n, value in row.items() if n != "step"]
    return "\n".join([f"step {row['step']}", *lines])


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
