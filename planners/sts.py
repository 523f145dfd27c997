"""Shoot Tree Search: tree search whose simulations expand several nodes in a row."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from plangym_ext.planners.compiled_search import CompiledSearch, compiled_search
from plangym_ext.planners.compiled_shoot import make_shoot_wave
from plangym_ext.planners.multi_step import (
    add_children,
    backup_returns,
    credit_creation,
    follow,
    observed,
    select_frontier,
)
from plangym_ext.planners.search import Search
from plangym_ext.planners.tree import OPEN
from plangym_ext.planners.tree_search import TreeSearch


@dataclass(eq=False, kw_only=True)
class STS(TreeSearch):
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

    def _nodes_per_simulation(self, num_actions: int) -> int:
        """Every expansion adds all children."""
        return self.num_expansions * num_actions

    def _wave(self, search: Search) -> bool:
        """Run a wave of simulations side by side; False if there was none left."""
        tree, rules = search.tree, search.rules
        num_actions = tree.order.shape[1]
        cost = self.num_expansions * num_actions * (1 + search.rater.most_steps)
        limits = np.minimum(rules.wave_size, search.allowance(cost))
        room = int(limits.sum())
        rows, leaves = np.empty(room, np.int32), np.empty(room, np.int32)
        count = select_frontier(tree, limits, rules.selection, search.halving, rows, leaves)
        rows, leaves = rows[:count], leaves[:count]
        done = self._descend(search, rows, leaves)
        observed(tree, rows, leaves)
        search.done += np.bincount(rows[done], minlength=len(search.done))
        return bool(done.any())

    def _compiled(self, search: Search) -> CompiledSearch | None:
        """Run the same waves in compiled code."""
        nodes = self._nodes_per_simulation(search.tree.order.shape[1])
        expansions = (self.num_expansions, bool(self.intermediate_backups))
        return compiled_search(search, make_shoot_wave, nodes, expansions)

    def _descend(self, search: Search, rows: np.ndarray, leaves: np.ndarray) -> np.ndarray:
        """Expand up to H nodes under every leaf; `[L]` False where not even one fitted."""
        tree = search.tree
        at, done = leaves.copy(), np.ones(len(leaves), np.bool_)
        # What a simulation hands up: the node above which it is credited, and the
        # return from there on. An ended leaf hands up its own value once more.
        above, returns = leaves.copy(), tree.value[rows, leaves].copy()
        owed = np.ones(len(leaves), np.bool_)
        going = np.flatnonzero(tree.kind[rows, leaves] == OPEN)
        for step in range(self.num_expansions):
            if going.size == 0:
                break
            fitted, chosen = self._expand(search, rows[going], at[going])
            search.full[rows[going[~fitted]]] = True
            if step == 0:
                done[going[~fitted]] = False
            going, chosen = going[fitted], chosen[fitted]
            # A node that allows nothing is a leaf with the value it was rated.
            going, chosen = going[chosen >= 0], chosen[chosen >= 0]
            above[going] = at[going]
            returns[going] = tree.q[rows[going], chosen]
            at[going] = chosen
            owed[going] = True
            last = step == self.num_expansions - 1
            ended = tree.kind[rows[going], chosen] != OPEN
            if self.intermediate_backups and not last:
                early = going[~ended]
                backup_returns(tree, rows[early], above[early], returns[early])
                owed[early] = False
            going = going[~ended]
        owed &= done
        backup_returns(tree, rows[owed], above[owed], returns[owed])
        return done

    def _expand(
        self, search: Search, rows: np.ndarray, nodes: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Expand L nodes; which of them had room, and the child to follow of each."""
        tree, num_actions = search.tree, search.tree.order.shape[1]
        new_rows, new_nodes = np.empty((2, len(nodes) * num_actions), np.int32)
        counts, chosen = np.empty((2, len(nodes)), np.int32)
        total = add_children(tree, rows, nodes, new_rows, new_nodes, counts)
        if total:
            search.observe(new_rows[:total], new_nodes[:total])
            credit_creation(tree, new_rows[:total], new_nodes[:total])
        follow(tree, rows, nodes, search.rules.selection, search.halving, chosen)
        return counts >= 0, chosen
