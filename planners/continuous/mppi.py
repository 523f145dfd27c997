"""MPPI: return-weighted mean of noisy action sequences."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from plangym_ext.planners.continuous.base import Population, Round, Row, Shooting
from plangym_ext.planners.continuous.spline import Floats
from plangym_ext.planners.finite import spread_of


@dataclass(eq=False, kw_only=True)
class MPPI(Shooting):
    """Model predictive path integral control: a weighted mean of noisy sequences.

    mean <- sum_i w_i u_i with w_i proportional to exp((R_i - max R) / (T s)); the mean
    is played, and the last of the simulations tries it. A plan that time cuts short before
    that plays the best sequence instead. Departures from the source: the cost of control is
    left to the env's reward, and with `scale_returns` s is the standard deviation of the
    round's returns, so that one temperature fits any env; without, s = 1.

    Args:
        noise_std: standard deviation of the noise, in units in which the action
            space is [-1, 1].
        temperature: T; small follows the best sequence, large the mean.
        scale_returns: measure returns by their spread in the round.

    Source: Williams et al. 2017, "Information theoretic MPC for model-based
    reinforcement learning", algorithm 2.
    """

    noise_std: float = 0.5
    temperature: float = 0.2
    scale_returns: bool = True

    plays_tried: ClassVar[bool] = False

    def __post_init__(self) -> None:
        """Check the options."""
        super().__post_init__()
        self.noise_std = self._number("noise_std", 0.0, math.inf)
        self.temperature = self._number("temperature", 1e-12, math.inf)

    def _counts(self, total: int) -> list[int]:
        """Spread the sequences evenly over the rounds."""
        return self._even_counts(total)

    def _begin(self, row: Row) -> None:
        """Leave the mean at the warm start, or at the middle of the space."""

    def _propose(self, row: Row, turn: Round) -> Floats:
        """Draw noise around the mean, which is a candidate itself."""
        knots = row.mean + row.rng.normal(0.0, self.noise_std, (turn.count, *row.mean.shape))
        # Without noise, so that a mean that is good already is among what is weighed.
        knots[0] = row.mean
        return knots

    def _learn(self, row: Row, tried: Population) -> None:
        """Average what was tried."""
        row.mean = weighted_mean(tried, self.temperature, scaled=self.scale_returns)

    def _answer(self, row: Row) -> Floats:
        """Return the mean, `[K, D]`."""
        return row.mean


def weighted_mean(tried: Population, temperature: float, *, scaled: bool) -> Floats:
    """Return `[K, D]`, fresh: sequences averaged by exp(return / (temperature * spread)).

    Args:
        tried: the sequences.
        temperature: small follows the best of them.
        scaled: whether the spread is that of the returns; if not it is 1.
    """
    spread = spread_of(tried.returns) if scaled else 1.0
    # Less the best, which cancels out in the shares: exp cannot overflow, and one weight is 1,
    # so that their sum is never 0.
    gap = tried.returns - tried.returns.max()
    # With equal returns all weigh the same, whatever the temperature.
    weights = np.exp(gap / (temperature * spread)) if spread > 0 else np.ones(len(gap))
    weights /= weights.sum()
    mean: Floats = (weights[:, None, None] * tried.knots).sum(axis=0)
    return mean
