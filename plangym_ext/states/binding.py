"""Binding: the capture method proved for an env, as plain data for equal envs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Exactness:
    """Extent of the proof that restored states lead to the same future.

    Attributes:
        method: how the simulator's state is captured: "codec", "own", "snapshot", "replay", or
            "approximate", which is not exact.
        proved: where: "fork", in a copy of this process; "worker", in a new one, where the env
            was constructed once more; "library", for a simulator whose codec comes with this
            library and is tested with it, beside a short trial here; "" if nothing was tried.
        steps: that were played, over which states were saved.
        episodes: that ended in these steps.
        transitions: that were played again from saved states and came out the same.
        seconds: that it took.
        audits: futures that were played again since, from states in use. See
            `PlanEnv.exactness`.
        notes: what was found beside it: what the env changes outside of its state without
            reading it again, as far as that was seen.
    """

    method: str
    proved: str
    steps: int = 0
    episodes: int = 0
    transitions: int = 0
    seconds: float = 0.0
    audits: int = 0
    notes: tuple[str, ...] = ()

    @property
    def exact(self) -> bool | None:
        """True if it was proved so far, None if nothing was tried, False for inexact ways."""
        if self.method == "approximate":
            return False
        return True if self.proved else None

    def __str__(self) -> str:
        if self.method == "approximate":
            return "not exact: an approximate way was asked for"
        if not self.proved:
            return f"{self.method}, not tried"
        where = {
            "fork": "in a copy of this process",
            "worker": "in a new process, with an env constructed there",
            "library": "with a codec that is tested with this library",
        }[self.proved]
        return (
            f"{self.method}: {self.transitions:,} transitions from restored states came out the "
            f"same ({self.steps:,} steps, {self.episodes:,} episodes, {where}); "
            f"{self.audits:,} audits since"
        )


#: Seconds that a byte of a row takes where rows are sealed, checked and copied.
_BYTE_SECONDS = 1e-9


@dataclass(frozen=True)
class Cost:
    """Measured cost of a row.

    Attributes:
        seconds: of a capture and a restore together.
        bytes: of its payload.
        length: steps of an episode, as far as it was played.
        episodes: that ended.
    """

    seconds: float = 0.0
    bytes: int = 0
    length: float = 0.0
    episodes: int = 0

    @property
    def row(self) -> float:
        """Seconds in all."""
        return self.seconds + self.bytes * _BYTE_SECONDS

    def __str__(self) -> str:
        return f"{self.seconds * 1e6:,.0f} us and {self.bytes:,} bytes"


@dataclass(frozen=True)
class Binding:
    """Proved capture method of an env, applicable to equal envs.

    Attributes:
        method: as of `Exactness`.
        width: bytes of a payload.
        learned: what each part took from the moment at which it was bound.
        parts: what the states of each part depend on, for the fingerprint.
        info: of a step, with None for what is no number.
        exactness: how it was proved.
        step_seconds: of an env step; None if none was timed.
        note: what is dear about the states, in words; "" if nothing is.
        of_texts: whether futures depend on the hashes of texts, so that states fit processes
            with the same ones alone.
        cost: of a row, as the proof has measured it.
    """

    method: str
    width: int
    learned: tuple[Any, ...]
    parts: dict[str, Any]
    info: dict[str, Any]
    exactness: Exactness
    step_seconds: float | None = None
    note: str = field(default="")
    of_texts: bool = False
    cost: Cost = field(default=Cost())
