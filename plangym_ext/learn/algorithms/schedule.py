"""Numbers that change while a run goes on. Needs nothing beyond the standard library."""

from __future__ import annotations

from dataclasses import dataclass

from plangym_ext.learn.trainers.checked_config import CheckedConfig
from plangym_ext.learn.trainers.schedules import SHARES

KINDS = ("linear", "cosine")


@dataclass(frozen=True, kw_only=True)
class Schedule(CheckedConfig):
    """A number that goes from one value to another, and stays there.

    Args:
        start: at the beginning.
        end: from then on.
        over: steps of all envs until then.
        kind: "linear" or "cosine".
    """

    start: float
    end: float = 0.0
    over: int
    kind: str = "linear"

    def __post_init__(self) -> None:
        """Check the settings."""
        self._choice("kind", KINDS)
        for name in ("start", "end"):
            self._number(name, 0.0)
        self._number("over", 1, whole=True)

    def at(self, steps: int) -> float:
        """Return the number after so many steps."""
        return self.end + (self.start - self.end) * SHARES[self.kind](steps / self.over, 0.0)


def number_at(number: float | Schedule, steps: int) -> float:
    """Return a number, of a schedule the one after so many steps."""
    return number.at(steps) if isinstance(number, Schedule) else float(number)
