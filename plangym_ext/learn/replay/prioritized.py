"""Sampling in proportion to priorities."""

from __future__ import annotations

import numpy.typing as npt

from plangym_ext.learn.replay.uniform import ReplayBuffer


class PrioritizedReplay(ReplayBuffer):
    """The newest `capacity` rows; row i is drawn with probability p_i^α / Σ p^α.

    The weights of a batch are (p_min^α / p_i^α)^β over the rows that are there, so that
    the largest possible one is 1.

    Args:
        capacity: rows, at least 1.
        seed: of the sampling.
        alpha: α, how much priorities matter; 0 is uniform.
        beta: β, how far the weights undo it; 1 is all the way. It may be assigned later.

    Source: Schaul et al. 2016, "Prioritized experience replay".
    """

    def __init__(self, capacity: int, *, seed: int, alpha: float = 0.6, beta: float = 0.4) -> None:
        raise NotImplementedError

    def update_priorities(self, indices: npt.ArrayLike, priorities: npt.ArrayLike) -> None:
        """Give rows new priorities; of an index that comes twice the last one counts.

        Args:
            indices: `[N]` of a `Batch`, rows not yet overwritten.
            priorities: `[N]`, finite and not negative; 0 is never drawn.
        """
        raise NotImplementedError
