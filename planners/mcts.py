"""Monte Carlo tree search for discrete actions: PUCT, UCT or Gumbel."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from plangym_ext.errors import InvalidOption
from plangym_ext.planners.base import (
    UNBOUNDED,
    Clock,
    Planner,
    Rng,
    SearchModel,
    States,
    at_least,
    check_obs,
    check_rows,
    discrete_actions,
    finite_between,
)
from plangym_ext.planners.plans import Plan
from plangym_ext.planners.rating import Evaluator, EvaluatorRater, Rater, ZeroRater
from plangym_ext.planners.registry import unknown
from plangym_ext.planners.rollouts import Rollouts
from plangym_ext.planners.scale import SCALE_NONE, SCALE_SIBLINGS, SCALE_TREE
from plangym_ext.planners.search import Rules, Search
from plangym_ext.planners.selection import GUMBEL, PUCT, UCT, Selection

SCALES = {"none": SCALE_NONE, "siblings": SCALE_SIBLINGS, "tree": SCALE_TREE}
RULES = {"puct": PUCT, "uct": UCT, "gumbel": GUMBEL}
# Nodes of a tree that only time bounds.
_TIMED_CAPACITY = 10_000


@dataclass(eq=False, kw_only=True)
class MCTS(Planner):
    """Grows a tree of states under the current one and plays the most tried action.

    Each round selects a wave of leaves in every tree, steps into all of them in
    one `step_batch`, rates them in one call, and backs up. With one simulation
    per wave it is sequential.

    Args:
        wave_size: at most how many simulations are in flight at once, per tree.
            More keeps more workers busy; fewer decides on fresher knowledge.
        selection: how actions are chosen: "puct" (prior), "uct" (counts alone), or
            "gumbel" (sequential halving at the root, improved policies below;
            for few simulations and a good prior).
        c_puct: weight of the bonus of "puct" and "uct", against returns on
            `value_scale`.
        rollout_depth: steps of a random rollout from each leaf; 0 for none.
            None means 8 without an evaluator and 0 with one.
        num_rollouts: rollouts per leaf, averaged.
        evaluator: `obs [L, *obs] -> (prior [L, A] or None, value [L])`. Its
            value rates the leaf, or what follows a rollout if there is one.
            See `planners.evaluators` for Q functions and policies.
        value_scale: what returns are brought to [0, 1] by, so that `c_puct`
            fits any env: the means in the "tree" or of the "siblings"; "none"
            takes them as they are.
        fpu_reduction: how much worse than its node an untried action is
            expected to be by "puct", on `value_scale`. Large negative numbers try
            every action once before any twice.
        root_noise: share of Dirichlet noise in the root's prior, in [0, 1].
        dirichlet_alpha: concentration of that noise; small is spiky.
        temperature: the action is drawn in proportion to visits**(1 / temperature);
            0 plays the most visited.
        num_considered: actions that "gumbel" begins with.
        c_visit: "gumbel": added to the most visits in the weight of returns.
        c_scale: "gumbel": weight of returns against the logarithm of the prior.
        capacity: most nodes per tree, the root included; at least 2. A search
            ends when its tree is full, and its plan says so. None means room
            for all simulations, twice that with `keep_tree`; 10,000 if only
            time bounds them.
        keep_tree: go on with the subtree of the state that came about, if it is
            in the tree, bit for bit. `reset` drops it.
        return_tree: put the nodes of the search into the plan.
    """

    wave_size: int = 8
    selection: str = "puct"
    c_puct: float = 1.5
    rollout_depth: int | None = None
    num_rollouts: int = 1
    evaluator: Evaluator | None = None
    value_scale: str = "tree"
    fpu_reduction: float = 0.0
    root_noise: float = 0.0
    dirichlet_alpha: float = 0.3
    temperature: float = 0.0
    num_considered: int = 16
    c_visit: float = 50.0
    c_scale: float = 1.0
    capacity: int | None = None
    keep_tree: bool = False
    return_tree: bool = False

    def __post_init__(self) -> None:
        """Check the options."""
        super().__post_init__()
        if self.evaluator is not None and not callable(self.evaluator):
            raise InvalidOption(
                f"MCTS: evaluator must be a function obs -> (prior, value) or None; "
                f"got {self.evaluator!r}."
            )
        if self.rollout_depth is None:
            self.rollout_depth = 8 if self.evaluator is None else 0
        self.rollout_depth = at_least("MCTS: rollout_depth", self.rollout_depth, 0)
        self.num_rollouts = at_least("MCTS: num_rollouts", self.num_rollouts, 1)
        if self.capacity is None:
            timed = self.most_simulations == UNBOUNDED
            most = _TIMED_CAPACITY if timed else 1 + self.most_simulations
            self.capacity = 2 * most - 1 if self.keep_tree else most
        self.rules = self._rules()
        self._kept: Search | None = None

    def reset(self) -> None:
        """Drop the tree kept from the last move."""
        self._kept = None

    def plan_batch(
        self,
        env: SearchModel,
        states: States,
        *,
        rngs: Sequence[Rng],
        obs: Any = None,
        legal: npt.NDArray[np.bool_] | None = None,
    ) -> list[Plan]:
        """Grow B trees in lockstep; see `Planner.plan_batch`."""
        clock = Clock(self.max_seconds)
        num_actions, _ = discrete_actions(env.action_space, "MCTS")
        states = np.asarray(states)
        check_rows("MCTS", states, rngs)
        # Taken out first: a search that an error leaves half way is not kept.
        search, self._kept = self._kept, None
        if search is None or search.model is not env or search.shape != states.shape:
            search = Search(env, self.rules, self._rater(num_actions), states.shape)
        if search.rater.rates_roots:
            check_obs("MCTS", obs, len(states))
        search.start(states, rngs, obs, legal)
        while search.run_wave() and not clock.over:
            pass
        if self.keep_tree:
            self._kept = search
        return search.plans(clock.seconds)

    def _rules(self) -> Rules:
        """Return the checked numbers that the search runs with."""
        if self.value_scale not in SCALES:
            raise unknown("MCTS: value_scale", self.value_scale, list(SCALES))
        if self.selection not in RULES:
            raise unknown("MCTS: selection", self.selection, list(RULES))
        if self.selection == "gumbel" and (self.num_simulations is None or self.keep_tree):
            raise InvalidOption(
                "MCTS: selection 'gumbel' divides a known number of simulations among the "
                "root's actions; set num_simulations, and leave keep_tree off."
            )
        inf = math.inf

        def number(name: str, low: float, high: float) -> float:
            return finite_between(f"MCTS: {name}", getattr(self, name), low, high)

        return Rules(
            num_simulations=self.most_simulations,
            max_model_steps=self.max_model_steps,
            wave_size=at_least("MCTS: wave_size", self.wave_size, 1),
            capacity=at_least("MCTS: capacity", self.capacity, 2),
            discount=self.discount,
            selection=Selection(
                rule=RULES[self.selection],
                c=number("c_puct", 0.0, inf),
                scale=SCALES[self.value_scale],
                fpu_reduction=number("fpu_reduction", -inf, inf),
                c_visit=number("c_visit", 0.0, inf),
                c_scale=number("c_scale", 0.0, inf),
            ),
            num_considered=at_least("MCTS: num_considered", self.num_considered, 1),
            root_noise=number("root_noise", 0.0, 1.0),
            dirichlet_alpha=number("dirichlet_alpha", 1e-6, inf),
            temperature=number("temperature", 0.0, inf),
            return_tree=bool(self.return_tree),
        )

    def _rater(self, num_actions: int) -> Rater:
        """Return the leaf rater that the options describe."""
        assert self.rollout_depth is not None
        if self.rollout_depth > 0:
            return Rollouts(self.rollout_depth, self.num_rollouts, self.discount, self.evaluator)
        if self.evaluator is not None:
            return EvaluatorRater(self.evaluator, num_actions)
        return ZeroRater()
