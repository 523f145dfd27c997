"""Moments: mergeable running mean and variance. Imports no torch."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt


class Moments(NamedTuple):
    """Count, mean and summed squared deviations of rows `[N, *shape]`."""

    num_rows: float
    mean: npt.NDArray[np.float64]  # [*shape]
    squares: npt.NDArray[np.float64]  # [*shape]

    @property
    def variance(self) -> npt.NDArray[np.float64]:
        """Population variance `[*shape]`, fresh; ones without rows."""
        if not self.num_rows:
            # So that nothing is scaled before anything was seen.
            return np.ones_like(self.squares)
        return self.squares / self.num_rows

    def merged(self, other: Moments) -> Moments:
        """Return the joint moments of both sets of rows.

        With n = n_a + n_b and d = mean_b - mean_a: mean = mean_a + d n_b / n, and
        squares = squares_a + squares_b + d^2 n_a n_b / n.

        Source: Chan, Golub and LeVeque 1979, "Updating formulae and a pairwise algorithm for
        computing sample variances".
        """
        # Also keeps 0 / 0 out of the share where neither has rows.
        if not other.num_rows:
            return self
        count = self.num_rows + other.num_rows
        shift = other.mean - self.mean
        share = other.num_rows / count
        squares = self.squares + other.squares + shift**2 * (self.num_rows * share)
        return Moments(count, self.mean + shift * share, squares)


def no_moments(shape: tuple[int, ...] = ()) -> Moments:
    """Return the moments of no rows."""
    return Moments(0.0, np.zeros(shape), np.zeros(shape))


def moments_of(rows: Any, valid: Any = None) -> Moments:
    """Return the moments of the rows that count, added up in float64, in their order.

    Args:
        rows: `[T, B, *shape]`, numbers of any dtype.
        valid: `[T, B]` bool; None: all count.
    """
    flat = rows.reshape(-1, *rows.shape[2:]) if valid is None else rows[valid]
    # Before the mean: in float32 a sum of a million rows loses its last digits.
    flat = flat.astype(np.float64)
    if not len(flat):
        return no_moments(flat.shape[1:])
    mean = flat.mean(axis=0)
    # In two passes: a difference of squares would cancel where the mean is large.
    return Moments(float(len(flat)), mean, ((flat - mean) ** 2).sum(axis=0))
