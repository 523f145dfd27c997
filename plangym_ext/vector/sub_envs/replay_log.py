"""ReplayLog: calls to the sub-envs of one process, with restart and replay after its death.

    idle --- begin ---> STARTING --> OPENING --> RESTORING --> REPLAYING --> ASKED --> SETTLED
               |  a new process is needed             ^                        ^
               |-------------------------- rows are elsewhere                  |
               '------------------------------------ rows are where they should be

In every phase, a death leads to STARTING, and an interrupt to idle. Nothing is undone when a call
fails: its checkpoint is not kept, so `begin` finds the rows elsewhere the next time. So there is no
moment at which an interrupt could leave rows half undone.
"""

from __future__ import annotations

import contextlib
import enum
import time
from collections.abc import Callable, Sequence
from typing import Any

from plangym_ext.errors import WorkerDied, WorkerTimeout, add_note
from plangym_ext.vector.results import VectorTimeout
from plangym_ext.vector.sub_envs.checkpoint import Checkpoint, RowCall, RowDeaths, not_exact
from plangym_ext.vector.sub_envs.hosts import RowHost, WorkerHost
from plangym_ext.vector.sub_envs.plain_attributes import has_not_begun
from plangym_ext.workers.batch_layout import NO_ROW
from plangym_ext.workers.limits import row_limit, start_limit

#: Seconds that a worker may take to end a call that was abandoned, before it is replaced.
_ABANDONED = 5.0


class Phase(enum.Enum):
    """States of the log's state machine."""

    STARTING = "a worker was started"
    OPENING = "a worker was prepared"
    RESTORING = "rows were restored"
    REPLAYING = "steps were replayed"
    ASKED = "a call was made"
    SETTLED = "nothing"


# Of the module: to look a member up in an enum takes longer than to compare it.
SETTLED, _ASKED, _STARTING = Phase.SETTLED, Phase.ASKED, Phase.STARTING


class ReplayLog:
    """Makes the calls of one host in sequence, each from the rows' committed states.

    Args:
        host: whose.
        rows: numbers of its rows in the vector env.
        patience: seconds that one row may take before its worker counts as hung, or None.
        show: makes rows give the same results again, by the checksum `Checkpoint.shown`.

    Attributes:
        at: where the rows of the process are; None while they move, or if it is not known.
        phase: what it waits for.
        renewed: whether the descriptors to wait on are others than before.
        error: what the call has failed with, once it has settled.
        reply: what it returned.
    """

    def __init__(
        self, host: RowHost, rows: range, patience: float | None, show: Callable[[Any], object]
    ) -> None:
        self.host, self.rows = host, rows
        #: The host, if its process can die and be replaced.
        self._remote = host if isinstance(host, WorkerHost) else None
        self._patience, self._show = patience, show
        self.at: Checkpoint | None = None
        #: Where rows cannot be brought any more: a new process has failed to get there.
        self._unreachable: Checkpoint | None = None
        self._target = Checkpoint((), captures=False)
        self._call: RowCall | None = None
        self._request: int | None = None
        #: Calls that the host may have been asked for before their turn, and the requests.
        self._ahead: list[tuple[RowCall, int | None]] = []
        #: Whether the host may still be at an abandoned call; whether its process was started
        #: for this call; and whether it knows the memory.
        self._abandoned, self._is_new, self._opened = False, False, True
        #: When the phase began, and when the worker was last seen to make progress in it.
        self._asked_at = self._since = 0.0
        self._deaths_noted: RowDeaths | None = None
        self._has_stepped, self._slowest = False, 0.0  # a step; seconds of the longest call
        self.phase, self.renewed = SETTLED, True
        self.error: Exception | None = None
        self.reply: Any = None

    @property
    def signs(self) -> Sequence[int]:
        """Descriptors that are readable when something has come, or the process is gone."""
        return () if self._remote is None or self.fallen else self._remote.worker.process.signs

    @property
    def fallen(self) -> WorkerDied | None:
        """How the process ended, if it is gone and was not replaced yet."""
        return None if self._remote is None else self._remote.worker.process.fallen

    @property
    def call(self) -> RowCall:
        """The call that was begun last."""
        assert self._call is not None
        return self._call

    def is_away(self, checkpoint: Checkpoint) -> bool:
        """Return whether rows are known to be in other states than their committed ones."""
        return self.at is not checkpoint or self.fallen is not None

    def is_lost(self, checkpoint: Checkpoint) -> bool:
        """Return whether rows have moved and cannot be restored: reset them."""
        lost = not checkpoint.restorable or self._unreachable is checkpoint
        return lost and self.is_away(checkpoint)

    def begin(self, target: Checkpoint, call: RowCall | None) -> None:
        """Begin a call, or only the restoration of rows.

        Args:
            target: where that is.
            call: None for none.
        """
        self.error = self.reply = None
        self._target, self._call = target, call
        # Sent ahead: then it only has to be waited for.
        if self._ahead and self._adopt():
            return
        self._deaths_noted = None
        # Settled until it is known how to go on: an interrupt from here on waits for nothing.
        interrupted, self.phase = self.phase, SETTLED
        self._is_new = False
        if self._request is not None:
            self._abandon(self._request)
            self._request = None
        if self.fallen is not None:
            self._died()
        elif not self._opened and interrupted in (Phase.STARTING, Phase.OPENING):
            self._is_new = True
            self._enter(Phase.STARTING, start_limit(self._patience))
        elif not self._opened:
            self._start()  # an env could not be built
        elif self.at is target:
            self._ask()
        else:
            self._bring_back()

    def send_ahead(self, target: Checkpoint, call: RowCall) -> None:
        """Send a call before earlier ones are answered, if it is valid once they succeed.

        It is begun all the same when its turn comes. `target` is where rows should be now.
        """
        in_order = self.phase is _ASKED or (self.phase is SETTLED and self.at is target)
        if self._remote is None or self.fallen is not None or not in_order:
            return
        # Noted first: an interrupt must not leave a request that is not known of.
        self._ahead.append((call, None))
        with contextlib.suppress(WorkerDied, WorkerTimeout):  # seen when its turn has come
            self._ahead[-1] = call, self.host.start(call)

    def _adopt(self) -> bool:
        """Wait for the call that was sent ahead, if it is the present one and in order."""
        call, request = self._ahead[0]
        if call is not self._call or self.at is not self._target or request is None:
            self.drop_ahead()
            return False
        if self.fallen is not None:
            return False
        del self._ahead[0]
        self.at, self._is_new, self._deaths_noted = None, False, None
        self._enter(_ASKED)
        self._request = request
        return True

    def drop_ahead(self) -> None:
        """Drop calls that were sent ahead: they may have moved rows."""
        for _, request in self._ahead:
            self.at = None
            self._abandon(request)
        self._ahead.clear()

    def _abandon(self, request: int | None) -> None:
        """Drop the answer to a call that was interrupted."""
        if self._remote is not None and request is not None:
            self._remote.worker.forget(request)
        self._abandoned = True

    def receive(self, ready: Any) -> None:
        """Read the host's messages from readable descriptors, and advance."""
        assert self._remote is not None
        if self.fallen is None:
            self._remote.worker.look(ready)
        if self.fallen is not None:
            self.renewed = True
        self.advance()

    def advance(self) -> None:
        """Advance as far as possible without waiting."""
        while self.phase is not SETTLED:
            if self.fallen is not None:
                self._died()
            elif self.phase is _STARTING:
                assert self._remote is not None
                if not self._remote.worker.ready:
                    return
                self._open(self._remote)
            elif self._request is None or not self._answered(self._request):
                return

    # The phases ---------------------------------------------------------------------

    def _enter(self, phase: Phase, limit: float | None = None, call: RowCall | None = None) -> None:
        """Begin a phase, and make its call."""
        self.phase, self._limit = phase, limit
        self._since = self._asked_at = time.monotonic()
        self._last_progress: object = None
        if call is not None:
            try:
                self._request = self.host.start(call)
            except WorkerDied:
                self._request = None  # seen as any other death
            except WorkerTimeout as error:
                self._fail(error)

    def _start(self) -> None:
        assert self._remote is not None
        self.at, self._request, self._abandoned, self._is_new = None, None, False, True
        # Calls that were sent ahead went to the replaced process.
        self._ahead.clear()
        self._opened, self.renewed = False, True
        self._remote.restart()
        self._enter(Phase.STARTING, start_limit(self._patience))

    def _open(self, remote: WorkerHost) -> None:
        try:
            self._request = remote.open(self._target.attributes)
        except (WorkerDied, WorkerTimeout):
            return  # seen as any other death
        except Exception as error:  # of an env's constructor
            self._fail(error)
            return
        self._enter(Phase.OPENING)

    def _bring_back(self) -> None:
        """Restore the committed states of rows in a process that is ready."""
        target = self._target
        if not target.restorable or target is self._unreachable:
            if self._abandoned and self._remote is not None:
                self._start()  # it may never come back from what it does
            elif self._may_reset:
                self._ask()
            else:
                self._fail(WorkerDied(f"{self._deaths.where(NO_ROW)}: rows are lost; reset them"))
        elif target.moved or target.count or not self._is_new:
            limit = _ABANDONED if self._abandoned else None
            self._enter(Phase.RESTORING, limit, RowCall("restore_all", (target.states,)))
        else:
            self._ask()  # nothing has ever been done with these rows

    def _replay(self) -> None:
        self._show(self._target.shown)
        replay = RowCall("replay", (self._target.recorded(),))
        self._enter(Phase.REPLAYING, call=replay)

    def _ask(self) -> None:
        if self._call is None:
            self.at, self.phase = self._target, SETTLED
            return
        if self._call.name != "get_states":  # which moves no row
            # Unknown before it is asked: an interrupt between the two must not find rows "there".
            self.at = None
        self._enter(_ASKED, call=self._call)

    def _answered(self, request: int) -> bool:
        """Take in the answer to a request; return whether it has come."""
        try:
            found = self.host.take(request)
        except Exception as error:  # of an env, or of what was to be restored
            self._request = None
            self._refused(error)
            return True
        if found is None:
            return False
        (reply,), self._request, self._abandoned = found, None, False
        if self.phase is _ASKED:
            self.reply, self.phase = reply, SETTLED
            self._has_stepped = self._has_stepped or self.call.name == "step"
            self._slowest = max(self._slowest, time.monotonic() - self._asked_at)
        elif self.phase is Phase.OPENING:
            self._opened = True
            self._bring_back()
        elif self.phase is Phase.RESTORING:
            self._replay()
        # The replay gave other results: the rows' futures would be others, too.
        elif self.phase is Phase.REPLAYING and reply != self._target.checksum:
            self._refused(not_exact(self.rows, self._target.count))
        else:
            self.at = self._target
            self._ask()
        return True

    @property
    def _may_reset(self) -> bool:
        """Whether the call is made from wherever the rows are, if they cannot be brought back."""
        return self._call is not None and self._call.resets_all

    @property
    def _progress(self) -> tuple[int, int]:
        return (NO_ROW, 0) if self._remote is None else self._remote.progress

    @property
    def _deaths(self) -> RowDeaths:
        """The deaths during this call; hardly any call has some."""
        if self._deaths_noted is None:
            self._deaths_noted = RowDeaths(self.rows.start, len(self.rows))
        return self._deaths_noted

    # What goes wrong ----------------------------------------------------------------

    def _refused(self, error: Exception) -> None:
        """Take in that an env has raised, or that a state was refused."""
        if self.phase is Phase.ASKED:
            if has_not_begun(error):
                self.at = self._target
            self._fail(error)
        elif self._remote is not None and not self._is_new:
            self._start()  # what the call before has left may be the reason
        else:
            self._unreachable = self._target
            if self._may_reset:
                self._ask()
            else:
                add_note(error, f"while {self._deaths.where(NO_ROW)} were brought back")
                self._fail(error)

    def _died(self) -> None:
        death = self.fallen
        assert death is not None
        row, _ = self._progress
        self.at = self._request = None
        self.renewed = True
        asked = self.phase is Phase.ASKED
        if asked and not (self._target.restorable or self._may_reset):
            error = self._deaths.named(death, row)
            error.add_note(
                f"States of {self._deaths.where(NO_ROW)} are not captured (`backend_note` says "
                "why), so their episodes are lost: reset them."
            )
            self._fail(error)
            return
        counts = self.phase is not SETTLED  # it may have died long before this call
        at = row if asked else NO_ROW
        played = "" if at == NO_ROW else self.call.doing(at)
        given_up = counts and self._deaths.note(death, self.phase.value, at, played)
        if given_up:
            self._fail(given_up)
        else:
            self._start()

    def _fail(self, error: Exception) -> None:
        if isinstance(error, WorkerTimeout):
            error = VectorTimeout(str(error), workers=error.workers, rows=error.rows)
        self.error, self.phase, self._request = error, Phase.SETTLED, None

    # Time ---------------------------------------------------------------------------

    def check(self, began: float, timeout: float | None) -> None:
        """Stop a worker that has passed the deadline, or its limit without progress.

        Args:
            began: when the wait for the call began, in `time.monotonic()`.
            timeout: seconds that the call itself may take, or None.
        """
        limit, now, progress = self._limit, time.monotonic(), self._progress
        if limit is None:
            # A process that is new has its first rows before it.
            first = self._is_new or not self._has_stepped
            limit = row_limit(self._patience, first=first, slowest=self._slowest)
        asked = now - max(began, self._asked_at)
        if timeout is not None and self.phase is _ASKED and asked >= timeout:
            self._stop_hung(timeout)
        elif progress != self._last_progress:
            self._last_progress, self._since = progress, now
        elif limit is not None and now - self._since >= limit:
            self._stop_hung(limit)

    def _stop_hung(self, seconds: float) -> None:
        """Stop the worker, which makes no progress."""
        if self._abandoned and self.phase is not Phase.ASKED:
            self._start()
            return
        assert self._remote is not None
        row, _ = self._progress
        doing = f", while {self.phase.value}"
        if self.phase is Phase.ASKED:
            doing = f", {self.call.doing(row)}" if row != NO_ROW else ""
        error = self._remote.worker.hung(seconds, f" in {self._deaths.where(row)}{doing},")
        self.at, self.renewed = None, True
        rows = tuple(self.rows) if row == NO_ROW else (self.rows[row],)
        self._fail(VectorTimeout(str(error), workers=error.workers, rows=rows))
