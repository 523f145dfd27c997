"""Measured final returns of the presets."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

#: Written by `tests/benchmarks/training.py --presets`.
FILE = Path(__file__).with_name("reached.json")


class Reached(NamedTuple):
    """Measured final return of a preset.

    Attributes:
        mean: interquartile mean over the seeds, of the mean return of evaluations.
        low, high: its bootstrap interval of 95 %.
        seeds: how many runs.
        steps: of all envs together, in each.
    """

    mean: float
    low: float
    high: float
    seeds: int
    steps: int

    def __str__(self) -> str:
        """Return it as a line for the eye."""
        # A single seed has no interval: both ends are its mean.
        spread = f" [{self.low:g}, {self.high:g}]" if self.low < self.high else ""
        seeds = f"{self.seeds} seed{'s' * (self.seeds > 1)}"
        return f"return {self.mean:g}{spread} after {self.steps:,} steps, {seeds}"


def reached() -> dict[str, Reached]:
    """Return the measured returns by preset."""
    found = json.loads(FILE.read_text(encoding="utf-8"))
    return {name: _read(row) for name, row in found.items()}


def _read(row: Mapping[str, Any]) -> Reached:
    low, high = row["interval"]
    return Reached(row["return"], low, high, row["seeds"], row["steps"])
