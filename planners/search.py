"""One search: B trees grown in lockstep over one model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from plangym_ext.planners.base import (
    Budget,
    Plan,
    Rng,
    SearchModel,
    States,
    Transitions,
    discrete_actions,
)
from plangym_ext.planners.puct import select_wave
from plangym_ext.planners.rating import Leaves, Rater, Rating
from plangym_ext.planners.tree import (
    NO_ACTION,
    NO_PARENT,
    OPEN,
    PENDING,
    ROOT,
    TERMINATED,
    TRUNCATED,
    UNVISITED,
    backup,
    expand,
    new_tree,
    reroot,
    restart,
    summarize,
)

# Rows of the counters, in the order of the fields of `Budget`.
_STEPS, _EXPANSIONS, _EVALUATOR_ROWS, _RESTORES = range(4)


@dataclass(frozen=True, slots=True)
class Rules:
    """The numbers that a search is run with; see `MCTS` for what they mean."""

    num_simulations: int
    wave_size: int
    capacity: int
    discount: float
    c_puct: float
    scale: int
    fpu_reduction: float


class Search:
    """Grows B trees, a wave at a time; owns its trees and its states.

    The states of all nodes are rows of one store, so that "step from this node
    into that one" is a gather, a `step_batch` and a scatter.

    Attributes:
        tree: the B trees.
        store: `[B, N, S]` uint8, the state of every node in use.
    """

    def __init__(
        self, model: SearchModel, rules: Rules, rater: Rater, states_shape: tuple[int, int]
    ):
        batch, width = states_shape
        num_actions, self.first_action = discrete_actions(model.action_space, "Search")
        self.model, self.rules, self.rater = model, rules, rater
        self.tree = new_tree(batch, rules.capacity, num_actions)
        self.store: States = np.empty((batch, rules.capacity, width), np.uint8)
        self.rngs: Sequence[Rng] = ()
        self._target = np.zeros(batch, np.int64)
        self._rows = np.empty(batch * rules.wave_size, np.int32)
        self._leaves = np.empty_like(self._rows)
        self._counts = np.zeros((4, batch), np.int64)

    def start(self, states: States, rngs: Sequence[Rng], obs: Any) -> None:
        """Put the B states at the roots, keeping what is known about them.

        Args:
            states: `[B, S]` uint8; copied.
            rngs: B generators, used until the next `start`.
            obs: `[B, *obs]` of the states; unused if the rater rates no roots.
        """
        self.rngs = rngs
        self._counts[:] = 0
        fresh = []
        for b, rng in enumerate(rngs):
            if not self._advance(b, states[b]):
                restart(self.tree, b)
                self.store[b, ROOT] = states[b]
                fresh.append(b)
            # Ties are broken at random, or else an action would be preferred
            # for its index wherever rewards are rare; one order per plan keeps
            # the kernels free of random numbers.
            self.tree.order[b] = rng.permutation(self.tree.order.shape[1])
        self._target[:] = self.tree.visits[:, ROOT] + self.rules.num_simulations
        if self.rater.rates_roots and fresh:
            self._rate_roots(obs, np.array(fresh))

    def run_wave(self) -> bool:
        """Select, step, rate and back up one wave; False if there was none left."""
        rules, tree = self.rules, self.tree
        limits = np.minimum(rules.wave_size, self._target - tree.visits[:, ROOT])
        count = select_wave(
            tree, limits, rules.c_puct, rules.scale, rules.fpu_reduction, self._rows, self._leaves
        )
        rows, leaves = self._rows[:count], self._leaves[:count]
        # Ended nodes that were chosen again have no need of the model.
        new = tree.kind[rows, leaves] == PENDING
        if new.any():
            self._observe(rows[new], leaves[new])
        backup(tree, rows, leaves)
        return count > 0

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
        full = self.tree.visits[:, ROOT] < self._target
        return [
            Plan(
                action=self.first_action + int(best[b]),
                visits=visits[b],
                q=q[b],
                value=float(self.tree.q[b, ROOT]),
                budget=Budget(*(int(n) for n in self._counts[:, b]))
                + Budget(seconds=seconds / batch),
                full=bool(full[b]),
            )
            for b in range(batch)
        ]

    def _advance(self, b: int, state: States) -> bool:
        """Re-root tree b on a child of its root in exactly this state, if any.

        Comparing bytes covers everything that could have gone differently: the
        action that was executed, chance, and a new episode. Of two actions
        that led to the same state, the one that is known better is kept.
        """
        tree, best = self.tree, NO_PARENT
        for child in tree.children[b, ROOT]:
            if (
                child != UNVISITED
                and tree.kind[b, child] == OPEN
                and (best == NO_PARENT or tree.visits[b, child] > tree.visits[b, best])
                and np.array_equal(self.store[b, child], state)
            ):
                best = int(child)
        if best == NO_PARENT:
            return False
        remap = np.empty(tree.parent.shape[1], np.int32)
        reroot(tree, b, best, remap)
        kept = np.flatnonzero(remap >= 0)
        self.store[b, : len(kept)] = self.store[b, kept]
        return True

    def _rate_roots(self, obs: Any, fresh: npt.NDArray[np.intp]) -> None:
        """Give the roots in `fresh` the rater's value and prior.

        Args:
            obs: `[B, *obs]` of all roots.
            fresh: `[F]` trees whose root has not been rated as a leaf before.
        """
        tree = self.tree
        leaves = Leaves(fresh, self.store[fresh, ROOT], obs[fresh], np.zeros(len(fresh), np.bool_))
        rating = self._rate(leaves)
        tree.value[fresh, ROOT] = rating.value
        if rating.prior is not None:
            tree.prior[fresh, ROOT] = rating.prior
        if rating.legal is not None:
            tree.legal[fresh, ROOT] = rating.legal

    def _observe(self, rows: npt.NDArray[np.int32], slots: npt.NDArray[np.int32]) -> None:
        """Step into L pending nodes, rate those that go on, and fill them in."""
        tree, discount = self.tree, self.rules.discount
        parents = tree.parent[rows, slots]
        actions = tree.action[rows, slots].astype(np.int64) + self.first_action
        out = self.model.step_batch(actions, states=self.store[rows, parents])
        self._check(out)
        self.store[rows, slots] = out.states
        over = np.asarray(out.terminateds, np.bool_)
        cut = np.asarray(out.truncateds, np.bool_)
        value = np.zeros(len(rows))
        prior = np.full((len(rows), tree.prior.shape[2]), 1.0 / tree.prior.shape[2], np.float32)
        legal = np.ones(prior.shape, np.bool_)
        if not over.all():
            # A slice where nothing ended: screens are large, and views are free.
            alive = np.flatnonzero(~over) if over.any() else slice(None)
            rating = self._rate(Leaves(rows[alive], out.states[alive], out.obs[alive], cut[alive]))
            value[alive] = rating.value
            if rating.prior is not None:
                prior[alive] = rating.prior
            if rating.legal is not None:
                legal[alive] = rating.legal
        kind = np.where(over, TERMINATED, np.where(cut, TRUNCATED, OPEN)).astype(np.uint8)
        rewards = np.asarray(out.rewards, np.float64)
        expand(tree, rows, slots, kind, rewards, discount * ~over, value, prior, legal)
        # Every new node is one restore and one step.
        self._counts[[_STEPS, _EXPANSIONS, _RESTORES]] += np.bincount(
            rows, minlength=len(self.store)
        )

    def _rate(self, leaves: Leaves) -> Rating:
        """Have the leaves rated, and what it cost counted."""
        rating = self.rater.rate(self.model, leaves, self.rngs)
        if not np.isfinite(rating.value).all():
            raise ValueError(
                f"search: leaf values must be finite; got {rating.value} from "
                f"{type(self.rater).__name__}. Look for rewards that are not finite."
            )
        np.add.at(self._counts[_STEPS], leaves.rows, rating.model_steps)
        np.add.at(self._counts[_EVALUATOR_ROWS], leaves.rows, rating.evaluator_rows)
        np.add.at(self._counts[_RESTORES], leaves.rows, rating.restores)
        return rating

    def _check(self, out: Transitions) -> None:
        """Refuse what would silently spoil the tree."""
        width, came = self.store.shape[2], out.states.shape[1]
        if came > width:
            # The env has widened its rows; narrower states followed by zeros stay good.
            self.store = np.pad(self.store, ((0, 0), (0, 0), (0, came - width)))
        elif came < width:
            raise ValueError(
                f"search: step_batch must return states as wide as the root's, {width} bytes; "
                f"got {came}. Plan from a state that this env has captured."
            )
        if not np.isfinite(out.rewards).all():
            raise ValueError(
                f"search: rewards must be finite; got {np.asarray(out.rewards)}. "
                f"Look for a division by zero in the env's reward."
            )
