"""What batches have cost: it says how finely to cut the next, and how to wait for it."""

from __future__ import annotations

#: Seconds that a step is expected to cost before one was seen.
_USUAL_STEP = 30e-6
#: Seconds for which it is worth to stay awake behind a batch that should end within them.
_AWAKE = 2e-3
#: Times as long as they had a processor that workers took, from which on somebody else
#: wants the processors, and what counts for it of a single batch.
_CROWDED, _MOST_CROWDED = 1.25, 2.0
#: What the last batch adds to what is known, and what it takes from an excess.
_NEW, _FORGOTTEN = 0.2, 0.1


class Pace:
    """What the batches of one crew have cost so far.

    Attributes:
        excess: by how much one range took longer than usual, as a part of the time that all
            workers took for its batch; None as long as nothing is usual.
    """

    def __init__(self) -> None:
        self.excess: float | None = None
        self._step_seconds: float | None = None
        self._crowding = 1.0

    def note(self, taken: int, busy: int, excess: int, num_rows: int, horizon: int) -> None:
        """Remember what a batch cost.

        Args:
            taken: nanoseconds that all workers took for it.
            busy: nanoseconds of them for which they had a processor.
            excess: nanoseconds by which one range took longer than usual, at most.
            num_rows: B.
            horizon: H.
        """
        if not taken:  # a clock too coarse to see it
            return
        crowding = taken / busy if taken < _MOST_CROWDED * busy else _MOST_CROWDED
        self._crowding += _NEW * (crowding - self._crowding)
        step = 1e-9 * taken / (num_rows * horizon)
        if self._step_seconds is None:
            self._step_seconds = step
            return
        self._step_seconds += _NEW * (step - self._step_seconds)
        found, known = excess / taken, self.excess
        if known is not None and found < known:
            # Rows that happen to be alike do not say that the next ones are.
            found = known + _FORGOTTEN * (found - known)
        self.excess = found

    def row_seconds(self, horizon: int) -> float:
        """What a row of `horizon` actions is expected to cost a worker."""
        return horizon * (_USUAL_STEP if self._step_seconds is None else self._step_seconds)

    def awake(self, seconds: float) -> float:
        """Seconds for which to stay awake behind a batch that should take some.

        Whoever waits awake lets others have the processor in between, but then has to wait
        for it like them, where one that sleeps is woken at once. So that is for processors
        that nobody else wants.
        """
        return _AWAKE if seconds < _AWAKE and self._crowding < _CROWDED else 0.0
