"""Where the rows of one process are: the states captured last, and the calls since."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

#: A method of `LiveRows` and its arguments.
Call = tuple[str, tuple[Any, ...]]
#: Calls that leave every row where it is.
READING = ("get_states",)


# Not frozen: to assign eight fields past that guard costs microseconds in every step.
@dataclass(slots=True, eq=False)
class Past:
    """What brings rows to where they are, in any process: it is never changed.

    Two are the same only if they are one object: a row lane compares where its rows are
    with where they should be by `is`.

    Attributes:
        states: of each row, None for one that was never reset.
        shown: what the rows showed when these were captured (later, where observations have
            no array form), as the board keeps it.
        calls: calls since, of which the first `count` belong to this.
        attributes: that were set, by row and name, until the states were captured, which need
            not hold them.
        captures: whether states can be captured.
        played: whether a row was moved.
        seen: what the rows have shown since; see `Played.seen`.
    """

    states: tuple[np.ndarray | None, ...]
    captures: bool
    shown: Any = None
    calls: list[Call] = field(default_factory=list)
    count: int = 0
    attributes: dict[tuple[int, str], Any] = field(default_factory=dict)
    played: bool = False
    seen: int = 0

    @property
    def restorable(self) -> bool:
        """Whether rows can be brought here."""
        return self.captures or not self.played

    def recorded(self) -> list[Call]:
        """The calls since the states were captured."""
        return self.calls[: self.count]

    def after(self, call: Call, seen: int | None = None) -> Past:
        """Where a call leads that captured nothing.

        Args:
            call: that has succeeded.
            seen: as of `Played`; None if the call showed nothing.
        """
        name = call[0]
        if name in READING:
            return self
        if not self.captures:
            attributes = self.attributes if name == "step" else self._attributes_after(call)
            played = self.played or name not in ("call", "set_attr")
            return Past(self.states, False, self.shown, attributes=attributes, played=played)
        # Shared with this one, which goes on ending where it does. What lies beyond is of a
        # call that failed or was interrupted.
        del self.calls[self.count :]
        self.calls.append(call)
        seen = self.seen if seen is None else seen
        count = self.count + 1
        return Past(
            self.states,
            True,
            self.shown,
            self.calls,
            count,
            self.attributes,
            played=True,
            seen=seen,
        )

    def captured(self, call: Call, states: list[np.ndarray | None], shown: Any) -> Past:
        """Where a call leads that captured states."""
        attributes = self._attributes_after(call)
        return Past(tuple(states), True, shown, attributes=attributes, played=True)

    def given_up(self, call: Call) -> Past:
        """Where a call leads after which states turned out not to be capturable."""
        attributes = self._attributes_after(call)
        return Past(self.states, False, attributes=attributes, played=True)

    def _attributes_after(self, call: Call) -> dict[tuple[int, str], Any]:
        found = self.attributes
        for done, arguments in (*self.recorded(), call):
            if done == "set_attr":
                rows, name, values = arguments
                new = {(row, name): value for row, value in zip(rows, values, strict=True)}
                found = {**found, **new}
        return found
