"""STS: Shoot Tree Search, several expansions in a row per simulation."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from plangym_ext.core.options import Count
from plangym_ext.planners.compiled.search import CompiledSearch, compiled_search
from plangym_ext.planners.compiled.waves import make_shoot_wave, new_shoot
from plangym_ext.planners.lockstep.search import Search
from plangym_ext.planners.mcts.bandit import BanditSearch
from plangym_ext.planners.trees.sts_kernels import (
    Descent,
    begin_descent,
    complete_roots,
    credit_creation,
    draw_children,
    end_descent,
    expand_nodes,
    go_on,
    new_descent,
    observed,
    select_frontier,
)
from plangym_ext.planners.trees.tree import ROOT, UNVISITED

#: Given the number of the expansion and how many simulations go on: which children, `[n, A]`.
Draw = Callable[[int, int], npt.NDArray[np.bool_] | None]


@dataclass(eq=False, kw_only=True)
class STS(BanditSearch):
    """Shoot Tree Search: a simulation expands H nodes in a row, with all or some children each.

    For goals that lie deep, with an evaluator that ranks states, such as Sokoban.

    A simulation descends to a node without children, steps every legal action from it (or
    `num_children` of them), rates the new nodes, and descends into the one that the rule selects, H
    times. The value of the last one is backed up along the whole path. H trades the breadth of a
    tree for the depth of shooting at equal model steps; H = 1 is tree search with full expansions.

    A new child counts as visited once, by its rating. Nothing is stepped or credited
    beyond the last expansion (Alpacka's code goes one step too far, and counts a
    reward twice).

    Args:
        num_expansions: H, nodes expanded in a row by one simulation.
        intermediate_backups: back up the value of every node on the way down, not
            only that of the last one.
        num_children: most actions that an expansion steps below the root, drawn without
            replacement by the prior; the others are not tried there. None: all that are legal.
            Few pay for long simulations where there are many actions. A node that becomes the
            root is given the rest. Not run in compiled code.

    Source: Czechowski et al. 2021, "Structure and randomness in planning and
    reinforcement learning", section 3; PUCT as in Alpacka's stochastic agent, but
    for its counts: a node's creation is no choice made in it.
    """

    num_expansions: Count = 5
    intermediate_backups: bool = False
    num_children: Count | None = None

    @property
    def two_players(self) -> bool:
        """True: trees alternate between players, with negated values of the opponent."""
        return True

    def _nodes_per_simulation(self, num_actions: int) -> int:
        """Return the children of every expansion: all where the first is the root's."""
        return num_actions + (self.num_expansions - 1) * self._width(num_actions)

    def _first_nodes(self, num_actions: int) -> int:
        """Return that the root is given all its children at once."""
        return num_actions

    def _width(self, num_actions: int) -> int:
        """Return how many children a node below the root has at most."""
        return num_actions if self.num_children is None else min(self.num_children, num_actions)

    def _wave_of(self, search: Search) -> Callable[[], bool]:
        """Return `_wave` of a search, none of whose trees is stuck."""
        return functools.partial(self._wave, search, np.zeros(len(search.done), np.bool_))

    def _wave(self, search: Search, stuck: npt.NDArray[np.bool_]) -> bool:
        """Run a wave of simulations side by side; return False if there was none left.

        Args:
            search: the search.
            stuck: `[B]`, written: trees that no simulation of a wave has found room in. Nothing
                is drawn for them from then on, as if the others were not there.
        """
        tree, settings = search.tree, search.settings
        if self.num_children is not None:
            _complete_roots(search)
        limits = np.where(stuck, 0, np.minimum(settings.wave_size, self._allowance(search)))
        descent = new_descent(int(limits.sum()), tree.order.shape[1])
        rule = settings.selection, search.halving, self.num_children
        count = select_frontier(tree, limits, *rule, descent.rows, descent.leaves)
        going = begin_descent(tree, descent, count)
        draw = self._draws(search, descent, count)
        # Side by side: one batch of the model for the k-th expansions of all trees.
        for step in range(self.num_expansions):
            if going == 0:
                break
            _add(search, descent, expand_nodes(tree, descent, going, draw(step, going)))
            # The last value is backed up by `end_descent`, in either case.
            early = self.intermediate_backups and step < self.num_expansions - 1
            going = go_on(tree, *rule, descent, going, search.full, step == 0, early)
        run = end_descent(tree, descent, count)
        observed(tree, descent.rows, descent.leaves, count)
        # Of those alone that found room for an expansion: the others were no simulations.
        found = descent.rows[:count][descent.done[:count]]
        done = np.bincount(found, minlength=len(search.done))
        search.done += done
        stuck |= done == 0
        return run > 0

    def _allowance(self, search: Search) -> npt.NDArray[np.int64]:
        """Return how many simulations each tree may begin, `[B]`.

        They are counted at the most that they may cost: what is begun is always finished within
        the budget.
        """
        num_actions, steps = search.tree.order.shape[1], 1 + search.rater.most_steps
        first = search.allowance(self._nodes_per_simulation(num_actions) * steps)
        if self.num_children is None:
            return first
        # Once the root has its children, no later simulation adds that many.
        later = search.allowance(self.num_expansions * self._width(num_actions) * steps)
        expanded = (search.tree.children[:, ROOT] != UNVISITED).any(axis=1)
        return np.where(expanded, later, first)

    def _draws(self, search: Search, descent: Descent, size: int) -> Draw:
        """Return what says which children the nodes of `size` simulations are given."""
        most = self.num_children
        if most is None:
            return lambda _step, _going: None
        tree, (rows, at, going) = search.tree, (descent.rows, descent.at, descent.going)
        num_actions = tree.order.shape[1]
        # All numbers at once, used or not: so they do not depend on how simulations end.
        numbers = search.random(rows[:size], (self.num_expansions, num_actions))

        def draw(step: int, count: int) -> npt.NDArray[np.bool_]:
            some = going[:count]
            drawn = np.empty((count, num_actions), np.bool_)
            draw_children(tree, rows[some], at[some], numbers[some, step], most, drawn)
            return drawn

        return draw

    def _compiled(self, search: Search) -> CompiledSearch | None:
        """Run the same waves in compiled code."""
        if not self.compiled or self.num_children is not None:
            return None
        nodes = self._nodes_per_simulation(search.tree.order.shape[1])
        how = self.num_expansions, bool(self.intermediate_backups)
        new_own = functools.partial(new_shoot, search, *how)
        return compiled_search(search, make_shoot_wave, nodes, new_own)


def _complete_roots(search: Search) -> None:
    """Give the roots of kept trees the children that were not drawn for them."""
    descent = new_descent(*search.tree.children.shape[::2])
    _add(search, descent, complete_roots(search.tree, descent))


def _add(search: Search, descent: Descent, count: int) -> None:
    """Step into `count` new nodes and count their rating as a visit."""
    if count:
        search.observe(descent.new_rows[:count], descent.new_nodes[:count])
        credit_creation(search.tree, descent.new_rows, descent.new_nodes, count)
