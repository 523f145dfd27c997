"""StateStore: numbered slots of states, kept where they are stepped (`env.states`).

A planner keeps the states of its tree in slots and says "step from slot i into slot
j" (`step_slots`). With worker processes the store lies in shared memory, so states
never pass through the parent.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from plangym_ext.arrays.buffer import Storage, allocate
from plangym_ext.arrays.nested import as_array
from plangym_ext.arrays.storage import SharedBlock
from plangym_ext.core.numbers import at_least
from plangym_ext.core.one_caller import OneCaller, one_call
from plangym_ext.errors import BatchPending, InvalidOption, NoSuchIndex, StateError
from plangym_ext.states.envelope import as_wide

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
        """Return the number of slots in use."""
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
            IndexError: a slot is not in use, or `distinct` ones are wanted and one is
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
