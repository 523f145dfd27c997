"""One search: B trees grown in lockstep over one model."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from plangym_ext.errors import InvalidOption
from plangym_ext.planners.costs import Costs
from plangym_ext.planners.finite import check_finite
from plangym_ext.planners.gumbel import new_halving, no_halving
from plangym_ext.planners.masks import action_masks, has_masks
from plangym_ext.planners.model import Rng, Transitions
from plangym_ext.planners.node_states import node_states
from plangym_ext.planners.rating import Leaves, Rater, Rating
from plangym_ext.planners.request import PlanRequest
from plangym_ext.planners.root_noise import with_noise
from plangym_ext.planners.rules import Rules
from plangym_ext.planners.selection import GUMBEL, select_wave
from plangym_ext.planners.tree import ROOT, Tree, backup, expand, new_tree, restart
from plangym_ext.planners.tree_reuse import reuse
from plangym_ext.planners.waves import edges, pending, tally


class Flight(NamedTuple):
    """A wave that has been selected and not yet backed up."""

    rows: npt.NDArray[np.int32]  # [L] tree of each leaf, ascending
    leaves: npt.NDArray[np.int32]  # [L] its node
    new_rows: npt.NDArray[np.int32]  # [M] tree of those that the model is asked about
    new_leaves: npt.NDArray[np.int32]  # [M] their nodes
    step: Callable[[], Transitions] | None  # waits for the model


class Search:
    """Grows B trees, a wave at a time; owns its trees and the states of their nodes.

    Attributes:
        tree: the B trees.
        states: the state of every node in use.
        rngs: the generators of the current plans.
        costs: of the current plans.
    """

    def __init__(self, request: PlanRequest, rules: Rules, rater: Rater):
        num_actions, self.first_action = request.discrete_actions()
        self.model, self.rules, self.rater = request.env, rules, rater
        self.shape = batch, width = request.states.shape
        self.tree = new_tree(batch, rules.capacity, num_actions)
        nodes = rules.capacity if rules.stores_states else 1
        # A rater that reads states would have to copy them out of their slots again.
        slots = rules.slots and not rater.reads_states
        self.states = node_states(self.model, (batch, nodes, width), slots=slots)
        self.rngs: Sequence[Rng] = ()
        self.halving = no_halving(batch) if rules.selection.rule == GUMBEL else None
        self.costs = Costs(batch)
        #: Simulations run for the current plans, and trees that lacked room for one.
        self.done = np.zeros(batch, np.int64)
        #: The old index of every node that `start` kept, by tree; none where it kept none.
        self.kept: list[npt.NDArray[np.intp]] = [np.zeros(0, np.intp)] * batch
        self.full = np.zeros(batch, np.bool_)
        self._rows = np.empty(batch * rules.wave_size, np.int32)
        self._leaves = np.empty_like(self._rows)
        # No values, the uniform prior, and masks that allow everything: see `expand`.
        empty = (0, num_actions)
        self._nothing = np.zeros(0), np.zeros(empty, np.float32), np.zeros(empty, np.bool_)
        self._flights: deque[Flight] = deque()
        self._flying = np.zeros(batch, np.int64)  # simulations in flight

    def fits(self, request: PlanRequest) -> bool:
        """Whether what is asked for can be grown in the memory of this search."""
        return self.model is request.env and self.shape == request.states.shape

    def start(self, request: PlanRequest) -> None:
        """Put B states at the roots, keeping what is known about them.

        Args:
            request: whose states are copied, and whose generators are used until the
                next `start`; `obs` is unused if the rater rates no roots.
        """
        self.rngs = rngs = request.rngs
        self.costs.clear()
        self.done[:] = 0
        self.full[:] = False
        fresh = self._put_roots(request)
        for b, rng in enumerate(rngs):
            # Ties are broken at random, or else an action would be preferred
            # for its index wherever rewards are rare; one order per plan keeps
            # the kernels free of random numbers.
            self.tree.order[b] = rng.permutation(self.tree.order.shape[1])
        if self.rater.rates_roots and len(fresh):
            self._rate_roots(request.obs, fresh)
        if request.legal is not None:
            self.tree.legal[:, ROOT] = request.legal
        if self.rules.root_noise > 0.0:
            self._add_noise()
        if self.halving is not None:
            rules = self.rules
            self.halving = new_halving(self.tree, rngs, rules.num_considered, rules.num_simulations)

    def _put_roots(self, request: PlanRequest) -> npt.NDArray[np.intp]:
        """Put the states at the roots; return the trees that nothing is known about."""
        states, trees = request.states, range(request.batch)
        self.kept = [np.zeros(0, np.intp)] * request.batch
        if self.rules.keep_tree:
            self.kept = [reuse(self.tree, self.states, b, states[b]) for b in trees]
        fresh = np.array([b for b in trees if not len(self.kept[b])], np.intp)
        restart(self.tree, fresh)
        for b in fresh.tolist():
            self.states.put(b, ROOT, states[b])
        return fresh

    def allowance(self, cost: int | np.integer[Any]) -> npt.NDArray[np.int64]:
        """How many simulations of at most `cost` steps each tree may begin, `[B]`.

        Raises:
            InvalidOption: the steps do not even pay for one.
        """
        left = self.rules.num_simulations - self.done - self._flying
        most = self.rules.max_model_steps
        if most is None:
            return left
        if cost > most:
            raise InvalidOption(
                f"max_model_steps must be at least {cost}, what one simulation may take; got "
                f"{most}. Raise it, or make simulations shorter (rollout_depth, num_rollouts)."
            )
        # What is in flight may cost as much as it can.
        return np.minimum(left, (most - self.costs.model_steps) // cost - self._flying)

    def run_wave(self) -> bool:
        """Select, step, rate and back up one wave; False if there was none left.

        With several waves in flight the next ones are selected and begun first, so that
        whoever steps has something to do meanwhile. The order of all this is fixed: what
        comes of it does not depend on how fast anybody is.
        """
        while len(self._flights) < self.rules.waves_in_flight:
            flight = self._take_off()
            if flight is None:
                break
            self._flights.append(flight)
        if not self._flights:
            return False
        self._land(self._flights.popleft())
        return True

    def land_all(self) -> None:
        """Back up the waves that are still in flight."""
        while self._flights:
            self._land(self._flights.popleft())

    def _take_off(self) -> Flight | None:
        """Select a wave and begin to step into its new nodes; None if there is no leaf."""
        tree, rater = self.tree, self.rater
        limits = np.minimum(self.rules.wave_size, self.allowance(1 + rater.most_steps))
        count = select_wave(
            tree, limits, self.rules.selection, self.halving, self._rows, self._leaves
        )
        if count == 0:
            return None
        rows, leaves = self._rows[:count].copy(), self._leaves[:count].copy()
        # Ended nodes that were chosen again have no need of the model.
        new_rows, new_leaves = pending(tree.kind, rows, leaves)
        tally(self._flying, rows, 1)
        step = self._begin(new_rows, new_leaves) if len(new_rows) else None
        return Flight(rows, leaves, new_rows, new_leaves, step)

    def _land(self, flight: Flight) -> None:
        """Rate what a wave has come to, and back it up."""
        rows, leaves, new_rows, new_leaves, step = flight
        if step is not None:
            self._fill_in(new_rows, new_leaves, step())
        backup(self.tree, rows, leaves)
        tally(self.done, rows, 1)
        tally(self._flying, rows, -1)
        self.full[:] = self.tree.size == self.rules.capacity

    def observe(self, rows: npt.NDArray[np.int32], nodes: npt.NDArray[np.int32]) -> Transitions:
        """Step into L pending nodes, rate those that go on, and fill them in.

        Args:
            rows: `[L]` the tree of each, ascending.
            nodes: `[L]` its index there.

        Returns:
            What the model answered.
        """
        out = self._begin(rows, nodes)()
        self._fill_in(rows, nodes, out)
        return out

    def _begin(
        self, rows: npt.NDArray[np.int32], nodes: npt.NDArray[np.int32]
    ) -> Callable[[], Transitions]:
        """Begin to step into L pending nodes; what it returns waits for the answer."""
        tree = self.tree
        parents, actions = edges(tree.parent, tree.action, rows, nodes, self.first_action)
        if self.rules.waves_in_flight == 1:
            return lambda: self.states.step(actions, rows, parents, nodes)
        return self.states.begin(actions, rows, parents, nodes)

    def _fill_in(
        self, rows: npt.NDArray[np.int32], nodes: npt.NDArray[np.int32], out: Transitions
    ) -> None:
        """Rate L nodes that go on, and write what is known about all."""
        tree = self.tree
        rewards = check_finite("search: rewards", out.rewards)
        over = np.asarray(out.terminateds, np.bool_)
        cut = np.asarray(out.truncateds, np.bool_)
        value, prior, legal = self._nothing
        masked = has_masks(out.infos)
        if masked:
            legal = action_masks(out.infos, over | cut, tree.prior.shape[2])
        ended = np.count_nonzero(over)
        if ended < len(rows):
            # A slice where nothing ended: screens are large, and views are free.
            alive = np.flatnonzero(~over) if ended else slice(None)
            states = out.states[alive] if self.rater.reads_states else None
            allowed = legal[alive] if masked else None
            rating = self.rate(Leaves(rows[alive], states, out.obs[alive], cut[alive], allowed))
            value = rating.value
            if rating.prior is not None:
                prior = np.asarray(rating.prior, np.float32)
        discount = self.rules.discount
        expand(tree, rows, nodes, (over, cut), rewards, discount, value, prior, legal)
        self.costs.add_steps(rows)

    def rate(self, leaves: Leaves) -> Rating:
        """Have the leaves rated, and what it cost counted."""
        rating = self.rater.rate(self.model, leaves, self.rngs)
        check_finite(f"search: leaf values of {type(self.rater).__name__}", rating.value)
        self.costs.add_rating(leaves.rows, rating)
        return rating

    def cut_short(self) -> npt.NDArray[np.bool_]:
        """`[B]`: which trees ran out of room before their simulations were run."""
        return self.full & (self.done < self.rules.num_simulations)

    def taken(self, rows: npt.NDArray[np.intp]) -> Search:
        """Return a search with the trees of some rows only; this one is used up.

        Args:
            rows: `[n]` ascending.
        """
        other = Search.__new__(Search)
        other.__dict__.update(self.__dict__)
        other.tree = Tree._make([field[rows] for field in self.tree])
        other.states = self.states.taken(rows)
        other.shape = (len(rows), self.shape[1])
        other.kept = [self.kept[b] for b in rows]
        other.done, other.full = self.done[rows], self.full[rows]
        other._flights, other._flying = deque(), np.zeros(len(rows), np.int64)
        other.costs = self.costs.taken(rows)
        return other

    def _rate_roots(self, obs: Any, fresh: npt.NDArray[np.intp]) -> None:
        """Give the roots in `fresh` the rater's value and prior.

        Args:
            obs: `[B, *obs]` of all roots.
            fresh: `[F]` trees whose root has not been rated as a leaf before.
        """
        tree = self.tree
        rating = self.rate(Leaves(fresh, None, obs[fresh], np.ones(len(fresh), np.bool_)))
        tree.value[fresh, ROOT] = rating.value
        if rating.prior is not None:
            tree.prior[fresh, ROOT] = rating.prior

    def _add_noise(self) -> None:
        """Mix noise over the legal actions into the roots' priors."""
        tree, rules = self.tree, self.rules
        for b, rng in enumerate(self.rngs):
            prior, legal = tree.prior[b, ROOT], tree.legal[b, ROOT]
            prior[:] = with_noise(prior, legal, rules.root_noise, rules.dirichlet_alpha, rng)
