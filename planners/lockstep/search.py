"""Search: B trees grown in lockstep over one model."""

from __future__ import annotations

import copy
import functools
import operator
from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from plangym_ext.arrays.nested import rows_of
from plangym_ext.errors import InvalidOption
from plangym_ext.planners.lockstep.costs import Costs, tally_steps
from plangym_ext.planners.lockstep.node_states import ArrayStates, NodeStates, SlotStates, reuse
from plangym_ext.planners.lockstep.simulated_states import simulated_states
from plangym_ext.planners.lockstep.wave_kernels import (
    Limits,
    SearchData,
    SearchSettings,
    Tallies,
    Wave,
    WaveResult,
    edges,
    for_types_of,
    new_wave,
    no_result,
    write_and_select,
)
from plangym_ext.planners.masks import action_masks, has_masks, with_noise
from plangym_ext.planners.players import num_players, player_swaps
from plangym_ext.planners.rating import Leaves, Rater, Rating, check_finite, without
from plangym_ext.planners.request import PlanRequest
from plangym_ext.planners.simulator import Rng, Transitions
from plangym_ext.planners.trees.gumbel import new_halving, no_halving
from plangym_ext.planners.trees.selection import GUMBEL
from plangym_ext.planners.trees.soft import Soft
from plangym_ext.planners.trees.tree import (
    ROOT,
    NewNodes,
    Tree,
    expand,
    new_tree,
    restart,
    restrict_prior,
)

Index = npt.NDArray[np.int32]
#: The numbers that sequential halving begins with; see `new_halving`.
_OF_HALVING = operator.attrgetter("num_considered", "num_simulations", "gumbel_scale")


class SelectedWave(NamedTuple):
    """A wave in flight: the model is stepping into its new nodes."""

    wave: Wave
    sizes: tuple[int, int]  # leaves, and those of them that are new
    wait: Callable[[], Transitions] | None  # returns what the model answers; None: none is new


class Search:
    """Grows B trees, a wave at a time; owns its trees and the states of their nodes.

    Attributes:
        tree: the B trees.
        states: the state of every node in use.
        rngs: the generators of the current plans.
        costs: of the current plans.
        done: `[B]` int64, simulations run for the current plans.
        soft: what a `SoftSearch` knows of the nodes.
        adapted: `[B]` int32, nodes of each tree when `ANTS` last set its temperature.
        full: `[B]` bool, trees that lacked room for a simulation.
        has_priors: whether what rated the roots gave them a prior.
        kept: for each tree `[n]` int, the old index of every node that `start` kept.
    """

    def __init__(self, request: PlanRequest, settings: SearchSettings, rater: Rater):
        num_actions, self.first_action = request.discrete_actions()
        self.model, self.settings, self.rater = request.env, settings, rater
        self._planner = request.planner
        self._two_players = num_players(self.model) == 2
        batch, width = request.states.shape
        self.tree = new_tree(batch, settings.capacity, num_actions)
        self._is_new, self._in_order = True, np.arange(num_actions)
        nodes = settings.capacity if settings.stores_states else 1
        self.states = self._states(batch, nodes, width, num_actions)
        self.rngs: Sequence[Rng] = ()
        self.halving = no_halving(batch) if settings.selection.rule == GUMBEL else None
        self.soft: Soft | None = None
        self.adapted = np.ones(batch, np.int32)
        self.costs = Costs(batch)
        self.done = np.zeros(batch, np.int64)
        self.full = np.zeros(batch, np.bool_)
        self.has_priors = False
        self.kept: list[npt.NDArray[np.intp]] = [np.zeros(0, np.intp)] * batch
        # One for each wave in flight, one that is finished, and one to be selected.
        room = batch * settings.wave_size
        self._waves = deque(new_wave(room) for _ in range(settings.waves_in_flight + 1))
        self._in_flight: deque[SelectedWave] = deque()
        self._num_in_flight = np.zeros(batch, np.int64)  # simulations
        self._nothing = no_result(num_actions)
        self._finished = self._nothing  # rated, and not yet written
        self._data: SearchData | None = None  # of this plan, made when it selects a wave
        self._kernel: Callable[..., tuple[int, int]] | None = None

    def _states(self, batch: int, nodes: int, width: int, num_actions: int) -> NodeStates:
        """Return where the states of the nodes are kept."""
        model, settings = self.model, self.settings
        # A rater that reads states would have to copy them again out of slots, or rows.
        returned = self.rater.reads_states
        if not returned and settings.slots and hasattr(model, "step_slots"):
            return SlotStates(model, batch, nodes)
        found: NodeStates | None = None
        if not returned and settings.compiled and settings.waves_in_flight == 1:
            found = simulated_states(model, batch, nodes, width, num_actions)
        return found or ArrayStates(model, batch, nodes, width)

    def fits(self, request: PlanRequest) -> bool:
        """Return whether this search's memory suffices for a request."""
        return self.model is request.env and len(self.done) == request.batch

    def start(self, request: PlanRequest) -> None:
        """Set the roots to B states, keeping known subtrees.

        Args:
            request: whose states are copied, and whose generators are used until the
                next `start`; `obs` is unused if the rater rates no roots.
        """
        self.rngs = request.rngs
        self.costs.clear()
        self.done[:], self.full[:], self._data = 0, False, None
        # Ties are broken at random, or else an action would be preferred for its index
        # wherever rewards are rare; one order per plan keeps the kernels free of random
        # numbers.
        self.tree.order[:] = self._in_order
        for rng, order in zip(self.rngs, self.tree.order, strict=True):
            rng.shuffle(order)
        self._put_roots(request)
        if self.settings.root_noise > 0.0:
            self._add_noise()
        if self.halving is not None:
            numbers = _OF_HALVING(self.settings)
            self.halving = new_halving(self.tree, self.rngs, *numbers, self.rater.rates_roots)

    def _put_roots(self, request: PlanRequest) -> None:
        """Put the states at the roots; rate those that are not in the tree of their row."""
        fresh = self._reuse(request) if self.settings.keep_tree else np.arange(request.batch)
        if not self._is_new:
            restart(self.tree, fresh)
        self._is_new = False
        self.states.put(fresh, ROOT, request.states[fresh])
        if self.rater.rates_roots and len(fresh):
            # All are rated as cut (`fresh >= 0` holds of every row): no step led here.
            legal = None if request.legal is None else request.legal[fresh]
            rating = self.rate(Leaves(fresh, None, rows_of(request.obs, fresh), fresh >= 0, legal))
            self.tree.value[fresh, ROOT] = rating.value
            self.has_priors = rating.prior is not None
            if rating.prior is not None:
                self.tree.prior[fresh, ROOT] = rating.prior
        # `reuse` has done the same for the roots that were kept.
        if request.legal is not None:
            for b in fresh.tolist():
                self.tree.legal[b, ROOT] = request.legal[b]
                restrict_prior(self.tree, b, ROOT)

    def _reuse(self, request: PlanRequest) -> npt.NDArray[np.intp]:
        """Re-root at the states' subtrees; return the rows `[n]` without one."""
        legal = [None] * request.batch if request.legal is None else request.legal
        pairs = enumerate(zip(request.states, legal, strict=True))
        self.kept = [reuse(self.tree, self.states, b, *pair) for b, pair in pairs]
        return np.flatnonzero([len(kept) == 0 for kept in self.kept])

    def _add_noise(self) -> None:
        """Mix noise over the legal actions into the roots' priors."""
        tree, share, alpha = self.tree, self.settings.root_noise, self.settings.dirichlet_alpha
        for b, rng in enumerate(self.rngs):
            prior = tree.prior[b, ROOT]
            prior[:] = with_noise(prior, tree.legal[b, ROOT], share, alpha, rng)

    # Waves ----------------------------------------------------------------------

    def run_wave(self) -> bool:
        """Select, step, rate and back up one wave; return False if there was none left.

        With several waves in flight the next ones are selected and begun first, so that
        workers step while this process rates. The order of all this is fixed: the plan
        does not depend on how fast a worker is. A tree without a leaf for a wave has an empty part
        in it, also if it is the only tree: what it selects next does not depend on other trees.
        """
        while len(self._in_flight) < self.settings.waves_in_flight:
            if not self._select(self.settings.wave_size):
                self._in_flight.append(SelectedWave(self._nothing.wave, (0, 0), None))
        if not any(selected.sizes[0] for selected in self._in_flight):
            self._in_flight.clear()
            return False
        self._finish(self._in_flight.popleft())
        return True

    def finish_all(self) -> None:
        """Write and back up all waves in flight."""
        while self._in_flight:
            self._flush()
            self._finish(self._in_flight.popleft())
        self._flush()

    def _select(self, wave_size: int) -> bool:
        """Write what is finished, select a wave and begin to step into its new nodes.

        Returns:
            Whether there was a leaf to select.
        """
        if self._data is None or self._kernel is None:
            self._data, self._kernel = self._prepared()
        result, self._finished = self._finished, self._nothing
        wave = self._waves[0]
        sizes = self._kernel(self._data, wave_size, result, wave)
        size, num_new = sizes
        if size == 0:
            return False
        self._waves.rotate(1)
        wait: Callable[[], Transitions] | None = None
        if num_new:
            trees, nodes = wave.new_rows[:num_new], wave.new_leaves[:num_new]
            step = wave.actions[:num_new], trees, wave.parents[:num_new], nodes
            if self.settings.waves_in_flight > 1:
                wait = self.states.begin(*step)
            else:
                wait = functools.partial(self.states.step, *step)
        self._in_flight.append(SelectedWave(wave, sizes, wait))
        return True

    def _finish(self, selected: SelectedWave) -> None:
        """Rate what the model answers; the next `_select` writes it."""
        wave, sizes, wait = selected
        new = self._nothing.new
        if wait is not None:
            out = wait()
            new = self.answered(wave.new_rows[: sizes[1]], wave.new_leaves[: sizes[1]], out)
            new = self.with_rating(new, out)
        self._finished = WaveResult(wave, sizes, new)

    def _flush(self) -> None:
        """Write and back up what is finished, if that has not been done."""
        if self._finished is not self._nothing:
            self._select(0)

    def answered(self, rows: Index, nodes: Index, out: Transitions) -> NewNodes:
        """Return the model's results for L new nodes, without ratings."""
        rewards = check_finite(f"{self._planner}: rewards", out.rewards)
        over = np.ascontiguousarray(out.terminateds, np.bool_)
        cut = np.ascontiguousarray(out.truncateds, np.bool_)
        nothing = self._nothing.new
        value, prior, legal = nothing.value, nothing.prior, nothing.legal
        swaps = player_swaps(out.infos, over | cut) if self._two_players else nothing.swaps
        if has_masks(out.infos):
            masks = action_masks(out.infos, over | cut, self.tree.prior.shape[2])
            legal = np.ascontiguousarray(masks)
        return NewNodes(rows, nodes, over, cut, rewards, value, prior, legal, swaps)

    def with_rating(
        self, new: NewNodes, out: Transitions, some: npt.NDArray[np.intp] | None = None
    ) -> NewNodes:
        """Rate those of L new nodes whose episodes have not ended.

        Args:
            new: what the model says of them.
            out: what it answered.
            some: `[L]` which of the answers these nodes are; None: all of them.
        """
        # Steps from slot to slot return no states.
        obs, states = out.obs, out.states if self.rater.reads_states else None
        if some is not None:
            obs, states = rows_of(obs, some), None if states is None else states[some]
        rows, over, cut = new.rows, new.terminated, new.truncated
        value, prior = new.value, new.prior
        ended = np.count_nonzero(over)
        if ended < len(rows):
            legal = new.legal if len(new.legal) else None
            leaves = Leaves(rows, states, obs, cut, legal)
            rating = self.rate(without(over, leaves) if ended else leaves)
            value = np.ascontiguousarray(rating.value, np.float64)
            if rating.prior is not None:
                prior = np.ascontiguousarray(rating.prior, np.float32)
        return new._replace(value=value, prior=prior)

    def rate(self, leaves: Leaves) -> Rating:
        """Rate leaves, and count the cost."""
        rating = self.rater.rate(self.model, leaves, self.rngs)
        self.costs.add_rating(leaves.rows, rating)
        return rating

    def observe(self, rows: Index, nodes: Index) -> Transitions:
        """Step into L pending nodes, rate those without an ending, and write the results.

        Args:
            rows: `[L]` int32, the tree of each, ascending.
            nodes: `[L]` int32, its index there.

        Returns:
            What the model answered.
        """
        tree = self.tree
        parents, actions = edges(tree.parent, tree.action, rows, nodes, self.first_action)
        out: Transitions = self.states.step(actions, rows, parents, nodes)
        new = self.with_rating(self.answered(rows, nodes, out), out)
        expand(tree, new, self.settings.discount)
        tally_steps(self.costs.counts, rows)
        return out

    def random(self, rows: Index, shape: tuple[int, ...]) -> npt.NDArray[np.float64]:
        """Return `[L, *shape]` numbers in [0, 1), each by the generator of its tree.

        Args:
            rows: `[L]` the tree of each, ascending: so parts in the order of the trees fit them.
            shape: of the numbers of one.
        """
        sizes = np.bincount(rows, minlength=len(self.rngs)).tolist()
        pairs = zip(self.rngs, sizes, strict=True)
        return np.concatenate([rng.random((size, *shape)) for rng, size in pairs])

    # Limits ---------------------------------------------------------------------

    def allowance(
        self, cost: int | npt.NDArray[np.int64], least: int | None = None
    ) -> npt.NDArray[np.int64]:
        """Return how many simulations of at most `cost` steps each tree may begin, `[B]`.

        Args:
            cost: of all trees, or `[B]` of each.
            least: what the first simulation may cost; None: as the others.

        Raises:
            InvalidOption: the steps do not even pay for the first.
        """
        # As `allow` of kernels, which takes longer to compile than a plan.
        first = int(np.max(cost)) if least is None else least
        limits, in_flight = self.limits(first), self._num_in_flight
        left = limits.num_simulations - self.done - in_flight
        if limits.max_model_steps >= 0:
            most = (limits.max_model_steps - self.costs.counts[0]) // cost
            left = np.minimum(left, most - in_flight)
        return left

    def _tallies(self) -> Tallies:
        left = np.empty_like(self.done)
        return Tallies(self.done, self._num_in_flight, self.full, self.costs.counts, left)

    def limits(self, cost: int) -> Limits:
        """Return the limits of a search whose simulations cost `cost` steps each.

        Raises:
            InvalidOption: the steps do not even pay for the first.
        """
        most = self.settings.max_model_steps
        if most is not None and cost > most:
            raise InvalidOption(
                f"{self._planner}: max_model_steps must be at least {cost}, the cost of one "
                f"simulation; got {most}. Raise it, or make simulations shorter (rollout_depth, "
                f"num_rollouts, of STS num_expansions, num_children)."
            )
        return Limits(self.settings.num_simulations, -1 if most is None else most, cost)

    def _prepared(self) -> tuple[SearchData, Callable[..., tuple[int, int]]]:
        """Return the selection inputs of all waves of a plan, and the kernel for their types."""
        limits = self.limits(1 + self.rater.most_steps)
        numbers = self.settings.discount, self.first_action
        selection, tallies = self.settings.selection, self._tallies()
        data = SearchData(self.tree, selection, self.halving, tallies, limits, *numbers)
        example = data, 0, self._nothing, self._waves[0]
        return data, self._kernel or for_types_of(write_and_select, example)

    def cut_short(self) -> npt.NDArray[np.bool_]:
        """Return `[B]` bool, the trees that ran out of room before their simulations were run."""
        if True not in self.full.tolist():  # the rule, for which numpy takes ten times as long
            return self.full.copy()
        # Room for no more nodes than the steps pay for is room enough.
        return self.full & (self.allowance(1, least=0) > 0)

    # Rows -----------------------------------------------------------------------

    def subset(self, rows: npt.NDArray[np.intp]) -> Search:
        """Return a search with the trees of some rows only; this one must not be used again.

        Args:
            rows: `[n]` ascending.
        """
        other = copy.copy(self)
        other.tree = Tree._make([field[rows] for field in self.tree])
        other.states = self.states.subset(rows)
        other.kept = [self.kept[b] for b in rows]
        other.done, other.full = self.done[rows], self.full[rows]
        other._in_flight, other._num_in_flight = deque(), np.zeros(len(rows), np.int64)
        other.costs = self.costs.subset(rows)
        # Picked columns can be laid out in another order, which is another type.
        other._data = other._kernel = None
        return other
