"""Predictive sampling: the best of a nominal action sequence and noisy copies."""

from __future__ import annotations

import math
from dataclasses import dataclass

from plangym_ext.planners.continuous.base import Population, Round, Row, Shooting
from plangym_ext.planners.continuous.spline import Floats


@dataclass(eq=False, kw_only=True)
class PredictiveSampling(Shooting):
    """Samples noisy copies of the last plan and plays the best of all.

    The nominal sequence is always among those tried. With a knot per step it is the last
    plan's, shifted, so that in an env that goes as planned no plan is worse than the rest
    of the last one. With fewer knots it is what they can follow of it (least squares),
    which may be worse.

    Args:
        noise_std: standard deviation of the noise, in units in which the action
            space is [-1, 1].

    Source: Howell et al. 2022, "Predictive Sampling: real-time behaviour synthesis
    with MuJoCo", algorithm 1.
    """

    noise_std: float = 0.4

    def __post_init__(self) -> None:
        """Check the options."""
        super().__post_init__()
        self.noise_std = self._number("noise_std", 0.0, math.inf)

    def _counts(self, total: int) -> list[int]:
        """Spread the sequences evenly over the rounds."""
        return self._even_counts(total)

    def _answer(self, row: Row) -> Floats:
        """Return the best sequence that was tried, `[K, D]`."""
        return row.best

    def _begin(self, row: Row) -> None:
        """Leave the nominal sequence at the warm start, or at the middle of the space."""

    def _propose(self, row: Row, turn: Round) -> Floats:
        """Return the nominal sequence, then noisy ones."""
        knots = row.mean + row.rng.normal(0.0, self.noise_std, (turn.count, *row.mean.shape))
        knots[0] = row.mean
        return knots

    def _learn(self, row: Row, tried: Population) -> None:  # noqa: ARG002
        """Make the best so far the next nominal sequence."""
        row.mean = row.best
