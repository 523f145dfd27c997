"""WideningSearch: nodes choose among more of their sampled actions the more often they are seen."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from plangym_ext.core.compiling.jit import kernel
from plangym_ext.planners.lockstep.search import Search
from plangym_ext.planners.lockstep.wave_kernels import SearchSettings
from plangym_ext.planners.rating import Rater
from plangym_ext.planners.request import PlanRequest
from plangym_ext.planners.trees.tree import OPEN, UNVISITED, NewNodes, Tree


class WideningSearch(Search):
    """A search in which a node with n visits chooses among the first width * n**growth actions.

    Args:
        request: of plans in a model that samples actions.
        settings: as of a `Search`.
        rater: as of a `Search`.
        width: actions of a node with one visit.
        growth: in [0, 1].

    Source: Couetoux et al. 2011, "Continuous upper confidence trees": progressive widening.
    """

    def __init__(
        self,
        request: PlanRequest,
        settings: SearchSettings,
        rater: Rater,
        width: float,
        growth: float,
    ) -> None:
        super().__init__(request, settings, rater)
        self._width, self._growth = width, growth

    def run_wave(self) -> bool:
        """Widen the nodes, and run a wave; see `Search.run_wave`."""
        widen(self.tree, self._width, self._growth)
        return super().run_wave()

    def allowance(
        self, cost: int | npt.NDArray[np.int64], least: int | None = None
    ) -> npt.NDArray[np.int64]:
        """Widen the nodes; see `Search.allowance`, which waves of other kinds begin with."""
        widen(self.tree, self._width, self._growth)
        return super().allowance(cost, least)

    def with_rating(self, new: NewNodes, out: Any, some: Any = None) -> NewNodes:
        """Rate new nodes, each of which begins with the actions of one visit."""
        rated = super().with_rating(new, out, some)
        shape = len(new.nodes), self.tree.legal.shape[2]
        legal = new.legal if len(new.legal) else np.ones(shape, np.bool_)
        first = np.arange(shape[1]) < self._width
        return rated._replace(legal=legal & first)


@kernel
def widen(tree: Tree, width: float, growth: float) -> None:
    """Make so many actions of every open node legal, with equal priors, in place.

    Args:
        tree: the trees; what was ever tried stays legal.
        width: actions of a node with one visit.
        growth: power of the visits that they grow by.
    """
    num_actions = tree.legal.shape[2]
    for b in range(len(tree.size)):
        for n in range(tree.size[b]):
            # A state that allows one of the sampled actions allows all of them.
            if tree.kind[b, n] != OPEN or not tree.legal[b, n, 0]:
                continue
            most = math.ceil(width * max(tree.visits[b, n], 1) ** growth)
            count = 0
            for a in range(num_actions):
                tree.legal[b, n, a] = a < most or tree.children[b, n, a] != UNVISITED
                count += tree.legal[b, n, a]
            for a in range(num_actions):
                tree.prior[b, n, a] = 1.0 / count if tree.legal[b, n, a] else 0.0
