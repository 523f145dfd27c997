"""What batches have cost: it says how finely to cut the next, and how to wait for it."""

from __future__ import annotations

from plangym_ext.workers.lane import Lane

#: Seconds that a step is expected to cost before one was seen.
_USUAL_STEP = 30e-6
#: Seconds for which it is worth to stay awake behind a batch that should end within them.
_AWAKE = 2e-3
#: What part of a batch may pass until its end is noticed; more, and others want the processor.
_LATE = 0.25
#: What the last batch adds to what is known, and what it takes from an excess and a delay.
_NEW, _FORGOTTEN = 0.2, 0.05


class Pace:
    """What the batches of one crew have cost so far.

    Attributes:
        excess: by how much one range took longer than usual, as a part of the time that all
            workers took for its batch; None as long as nothing is usual.
    """

    def __init__(self) -> None:
        self.excess: float | None = None
        self._step_seconds: float | None = None
        self._late = 0.0

    def note(self, lane: Lane, num_steps: int, noticed: int) -> None:
        """Remember what a batch cost.

        Args:
            lane: that it had, with all reports.
            num_steps: of all rows.
            noticed: when that was seen, in `time.monotonic_ns()`.
        """
        if not lane.taken:  # a clock too coarse to see it
            return
        late = (noticed - lane.ended) * len(lane.reporters) / lane.taken
        self._late = _slowly_less(self._late, min(late, 1.0))
        step = 1e-9 * lane.taken / num_steps
        if self._step_seconds is None:
            self._step_seconds = step
            return
        self._step_seconds += _NEW * (step - self._step_seconds)
        excess = lane.excess / lane.taken
        self.excess = excess if self.excess is None else _slowly_less(self.excess, excess)

    def row_seconds(self, horizon: int) -> float:
        """What a row of `horizon` actions is expected to cost a worker."""
        return horizon * (_USUAL_STEP if self._step_seconds is None else self._step_seconds)

    def awake(self, seconds: float) -> float:
        """Seconds for which to stay awake behind a batch that should take some.

        Whoever waits awake lets others have the processor in between, but then has to wait
        until they give it back, where one that sleeps is woken at once. So that is for
        processors that nobody else wants.
        """
        return _AWAKE if seconds < _AWAKE and self._late < _LATE else 0.0


def _slowly_less(known: float, found: float) -> float:
    """What is found, if it is more than what is known; one that is less says little."""
    return found if found > known else known + _FORGOTTEN * (found - known)
