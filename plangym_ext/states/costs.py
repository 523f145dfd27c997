"""Cost report of an env's states: bytes and seconds, in total and per attribute."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

#: Times that something is done; the least counts, as other programs only add.
_REPEATS = 5
#: Bytes of states that are told; seconds of a capture and a restore, of so many steps at least.
_WIDE, _SLOW, _SLOW_STEPS = 1 << 17, 1e-3, 3
#: Share of a state that makes an attribute the reason.
_MUCH = 0.5


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


def attribute_costs(codec: Any) -> list[AttributeCost]:
    """Return the cost of each attribute in a snapshot, the largest first."""
    parts = [part for part in codec.parts if hasattr(part, "attribute_costs")]
    found: list[AttributeCost] = [cost for part in parts for cost in part.attribute_costs()]
    return sorted(found, key=lambda cost: (cost.seconds, cost.bytes), reverse=True)


def left_out(codec: Any) -> dict[str, int]:
    """Return the bytes of each constant that states leave out, by name; see `constants`."""
    parts = (part for part in codec.parts if hasattr(part, "constant_sizes"))
    return {name: size for part in parts for name, size in part.constant_sizes().items()}


def cost_note(codec: Any, row_seconds: float = 0.0, step_seconds: float = 0.0) -> str:
    """Return a line about pickled, wide or slow states; "" for others."""
    reasons = [getattr(part, "pickled_for", "") for part in codec.parts]
    notes = [
        f"its states are pickled, for {reason}: that is slower, equal states differ in their "
        "bytes, and another session opens them with trust=True alone"
        for reason in reasons
        if reason
    ]
    wide = codec.width > _WIDE
    if wide:
        notes.append(f"its states are {codec.width:,} bytes wide")
    slow = row_seconds > max(_SLOW, _SLOW_STEPS * step_seconds)
    if slow:
        notes.append(
            f"a capture and a restore take {row_seconds * 1e3:.1f} ms, and a step of the env "
            f"{step_seconds * 1e3:.2f} ms"
        )
    if wide or slow:
        notes.append(_dearest(codec, row_seconds) or "`plangym-ext doctor` says why")
    return "; ".join(notes)


def _dearest(codec: Any, row_seconds: float) -> str:
    """Return the attribute that takes much of a state, in bytes or seconds; "" for none."""
    costs = attribute_costs(codec)
    total = sum(cost.bytes for cost in costs)
    for cost in (*costs[:1], *sorted(costs, key=lambda cost: -cost.bytes)[:1]):
        if cost.bytes > _MUCH * total or cost.seconds > _MUCH * row_seconds > 0:
            return f"most is for {cost.name}: {cost.bytes:,} bytes, {cost.seconds * 1e6:,.0f} us"
    return ""


def least(function: Callable[[], object]) -> float:
    """Return the least seconds of several calls."""
    found = float("inf")
    for _ in range(_REPEATS):
        began = time.perf_counter()
        function()
        found = min(found, time.perf_counter() - began)
    return found
