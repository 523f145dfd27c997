"""ANTS: adaptive entropy tree search, MENTS with a target entropy."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from plangym_ext.planners.lockstep.search import Search
from plangym_ext.planners.mcts.ments import MENTS
from plangym_ext.planners.trees.soft import Soft, adapt_temperature, revalue


@dataclass(eq=False, kw_only=True)
class ANTS(MENTS):
    """Adaptive entropy tree search: MENTS with a given mean entropy of the policies.

    Whenever a tree has doubled, its temperature is set anew, so that the mean entropy of the
    policies in its nodes is what is asked for, and all its nodes are valued with that. So
    it needs no temperature that fits the rewards of an env.

    Args:
        policy_temperature: until the tree has nodes with two returns.
        target_entropy: mean share of the most entropy that a node's policy could have,
            from 0 (greedy) to 0.99; no finite temperature has 1 (all actions alike).

    Source: Kozakowski et al. 2022, "Planning and learning using adaptive entropy tree search".
    """

    target_entropy: float = 0.5

    def __post_init__(self) -> None:
        """Check the options."""
        super().__post_init__()
        self.target_entropy = self._number("target_entropy", 0.0, 0.99)

    def _soft(self, search: Search) -> Soft:
        """Return what trees are searched with; none of them has its temperature yet."""
        # Kept trees are larger: they are adapted first of all. It is the search's, not this
        # planner's: that may plan in several threads, in an env each.
        search.adapted = np.ones(len(search.done), np.int32)
        return super()._soft(search)

    def _before_wave(self, search: Search, soft: Soft) -> None:
        """Set the temperatures of trees that have doubled."""
        rows = np.flatnonzero(search.tree.size >= 2 * search.adapted)
        if len(rows):
            search.adapted[rows] = search.tree.size[rows]
            adapt_temperature(search.tree, soft, rows, self.target_entropy)
            # The values of all nodes were made with the temperature before.
            revalue(search.tree, soft, rows)
