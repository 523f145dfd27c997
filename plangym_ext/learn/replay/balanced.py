"""Sampling that gives every group of rows the same share."""

from __future__ import annotations

from plangym_ext.learn.replay.uniform import ReplayBuffer


class BalancedReplay(ReplayBuffer):
    """Rows in groups, such as steps of solved and of unsolved episodes; groups draw alike.

    A group is drawn uniformly among those that have rows, then a row of it. Groups of
    several levels (`[N, L]`) are drawn level by level.

    Args:
        capacity: rows kept per group: a rare group keeps its rows however many of the
            other come.
        seed: of the sampling.
    """
