"""WidenedSearch: base class of tree searches that widen over sampled actions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from plangym_ext.core.options import Range, Share
from plangym_ext.planners.lockstep.search import Search
from plangym_ext.planners.lockstep.widening import WideningSearch
from plangym_ext.planners.mcts.bandit import BanditSearch
from plangym_ext.planners.request import PlanRequest


@dataclass(eq=False, kw_only=True)
class WidenedSearch(BanditSearch):
    """Abstract base: adds one action at a time where actions are sampled.

    Args:
        action_width: where actions are sampled, a node with n visits chooses among the first
            action_width * n**action_growth of its `num_candidates`, rounded up; of "gumbel" among
            all.
        action_growth: see there; in [0, 1]. Less is deeper, more compares more actions.
    """

    action_width: Annotated[float, Range(1.0, 1e6)] = 1.0
    action_growth: Share = 0.5

    def _new_search(self, request: PlanRequest, num_actions: int) -> Search:
        """Return a search that widens, where actions are sampled."""
        if self.selection == "gumbel" or not getattr(request.env, "samples_actions", False):
            return super()._new_search(request, num_actions)
        how = self._settings(num_actions), self._rater(num_actions)
        return WideningSearch(request, *how, self.action_width, self.action_growth)
