"""Shoot Tree Search: tree search whose simulations expand several nodes in a row."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from plangym_ext.planners.compiled.search import CompiledSearch, compiled_search
from plangym_ext.planners.compiled.shoot import make_shoot_wave
from plangym_ext.planners.lockstep.search import Search
from plangym_ext.planners.mcts.bandit import BanditSearch
from plangym_ext.planners.trees.sts_kernels import (
    begin_descent,
    credit_creation,
    end_descent,
    expand_nodes,
    go_on,
    observed,
    select_frontier,
)


@dataclass(eq=False, kw_only=True)
class STS(BanditSearch):
    """Shoot Tree Search: a simulation expands H nodes, each with all of its children.

    A simulation goes down to a node without children, steps every legal action
    from it, rates the new nodes, and goes on into the one that the rule takes, H
    times. The value of the last one is backed up along the whole path. H trades the
    breadth of a tree for the depth of shooting at equal model steps; H = 1 is tree
    search with full expansions.

    A new child counts as visited once, by its rating. Nothing is stepped or credited
    beyond the last expansion (Alpacka's code goes one step too far, and counts a
    reward twice).

    Args:
        num_expansions: H.
        intermediate_backups: back up the value of every node on the way down, not
            only that of the last one.

    Source: Czechowski et al. 2021, "Structure and randomness in planning and
    reinforcement learning", section 3; PUCT as in Alpacka's stochastic agent, but
    for its counts: a node's creation is no choice made in it.
    """

    num_expansions: int = 5
    intermediate_backups: bool = False

    def __post_init__(self) -> None:
        """Check the options."""
        super().__post_init__()
        self.num_expansions = self._integer("num_expansions", 1)

    @property
    def two_players(self) -> bool:
        """Its trees alternate between players: the other's values are negative."""
        return True

    def _nodes_per_simulation(self, num_actions: int) -> int:
        """Return all children of every expansion."""
        return self.num_expansions * num_actions

    def _wave_of(self, search: Search) -> Callable[[], bool]:
        """Return `_wave` of a search."""
        return functools.partial(self._wave, search)

    def _wave(self, search: Search) -> bool:
        """Run a wave of simulations side by side; return False if there was none left."""
        tree, settings = search.tree, search.settings
        num_actions = tree.order.shape[1]
        # The most a simulation may cost: what is begun is always finished within the budget.
        cost = self.num_expansions * num_actions * (1 + search.rater.most_steps)
        limits = np.minimum(settings.wave_size, search.allowance(cost))
        room = int(limits.sum())
        rows, leaves = np.empty(room, np.int32), np.empty(room, np.int32)
        count = select_frontier(tree, limits, settings.selection, search.halving, rows, leaves)
        rows, leaves = rows[:count], leaves[:count]
        descent, going = begin_descent(tree, rows, leaves)
        # Side by side: one batch of the model for the k-th expansions of all trees.
        for step in range(self.num_expansions):
            if going == 0:
                break
            new_rows, new_nodes = expand_nodes(tree, descent, going)
            if len(new_nodes):
                search.observe(new_rows, new_nodes)
                credit_creation(tree, new_rows, new_nodes)
            # The last value is backed up by `end_descent`, in either case.
            early = self.intermediate_backups and step < self.num_expansions - 1
            rule = settings.selection, search.halving
            going = go_on(tree, *rule, descent, going, search.full, step == 0, early)
        run = end_descent(tree, descent)
        observed(tree, rows, leaves)
        # Of those alone that found room for an expansion: the others were no simulations.
        search.done += np.bincount(rows[descent.done], minlength=len(search.done))
        return run > 0

    def _compiled(self, search: Search) -> CompiledSearch | None:
        """Run the same waves in compiled code."""
        if not self.compiled:
            return None
        nodes = self._nodes_per_simulation(search.tree.order.shape[1])
        expansions = (self.num_expansions, bool(self.intermediate_backups))
        return compiled_search(search, make_shoot_wave, nodes, expansions)
