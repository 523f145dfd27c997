"""Expansions: open-loop simulations that expand several nodes in a row with all children."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from plangym_ext.arrays.nested import leaves, rows_of
from plangym_ext.errors import InvalidAnswer
from plangym_ext.planners.lockstep.costs import tally_steps
from plangym_ext.planners.lockstep.search import Search
from plangym_ext.planners.rating import Leaves, all_finite, as_floats
from plangym_ext.planners.simulator import States
from plangym_ext.planners.trees.chance import backup_rewards
from plangym_ext.planners.trees.sts_kernels import (
    Descent,
    choose_child,
    credit_creation,
    expand_nodes,
)
from plangym_ext.planners.trees.tree import OPEN, expand
from plangym_ext.states.envelope import as_wide

Index = npt.NDArray[np.intp]
#: obs [L, *obs] -> [L, A], what each action is worth, its reward included
QFunction = Callable[[Any], npt.ArrayLike]


class Expansions:
    """L simulations that each have reached a node and continue from it.

    What they come to is what this very time has brought; nodes have no states.

    Args:
        search: whose trees grow.
        q_function: rates children; None: each is stepped into, and rated by the search.
        by_chance: whether a node can be of several states.
        descent: `rows` and `leaves` of the simulations.
        steps: `[L]` actions that were played.
        rewards: `[L, D]` of them, with room for those to come.
        states: `[L, S]` after them.
        obs: `[L, *obs]`; None at roots that came without.

    Attributes:
        at: `[L]` int32, node that each has come to.
        value: `[L]` expected return from there on.
        rewards, steps: as given; they grow.
    """

    def __init__(
        self,
        search: Search,
        q_function: QFunction | None,
        by_chance: bool,
        descent: Descent,
        *,
        steps: npt.NDArray[np.int32],
        rewards: npt.NDArray[np.float64],
        states: States,
        obs: Any,
    ) -> None:
        self._search, self._ask, self._by_chance = search, q_function, by_chance
        self._descent, self.rewards, self.steps = descent, rewards, steps.astype(np.int32)
        self._states, self._obs = states, obs
        self._rows = descent.rows[: len(steps)]
        self.at = descent.leaves[: len(steps)].copy()
        self.value = np.zeros(len(steps))
        self._q = np.zeros((len(steps), search.tree.order.shape[1]))

    def arrive(self, some: Index, cut: npt.NDArray[np.bool_], stays: npt.NDArray[np.bool_]) -> None:
        """Rate the nodes that some simulations have reached; none of them is terminal.

        Args:
            some: `[n]` which of them.
            cut: `[n]` whether they were truncated there.
            stays: `[n]` which go no further, so that their value is asked for.
        """
        search, tree = self._search, self._search.tree
        if self._ask is None:
            some, cut = some[stays], cut[stays]
        here = self._rows[some], self.at[some]
        if self._ask is not None and len(some):
            self._q[some] = self._asked(rows_of(self._obs, some), len(some))
            search.costs.add(self._rows[some], evaluator_rows=1)
            best = np.where(tree.legal[here], self._q[some], -np.inf).max(axis=1)
            self.value[some] = tree.value[here] = best
        if len(some) and (self._ask is None or search.rater.rates_roots):
            seen = rows_of(self._obs, some)
            rating = search.rate(Leaves(here[0], self._states[some], seen, cut))
            if self._ask is None:
                self.value[some] = rating.value
            elif rating.prior is not None:
                tree.prior[here] = rating.prior

    def _asked(self, obs: Any, count: int) -> npt.NDArray[np.float64]:
        """Return `[n, A]`, what the Q function says of n observations."""
        assert self._ask is not None
        found = as_floats("q_function: values", self._ask(obs), np.float64)
        wanted = count, self._q.shape[1]
        if found.shape != wanted or not all_finite(found.ravel()):
            raise InvalidAnswer(
                f"q_function: values must be {wanted} finite numbers, a row for each observation "
                f"and a column for each action; got shape {found.shape}."
            )
        return found

    def expand(self, going: Index) -> tuple[Index, Index]:
        """Add all children to the nodes of some simulations, and choose one child each.

        Args:
            going: `[n]` which simulations; their nodes have no children.

        Returns:
            `[m]` those that found room, and had an action; and `[m]` the child of each, whose
            return is the simulation's value now.
        """
        search, descent = self._search, self._descent
        tree, count = search.tree, len(going)
        descent.going[:count], descent.at[going] = going, self.at[going]
        total = expand_nodes(tree, descent, count, None)
        sizes = descent.counts[:count].copy()
        search.full[self._rows[going[sizes < 0]]] = True
        if total:
            of = np.repeat(going, np.maximum(sizes, 0))
            self._fill_in(of, descent.new_rows[:total], descent.new_nodes[:total])
        found = going[sizes > 0]
        children = np.empty(len(found), np.intp)
        for k, i in enumerate(found.tolist()):
            b, node = int(self._rows[i]), int(self.at[i])
            action = choose_child(tree, b, node, search.settings.selection, None, None)
            children[k] = tree.children[b, node, action]
            self.value[i] = tree.q[b, children[k]]
        return found, children

    def _fill_in(self, of: Index, rows: Any, nodes: Any) -> None:
        """Write the new children `nodes` `[M]` of simulations `of` `[M]`, and their first visit."""
        search, tree = self._search, self._search.tree
        actions = tree.action[rows, nodes].astype(np.int64)
        if self._ask is None:
            states = self._states[of]
            out = search.model.step_batch(search.first_action + actions, states=states)
            new = search.answered(rows, nodes, out)
            if self._by_chance:
                new = new._replace(legal=new.legal[:0])
            expand(tree, search.with_rating(new, out), search.settings.discount)
            tally_steps(search.costs.counts, rows)
            self._stepped = out, {pair: k for k, pair in enumerate(zip(rows, nodes, strict=True))}
        else:
            tree.legal[rows, nodes], tree.prior[rows, nodes] = True, 1.0 / self._q.shape[1]
            # What is credited to a new child is its reward and what follows.
            tree.reward[rows, nodes], tree.discount[rows, nodes] = self._q[of, actions], 0.0
            search.costs.add(rows, expansions=1)
        credit_creation(tree, self._descent.new_rows, self._descent.new_nodes, len(of))
        if self._by_chance or self._ask is not None:
            # As another time may go on there; or as it is not known.
            tree.kind[rows, nodes] = OPEN

    def back_up(self, counts: npt.NDArray[np.bool_]) -> None:
        """Back up the simulations marked in `counts` `[L]`."""
        parts = self._rows, self.at, self.rewards, self.steps, self.value
        rows, at, rewards, steps, value = (part[counts] for part in parts)
        discount = self._search.settings.discount
        backup_rewards(self._search.tree, rows, at, rewards, steps, value, discount)

    def move(self, some: Index, children: Index) -> Index:
        """Play the chosen actions; return the simulations `[m]` that are to expand further.

        Args:
            some: `[n]` which simulations.
            children: `[n]` the nodes that they come to.
        """
        search, tree = self._search, self._search.tree
        rows, own = self._rows[some], self._ask is None
        if not len(some):
            return some
        if own:
            # They have been stepped into; one that has ended is worth what it was credited.
            out, places = self._stepped
            where = np.array([places[pair] for pair in zip(rows, children, strict=True)], np.intp)
        else:
            actions = search.first_action + tree.action[rows, children].astype(np.int64)
            out = search.model.step_batch(actions, states=self._states[some])
            where = np.arange(len(some))
            search.costs.add(rows, model_steps=1, restores=1)
        over, cut = np.asarray(out.terminateds)[where], np.asarray(out.truncateds)[where]
        went = ~(over | cut) if own else over == over
        some, children, rows = some[went], children[went], rows[went]
        states = out.states[where][went]
        self._states = as_wide(self._states, states.shape[1])
        self._states[some] = states
        self.rewards[some, self.steps[some]] = np.asarray(out.rewards)[where][went]
        self.steps[some] += 1
        self.at[some] = children
        tree.unobserved[rows, children] += 1
        if own:
            self.value[some] = tree.value[rows, children]
            return some
        for mine, new in zip(leaves(self._obs), leaves(out.obs), strict=True):
            mine[some] = new
        self.value[some] = 0.0
        self.arrive(some[~over], cut[~over], cut[~over])
        return some[~over & ~cut]
