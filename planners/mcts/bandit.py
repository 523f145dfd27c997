"""Searches with PUCT, UCT or Gumbel selection, and those that widen over sampled actions."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt

from plangym_ext.core.compiling.jit import kernel
from plangym_ext.core.options import Finite, OneOf, Range, Share, Weight
from plangym_ext.errors import InvalidOption
from plangym_ext.planners.lockstep.search import Search
from plangym_ext.planners.lockstep.wave_kernels import SearchSettings
from plangym_ext.planners.mcts.base import CHOICES, SCALES, TreeSearch
from plangym_ext.planners.rating import Rater
from plangym_ext.planners.request import PlanRequest
from plangym_ext.planners.trees.selection import GUMBEL, PUCT, UCT, Selection
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
    """Make a number of actions of every open node legal, with equal priors, in place.

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


RULES = {"puct": PUCT, "uct": UCT, "gumbel": GUMBEL}


@dataclass(eq=False, kw_only=True)
class BanditSearch(TreeSearch):
    """Abstract base: selects actions by mean return plus an exploration bonus.

    Args:
        selection: how actions are chosen: "puct" (prior) or "uct" (counts alone).
        c_puct: weight of the bonus of "puct" and "uct", against returns on
            `value_scale`.
        value_scale: range for scaling returns to [0, 1], so that `c_puct`
            fits any env: the means in the "tree" or of the "siblings"; "none"
            leaves returns unscaled.
        fpu_reduction: how much worse than its node an untried action is
            expected to be by "puct", on `value_scale`. Large negative numbers try
            every action once before any twice.
        choice: the action to play: with most "visits", the highest mean "value", or
            the best "branch" in the tree: the highest return of any sequence from the
            root, its last node's rating included. The last is for deterministic envs, where
            a sequence can be repeated.
        compiled: run whole simulations in compiled code if the env has a kernel, and
            leaves are rated by random rollouts, by an evaluator made with
            `planners.evaluators.from_code`, or not at all; with another evaluator the steps
            alone. The plan is the same. The
            code is compiled by the first plan, which takes some seconds, and kept on disk.
    """

    selection: Annotated[str, OneOf(("puct", "uct"))] = "puct"
    c_puct: Weight = 1.5
    fpu_reduction: Finite = 0.0
    choice: Annotated[str, OneOf(CHOICES)] = "visits"
    compiled: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.choice != "visits" and (self.temperature > 0.0 or self.selection == "gumbel"):
            raise InvalidOption(
                f"{self._option('choice')} must be 'visits' with a temperature or selection "
                f"'gumbel', which draw by visits; got {self.choice!r}."
            )
        if self.selection == "uct" and self.root_noise > 0.0:
            raise InvalidOption(
                f"{self._option('root_noise')} must be 0 with selection 'uct', which ignores the "
                f"prior; got {self.root_noise}."
            )

    def _own_settings(self) -> dict[str, Any]:
        """Return what the played action has most of, and whether compiled code may step."""
        return {"choice": self.choice, "compiled": bool(self.compiled)}

    def _selection(self) -> Selection:
        return Selection(
            rule=RULES[self.selection],
            c=self.c_puct,
            scale=SCALES[self.value_scale],
            fpu_reduction=self.fpu_reduction,
            c_visit=0.0,
            c_scale=0.0,
        )


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
