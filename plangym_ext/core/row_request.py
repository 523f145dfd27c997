"""RowRequest: the checked arguments of one batch call."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from plangym_ext.arrays.buffer import Storage, allocate
from plangym_ext.arrays.nested import as_array
from plangym_ext.arrays.storage import SharedBlock
from plangym_ext.core.numbers import at_least
from plangym_ext.core.one_caller import OneCaller, one_call
from plangym_ext.core.results import RowResults
from plangym_ext.errors import (
    BatchPending,
    InvalidOption,
    NoSuchIndex,
    StateError,
    UnknownName,
    suggestion,
)
from plangym_ext.states.envelope import as_wide, stacked

#: Which infos come back: none but the counts, the numeric fields, or every field.
INFOS = ("none", "numeric", "all")

#: `dt` of a single control step for every row.
ONE_STEP = np.ones((), np.int32)
ONE_STEP.flags.writeable = False


@dataclass(frozen=True, slots=True)
class SlotRequest:
    """Rows that begin and end in slots of a store.

    Attributes:
        store: which.
        sources: `[B]` int64, slots at which the rows begin.
        targets: `[B]` int64, distinct slots for the states after them.
    """

    store: StateStore
    sources: np.ndarray
    targets: np.ndarray


@dataclass(slots=True, eq=False)
class RowRequest:
    """Play H actions from each of B states.

    Attributes:
        actions: one array `[B, H, *act]` per leaf of the action space.
        states: `[B, S]` uint8, at most as wide as the env's rows; with `slots`, the rows
            of the whole store.
        dt: `()` or `[B]` int32, control steps for which an action is held.
        reset_first: `[B]` bool, rows to reset once their state is restored; None for none.
        infos: one of `INFOS`.
        wants_states: whether the caller will see the states that come out. If not, they need
            no seal.
        out: arrays to write results to, by the names that `RowBatch` gives its fields
            (`obs0`, `rewards`, `terminated`, ...); any strides. A backend that fills
            them returns these very arrays; what it returns otherwise is copied there.
        slots: where the rows begin and end, if that is a store.
        unchecked: method to name if a worker finds a bad state; "" if all are checked.
        num_rows: B.
        horizon: H.
        single: whether each row is one control step from its state, and none is reset first.
    """

    actions: tuple[np.ndarray, ...]
    states: np.ndarray
    dt: np.ndarray
    reset_first: np.ndarray | None = None
    infos: str = "numeric"
    wants_states: bool = True
    out: Mapping[str, np.ndarray] = field(default_factory=dict)
    slots: SlotRequest | None = None
    unchecked: str = ""
    num_rows: int = field(init=False)
    horizon: int = field(init=False)
    single: bool = field(init=False)

    def __post_init__(self) -> None:
        first = self.actions[0]
        self.num_rows, self.horizon = len(first), int(first.shape[1])
        # By identity: to compare the values of `dt` would cost more than it saves.
        self.single = self.horizon == 1 and self.dt is ONE_STEP and self.reset_first is None


def checked_infos(infos: str, where: str) -> str:
    """Return the mode, if it is one.

    Raises:
        UnknownName: it is not.
    """
    if infos not in INFOS:
        raise UnknownName(
            f"{where}: infos must be one of {', '.join(INFOS)}; got {infos!r}"
            f"{suggestion(str(infos), INFOS)}"
        )
    return infos


def checked_dt(dt: Any, num_rows: int | None, where: str) -> np.ndarray:
    """Return `dt` as int32 of shape `()` or `[B]`; None means a single step."""
    # The one array for all such requests: `RowRequest.single` knows it by identity.
    if type(dt) is int and dt == 1:
        return ONE_STEP
    held = as_array(dt, f"{where}: dt", InvalidOption)
    if held.shape not in ((), (num_rows,)) or held.dtype.kind not in "iu":
        rows = "" if num_rows is None else f" or ({num_rows},) int"
        raise InvalidOption(
            f"{where}: dt must be an int{rows}, control steps per row; "
            f"got {held.shape} {held.dtype}"
        )
    # Below 1 no step would be taken and no observation come; above int32 it would wrap.
    most = np.iinfo(np.int32).max
    if held.size and (held.min() < 1 or held.max() > most):
        raise InvalidOption(
            f"{where}: dt must be at most {most} and at least 1 in every row; "
            f"got {held.min()} to {held.max()}"
        )
    return held.astype(np.int32)


def one_array(states: Any, where: str) -> Any:
    """Return a sequence of `[S]` rows as one `[B, S]` array; anything else as it is."""
    if not isinstance(states, list | tuple):
        return states
    for index, state in enumerate(states):
        if state is None:
            raise StateError(
                f"{where}: states[{index}] is None; expected a state in every row. "
                "Pass states=None to continue all rows, or a state for each."
            )
    return stacked(states, where)


# ContinuedRows ----------------------------------------------------------------


class ContinuedRows:
    """States and endings of the rows that are stepped without given states.

    Attributes:
        states: `[B, S]` uint8, where they are.
        ended: `[B]` bool, which have ended there.
    """

    states: np.ndarray
    ended: np.ndarray

    def __init__(self) -> None:
        self.drop()

    def first(self, count: int, root: Callable[[], np.ndarray]) -> None:
        """Extend to at least `count` rows; new rows begin at the `[S]` state of `root`."""
        new = count - len(self.states)
        if new <= 0:
            return
        state = root()
        # The env may have widened its rows since the older ones were last stepped.
        width = max(self.states.shape[1], len(state))
        # Not by a concatenation with one row shown several times: it can come out in Fortran's
        # order, and what steps rows takes each of them for bytes side by side.
        states = np.empty((count, width), np.uint8)
        states[: len(self.states)] = as_wide(self.states, width)
        states[len(self.states) :] = as_wide(state[None], width)
        self.states = states
        self.ended = np.concatenate([self.ended, np.zeros(new, bool)])

    def keep(self, states: np.ndarray, ended: np.ndarray) -> None:
        """Continue rows 0 to B - 1 from `states`, which they keep; leave later ones as they are."""
        if len(self.states) <= len(states):
            # Taken over, not copied: nothing else holds what such a batch returns (see `move`).
            self.states, self.ended = states, ended
        else:
            # Either may be the wider one: rows are as wide as they were when last stepped.
            self.states = as_wide(self.states, states.shape[1])
            self.states[: len(states)] = as_wide(states, self.states.shape[1])
            self.ended[: len(states)] = ended

    def move(self, found: RowResults, *, shared: bool) -> None:
        """Set the rows' states after a step; `shared` if the caller holds the states too."""
        # They keep an array that the caller has no hand on.
        states = found.states.copy() if shared else found.states
        self.keep(states, found.terminated | found.truncated)

    def drop(self) -> None:
        """Forget them all."""
        self.states = np.zeros((0, 0), np.uint8)
        self.ended = np.zeros(0, bool)


# StateStore -------------------------------------------------------------------
# A planner keeps the states of its tree in slots and says "step from slot i into slot
# j" (`step_slots`). With worker processes the store lies in shared memory, so states
# never pass through the parent.


Slots = npt.NDArray[np.int64]
_FEWEST = 64  # slots that a store begins with


class StateStore:
    """A growing table of state rows, allocated and freed by slot number.

    Slots hold whole states: `store[slots]` may be saved, or given to any call that
    takes states.

    Args:
        width: S, the bytes of a row.
        storage: "shared" if other processes are to reach it.
        check: turns what a caller gives for states into checked `[n, S]` rows.
        one_caller: the guard of the env that the store belongs to.
        end_abandoned: brings batches to their end whose results will not be asked for.
    """

    def __init__(
        self,
        width: int,
        storage: Storage,
        check: Callable[[Any, str], np.ndarray],
        one_caller: OneCaller,
        end_abandoned: Callable[[], None],
    ) -> None:
        self._one_caller = one_caller
        self._end_abandoned = end_abandoned
        self._storage: Storage = storage
        self._check = check
        self._rows = np.zeros((0, width), np.uint8)
        self._block: SharedBlock | None = None
        self._used = np.zeros(0, bool)
        self._free: list[int] = []
        #: Batches that are running on the rows; they must not move meanwhile.
        self.pins = 0

    def __len__(self) -> int:
        return int(self._used.sum())

    @property
    def capacity(self) -> int:
        """Number of slots with memory; more are allocated on demand."""
        return len(self._rows)

    @property
    def rows(self) -> np.ndarray:
        """Memory of all slots, a view `[capacity, S]` uint8 that is valid until the store grows."""
        return self._rows

    @one_call
    def allocate(self, count: int) -> Slots:
        """Allocate `count` slots; their content is undefined until it is written.

        Returns:
            `[count]` int64, distinct.

        Raises:
            BatchPending: the store has to grow while a batch runs on it; `reserve` before.
        """
        count = at_least("allocate: count", count, 0)
        if count > len(self._free):
            # Doubled: to grow by what is asked for would copy all states again and again.
            self.reserve(max(_FEWEST, 2 * self.capacity, len(self) + count))
        # From the end, the lowest first: slots that are taken together lie together.
        taken = self._free[len(self._free) - count :][::-1]
        del self._free[len(self._free) - count :]
        slots = np.array(taken, np.int64)
        self._used[slots] = True
        return slots

    @one_call
    def free(self, slots: Any) -> None:
        """Free slots for later allocations.

        Raises:
            IndexError: a slot is not in use, or is named twice.
        """
        rows = self.checked(slots, "free: slots", distinct=True)
        self._used[rows] = False
        # Those freed last are taken first, in the same order.
        self._free.extend(rows[::-1].tolist())

    @one_call
    def reserve(self, capacity: int) -> None:
        """Make room for `capacity` slots in all, if there is less.

        Raises:
            BatchPending: a batch runs on the store.
        """
        capacity = at_least("reserve: capacity", capacity, 0)
        known = self.capacity
        if capacity > known:
            self._move(capacity, self._rows.shape[1])
            self._used = np.concatenate([self._used, np.zeros(capacity - known, bool)])
            # Lowest last, so that it is the first to be taken.
            self._free[:0] = range(capacity - 1, known - 1, -1)

    def widen(self, width: int) -> None:
        """Make rows `width` bytes wide; zeros may follow a state."""
        if width > self._rows.shape[1]:
            self._move(self.capacity, width)

    def _move(self, capacity: int, width: int) -> None:
        # Asked twice: a batch that was dropped pins the rows until its workers are done.
        if self.pins:
            self._end_abandoned()
        if self.pins:
            raise BatchPending(
                "states: the store cannot grow while a batch runs on it. Wait for the batch "
                "first, or reserve enough slots before you begin it."
            )
        # The block is held with the rows: its descriptor is needed to map it elsewhere.
        rows, self._block = allocate((capacity, width), np.dtype(np.uint8), self._storage)
        known, old_width = self._rows.shape
        rows[:known, :old_width] = self._rows
        self._rows = rows

    @one_call
    def __getitem__(self, slots: Any) -> np.ndarray:
        """Return a fresh copy of the states in some slots: `[n, S]` uint8, or `[S]` for an int.

        Raises:
            IndexError: a slot is not in use.
        """
        rows = self.checked(slots, "states: slots")
        found: np.ndarray = self._rows[rows]
        return found[0] if np.ndim(slots) == 0 else found

    @one_call
    def __setitem__(self, slots: Any, states: Any) -> None:
        """Write states `[n, S]`, or one `[S]` for an int or for all the slots.

        Raises:
            IndexError: a slot is not in use, or is named twice.
            StateError: a state is damaged or belongs to another env.
        """
        rows = self.checked(slots, "states: slots", distinct=True)
        given = as_array(states, "states", StateError)
        checked = self._check(given[None] if given.ndim == 1 else given, "states")
        if len(checked) not in (1, len(rows)):
            raise InvalidOption(f"states: expected one state or {len(rows)}; got {len(checked)}")
        self.widen(checked.shape[1])
        self._rows[rows] = as_wide(checked, self._rows.shape[1])

    def checked(self, slots: Any, where: str, *, distinct: bool = False) -> Slots:
        """Return slots as `[n]` int64 after a check that all are in use.

        Raises:
            NoSuchIndex: a slot is not in use, or `distinct` ones are wanted and one is
                named twice.
        """
        rows = np.atleast_1d(as_array(slots, where, NoSuchIndex))
        if rows.ndim != 1 or (rows.dtype.kind not in "iu" and rows.size):
            raise NoSuchIndex(
                f"{where} must be [n] ints from allocate; got {rows.shape}, {rows.dtype}"
            )
        rows = rows.astype(np.int64, copy=False)
        inside = (rows >= 0) & (rows < self.capacity)
        if not (inside.all() and self._used[rows].all()):
            # A slot outside of the table has no entry there: 0 stands in, and `inside` decides.
            good = inside & self._used[np.where(inside, rows, 0)] if self.capacity else inside
            raise NoSuchIndex(
                f"{where}[{int(np.argmin(good))}] is {rows[np.argmin(good)]}, which is not in "
                f"use; {len(self)} of {self.capacity} slots are. Take slots with "
                "env.states.allocate."
            )
        if distinct and len(np.unique(rows)) < len(rows):
            raise NoSuchIndex(f"{where} must be distinct; one of the {len(rows)} is named twice")
        return rows
