"""TreeSearch: base class of tree-search planners."""

from __future__ import annotations

import functools
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from itertools import repeat
from typing import Annotated, Any, ClassVar

import numpy as np
import numpy.typing as npt

from plangym_ext.core.options import Count, OneOf, Range, Share, Weight, Whole
from plangym_ext.errors import InvalidOption
from plangym_ext.planners.base import UNBOUNDED, DiscretePlanner
from plangym_ext.planners.compiled.search import CompiledSearch
from plangym_ext.planners.lockstep.kept_search import KeptSearch
from plangym_ext.planners.lockstep.repair import cut_wrong
from plangym_ext.planners.lockstep.search import Search
from plangym_ext.planners.lockstep.wave_kernels import SearchSettings
from plangym_ext.planners.plans import Plan, one_hot
from plangym_ext.planners.rating import Evaluator, Policy, Rater
from plangym_ext.planners.request import PlanRequest, no_legal_action
from plangym_ext.planners.rollouts.final_action import highest, sampled
from plangym_ext.planners.rollouts.rater import RolloutRater, default_depth, leaf_rater
from plangym_ext.planners.simulator import States
from plangym_ext.planners.trees.gumbel import gumbel_summary
from plangym_ext.planners.trees.rules import (
    SCALE_NONE,
    SCALE_SIBLINGS,
    SCALE_TREE,
    best_branches,
    exported,
)
from plangym_ext.planners.trees.selection import Selection
from plangym_ext.planners.trees.soft import soft_summary
from plangym_ext.planners.trees.tree import NO_ACTION, ROOT, summarize

SCALES = {"none": SCALE_NONE, "siblings": SCALE_SIBLINGS, "tree": SCALE_TREE}
# What the action that is played has most of.
CHOICES = ("visits", "value", "branch")
# Nodes of a tree that only time bounds.
_TIMED_CAPACITY = 10_000
# The same where a number of simulations is given too.
_MOST_TIMED = 1_000_000


@dataclass(eq=False, kw_only=True)
class TreeSearch(DiscretePlanner):
    """Abstract base: grows a tree below the current state and plays the most visited action.

    Args:
        wave_size: most simulations in flight at once, per tree. More keep more workers
            busy; fewer choose by newer results.
        rollout_depth: steps of a rollout from each leaf; 0 for none. None means 8
            without an evaluator and 0 with one.
        num_rollouts: rollouts per leaf, averaged.
        rollout_policy: `obs [L, *obs] -> probabilities [L, A]` that rollouts follow;
            None: random actions.
        evaluator: `obs [L, *obs] -> (prior [L, A] or None, value [L])`. Its
            value rates the leaf, or what follows a rollout if there is one.
            See `planners.evaluators` for Q functions and policies.
        value_scale: unit of returns, so that other options fit any env: taken from the
            returns in the "tree" or of the "siblings"; "none" leaves them unscaled.
        root_noise: share of Dirichlet noise in the root's prior, in [0, 1].
        dirichlet_alpha: concentration of that noise; small is spiky.
        temperature: the action is drawn in proportion to visits**(1 / temperature);
            0 plays the most visited.
        capacity: most nodes per tree, the root included; at least 2. A search
            ends when its tree is full, and its plan says so. None means room
            for all simulations, twice that with `keep_tree`; 10,000 if only
            time bounds them, and a million if time does, too.
        keep_tree: go on with the subtree of the state that came about, if it is
            in the tree, bit for bit. `reset` drops it.
        return_tree: put the nodes of the search into the plan.
        slots: keep states in slots of the env, if it has any and there are no rollouts,
            rather than in an array of the planner. The plan is the same.
    """

    noise_options: ClassVar[tuple[str, ...]] = ("root_noise", "temperature")

    wave_size: Count = 8
    rollout_depth: Whole | None = None
    num_rollouts: Count = 1
    rollout_policy: Policy | None = None
    evaluator: Evaluator | None = None
    value_scale: Annotated[str, OneOf(SCALES)] = "tree"
    root_noise: Share = 0.0
    dirichlet_alpha: Annotated[float, Range(1e-6)] = 0.3
    temperature: Weight = 0.0
    capacity: Annotated[int | None, Range(2)] = None
    keep_tree: bool = False
    return_tree: bool = False
    slots: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        wants_rollouts = self.rollout_policy is not None or self.num_rollouts > 1
        if self.rollout_depth is None:
            self.rollout_depth = default_depth(None if wants_rollouts else self.evaluator)
        if wants_rollouts and self.rollout_depth == 0:
            raise InvalidOption(
                f"{self._option('rollout_depth')} must be 1 or more with rollout_policy or "
                f"num_rollouts, which need rollouts; got 0."
            )
        self._checked_selection = self._selection()
        # Code is compiled for the memory of one search: that of some of its rows has none.
        self._kept: KeptSearch[CompiledSearch] = KeptSearch(_no_code)

    @property
    def _cuts(self) -> bool:
        """Whether nodes can be taken out of its trees; see `cut_wrong`."""
        return False

    @abstractmethod
    def _selection(self) -> Selection:
        """Return the checked numbers of the rule."""

    @abstractmethod
    def _wave_of(self, search: Search) -> Callable[[], bool]:
        """Return the function of one wave, which returns False if no wave was left."""

    @abstractmethod
    def _compiled(self, search: Search) -> CompiledSearch | None:
        """Return the runner of waves in compiled code, or None."""

    @abstractmethod
    def _nodes_per_simulation(self, num_actions: int) -> int:
        """Return how many nodes a simulation adds at most."""

    @abstractmethod
    def _own_settings(self) -> dict[str, Any]:
        """Return the fields of `SearchSettings` that other tree searches do not set."""

    def _plan_batch(self, request: PlanRequest) -> list[Plan]:
        """Grow B trees in lockstep."""
        num_actions, _ = request.discrete_actions()
        search, in_code = self._kept.take(request)
        if search is None:
            search = self._new_search(request, num_actions)
        # Before anything is stepped: without observations the roots could not be rated.
        if search.rater.rates_roots:
            request.needed_obs("an evaluator")
        clock, run_wave = request.clock, self._wave_of(search)
        in_code = in_code or self._compiled(search)
        if in_code is not None:
            # Compiled code reads states as it finds them: a damaged one has to be refused here.
            in_code.check(request.states)
            run_wave = functools.partial(in_code.run, run_wave, timed=clock.limited)
        clock.search = search
        search.start(request)
        while run_wave() and not clock.over:
            pass
        # Waves in flight have cost their steps: they count.
        search.finish_all()
        # Only now: an interrupted search must not be continued.
        self._kept.put(search, in_code)
        return tree_plans(search, clock.seconds)

    def cut_wrong(self, env: Any, row: int, state: States, action: Any, came: Any) -> int:
        """Drop branches with a wrong prediction, or the tree; see `Planner.cut_wrong`."""
        search = self._kept.search
        if search is None or not self.keep_tree:
            return 0
        if self._cuts and search.model is env:
            told = row, state, int(action) - search.first_action
            return cut_wrong(search.tree, search.states, *told, *came)
        count = int(search.tree.size[row]) - 1
        self._kept.forget(np.array([row]))
        return count

    def _new_search(self, request: PlanRequest, num_actions: int) -> Search:
        return Search(request, self._settings(num_actions), self._rater(num_actions))

    def _capacity(self, num_actions: int) -> int:
        """Return how many nodes a tree has room for."""
        if self.capacity is not None:
            least = 1 + self._first_nodes(num_actions)
            if self.capacity < least:
                raise InvalidOption(
                    f"{self._option('capacity')} must be at least {least}, the root and what "
                    f"the first simulation adds to it; got {self.capacity}."
                )
            return self.capacity
        if self.most_simulations == UNBOUNDED:
            most = _TIMED_CAPACITY
        else:
            most = 1 + self.most_simulations * self._nodes_per_simulation(num_actions)
            if self.max_seconds is not None:
                # More than any time allows may have been asked for.
                most = min(most, _MOST_TIMED)
            if self.max_model_steps is not None:
                most = min(most, 1 + self.max_model_steps * self._nodes_per_step())
        # Nodes that are kept and as many new ones; the root is among both.
        return 2 * most - 1 if self.keep_tree else most

    def _first_nodes(self, num_actions: int) -> int:  # noqa: ARG002
        """Return how many nodes the first step from the root adds at once."""
        return 1

    def _nodes_per_step(self) -> int:
        """Return how many nodes a step of the model adds at most."""
        return 1

    def _settings(self, num_actions: int) -> SearchSettings:
        """Return the search's parameters."""
        return SearchSettings(
            num_simulations=self.most_simulations,
            max_model_steps=self.max_model_steps,
            wave_size=self.wave_size,
            capacity=self._capacity(num_actions),
            discount=self.discount,
            selection=self._checked_selection,
            root_noise=self.root_noise,
            dirichlet_alpha=self.dirichlet_alpha,
            temperature=self.temperature,
            return_tree=bool(self.return_tree),
            keep_tree=bool(self.keep_tree),
            slots=bool(self.slots),
            **self._own_settings(),
        )

    def _rater(self, num_actions: int) -> Rater:
        """Return the leaf rater that the options describe."""
        assert self.rollout_depth is not None
        rollouts = RolloutRater(
            self.rollout_depth,
            self.num_rollouts,
            self.discount,
            self.evaluator,
            self.rollout_policy,
        )
        return leaf_rater(rollouts, self.evaluator, num_actions)


def _no_code(_code: CompiledSearch, _rows: npt.NDArray[np.intp]) -> None:
    """Return what is kept of compiled code for some rows."""


def tree_plans(search: Search, seconds: float) -> list[Plan]:
    """Read the B plans of a search from the roots of its trees.

    Raises:
        NoLegalAction: a root has none.
    """
    tree, settings = search.tree, search.settings
    batch, capacity, num_actions = tree.children.shape
    # Filled by one kernel over all roots.
    visits = np.empty((batch, num_actions), np.int64)
    q, weights = np.empty((2, batch, num_actions))
    best, depths = np.empty((2, batch), np.int64)
    summarize(tree, visits, q, weights, best, depths, np.empty(capacity, np.int64))
    if NO_ACTION in best.tolist():
        raise no_legal_action("search", np.flatnonzero(best == NO_ACTION))
    best, weights = _chosen(search, visits, q, weights, best)
    # Numbers of Python's all at once: one by one they take as long as a fast search.
    actions = (search.first_action + best).tolist()
    values, budgets = tree.q[:, ROOT].tolist(), search.costs.budgets(seconds)
    trees = [exported(tree, b) if settings.return_tree else None for b in range(batch)]
    by_visits = settings.choice == "visits" and search.soft is None
    full = search.cut_short().tolist()
    columns = actions, values, budgets, visits, q, weights, repeat(None), full, trees
    # In the order of the fields: by their names it takes a third longer, for every tree.
    ends = repeat(by_visits), repeat(None), depths.tolist(), repeat(search.first_action)
    return [*map(Plan, *columns, *ends)]


def _chosen(
    search: Search,
    visits: npt.NDArray[np.int64],
    q: npt.NDArray[np.float64],
    weights: npt.NDArray[np.float64],
    most_visited: npt.NDArray[np.int64],
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """Return the actions `[B]` to play and a policy `[B, A]`.

    Args:
        search: whose rules say how they are chosen.
        visits: `[B, A]` of the roots' actions.
        q: `[B, A]` their mean returns, NaN where never tried.
        weights: `[B, A]` their shares, which other policies are written over.
        most_visited: `[B]` the action with most of them.
    """
    best = most_visited
    if search.soft is not None:
        soft_summary(search.tree, search.soft, weights, best)
    if search.halving is not None:
        _, _, scale, _, c_visit, c_scale = search.settings.selection
        gumbel_summary(search.tree, search.halving, scale, c_visit, c_scale, weights, best)
    elif search.settings.temperature > 0.0:
        # Each root by its own generator: a row does not depend on the others in the batch.
        pairs = zip(visits, search.rngs, strict=True)
        best = np.array([sampled(row, search.settings.temperature, rng) for row, rng in pairs])
    elif search.settings.choice != "visits":
        best = _by_returns(search, visits, q)
        weights = one_hot(best, visits.shape[1])
    return best, weights


def _by_returns(
    search: Search, visits: npt.NDArray[np.int64], q: npt.NDArray[np.float64]
) -> npt.NDArray[np.int64]:
    """Return the actions `[B]` of the highest means `q` `[B, A]`, or of the best branches."""
    if search.settings.choice == "branch":
        q = np.empty(q.shape)
        best_branches(search.tree, q)
    triples = zip(visits, q, search.tree.order, strict=True)
    return np.array([highest(row, scores, order) for row, scores, order in triples])
