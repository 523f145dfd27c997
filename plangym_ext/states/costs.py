"""Cost report of an env's states: bytes and seconds, in total and per attribute."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

from plangym_ext.states.part import StateTooWide

#: Times that something is done; the least counts, as other programs only add.
_REPEATS = 5
#: Bytes of states that are told.
_WIDE = 1 << 20


class AttributeCost(NamedTuple):
    """Bytes and seconds that one attribute adds to each state.

    Attributes:
        name: of the layer and the attribute.
        bytes: that it takes.
        seconds: of writing and reading it.
        pickled: whether it has to be pickled.
    """

    name: str
    bytes: int
    seconds: float
    pickled: bool


def cost_of(codec: Any) -> tuple[int, float]:
    """Return the time of capturing and restoring the present state.

    Args:
        codec: a `StateCodec`, of an env that was reset. The env comes back to where it is.

    Returns:
        The bytes of the state, and the seconds of a capture and a restore.

    Raises:
        IncompleteState: the state cannot be captured.
    """
    while True:
        buffer = memoryview(bytearray(codec.width))
        try:
            length = codec.capture(buffer, 0)
            break
        except StateTooWide as error:
            codec.width += error.excess
    return length, least(lambda: codec.capture(buffer, 0)) + least(lambda: codec.restore(buffer, 0))


def attribute_costs(codec: Any) -> list[AttributeCost]:
    """Return the cost of each attribute in a snapshot, the largest first."""
    parts = [part for part in codec.parts if hasattr(part, "attribute_costs")]
    found: list[AttributeCost] = [cost for part in parts for cost in part.attribute_costs()]
    return sorted(found, key=lambda cost: (cost.seconds, cost.bytes), reverse=True)


def cost_note(codec: Any) -> str:
    """Return a line about pickled or wide states; "" for others.

    Nothing is captured or restored for it.
    """
    reasons = [getattr(part, "pickled_for", "") for part in codec.parts]
    notes = [
        f"its states are pickled, for {reason}: that is slower, equal states differ in their "
        "bytes, and another session opens them with trust=True alone"
        for reason in reasons
        if reason
    ]
    if codec.width > _WIDE:
        notes.append(f"its states are {codec.width:,} bytes wide; `plangym-ext doctor` says why")
    return "; ".join(notes)


def least(function: Callable[[], object]) -> float:
    """Return the least seconds of several calls."""
    found = float("inf")
    for _ in range(_REPEATS):
        began = time.perf_counter()
        function()
        found = min(found, time.perf_counter() - began)
    return found
