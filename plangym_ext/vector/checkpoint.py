"""Where the rows of one process are: the states captured last, and the calls since."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from plangym_ext.vector.results import Reply

#: A method of `EnvRows` and its arguments.
Call = tuple[str, tuple[Any, ...]]
#: Calls that leave every row where it is.
READING = ("get_states",)


# Not frozen: to assign eight fields past that guard costs microseconds in every step.
@dataclass(slots=True, eq=False)
class Checkpoint:
    """What brings rows to where they are, in any process: it is never changed.

    Two are the same only if they are one object: a `ReplayLog` compares where its rows are
    with where they should be by `is`.

    Attributes:
        states: of each row, None for one that was never reset.
        captures: whether states can be captured.
        shown: what the rows showed when these were captured (later, where observations have
            no array form), as `ObsBuffer.taken` gives it.
        calls: calls since, of which the first `count` belong to this.
        attributes: that were set, by row and name: states need not hold them.
        moved: whether a row was ever moved.
        checksum: of what the rows have shown since; see `Reply.checksum`.
    """

    states: tuple[np.ndarray | None, ...]
    captures: bool
    shown: Any = None
    calls: list[Call] = field(default_factory=list)
    count: int = 0
    attributes: dict[tuple[int, str], Any] = field(default_factory=dict)
    moved: bool = False
    checksum: int = 0

    @property
    def restorable(self) -> bool:
        """Whether rows can be brought here."""
        return self.captures or not self.moved

    def recorded(self) -> list[Call]:
        """Return the calls since the states were captured."""
        return self.calls[: self.count]

    def after(self, call: Call, reply: Reply, shown: Any) -> Checkpoint:
        """Return where a call leads that has succeeded.

        Args:
            call: that moves rows.
            reply: to it.
            shown: what the rows show now if `reply` has states, or as before.
        """
        name = call[0]
        attributes = self._attributes_after(call) if name == "set_attr" else self.attributes
        if not self.captures:
            moved = self.moved or name not in ("call", "set_attr")
            return Checkpoint(self.states, False, self.shown, attributes=attributes, moved=moved)
        states = reply.states
        if states is None:
            # The list is shared with this one, which goes on ending where it does. What lies
            # beyond is of a call that failed or was interrupted.
            del self.calls[self.count :]
            self.calls.append(call)
            checksum = self.checksum if reply.checksum is None else reply.checksum
            count = self.count + 1
            return Checkpoint(
                self.states, True, shown, self.calls, count, attributes, True, checksum
            )
        if not states:  # they turned out not to be capturable
            return Checkpoint(self.states, False, attributes=attributes, moved=True)
        return Checkpoint(tuple(states), True, shown, attributes=attributes, moved=True)

    def _attributes_after(self, call: Call) -> dict[tuple[int, str], Any]:
        rows, name, values = call[1]
        new = {(row, name): value for row, value in zip(rows, values, strict=True)}
        return {**self.attributes, **new}
