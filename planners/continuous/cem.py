"""CEM: the cross-entropy method over action sequences."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from plangym_ext.planners.continuous.base import Population, Round, Row, Shooting, evenly
from plangym_ext.planners.continuous.spline import Floats


@dataclass(eq=False, kw_only=True)
class CEM(Shooting):
    """Cross-entropy method: repeatedly fits a normal distribution to the best sequences.

    The mean of the last distribution is played; the last of the simulations tries it. A
    plan that time cuts short plays the best sequence instead. Bounded by seconds alone, the
    rounds begin again with the full width around the mean, as often as there is time, and
    the best of the means that they ended with is played. Each plan begins with the full
    width; with `warm_start` it begins around the last plan, shifted.

    Args:
        iterations: rounds among which the simulations are divided, two sequences in each at
            least.
        init_std: standard deviation of the first round, in units in which the action
            space is [-1, 1].
        elite_fraction: share of a round's sequences that the next is fitted to; two
            at least.
        momentum: share of the old distribution in the new one, in [0, 1]; with 1 it
            stays as it is.

    Source: Rubinstein 1999; for control Kobilarov 2012, "Cross-entropy motion
    planning"; constants as in Pinneri et al. 2020, table S1.
    """

    iterations: int = 4
    init_std: float = 0.5
    elite_fraction: float = 0.1
    momentum: float = 0.1

    plays_tried: ClassVar[bool] = False

    def __post_init__(self) -> None:
        """Check the options."""
        super().__post_init__()
        self.init_std = self._number("init_std", 0.0, math.inf)
        self.elite_fraction = self._number("elite_fraction", 0.0, 1.0)
        self.momentum = self._number("momentum", 0.0, 1.0)

    def _begin(self, row: Row) -> None:
        """Open the distribution again."""
        row.std = np.full(row.mean.shape, self.init_std)

    def _counts(self, total: int) -> list[int]:
        """Leave two sequences to every round: one has no spread to fit to."""
        return evenly(total, max(1, min(self.iterations, total // 2)))

    def _propose(self, row: Row, turn: Round) -> Floats:
        """Draw from the distribution."""
        # A width for each number, no covariances: to fit those takes more elites than numbers.
        knots = row.mean + row.std * row.rng.standard_normal((turn.count, *row.mean.shape))
        if turn.first and self.policy is not None:
            knots[0] = row.mean
        return knots

    def _learn(self, row: Row, tried: Population) -> None:
        """Fit the distribution to the elites."""
        count = max(2, round(self.elite_fraction * len(tried.returns)))
        if differ(tried):
            fit(row, top(tried, count), self.momentum)

    def _answer(self, row: Row) -> Floats:
        """Return the mean, `[K, D]`."""
        return row.mean


def differ(tried: Population) -> bool:
    """Return whether some sequences returned more than others.

    Where they do not, such as before anything is earned, elites are chosen by chance: fitted to
    them, the distribution would narrow around nothing, and find nothing else.
    """
    return bool(tried.returns.min() < tried.returns.max())


def top(tried: Population, count: int) -> Population:
    """Return the `count` best sequences, best first; equals in the order they were tried."""
    # Stable, or which of equal returns are elites would differ between versions of numpy.
    order = np.argsort(-tried.returns, kind="stable")[:count]
    return Population(tried.knots[order], tried.returns[order])


def fit(row: Row, elites: Population, momentum: float) -> None:
    """Move the distribution of a row to its elites, less `momentum`; its width to two or more."""
    row.mean = momentum * row.mean + (1.0 - momentum) * elites.knots.mean(axis=0)
    # One elite has no width: a distribution of width 0 would propose nothing else any more.
    if len(elites.returns) > 1:
        row.std = momentum * row.std + (1.0 - momentum) * elites.knots.std(axis=0)
