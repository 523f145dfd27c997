"""One search: B trees grown in lockstep over one model."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from plangym_ext.arrays.nested import rows_of
from plangym_ext.errors import InvalidOption
from plangym_ext.planners.base import UNBOUNDED
from plangym_ext.planners.finite import check_finite
from plangym_ext.planners.lockstep.costs import Costs
from plangym_ext.planners.lockstep.node_states import node_states
from plangym_ext.planners.lockstep.reuse import reuse
from plangym_ext.planners.lockstep.rules import Rules
from plangym_ext.planners.lockstep.turns import (
    Landed,
    Limits,
    Tallies,
    Wave,
    allowances,
    for_types_of,
    new_wave,
    nothing_landed,
    turn,
)
from plangym_ext.planners.lockstep.waves import edges
from plangym_ext.planners.masks import action_masks, has_masks
from plangym_ext.planners.model import Rng, Transitions
from plangym_ext.planners.rating import Leaves, Rater, Rating, without
from plangym_ext.planners.request import PlanRequest
from plangym_ext.planners.root_noise import with_noise
from plangym_ext.planners.trees.gumbel import new_halving, no_halving
from plangym_ext.planners.trees.selection import GUMBEL
from plangym_ext.planners.trees.tree import (
    ROOT,
    Array,
    Tree,
    expand,
    new_tree,
    restart,
    restrict_prior,
)


class Flight(NamedTuple):
    """A wave that has been selected, and what waits for the model."""

    wave: Wave
    sizes: tuple[int, int]  # leaves, and those of them that the model is asked about
    step: Callable[[], Transitions] | None  # None: it is not asked


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
        self._planner = request.planner
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
        self._flights: deque[Flight] = deque()
        # One for each in flight, one that has landed, and one to be selected.
        room = batch * rules.wave_size
        self._waves = deque(new_wave(room) for _ in range(rules.waves_in_flight + 1))
        self._flying = np.zeros(batch, np.int64)  # simulations in flight
        self._nothing = nothing_landed(num_actions)
        self._landed = self._nothing  # rated, and not yet written
        self._turn: Callable[..., Any] | None = None
        self._search: tuple[Any, ...] = ()  # what it is given in all waves of a plan

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
        self._search = ()
        fresh = self._put_roots(request)
        # Ties are broken at random, or else an action would be preferred for its index
        # wherever rewards are rare; one order per plan keeps the kernels free of random
        # numbers.
        self.tree.order[:] = np.arange(self.tree.order.shape[1])
        for rng, order in zip(rngs, self.tree.order, strict=True):
            rng.shuffle(order)
        if self.rater.rates_roots and len(fresh):
            self._rate_roots(request.obs, fresh)
        if request.legal is not None:
            self._allow(request.legal, fresh)
        if self.rules.root_noise > 0.0:
            self._add_noise()
        if self.halving is not None:
            rules = self.rules
            self.halving = new_halving(self.tree, rngs, rules.num_considered, rules.num_simulations)

    def _put_roots(self, request: PlanRequest) -> npt.NDArray[np.intp]:
        """Put the states at the roots; return the trees that nothing is known about."""
        states, fresh = request.states, np.arange(request.batch)
        self.kept = [np.zeros(0, np.intp)] * request.batch
        if self.rules.keep_tree:
            legal = [None] * request.batch if request.legal is None else request.legal
            pairs = zip(states, legal, strict=True)
            self.kept = [reuse(self.tree, self.states, b, *pair) for b, pair in enumerate(pairs)]
            fresh = np.flatnonzero([len(kept) == 0 for kept in self.kept])
        restart(self.tree, fresh)
        self.states.put(fresh, ROOT, states[fresh])
        return fresh

    def allowance(self, cost: int | np.integer[Any]) -> npt.NDArray[np.int64]:
        """How many simulations of at most `cost` steps each tree may begin, `[B]`.

        Raises:
            InvalidOption: the steps do not even pay for one.
        """
        self._check_cost(cost)
        return allowances(self._tallies(), self._limits(int(cost)), UNBOUNDED)

    def _check_cost(self, cost: int | np.integer[Any]) -> None:
        most = self.rules.max_model_steps
        if most is not None and cost > most:
            raise InvalidOption(
                f"{self._planner}: max_model_steps must be at least {cost}, what one simulation "
                f"may take; got {most}. Raise it, or make simulations shorter (rollout_depth, "
                f"num_rollouts)."
            )

    def _tallies(self) -> Tallies:
        return Tallies(self.done, self._flying, self.full, self.costs.counts)

    def _limits(self, cost: int) -> Limits:
        rules = self.rules
        most = -1 if rules.max_model_steps is None else rules.max_model_steps
        return Limits(rules.num_simulations, most, cost)

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
        """Write and back up the waves that are still in flight."""
        while self._flights:
            self._land(self._flights.popleft())
        self._settle()

    def _take_off(self) -> Flight | None:
        """Select a wave and begin to step into its new nodes; None if there is no leaf."""
        wave = self._waves[0]
        sizes = self._next(self.rules.wave_size, wave)
        size, num_new = sizes
        if not size:
            return None
        self._waves.rotate(1)
        if not num_new:
            return Flight(wave, sizes, None)
        new = wave.new_rows[:num_new], wave.new_leaves[:num_new]
        begun = self._begun(*new, wave.parents[:num_new], wave.actions[:num_new])
        return Flight(wave, sizes, begun)

    def _land(self, flight: Flight) -> None:
        """Rate what a wave has come to; it is written when the next is selected."""
        self._settle()
        wave, sizes, step = flight
        if step is None:
            self._landed = self._nothing._replace(wave=wave, sizes=sizes)
        else:
            new_rows = wave.new_rows[: sizes[1]]
            self._landed = Landed(wave, sizes, *self._seen(new_rows, step()))

    def _settle(self) -> None:
        """Write and back up what has landed, if that has not been done."""
        if self._landed is not self._nothing:
            self._next(0, self._nothing.wave)

    def _next(self, wave_size: int, wave: Wave) -> tuple[int, int]:
        """Write and back up what has landed, and select the next wave; see `turn`."""
        landed, self._landed = self._landed, self._nothing
        if not self._search:
            cost = 1 + self.rater.most_steps
            self._check_cost(cost)
            rules, numbers = self.rules, (self.rules.discount, self.first_action)
            counted = self._tallies(), self._limits(cost)
            self._search = (self.tree, rules.selection, self.halving, *numbers, *counted)
        if self._turn is None:
            self._turn = for_types_of(turn, (*self._search, wave_size, landed, wave))
        sizes: tuple[int, int] = self._turn(*self._search, wave_size, landed, wave)
        return sizes

    def observe(self, rows: npt.NDArray[np.int32], nodes: npt.NDArray[np.int32]) -> Transitions:
        """Step into L pending nodes, rate those that go on, and fill them in.

        Args:
            rows: `[L]` the tree of each, ascending.
            nodes: `[L]` its index there.

        Returns:
            What the model answered.
        """
        tree = self.tree
        parents, actions = edges(tree.parent, tree.action, rows, nodes, self.first_action)
        out = self._begun(rows, nodes, parents, actions)()
        ends, reward, value, prior, legal = self._seen(rows, out)
        expand(tree, rows, nodes, ends, reward, self.rules.discount, value, prior, legal)
        self.costs.add_steps(rows)
        return out

    def _begun(
        self,
        rows: npt.NDArray[np.int32],
        nodes: npt.NDArray[np.int32],
        parents: npt.NDArray[np.int32],
        actions: npt.NDArray[np.int64],
    ) -> Callable[[], Transitions]:
        """Begin to step into L pending nodes; what it returns waits for the answer."""
        if self.rules.waves_in_flight == 1:
            return lambda: self.states.step(actions, rows, parents, nodes)
        return self.states.begin(actions, rows, parents, nodes)

    def _seen(
        self, rows: npt.NDArray[np.int32], out: Transitions
    ) -> tuple[tuple[Array, Array], Array, Array, Array, Array]:
        """Rate L new nodes that go on; what `Landed` has of them, from `ends` on."""
        rewards = check_finite("search: rewards", out.rewards)
        over = np.ascontiguousarray(out.terminateds, np.bool_)
        cut = np.ascontiguousarray(out.truncateds, np.bool_)
        value, prior, legal = self._nothing.value, self._nothing.prior, self._nothing.legal
        masked = has_masks(out.infos)
        if masked:
            masks = action_masks(out.infos, over | cut, self.tree.prior.shape[2])
            legal = np.ascontiguousarray(masks)
        ended = np.count_nonzero(over)
        if ended < len(rows):
            states = out.states if self.rater.reads_states else None
            leaves = Leaves(rows, states, out.obs, cut, legal if masked else None)
            rating = self.rate(without(over, leaves) if ended else leaves)
            value = np.ascontiguousarray(rating.value, np.float64)
            if rating.prior is not None:
                prior = np.ascontiguousarray(rating.prior, np.float32)
        return (over, cut), rewards, value, prior, legal

    def rate(self, leaves: Leaves) -> Rating:
        """Have the leaves rated, and what it cost counted."""
        rating = self.rater.rate(self.model, leaves, self.rngs)
        self.costs.add_rating(leaves.rows, rating)
        return rating

    def cut_short(self) -> npt.NDArray[np.bool_]:
        """`[B]`: which trees ran out of room before their simulations were run."""
        return self.full & (self.done < self.rules.num_simulations)

    def forget(self, rows: npt.NDArray[np.intp]) -> None:
        """Reduce the trees of some rows `[n]` to their roots, of which nothing is kept."""
        restart(self.tree, rows)

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
        # Picked columns can be laid out in another order.
        other._turn, other._search = None, ()
        return other

    def _rate_roots(self, obs: Any, fresh: npt.NDArray[np.intp]) -> None:
        """Give the roots in `fresh` the rater's value and prior.

        Args:
            obs: `[B, *obs]` of all roots, nested as the space.
            fresh: `[F]` trees whose root has not been rated as a leaf before.
        """
        tree = self.tree
        rating = self.rate(Leaves(fresh, None, rows_of(obs, fresh), np.ones(len(fresh), np.bool_)))
        tree.value[fresh, ROOT] = rating.value
        if rating.prior is not None:
            tree.prior[fresh, ROOT] = rating.prior

    def _allow(self, legal: npt.NDArray[np.bool_], fresh: npt.NDArray[np.intp]) -> None:
        """Have the roots in `fresh` allow what their rows of `legal` `[B, A]` say.

        The roots that were kept have been brought to theirs by `reuse`.
        """
        for b in fresh.tolist():
            self.tree.legal[b, ROOT] = legal[b]
            restrict_prior(self.tree, b, ROOT)

    def _add_noise(self) -> None:
        """Mix noise over the legal actions into the roots' priors."""
        tree, rules = self.tree, self.rules
        for b, rng in enumerate(self.rngs):
            prior, legal = tree.prior[b, ROOT], tree.legal[b, ROOT]
            prior[:] = with_noise(prior, legal, rules.root_noise, rules.dirichlet_alpha, rng)
