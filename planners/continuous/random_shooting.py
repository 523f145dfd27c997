"""Random shooting: the best of many random action sequences."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from plangym_ext.planners.continuous.base import Population, Round, Row, Shooting
from plangym_ext.planners.continuous.spline import Floats


@dataclass(eq=False, kw_only=True)
class RandomShooting(Shooting):
    """Samples action sequences uniformly and plays the best.

    With `warm_start` the last plan, shifted, is one of the sequences.

    Source: Rao 2009, "A survey of numerical methods for optimal control"; as a
    baseline for learned models Nagabandi et al. 2018, section IV.B.
    """

    def _counts(self, total: int) -> list[int]:
        """Spread the sequences evenly over the rounds."""
        return self._even_counts(total)

    def _answer(self, row: Row) -> Floats:
        """Return the best sequence that was tried, `[K, D]`."""
        return row.best

    def _begin(self, row: Row) -> None:
        """Do nothing: no round learns from another."""

    def _propose(self, row: Row, turn: Round) -> Floats:
        """Draw uniformly; the warm start is the very first."""
        knots = row.rng.uniform(-1.0, 1.0, (turn.count, *row.mean.shape))
        if row.warm and turn.first:
            knots[0] = row.mean
        return np.asarray(knots)

    def _learn(self, row: Row, tried: Population) -> None:  # noqa: ARG002
        """Begin the next plan with the best so far."""
        row.mean = row.best
