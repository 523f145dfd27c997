"""MCTS: Monte Carlo tree search with PUCT, UCT or Gumbel selection."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from plangym_ext.errors import InvalidOption
from plangym_ext.planners.compiled.search import CompiledSearch, compiled_search
from plangym_ext.planners.compiled.waves import make_leaf_wave
from plangym_ext.planners.lockstep.search import Search
from plangym_ext.planners.mcts.bandit import BanditSearch
from plangym_ext.planners.mcts.chance import check_reseeds, run_chance_wave
from plangym_ext.planners.mcts.kept_rollouts import run_kept_wave
from plangym_ext.planners.rating import Rater
from plangym_ext.planners.rollouts.rater import node_rater
from plangym_ext.planners.trees.chance import new_chances


@dataclass(eq=False, kw_only=True)
class MCTS(BanditSearch):
    """Monte Carlo tree search: each simulation adds one node to the tree.

    Each round selects a wave of leaves in every tree, steps into all of them in
    one `step_batch`, rates them in one call, and backs up. With one simulation
    per wave it is sequential.

    Args:
        waves_in_flight: how many waves are begun before the first of them is backed up.
            With 2 the workers of an env step one while the other is rated, backed up
            and selected anew. The plan depends on it, as it does on `wave_size`, but
            not on the number of workers. More than 1 is not run in compiled code.
        chance: do not use the random numbers that a state holds, which say what will happen:
            draw each outcome anew, and average over the outcomes of an action. Not run in
            compiled code. A draw that gives a known outcome costs a step, and is no simulation.
        chance_width: an action that was tried n times has
            chance_width * n**chance_growth draws of its outcome, rounded up.
        chance_growth: see there; in [0, 1]. Less is deeper, more is truer to rare outcomes.
        keep_rollouts: keep what rollouts step through as nodes of the tree, so that none of it is
            paid for again: a simulation adds up to 1 + `rollout_depth` nodes, which the evaluator
            rates if there is one. Not run in compiled code.
        selection: how actions are chosen: "puct" (prior), "uct" (counts alone), or
            "gumbel" (sequential halving at the root, improved policies below;
            for few simulations and a good prior).
            Its noise is what draws the action: there is no `temperature`.
        num_considered: actions that "gumbel" begins with.
        c_visit: "gumbel": added to the most visits in the weight of returns.
        c_scale: "gumbel": weight of returns against the logarithm of the prior.

    Source: PUCT after Silver et al. 2017, UCT after Kocsis & Szepesvari 2006, Gumbel
    after Danihelka et al. 2022, whose c_visit and c_scale for MuZero these are.
    """

    waves_in_flight: int = 1
    chance: bool = False
    chance_width: float = 1.0
    chance_growth: float = 0.5
    keep_rollouts: bool = False
    num_considered: int = 16
    c_visit: float = 50.0
    c_scale: float = 1.0

    rules_allowed: ClassVar[tuple[str, ...]] = ("puct", "uct", "gumbel")

    def __post_init__(self) -> None:
        """Check the options."""
        super().__post_init__()
        self.waves_in_flight = self._integer("waves_in_flight", 1)
        self._check_chance()
        self._check_kept_rollouts()
        self.num_considered = self._integer("num_considered", 1)
        # `BanditSearch._selection` has left both at 0: they are options of this class.
        self._checked_selection = self._checked_selection._replace(
            c_visit=self._number("c_visit", 0.0, 1e9),
            c_scale=self._number("c_scale", 0.0, 1e9),
        )
        if self.selection == "gumbel" and (self.num_simulations is None or self.keep_tree):
            raise InvalidOption(
                "MCTS: selection 'gumbel' divides a known number of simulations among the "
                "root's actions; set num_simulations, and leave keep_tree off."
            )

        if self.selection == "gumbel" and self.temperature > 0.0:
            raise InvalidOption(
                f"{self._option('temperature')} must be 0 with selection 'gumbel', whose noise "
                f"draws the action; got {self.temperature}."
            )

    @property
    def two_players(self) -> bool:
        """True: trees alternate between players, with negated values of the opponent."""
        return True

    def _check_chance(self) -> None:
        """Check the options of nodes of chance, and that no other option contradicts them."""
        self.chance_width = self._number("chance_width", 1e-6, 1e6)
        self.chance_growth = self._number("chance_growth", 0.0, 1.0)
        if not self.chance:
            return
        if self.selection == "gumbel":
            raise InvalidOption("MCTS: chance is for selection 'puct' or 'uct'; got 'gumbel'.")
        # A second wave would be selected before the first one's outcomes are nodes; `reroot` does
        # not renumber `Chances`; outcomes are told apart in an array, which slots do not have.
        for name, allowed in (("waves_in_flight", 1), ("keep_tree", False), ("slots", False)):
            if getattr(self, name) != allowed:
                raise InvalidOption(
                    f"{self._option(name)} must be {allowed} with chance=True; got "
                    f"{getattr(self, name)!r}."
                )
        if self.choice == "branch":
            raise InvalidOption(
                f"{self._option('choice')} must be 'visits' or 'value' with chance=True, where no "
                f"branch can be played again; got 'branch'."
            )
        if self.capacity is not None and self.capacity < 3:
            raise InvalidOption(
                f"{self._option('capacity')} must be at least 3 with chance=True: a root, an "
                f"action and an outcome; got {self.capacity}."
            )

    def _check_kept_rollouts(self) -> None:
        """Check that no other option contradicts rollouts that stay in the tree."""
        if not self.keep_rollouts:
            return
        if self.selection == "gumbel":
            raise InvalidOption(
                "MCTS: keep_rollouts is for selection 'puct' or 'uct'; got 'gumbel'."
            )
        if self.rollout_depth == 0:
            raise InvalidOption(
                f"{self._option('rollout_depth')} must be 1 or more with keep_rollouts=True, which "
                f"needs rollouts (an evaluator turns them off by default); got 0."
            )
        # A rollout is a chain of nodes below its leaf: there is one, drawn uniformly, and it is
        # backed up before the next wave is selected.
        needs = {"waves_in_flight": 1, "num_rollouts": 1, "rollout_policy": None, "chance": False}
        for name, allowed in needs.items():
            if getattr(self, name) != allowed:
                raise InvalidOption(
                    f"{self._option(name)} must be {allowed} with keep_rollouts=True; got "
                    f"{getattr(self, name)!r}."
                )

    def _rater(self, num_actions: int) -> Rater:
        """Return what rates nodes: without rollouts, if those are nodes themselves."""
        if self.keep_rollouts:
            # `RolloutRater` would play on from a leaf, and pay for steps that no node remembers.
            return node_rater(self.evaluator, num_actions)
        return super()._rater(num_actions)

    def _wave_of(self, search: Search) -> Callable[[], bool]:
        """Add one node per simulation, those of its rollout, or with chance one for the action."""
        if self.keep_rollouts:
            assert self.rollout_depth is not None
            return functools.partial(run_kept_wave, search, self.rollout_depth)
        if not self.chance:
            return search.run_wave
        check_reseeds(type(self).__name__, search.model)
        batch, capacity = search.tree.parent.shape
        chances = new_chances(batch, capacity, self.chance_width, self.chance_growth)
        return functools.partial(run_chance_wave, search, chances)

    def _compiled(self, search: Search) -> CompiledSearch | None:
        """Add one node per simulation, in compiled code."""
        if not self.compiled or self.waves_in_flight > 1 or self.chance or self.keep_rollouts:
            return None
        return compiled_search(search, make_leaf_wave)

    def _nodes_per_simulation(self, num_actions: int) -> int:  # noqa: ARG002
        """Return 1: the leaf; 2 with chance: an action that was not tried before."""
        if self.keep_rollouts:
            assert self.rollout_depth is not None
            return 1 + self.rollout_depth
        return 2 if self.chance else 1

    def _nodes_per_step(self) -> int:
        """Return as many: every simulation takes a step, but those that come to a known ending."""
        return 2 if self.chance else 1

    def _own_settings(self) -> dict[str, Any]:
        """Return the waves in flight, and what sequential halving begins with."""
        return super()._own_settings() | {
            "num_considered": self.num_considered,
            "waves_in_flight": self.waves_in_flight,
        }
