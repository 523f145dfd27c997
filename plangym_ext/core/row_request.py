"""RowRequest: the checked arguments of one batch call."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from plangym_ext.arrays.nested import as_array
from plangym_ext.core.results import RowResults
from plangym_ext.core.state_store import StateStore
from plangym_ext.errors import InvalidOption, StateError, UnknownName, suggestion
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
        """Make sure that there are `count` rows; new ones begin at the `[S]` state of `root`."""
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
