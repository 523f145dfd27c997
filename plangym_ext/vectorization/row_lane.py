"""One host's rows with what brings them back: their last states, and the calls since.

A host that dies is built anew, its rows are restored and the calls since are played again,
which gives the same rows bit for bit: the call that was being made is not lost. A call that
fails leaves the rows of every host where they were.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from plangym_ext.errors import WorkerDied, WorkerTimeout
from plangym_ext.vectorization.live_rows import Played
from plangym_ext.vectorization.row_hosts import Answer, RowHost
from plangym_ext.vectorization.seen import not_exact

#: Calls after which states are captured once more, so that those need not be played again.
_LONGEST_LOG = 64
#: Bytes of states that one call more may cost: large states are captured less often.
_BYTES_PER_CALL = 1024
#: Deaths that one call may cause before it is held to be the reason.
_MOST_DEATHS = 2


class RowLane:
    """Calls a host whose rows can be brought back.

    Args:
        host: whose.
        rows: numbers of its rows in the vector env.
        captures: whether the state of every row can be captured; without that, a death
            cannot be mended.

    Attributes:
        lost: whether rows are not where they were before a call that failed; they have
            to be reset.
    """

    def __init__(self, host: RowHost, rows: range, captures: bool) -> None:
        self._host, self.rows, self._captures = host, rows, captures
        self.lost = False
        self._played = False
        self._saved: list[np.ndarray | None] = [None] * len(rows)
        self._log: list[tuple[str, tuple[Any, ...]]] = []
        self._longest_log = _LONGEST_LOG
        #: What the host's rows have shown since; see `Played.seen`.
        self._seen = 0
        #: Attributes that were set, by row and name: states need not hold them.
        self._attributes: dict[tuple[int, str], Any] = {}
        self._call: tuple[str, tuple[Any, ...]] = ("", ())
        self._capture = self._anew = False
        self._answer: Answer | None = None
        self._error: WorkerDied | None = None

    # One call ---------------------------------------------------------------------

    def begin(self, name: str, *args: Any) -> None:
        """Begin a method of `LiveRows`; `finish` must follow."""
        self._call = name, args
        full = name == "step" and len(self._log) >= self._longest_log
        # What a reset draws from the system cannot be played again, and states belong to
        # envs with the attributes of their time: both are kept at once.
        self._capture = self._captures and (full or name in ("reset", "set_attr"))
        #: Whether nothing of what was before matters any more.
        self._anew = name == "reset" and len(args[0]) == len(self.rows)
        self._ask()

    def _ask(self) -> None:
        name, args = self._call
        extra = (True,) if self._capture else ()
        self._answer = self._error = None
        try:
            self._answer = self._host.call(name, *args, *extra)
        except WorkerDied as error:
            self._error = error

    def finish(self, deadline: float | None) -> Any:
        """What the call returns; `keep` or `undo` must follow.

        Args:
            deadline: in `time.monotonic()`, or None.

        Raises:
            WorkerTimeout: the host did not answer in time and was stopped.
            WorkerDied: it died, and again, or its rows cannot be brought back.
            Exception: what an env raised.
        """
        for deaths in range(1, _MOST_DEATHS + 1):
            try:
                if self._error is not None:
                    raise self._error
                assert self._answer is not None
                left = None if deadline is None else max(0.0, deadline - time.monotonic())
                return self._answer(left)
            except WorkerDied:
                if deaths == _MOST_DEATHS or not (self._revive() or self._anew):
                    raise
            self._ask()
        raise AssertionError("not reached")

    def keep(self, found: Any) -> None:
        """The call has succeeded everywhere: it is part of what the rows have lived through."""
        name, args = self._call
        self.lost = self.lost and not self._anew
        self._played = self._played or name in ("reset", "step", "set_states")
        if name == "set_attr":
            rows, attribute, values = args
            for row, value in zip(rows, values, strict=True):
                self._attributes[row, attribute] = value
        if isinstance(found, Played):
            self._seen = found.seen
        if self._capture:
            self._seen = 0
            states = found.states if isinstance(found, Played) else found
            # A state that turns out not to be capturable is no reason to stop playing.
            self._captures = states is not None
            self._saved, self._log = states or self._saved, []
            size = sum(len(state) for state in self._saved if state is not None)
            self._longest_log = max(_LONGEST_LOG, size // _BYTES_PER_CALL)
        elif self._captures and name != "get_states":
            self._log.append(self._call)

    # Bringing rows back -----------------------------------------------------------

    def undo(self, *, hurry: bool = False) -> None:
        """Bring the rows to where they were before the call.

        Args:
            hurry: the host may be in the middle of it and is not waited for.
        """
        done = not hurry and _tried(self._restore)
        if not done and (self._captures or hurry):
            done = _tried(self._revive)
        self.lost = self.lost or not done

    def _revive(self) -> bool:
        """Build the host anew and bring its rows back; whether that can be done."""
        if not self._host.restart():
            return False
        for (row, name), value in self._attributes.items():
            self._host.call("set_attr", (row,), name, (value,))(None)
        return self._restore()

    def _restore(self) -> bool:
        """Restore the saved states and play what came after them; False if there are none.

        Raises:
            NotExact: that showed something else than it did before.
        """
        if not self._captures:
            return not self._played
        seen = 0
        try:
            self._host.call("bring_back", self._saved)(None)
            for name, args in self._log:
                found = self._host.call(name, *args)(None)
                seen = found.seen if isinstance(found, Played) else seen
        except (WorkerDied, WorkerTimeout):
            return False
        if seen != self._seen:
            raise not_exact(self.rows, len(self._log))
        return True


def _tried(bring_back: Callable[[], bool]) -> bool:
    """Whether rows could be brought back; whatever an env raises meanwhile, they were not."""
    with contextlib.suppress(Exception):
        return bring_back()
    return False


def finish_all(lanes: Sequence[RowLane], timeout: float | None) -> list[Any]:
    """Finish a call that several lanes have begun: everywhere, or nowhere.

    Args:
        lanes: which.
        timeout: seconds for all of them together, or None.

    Raises:
        Exception: as `RowLane.finish`, the first lane's that failed; all rows are where they
            were before the call.
    """
    deadline = None if timeout is None else time.monotonic() + timeout
    found: list[Any] = []
    failure: Exception | None = None
    try:
        for lane in lanes:
            try:
                found.append(lane.finish(deadline))
            except Exception as error:  # raised below, once every lane has answered
                found.append(None)
                failure = failure or error
    except BaseException:  # an interrupt: nobody waits for those that have not answered
        for k, lane in enumerate(lanes):
            lane.undo(hurry=k >= len(found))
        raise
    if failure is not None:
        for lane in lanes:
            lane.undo()
        raise failure
    for lane, result in zip(lanes, found, strict=True):
        lane.keep(result)
    return found
