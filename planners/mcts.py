"""Monte Carlo tree search with PUCT, for discrete actions."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from plangym_ext.planners.base import (
    Plan,
    Planner,
    Rng,
    SearchModel,
    States,
    at_least,
    check_rows,
    discrete_actions,
    finite_between,
)
from plangym_ext.planners.puct import SCALE_NONE, SCALE_SIBLINGS, SCALE_TREE
from plangym_ext.planners.rating import Evaluator, EvaluatorRater, Rater, ZeroRater
from plangym_ext.planners.registry import unknown
from plangym_ext.planners.rollouts import Rollouts
from plangym_ext.planners.search import Rules, Search

SCALES = {"none": SCALE_NONE, "siblings": SCALE_SIBLINGS, "tree": SCALE_TREE}


class MCTS(Planner):
    """Grows a tree of states under the current one and plays the most tried action.

    Each round selects a wave of leaves in every tree, steps into all of them in
    one `step_batch`, rates them in one call, and backs up. With one simulation
    per wave it is sequential PUCT.

    Args:
        num_simulations: leaves chosen per plan.
        wave_size: at most how many of them are in flight at once, per tree.
            More keeps more workers busy; fewer decides on fresher knowledge.
        c_puct: weight of the prior's bonus, against returns on `value_scale`.
        discount: gamma in [0, 1], per step.
        rollout_depth: steps of a random rollout from each leaf; 0 for none.
            None means 8 without an evaluator and 0 with one.
        num_rollouts: rollouts per leaf, averaged.
        evaluator: `obs [L, *obs] -> (prior [L, A] or None, value [L])`. Its
            value rates the leaf, or what follows a rollout if there is one.
        value_scale: what returns are brought to [0, 1] by, so that `c_puct`
            fits any env: the means in the "tree" or of the "siblings"; "none"
            takes them as they are.
        fpu_reduction: how much worse than its node an untried action is
            expected to be, on `value_scale`. Large negative numbers try every
            action once before any twice.
        capacity: most nodes per tree, the root included; at least 2. A search
            ends when its tree is full, and its plan says so. None means room
            for all simulations, twice that with `keep_tree`.
        keep_tree: go on with the subtree of the state that came about, if it is
            in the tree, bit for bit. `reset` drops it.
    """

    def __init__(
        self,
        num_simulations: int = 64,
        *,
        wave_size: int = 8,
        c_puct: float = 1.5,
        discount: float = 0.99,
        rollout_depth: int | None = None,
        num_rollouts: int = 1,
        evaluator: Evaluator | None = None,
        value_scale: str = "tree",
        fpu_reduction: float = 0.0,
        capacity: int | None = None,
        keep_tree: bool = False,
    ):
        if value_scale not in SCALES:
            raise unknown("MCTS: value_scale", value_scale, list(SCALES))
        if evaluator is not None and not callable(evaluator):
            raise ValueError(
                f"MCTS: evaluator must be a function obs -> (prior, value) or None; "
                f"got {evaluator!r}."
            )
        sims = at_least("MCTS: num_simulations", num_simulations, 1)
        if capacity is None:
            capacity = 1 + sims * (2 if keep_tree else 1)
        if rollout_depth is None:
            rollout_depth = 8 if evaluator is None else 0
        self.rules = Rules(
            num_simulations=sims,
            wave_size=at_least("MCTS: wave_size", wave_size, 1),
            capacity=at_least("MCTS: capacity", capacity, 2),
            discount=finite_between("MCTS: discount", discount, 0.0, 1.0),
            c_puct=finite_between("MCTS: c_puct", c_puct, 0.0, math.inf),
            scale=SCALES[value_scale],
            fpu_reduction=finite_between("MCTS: fpu_reduction", fpu_reduction, -math.inf, math.inf),
        )
        self.rollout_depth = at_least("MCTS: rollout_depth", rollout_depth, 0)
        self.num_rollouts = at_least("MCTS: num_rollouts", num_rollouts, 1)
        self.evaluator = evaluator
        self.keep_tree = keep_tree
        self._kept: Search | None = None

    def reset(self) -> None:
        """Drop the tree kept from the last move."""
        self._kept = None

    def plan_batch(
        self, env: SearchModel, states: States, *, rngs: Sequence[Rng], obs: Any = None
    ) -> list[Plan]:
        """Grow B trees in lockstep; see `Planner.plan_batch`."""
        started = time.perf_counter()
        num_actions, _ = discrete_actions(env.action_space, "MCTS")
        states = np.asarray(states)
        check_rows("MCTS", states, rngs)
        # Taken out first: a search that an error leaves half way is not kept.
        search, self._kept = self._kept, None
        if search is None or search.model is not env or search.store.shape[::2] != states.shape:
            search = Search(env, self.rules, self._rater(num_actions), states.shape)
        if search.rater.rates_roots and (obs is None or len(obs) != len(states)):
            raise ValueError(
                f"MCTS: an evaluator needs obs, one per state, {len(states)}; got "
                f"{'none' if obs is None else len(obs)}. Pass what reset or step "
                f"returned beside the state."
            )
        search.start(states, rngs, obs)
        while search.run_wave():
            pass
        if self.keep_tree:
            self._kept = search
        return search.plans(time.perf_counter() - started)

    def _rater(self, num_actions: int) -> Rater:
        """Return the leaf rater that the options describe."""
        if self.rollout_depth > 0:
            return Rollouts(
                self.rollout_depth, self.num_rollouts, self.rules.discount, self.evaluator
            )
        if self.evaluator is not None:
            return EvaluatorRater(self.evaluator, num_actions)
        return ZeroRater()
