"""One search: B trees grown in lockstep over one model."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from plangym_ext.errors import InvalidOption
from plangym_ext.planners.base import (
    UNBOUNDED,
    Rng,
    SearchModel,
    States,
    Transitions,
    action_masks,
    discrete_actions,
    has_masks,
)
from plangym_ext.planners.gumbel import Halving, gumbel_summary, halving_schedule, no_halving
from plangym_ext.planners.node_states import node_states
from plangym_ext.planners.plans import Budget, Plan
from plangym_ext.planners.rating import Leaves, Rater, Rating
from plangym_ext.planners.rules import Rules
from plangym_ext.planners.selection import GUMBEL
from plangym_ext.planners.tree import (
    NO_ACTION,
    NO_PARENT,
    OPEN,
    ROOT,
    UNVISITED,
    Array,
    Tree,
    expand,
    new_tree,
    reroot,
    restart,
    summarize,
)
from plangym_ext.planners.tree_export import exported
from plangym_ext.planners.turns import (
    Landed,
    Limits,
    Selected,
    Tallies,
    allowances,
    for_types_of,
    nothing_landed,
    turn,
)
from plangym_ext.planners.waves import (
    all_finite,
    edges,
    tally,
    tally_each,
    tally_rating,
    tally_steps,
)

# Rows of the counters, in the order of the fields of `Budget`.
_COUNTED = ("model_steps", "expansions", "evaluator_rows", "restores")


class Flight(NamedTuple):
    """A wave that has been selected, and what waits for the model."""

    wave: Selected
    step: Callable[[], Transitions] | None  # None: the model is not asked


class Search:
    """Grows B trees, a wave at a time; owns its trees and the states of their nodes.

    Attributes:
        tree: the B trees.
        states: the state of every node in use.
        rngs: the generators of the current plans.
    """

    def __init__(self, model: SearchModel, rules: Rules, rater: Rater, shape: tuple[int, int]):
        batch = shape[0]
        num_actions, self.first_action = discrete_actions(model.action_space, "Search")
        self.model, self.rules, self.rater, self.shape = model, rules, rater, shape
        self.tree = new_tree(batch, rules.capacity, num_actions)
        nodes = rules.capacity if rules.stores_states else 1
        # A rater that reads states would have to copy them out of their slots again.
        slots = rules.slots and not rater.reads_states
        self.states = node_states(model, (batch, nodes, shape[1]), slots=slots)
        self.rngs: Sequence[Rng] = ()
        self.halving = no_halving(batch)
        #: Simulations run for the current plans, and trees that lacked room for one.
        self.done = np.zeros(batch, np.int64)
        #: The old index of every node that `start` kept, by tree; none where it kept none.
        self.kept: list[npt.NDArray[np.intp]] = [np.zeros(0, np.intp)] * batch
        self.full = np.zeros(batch, np.bool_)
        self._counts = np.zeros((4, batch), np.int64)
        self._flights: deque[Flight] = deque()
        self._flying = np.zeros(batch, np.int64)  # simulations in flight
        self._nothing = nothing_landed(num_actions)
        self._landed = self._nothing  # rated, and not yet written
        self._turn: Callable[..., Any] | None = None

    def start(
        self,
        states: States,
        rngs: Sequence[Rng],
        obs: Any,
        legal: npt.NDArray[np.bool_] | None = None,
    ) -> None:
        """Put the B states at the roots, keeping what is known about them.

        Args:
            states: `[B, S]` uint8; copied.
            rngs: B generators, used until the next `start`.
            obs: `[B, *obs]` of the states; unused if the rater rates no roots.
            legal: `[B, A]` bool, actions that the roots allow; None: all.
        """
        self.rngs = rngs
        self._counts[:] = 0
        self.kept = [np.zeros(0, np.intp)] * len(rngs)
        fresh = np.arange(len(rngs))
        if self.rules.keep_tree:
            fresh = np.array([b for b in fresh.tolist() if not self._advance(b, states[b])], int)
        restart(self.tree, fresh)
        for b in fresh.tolist():
            self.states.put(b, ROOT, states[b])
        for b, rng in enumerate(rngs):
            # Ties are broken at random, or else an action would be preferred
            # for its index wherever rewards are rare; one order per plan keeps
            # the kernels free of random numbers.
            self.tree.order[b] = rng.permutation(self.tree.order.shape[1])
        self.done[:] = 0
        self.full[:] = False
        if self.rater.rates_roots and len(fresh):
            self._rate_roots(obs, fresh)
        if legal is not None:
            self.tree.legal[:, ROOT] = legal
        if self.rules.root_noise > 0.0:
            self._add_noise()
        if self.rules.selection.rule == GUMBEL:
            self.halving = self._new_halving()

    def allowance(self, cost: int | np.integer[Any]) -> npt.NDArray[np.int64]:
        """How many simulations of at most `cost` steps each tree may begin, `[B]`.

        Raises:
            InvalidOption: the steps do not even pay for one.
        """
        self._check_cost(cost)
        return allowances(self._tallies(), self._limits(UNBOUNDED, int(cost)))

    def _check_cost(self, cost: int | np.integer[Any]) -> None:
        most = self.rules.max_model_steps
        if most is not None and cost > most:
            raise InvalidOption(
                f"max_model_steps must be at least {cost}, what one simulation may take; got "
                f"{most}. Raise it, or make simulations shorter (rollout_depth, num_rollouts)."
            )

    def _tallies(self) -> Tallies:
        return Tallies(self.done, self._flying, self.full, self._counts)

    def _limits(self, wave_size: int, cost: int) -> Limits:
        rules = self.rules
        most = -1 if rules.max_model_steps is None else rules.max_model_steps
        return Limits(wave_size, rules.num_simulations, most, cost)

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
        wave = self._next(self.rules.wave_size)
        if not len(wave.rows):
            return None
        new_rows, new_leaves = wave.new_rows, wave.new_leaves
        if not len(new_rows):
            return Flight(wave, None)
        return Flight(wave, self._begun(new_rows, new_leaves, wave.parents, wave.actions))

    def _land(self, flight: Flight) -> None:
        """Rate what a wave has come to; it is written when the next is selected."""
        self._settle()
        rows, leaves, new_rows, new_leaves, _, _ = flight.wave
        if flight.step is None:
            self._landed = self._nothing._replace(rows=rows, leaves=leaves)
            return
        seen = self._seen(new_rows, flight.step())
        self._landed = Landed(rows, leaves, new_rows, new_leaves, *seen)

    def _settle(self) -> None:
        """Write and back up what has landed, if that has not been done."""
        if self._landed is not self._nothing:
            self._next(0)

    def _next(self, wave_size: int) -> Selected:
        """Write and back up what has landed, and select the next wave."""
        rules, cost = self.rules, 1 + self.rater.most_steps
        self._check_cost(cost)
        arguments = (
            self.tree,
            rules.selection,
            self.halving,
            rules.discount,
            self.first_action,
            self._tallies(),
            self._limits(wave_size, cost),
            self._landed,
        )
        if self._turn is None:
            self._turn = for_types_of(turn, arguments)
        self._landed = self._nothing
        return Selected(*self._turn(*arguments))

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
        ends, *rest = self._seen(rows, out)
        reward, value, prior, legal = rest
        expand(tree, rows, nodes, ends, reward, self.rules.discount, value, prior, legal)
        tally_steps(self._counts, rows)
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
    ) -> tuple[Any, Array, Array, Array, Array]:
        """Rate L new nodes that go on; what `Landed` has of them, from `ends` on."""
        rewards = np.ascontiguousarray(out.rewards, np.float64)
        _check_rewards(rewards)
        over = np.ascontiguousarray(out.terminateds, np.bool_)
        cut = np.ascontiguousarray(out.truncateds, np.bool_)
        value, prior, legal = self._nothing.value, self._nothing.prior, self._nothing.legal
        masked = has_masks(out.infos)
        if masked:
            masks = action_masks(out.infos, over | cut, self.tree.prior.shape[2])
            legal = np.ascontiguousarray(masks)
        if not over.all():
            rating = self.rate(self._alive(rows, out, over, cut, legal if masked else None))
            value = np.ascontiguousarray(rating.value, np.float64)
            if rating.prior is not None:
                prior = np.ascontiguousarray(rating.prior, np.float32)
        return (over, cut), rewards, value, prior, legal

    def _alive(
        self, rows: Array, out: Transitions, over: Array, cut: Array, legal: Array | None
    ) -> Leaves:
        """Return those of L new nodes that go on."""
        states = out.states if self.rater.reads_states else None
        if not over.any():
            return Leaves(rows, states, out.obs, cut, legal)
        alive = np.flatnonzero(~over)
        picked = (None if part is None else part[alive] for part in (states, out.obs, cut, legal))
        return Leaves(rows[alive], *picked)

    def rate(self, leaves: Leaves) -> Rating:
        """Have the leaves rated, and what it cost counted."""
        rating = self.rater.rate(self.model, leaves, self.rngs)
        if not all_finite(rating.value):
            raise ValueError(
                f"search: leaf values must be finite; got {rating.value} from "
                f"{type(self.rater).__name__}. Look for rewards that are not finite."
            )
        tally_rating(
            self._counts, leaves.rows, rating.model_steps, rating.evaluator_rows, rating.restores
        )
        return rating

    def count(self, rows: npt.NDArray[np.integer[Any]], **costs: Any) -> None:
        """Add costs, by field of `Budget`, of things done for the trees `rows` `[L]`."""
        for name, cost in costs.items():
            counter = self._counts[_COUNTED.index(name)]
            (tally if isinstance(cost, int) else tally_each)(counter, rows, cost)

    def budgets(self, seconds: float) -> list[Budget]:
        """Return what each of the B plans has cost so far; each has an equal share of the time."""
        share = seconds / self.shape[0]
        counts = self._counts.T.tolist()
        return [Budget(steps, nodes, asked, back, share) for steps, nodes, asked, back in counts]

    def plans(self, seconds: float) -> list[Plan]:
        """Read the B plans off the roots; each has an equal share of `seconds`."""
        batch, _, num_actions = self.tree.children.shape
        visits = np.empty((batch, num_actions), np.int64)
        q = np.empty((batch, num_actions))
        best = np.empty(batch, np.int64)
        summarize(self.tree, visits, q, best)
        if (best == NO_ACTION).any():
            raise ValueError(
                f"search: states {np.flatnonzero(best == NO_ACTION)} have no legal action. "
                f"Do not plan from a state whose episode has ended."
            )
        weights = visits / visits.sum(axis=1, keepdims=True)
        if self.rules.selection.rule == GUMBEL:
            _, _, scale, _, c_visit, c_scale = self.rules.selection
            gumbel_summary(self.tree, self.halving, scale, c_visit, c_scale, weights, best)
        elif self.rules.temperature > 0.0:
            best = np.array([self._sampled(visits[b], self.rngs[b]) for b in range(batch)])
        full = self.full & (self.done < self.rules.num_simulations)
        # Numbers of Python's all at once: one by one they take as long as a fast search.
        actions = (self.first_action + best).tolist()
        values, budgets = self.tree.q[:, ROOT].tolist(), self.budgets(seconds)
        return [
            Plan(
                action=actions[b],
                value=values[b],
                budget=budgets[b],
                visits=visits[b],
                q=q[b],
                weights=weights[b],
                full=cut,
                tree=exported(self.tree, b) if self.rules.return_tree else None,
            )
            for b, cut in enumerate(full.tolist())
        ]

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
        other.halving = no_halving(len(rows))
        other.kept = [self.kept[b] for b in rows]
        other.done, other.full = self.done[rows], self.full[rows]
        other._flights, other._flying = deque(), np.zeros(len(rows), np.int64)
        # numpy would lay the picked columns out in another order.
        other._counts = self._counts[:, rows].copy()
        other._turn = None
        return other

    def _advance(self, b: int, state: States) -> bool:
        """Re-root tree b on a child of its root in exactly this state, if any.

        Comparing bytes covers everything that could have gone differently: the
        action that was executed, chance, and a new episode. Of two actions
        that led to the same state, the one that is known better is kept.
        """
        tree, best = self.tree, NO_PARENT
        here = np.array([b])
        for child in tree.children[b, ROOT]:
            if (
                child != UNVISITED
                and tree.kind[b, child] == OPEN
                and (best == NO_PARENT or tree.visits[b, child] > tree.visits[b, best])
                and np.array_equal(self.states.get(here, np.array([child]))[0], state)
            ):
                best = int(child)
        if best == NO_PARENT:
            return False
        remap = np.empty(tree.parent.shape[1], np.int32)
        reroot(tree, b, best, remap)
        self.kept[b] = np.flatnonzero(remap >= 0)
        self.states.keep(b, self.kept[b])
        return True

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
        """Mix Dirichlet noise over the legal actions into the roots' priors."""
        share, tree = self.rules.root_noise, self.tree
        for b, rng in enumerate(self.rngs):
            legal = np.flatnonzero(tree.legal[b, ROOT])
            noise = np.zeros(tree.prior.shape[2])
            if len(legal):
                noise[legal] = rng.dirichlet(np.full(len(legal), self.rules.dirichlet_alpha))
            tree.prior[b, ROOT] = (1.0 - share) * tree.prior[b, ROOT] + share * noise

    def _new_halving(self) -> Halving:
        """Draw the noise of all actions and schedule the simulations."""
        sims, legal = self.rules.num_simulations, self.tree.legal[:, ROOT].sum(axis=1)
        schedules = [
            halving_schedule(min(self.rules.num_considered, int(count)), sims) for count in legal
        ]
        considered, ends = np.array(schedules, np.int32).swapaxes(0, 1)
        noise = np.stack([rng.gumbel(size=self.tree.order.shape[1]) for rng in self.rngs])
        return Halving(noise, considered.copy(), ends.copy())

    def _sampled(self, visits: npt.NDArray[np.int64], rng: Rng) -> int:
        """Draw an action with probability proportional to visits**(1 / temperature)."""
        logits = np.where(visits > 0, np.log(np.maximum(visits, 1)), -np.inf)
        return int(np.argmax(logits + self.rules.temperature * rng.gumbel(size=len(visits))))


def _check_rewards(rewards: npt.NDArray[np.float64]) -> None:
    """Refuse what would silently spoil the tree."""
    if not all_finite(rewards):
        raise ValueError(
            f"search: rewards must be finite; got {rewards}. "
            f"Look for a division by zero in the env's reward."
        )
