"""Checkpoint: captured row states and the calls since, for recovery in another process."""

from __future__ import annotations

import contextlib
import signal
import time
import zlib
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from plangym_ext.errors import NotExact, PoisonState, WorkerDied
from plangym_ext.states import plain
from plangym_ext.vector.memory.shared_outs import OutShare
from plangym_ext.vector.results import Reply
from plangym_ext.workers.batch_layout import NO_ROW
from plangym_ext.workers.limits import MAX_KILLS, MAX_SIGNALS, MAX_SIGNALS_AT_ROW, SIGNALS_SECONDS


class RowCall(NamedTuple):
    """A call of a method of `EnvRows`.

    Attributes:
        name: of the method.
        args: for it.
        out: what a step is written to besides: not when it is played again later.
        resets_all: whether it resets all rows of the process, wherever they are.
        again: the arguments for playing it again, if these are the caller's, who may write to
            them when the call has returned.
    """

    name: str
    args: tuple[Any, ...]
    out: OutShare | None = None
    resets_all: bool = False
    again: tuple[Any, ...] | None = None

    def doing(self, row: int) -> str:
        """Return a description of the call for a row of the process."""
        if self.name != "step":
            return self.name
        rows, actions, *_ = self.args
        return f"action {actions[list(rows).index(row)]}" if row in rows else "step"


# Not frozen: to assign eight fields past that guard costs microseconds in every step.
@dataclass(slots=True, eq=False)
class Checkpoint:
    """Immutable data that restores rows in any process: states, and the calls since.

    Two are the same only if they are one object: a `ReplayLog` compares where its rows are
    with where they should be by `is`.

    Attributes:
        states: of each row, None for one that was never reset.
        captures: whether states can be captured.
        shown: the rows' observations when these were captured (later, where observations have no
            array form), as `ObsBuffer.taken` returns them.
        calls: name and arguments of calls since, of which the first `count` belong to this.
        attributes: that were set, by row and name, until the states were captured, which need
            not hold them.
        moved: whether a row was ever moved.
        checksum: of what the rows have shown since; see `Reply.checksum`.
    """

    states: tuple[np.ndarray | None, ...]
    captures: bool
    shown: Any = None
    calls: list[tuple[str, tuple[Any, ...]]] = field(default_factory=list)
    count: int = 0
    attributes: dict[tuple[int, str], Any] = field(default_factory=dict)
    moved: bool = False
    checksum: int = 0

    @property
    def restorable(self) -> bool:
        """Whether rows can be restored from this checkpoint."""
        return self.captures or not self.moved

    def recorded(self) -> list[tuple[str, tuple[Any, ...]]]:
        """Return the calls since the states were captured."""
        return self.calls[: self.count]

    def after(self, call: RowCall, reply: Reply, shown: Any) -> Checkpoint:
        """Return the checkpoint after a call that has succeeded.

        Args:
            call: that moves rows.
            reply: to it.
            shown: what the rows show now if `reply` has states, or as before.
        """
        name, states = call.name, reply.states
        if states:
            attributes = self._attributes_after(call, reply)
            return Checkpoint(tuple(states), True, shown, attributes=attributes, moved=True)
        if not self.captures:
            attributes = self.attributes if name == "step" else self._attributes_after(call, reply)
            moved = self.moved or name not in ("call", "set_attr")
            return Checkpoint(self.states, False, self.shown, attributes=attributes, moved=moved)
        if states is None:
            # The list is shared with this one, which goes on ending where it does. What lies
            # beyond is of a call that failed or was interrupted.
            del self.calls[self.count :]
            self.calls.append((name, call.args if call.again is None else call.again))
            checksum = self.checksum if reply.checksum is None else reply.checksum
            count = self.count + 1
            return Checkpoint(
                self.states, True, shown, self.calls, count, self.attributes, True, checksum
            )
        # They turned out not to be capturable.
        attributes = self._attributes_after(call, reply)
        return Checkpoint(self.states, False, attributes=attributes, moved=True)

    def _attributes_after(self, call: RowCall, reply: Reply) -> dict[tuple[int, str], Any]:
        found = self.attributes
        last = call.name, call.args if call.again is None else call.again
        for done, arguments in (*self.recorded(), last):
            if done == "set_attr":
                rows, name, values = arguments
                new = {(row, name): value for row, value in zip(rows, values, strict=True)}
                found = {**found, **new}
        # What a method has set, which is set again without it. States are captured after such a
        # call, so there is none among those that are recorded.
        return {**found, **reply.attributes} if reply.attributes else found


# ResultChecksum ---------------------------------------------------------------
# A process that died is replaced, and what its rows did since their states were captured is
# played again. That it is the same is not taken on trust: both times leave a checksum.


#: Bytes of a row's observation that are all looked at. Of more, as many pieces as are
#: spread evenly over it, at other places in each call: a checksum of whole pictures would
#: take a tenth of the step that made them.
_WHOLE = 4096
_PIECES = 64
_PIECE = _WHOLE // _PIECES


class ResultChecksum:
    """Checksum of rewards, endings and observations since `restart`.

    Attributes:
        value: the checksum; equal for equal calls of equal rows.
    """

    def __init__(self) -> None:
        self.value = 0
        self._calls = 0

    def restart(self) -> None:
        """Forget everything: states were captured or restored."""
        self.value = self._calls = 0

    def add(self, results: Iterable[np.ndarray], shown: Iterable[np.ndarray]) -> None:
        """Add a call.

        Args:
            results: contiguous arrays of any kind, such as rewards.
            shown: contiguous `[k, *obs]` arrays, one for each leaf of the observations.
        """
        value = self.value
        part: Any  # the type of arrays does not say that they are buffers
        for part in results:
            value = zlib.crc32(part, value)
        for part in shown:
            if part.nbytes > _WHOLE * len(part):
                part = _pieces(part, self._calls)
            value = zlib.crc32(part, value)
        self.value, self._calls = value, self._calls + 1

    def add_values(self, values: Iterable[Any]) -> None:
        """Add observations without an array form, if they are plain data."""
        for value in values:
            with contextlib.suppress(plain.NotPlain):
                self.value = zlib.crc32(plain.encode(value), self.value)


def not_exact(rows: range, num_calls: int) -> NotExact:
    """Return the error for sub-envs with other results in a replay."""
    return NotExact(
        f"sub-envs {rows.start} to {rows[-1]} could not be restored: after the replacement of a "
        f"worker or the rollback of a call, {num_calls} calls since the last captured states were "
        "replayed, with other rewards, endings or observations than the first time. So the env is "
        "not exact: its results depend on something outside its state, such as global random "
        "numbers, the time or a file. Draw from self.np_random, or use capture='off'. Reset to "
        "continue."
    )


def _pieces(leaf: np.ndarray, turn: int) -> bytes:
    """Return bytes of a `[k, ...]` array of large rows that are added in the call number `turn`."""
    rows = leaf.reshape(len(leaf), -1).view(np.uint8)
    length = rows.shape[1] // _PIECES
    offset = turn * _PIECE % (length - _PIECE + 1)
    pieces = rows[:, : length * _PIECES].reshape(len(rows), _PIECES, length)
    return pieces[:, :, offset : offset + _PIECE].tobytes()


# RowDeaths: limit on repeated worker deaths in one call -----------------------


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
        """Count one death.

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
