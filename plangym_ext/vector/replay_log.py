"""One host's rows: where they should be, where they are, and what leads from here to there.

    idle --- begin ---> STARTING --> OPENING --> RESTORING --> REPLAYING --> ASKED --> SETTLED
               |  a new process is needed             ^                        ^
               |-------------------------- rows are elsewhere                  |
               '------------------------------------ rows are where they should be

Whatever happens on the way, a death leads to STARTING, and an interrupt to idle. Nothing is
undone when a call fails: its past is not kept, so `begin` finds the rows elsewhere the next
time. So there is no moment at which an interrupt could leave rows half undone.
"""

from __future__ import annotations

import enum
import time
from collections.abc import Callable
from typing import Any

from plangym_ext.errors import WorkerDied, WorkerTimeout
from plangym_ext.vector.hosts import RowHost
from plangym_ext.vector.past import READING, Call, Past
from plangym_ext.vector.row_deaths import RowDeaths
from plangym_ext.vector.seen import not_exact
from plangym_ext.workers.external_process import START_TIMEOUT
from plangym_ext.workers.rows_message import NO_ROW

#: Seconds that a worker may take to come back from a call that nobody waits for any more,
#: before it is replaced.
_LEFT_BEHIND = 5.0
#: How often in its time limit a worker is looked at whether it gets on.
_LOOKS = 8


class Phase(enum.Enum):
    """What a lane waits for."""

    STARTING = "a worker was started"
    OPENING = "a worker was prepared"
    RESTORING = "rows were restored"
    REPLAYING = "steps were replayed"
    ASKED = "a call was made"
    SETTLED = "nothing"


# Of the module: to look a member up in an enum takes longer than to compare it.
_SETTLED, _ASKED, _STARTING = Phase.SETTLED, Phase.ASKED, Phase.STARTING


class ReplayLog:
    """Makes calls of one host, one at a time, each from where its rows should be.

    Args:
        host: whose.
        rows: numbers of its rows in the vector env.
        patience: seconds that one row may take before its worker counts as hung, or None.
        show: has the board show again what the lane's rows showed, as `Past.shown` has it.

    Attributes:
        error: what the call has failed with, once it has settled.
        found: what it returned.
    """

    def __init__(
        self, host: RowHost, rows: range, patience: float | None, show: Callable[[Any], object]
    ) -> None:
        self.host, self.rows = host, rows
        self._patience, self._show = patience, show
        #: Where the rows of the process are; None while they move, or if nobody knows.
        self._at: Past | None = None
        #: Where rows cannot be brought any more: a new process has failed to get there.
        self._beyond: Past | None = None
        self._past = Past((), captures=False)
        self._call: Call | None = None
        self._request: int | None = None
        #: Whether the host may still be at a call that nobody waits for; whether its process
        #: was started for this call; and whether it knows the memory.
        self._left_behind, self._new, self._opened = False, False, True
        #: When the phase began, and when the worker was last seen to get on in it.
        self._asked_at = self._since = 0.0
        self._deaths_noted: RowDeaths | None = None
        self.phase = Phase.SETTLED
        #: Whether the descriptors to wait on are others than before.
        self.renewed = True
        self.error: Exception | None = None
        self.found: Any = None

    @property
    def settled(self) -> bool:
        """Whether there is nothing to wait for."""
        return self.phase is _SETTLED

    @property
    def call(self) -> Call:
        """The call that was begun last."""
        assert self._call is not None
        return self._call

    def arrived(self, past: Past) -> None:
        """Note that the rows of the process are there, which nobody else may know."""
        self._at = past

    def is_off(self, past: Past) -> bool:
        """Whether rows are elsewhere, as far as it is known."""
        return self._at is not past or self.host.fallen is not None

    def is_lost(self, past: Past) -> bool:
        """Whether rows are elsewhere and cannot be brought there: they have to be reset."""
        return self.is_off(past) and (not past.restorable or self._beyond is past)

    def begin(self, past: Past, call: Call | None, *, anew: bool = False) -> None:
        """Begin a call, or only to bring rows where they should be.

        Args:
            past: where that is.
            call: a method of `LiveRows` and its arguments; None for none.
            anew: whether the call does not care where rows are, if they cannot be brought
                where they should be.
        """
        self.error = self.found = None
        self._past, self._call, self._anew = past, call, anew
        self._deaths_noted = None
        interrupted, self.phase = self.phase, _SETTLED
        self._new = False
        if self._request is not None:
            # Nobody has waited for that: an interrupt.
            self.host.forget(self._request)
            self._request, self._left_behind = None, True
        if self.host.fallen is not None:
            self._died()
        elif not self._opened and interrupted in (Phase.STARTING, Phase.OPENING):
            self._new = True
            self._enter(Phase.STARTING, START_TIMEOUT)
        elif not self._opened:
            self._start()  # an env could not be built
        elif self._at is past:
            self._ask()
        else:
            self._bring_back()

    def look(self, ready: Any) -> None:
        """Take in what has come from the host, and go on."""
        self.host.look(ready)
        if self.host.fallen is not None:
            self.renewed = True
        self.advance()

    def advance(self) -> None:
        """Go on as far as that is possible without waiting."""
        host = self.host
        while self.phase is not _SETTLED:
            if host.fallen is not None:
                self._died()
            elif self.phase is _STARTING:
                if not host.built:
                    return
                self._open()
            elif self._request is None or not host.answered(self._request):
                return
            else:
                self._answered()

    # The phases ---------------------------------------------------------------------

    def _enter(self, phase: Phase, limit: float | None) -> None:
        self.phase, self._limit = phase, limit
        self._since = self._asked_at = time.monotonic()
        self._sign: object = None

    def _start(self) -> None:
        self._at, self._request, self._left_behind, self._new = None, None, False, True
        self._opened, self.renewed = False, True
        self.host.restart()
        self._enter(Phase.STARTING, max(START_TIMEOUT, self._patience or 0.0))

    def _open(self) -> None:
        try:
            self._request = self.host.open(self._past.attributes)
        except (WorkerDied, WorkerTimeout):
            return  # seen as any other death
        except Exception as error:  # of an env's constructor
            self._fail(error)
            return
        self._enter(Phase.OPENING, self._patience)

    def _bring_back(self) -> None:
        """Bring rows of a process that is ready to where they should be."""
        past = self._past
        if not past.restorable or past is self._beyond:
            if self._left_behind and self.host.replaceable:
                self._start()  # it may never come back from what it does
            elif self._anew:
                self._ask()
            else:
                self._fail(WorkerDied(f"{self._deaths.where(NO_ROW)}: rows are lost; reset them"))
        elif past.played or past.count or not self._new:
            limit = _LEFT_BEHIND if self._left_behind else self._patience
            self._send(Phase.RESTORING, limit, "bring_back", past.states)
        else:
            self._ask()  # nothing has ever been done with these rows

    def _replay(self) -> None:
        self._show(self._past.shown)
        self._send(Phase.REPLAYING, self._patience, "replay", self._past.recorded())

    def _ask(self) -> None:
        if self._call is None:
            self._at, self.phase = self._past, _SETTLED
            return
        name, args = self._call
        if name not in READING:
            self._at = None
        self._send(_ASKED, self._patience, name, *args)

    def _send(self, phase: Phase, limit: float | None, name: str, *args: Any) -> None:
        self._enter(phase, limit)
        try:
            self._request = self.host.ask(name, *args)
        except WorkerDied:
            self._request = None  # seen as any other death
        except WorkerTimeout as error:
            self._fail(error)

    def _answered(self) -> None:
        request, self._request = self._request, None
        assert request is not None
        try:
            found = self.host.take(request)
        except Exception as error:  # of an env, or of what was to be restored
            self._refused(error)
            return
        self._left_behind = False
        if self.phase is _ASKED:
            self.found, self.phase = found, _SETTLED
        elif self.phase is Phase.OPENING:
            self._opened = True
            self._bring_back()
        elif self.phase is Phase.RESTORING:
            self._replay()
        elif self.phase is Phase.REPLAYING and found != self._past.seen:
            self._refused(not_exact(self.rows, self._past.count))
        else:
            self._at = self._past
            self._ask()

    @property
    def _deaths(self) -> RowDeaths:
        """Those over this call; hardly any call has some."""
        if self._deaths_noted is None:
            self._deaths_noted = RowDeaths(self.rows.start, len(self.rows))
        return self._deaths_noted

    # What goes wrong ----------------------------------------------------------------

    def _refused(self, error: Exception) -> None:
        """An env has raised, or a state was refused."""
        if self.phase is Phase.ASKED:
            self._fail(error)
        elif self.host.replaceable and not self._new:
            self._start()  # what the call before has left may be the reason
        else:
            self._beyond = self._past
            if self._anew:
                self._ask()
            else:
                error.add_note(f"while {self._deaths.where(NO_ROW)} were brought back")
                self._fail(error)

    def _died(self) -> None:
        death = self.host.fallen
        assert death is not None
        row, _ = self.host.progress
        self._at = self._request = None
        self.renewed = True
        asked = self.phase is Phase.ASKED
        if asked and not (self._past.restorable or self._anew):
            error = self._deaths.named(death, row)
            error.add_note(
                f"States of {self._deaths.where(NO_ROW)} are not captured (`backend_note` says "
                "why), so their episodes are lost: reset them."
            )
            self._fail(error)
            return
        counts = not self.settled  # it may have died long before this call
        given_up = counts and self._deaths.note(
            death, self.phase.value, row if asked else NO_ROW, self._doing
        )
        if given_up:
            self._fail(given_up)
        else:
            self._start()

    def _fail(self, error: Exception) -> None:
        self.error, self.phase, self._request = error, Phase.SETTLED, None

    # Time ---------------------------------------------------------------------------

    def time_left(self, began: float, timeout: float | None) -> float:
        """Seconds that the call may still take; more than any if it was not made yet."""
        if timeout is None or self.phase is not Phase.ASKED:
            return float("inf")
        return max(began, self._asked_at) + timeout - time.monotonic()

    def next_look(self) -> float:
        """When to ask again whether it is `late`, in `time.monotonic()`."""
        return time.monotonic() + (self._limit or float("inf")) / _LOOKS

    def check_hung(self) -> None:
        """Stop a worker that has got on with nothing for its limit."""
        now, sign = time.monotonic(), self.host.progress
        if sign != self._sign:
            self._sign, self._since = sign, now
        elif self._limit is not None and now - self._since >= self._limit:
            self.stop_hung(self._limit)

    def stop_hung(self, seconds: float) -> None:
        """Stop the worker, which does not get on."""
        if self._left_behind and self.phase is not Phase.ASKED:
            self._start()
            return
        row, _ = self.host.progress
        doing = f" in {self._deaths.where(row)}"
        if self.phase is Phase.ASKED:
            doing += f", {self._doing(row)}," if row != NO_ROW else ","
        else:
            doing += f", while {self.phase.value},"
        error = self.host.hung(seconds, doing)
        self._at, self.renewed = None, True
        rows = tuple(self.rows) if row == NO_ROW else (self.rows[row],)
        self._fail(WorkerTimeout(str(error), workers=error.workers, rows=rows))

    def _doing(self, row: int) -> str:
        """What is played in a row, in words."""
        assert self._call is not None
        name, args = self._call
        if name != "step":
            return name
        rows = list(args[0])
        return f"action {args[1][rows.index(row)]}" if row in rows else name
