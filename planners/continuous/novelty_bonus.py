"""Novelty bonus: distance of a sequence's end from the observations of its episode.

Source: the distance to what an episode has shown, as in Savinov et al. 2018, "Episodic curiosity
through reachability", with plain differences of observations in place of a learned measure.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from plangym_ext.core.compiling.jit import kernel

Floats = npt.NDArray[np.float64]
#: Decisions whose observations are remembered, the latest.
REMEMBERED = 1000


class Shown:
    """Observations at an episode's decisions, and the spread of the sequences' ends."""

    def __init__(self) -> None:
        self._seen: Floats = np.zeros((0, 0))
        self._variance: Floats = np.zeros(0)
        self._spreads = 0

    def add(self, obs: Floats) -> None:
        """Remember the observation `[F]` of a decision; the oldest goes if there are many."""
        self._seen = np.concatenate([self._seen.reshape(-1, obs.size), obs[None]])[-REMEMBERED:]

    def measure(self, ends: Floats) -> None:
        """Take in how widely the last observations `[n, F]` of sequences differ.

        The unit of each number is their standard deviation, its variance averaged over the plans
        of the episode.
        """
        self._spreads += 1
        before = self._variance if self._variance.size else np.zeros(ends.shape[1])
        self._variance = before + (ends.var(axis=0) - before) / self._spreads

    def novelty(self, ends: Floats) -> Floats:
        """Return `[n]` in [0, 1]: how far the last observations `[n, F]` are from all that is seen.

        d / (1 + d), where d is the root mean square difference to the nearest, over the numbers
        that differ at all; 0 where a number is not finite.
        """
        varies = self._variance > 0.0
        weights = np.zeros(len(varies))
        weights[varies] = 1.0 / (self._variance[varies] * np.count_nonzero(varies))
        squares = np.empty(len(ends))
        nearest(np.ascontiguousarray(ends), self._seen, weights, squares)
        distance = np.sqrt(np.where(np.isfinite(squares), squares, 0.0))
        return np.asarray(distance / (1.0 + distance))


@kernel
def nearest(ends: Floats, seen: Floats, weights: Floats, squares: Floats) -> None:
    """Write the distances of n observations to the nearest of m.

    Args:
        ends: `[n, F]`.
        seen: `[m, F]`.
        weights: `[F]` of the squared differences.
        squares: `[n]` written: their sum; infinite where no sum is a number.
    """
    for i in range(len(ends)):
        least = np.inf
        for j in range(len(seen)):
            total = 0.0
            for f in range(len(weights)):
                gap = ends[i, f] - seen[j, f]
                total += weights[f] * gap * gap
                # It can only grow.
                if total >= least:
                    break
            least = min(least, total)
        squares[i] = least
