"""MCTS: Monte Carlo tree search with PUCT, UCT or Gumbel; chance nodes, kept rollouts."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt

from plangym_ext.core.compiling.jit import kernel
from plangym_ext.core.options import Count, OneOf, Range, Share, Weight
from plangym_ext.errors import InvalidOption, WrongKind
from plangym_ext.planners.compiled.search import CompiledSearch, compiled_search
from plangym_ext.planners.compiled.waves import make_leaf_wave
from plangym_ext.planners.lockstep.node_states import ArrayStates
from plangym_ext.planners.lockstep.search import Search
from plangym_ext.planners.mcts.bandit import WidenedSearch
from plangym_ext.planners.rating import Rater
from plangym_ext.planners.rollouts.playouts import legal_actions
from plangym_ext.planners.rollouts.rater import node_rater
from plangym_ext.planners.simulator import States
from plangym_ext.planners.trees.chance import (
    Chances,
    Draws,
    new_chances,
    place_draws,
    select_by_chance,
)
from plangym_ext.planners.trees.selection import select_wave
from plangym_ext.planners.trees.tree import (
    CHANCE,
    NO_ACTION,
    OPEN,
    PENDING,
    UNVISITED,
    Array,
    NewNodes,
    Tree,
    allocate,
    backup,
    expand,
)
from plangym_ext.states.envelope import as_wide, telling


@dataclass(eq=False, kw_only=True)
class MCTS(WidenedSearch):
    """Monte Carlo tree search: each simulation adds one node to the tree.

    For discrete actions, with an evaluator or cheap rollouts; `selection="gumbel"` for few
    simulations and a good prior.

    Each round selects a wave of leaves in every tree, steps into all of them in
    one `step_batch`, rates them in one call, and backs up. With one simulation
    per wave it is sequential.

    Args:
        waves_in_flight: number of waves that begin before the first of them is backed up.
            With 2 the workers of an env step one wave while the planner rates, backs up
            and selects the other. The plan depends on it, as it does on `wave_size`, but
            not on the number of workers. More than 1 does not run in compiled code.
        chance: ignore the random generator in a state, which determines the future:
            redraw each outcome, and average over the outcomes of an action. Not run in
            compiled code. A draw with a known outcome costs a step, but is not a simulation.
        chance_width: an action with n visits has
            chance_width * n**chance_growth draws of its outcome, rounded up.
        chance_growth: see there; in [0, 1]. Less is deeper, more is truer to rare outcomes.
        keep_rollouts: keep the steps of rollouts as nodes of the tree, so that they are not
            repeated: a simulation adds up to 1 + `rollout_depth` nodes, which the evaluator
            rates if there is one. Not run in compiled code.
        selection: selection rule: "puct" (prior), "uct" (only counts), or
            "gumbel" (sequential halving at the root, improved policies below;
            for few simulations and a good prior).
            Its noise samples the action: there is no `temperature`.
        num_considered: actions that "gumbel" begins with.
        gumbel_scale: "gumbel": weight of its noise; 0 plays the best action, as in a match.
        c_visit: "gumbel": added to the most visits in the weight of returns.
        c_scale: "gumbel": weight of returns against the logarithm of the prior.

    Source: PUCT after Silver et al. 2017, UCT after Kocsis & Szepesvari 2006, Gumbel
    after Danihelka et al. 2022, with the c_visit and c_scale of their MuZero.
    """

    noise_options = (*WidenedSearch.noise_options, "gumbel_scale")

    waves_in_flight: Count = 1
    chance: bool = False
    chance_width: Annotated[float, Range(1e-6, 1e6)] = 1.0
    chance_growth: Share = 0.5
    keep_rollouts: bool = False
    selection: Annotated[str, OneOf(("puct", "uct", "gumbel"))] = "puct"
    num_considered: Count = 16
    gumbel_scale: Weight = 1.0
    c_visit: Annotated[float, Range(0.0, 1e9)] = 50.0
    c_scale: Annotated[float, Range(0.0, 1e9)] = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_chance()
        self._check_kept_rollouts()
        # `BanditSearch._selection` has left both at 0: they are options of this class.
        self._checked_selection = self._checked_selection._replace(
            c_visit=self.c_visit, c_scale=self.c_scale
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

    @property
    def _cuts(self) -> bool:
        """Whether nodes can be taken out: each simulation added one, whose rating it returned."""
        return not self.keep_rollouts

    def _check_chance(self) -> None:
        """Check that no other option contradicts nodes of chance."""
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
                f"{self._option('choice')} must be 'visits' or 'value' with chance=True, which "
                f"cannot replay a branch; got 'branch'."
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
        """Return the rater of nodes: without rollouts, if their steps are nodes themselves."""
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
            "gumbel_scale": self.gumbel_scale,
            "waves_in_flight": self.waves_in_flight,
        }


def run_kept_wave(search: Search, depth: int) -> bool:
    """Select leaves, add random rollouts below them, back up; return False without a wave.

    Args:
        search: rates its nodes itself: what follows the last node of a rollout is its value.
        depth: most nodes that a rollout adds below its leaf.
    """
    tree, settings = search.tree, search.settings
    limits = np.minimum(settings.wave_size, search.allowance(1 + depth))
    rows, at = np.empty((2, max(0, int(limits.sum()))), np.int32)
    count = select_wave(tree, limits, settings.selection, None, rows, at)
    if count == 0:
        return False
    rows, at = rows[:count], at[:count]
    # All numbers at once, used or not: so they do not depend on how rollouts end.
    numbers = search.random(rows, (depth,))
    # Endings that were chosen again have no rollout: they are backed up as they are.
    new = np.flatnonzero(tree.kind[rows, at] == PENDING)
    for step in range(depth + 1):
        if not new.size:
            break
        search.observe(rows[new], at[new])
        # The deepest node is rated like the others, and nothing is drawn below it.
        if step < depth:
            actions = legal_actions(numbers[new, step], tree.legal[rows[new], at[new]])
            new = new[_extended(tree, rows, at, new, actions)]
    backup(tree, rows, at)
    search.done += np.bincount(rows, minlength=len(search.done))
    search.full[:] = tree.size == settings.capacity
    return True


def _extended(
    tree: Tree, rows: Array, at: Array, some: npt.NDArray[np.intp], actions: npt.NDArray[Any]
) -> npt.NDArray[np.bool_]:
    """Add a pending node below some of the rollouts; return which of them go on, `[L]`."""
    going = np.zeros(len(some), np.bool_)
    _extend(tree, rows, at, some, actions, going)
    return going


@kernel
def _extend(tree: Tree, rows: Array, at: Array, some: Array, actions: Array, going: Array) -> None:
    """Add a pending node below where rollouts are, if that is open and there is room.

    Args:
        tree: the trees.
        rows: `[n]` the tree of each rollout.
        at: `[n]` where it is; written: the new node.
        some: `[L]` which rollouts.
        actions: `[L]` what they play; -1: nothing is legal.
        going: `[L]` bool, written: whether they go on.
    """
    for i in range(len(some)):
        k = some[i]
        b, node = rows[k], at[k]
        going[i] = (
            tree.kind[b, node] == OPEN
            and actions[i] != NO_ACTION
            and tree.size[b] < tree.parent.shape[1]
        )
        if going[i]:
            at[k] = allocate(tree, b, node, actions[i])
            # As a selection counts it; `backup` takes it off again.
            tree.unobserved[b, at[k]] += 1


def run_chance_wave(search: Search, chances: Chances) -> bool:
    """Select, draw, rate and back up a wave; return False if no wave was left.

    A draw that gives a known outcome costs a step of the model and is no simulation.
    """
    tree, settings = search.tree, search.settings
    # A simulation costs one draw, and what its rating takes at most.
    limits = np.minimum(settings.wave_size, search.allowance(1 + search.rater.most_steps))
    rows, leaves = np.empty((2, max(0, int(limits.sum()))), np.int32)
    count = select_by_chance(tree, chances, limits, settings.selection, rows, leaves)
    if count == 0:
        return False
    rows, leaves = rows[:count], leaves[:count]
    # The other leaves are endings that were chosen again: they have nothing to draw.
    draws = np.flatnonzero(tree.kind[rows, leaves] == CHANCE)
    if draws.size:
        leaves[draws] = _drawn(search, chances, rows[draws], leaves[draws])
    # `place_draws` has taken draws of known outcomes out of flight: they are not backed up.
    on = leaves != UNVISITED
    backup(tree, rows[on], leaves[on])
    search.done += np.bincount(rows[on], minlength=len(search.done))
    # The next simulation may need two nodes, an action's and its outcome's.
    search.full[:] = tree.size + 2 > settings.capacity
    return True


def _drawn(
    search: Search, chances: Chances, rows: npt.NDArray[np.int32], leaves: npt.NDArray[np.int32]
) -> npt.NDArray[np.int32]:
    """Draw from L nodes of chance; return their new outcomes, rated, UNVISITED for known ones."""
    tree, memory = search.tree, search.states
    assert isinstance(memory, ArrayStates)
    # A node of chance has no state of its own: an outcome is drawn from its parent's.
    before = memory.get(rows, tree.parent[rows, leaves])
    # Tree by tree, each by its own generator: a plan does not depend on the rows beside it.
    for b in np.unique(rows).tolist():
        own = rows == b
        found = _reseeded(search, before[own], search.rngs[b])
        # An env that has widened its rows returns wider ones than it is given.
        before = as_wide(before, found.shape[1])
        before[own] = found
    actions = search.first_action + tree.action[rows, leaves].astype(np.int64)
    out = search.model.step_batch(actions, states=before)
    search.costs.add(rows, model_steps=1, restores=1)
    new = search.answered(rows, leaves, out)
    # What differs in nothing but the random numbers to come is one outcome.
    keys = np.ascontiguousarray(memory.fitting(_reseeded(search, out.states, None)))
    results = np.stack([new.reward, new.terminated, new.truncated], axis=1)
    nodes = np.empty(len(rows), np.int32)
    told = Draws(keys, telling(keys[0]), results)
    place_draws(tree, chances, rows, leaves, memory.rows, told, nodes)
    fresh = np.flatnonzero(nodes != UNVISITED)
    if fresh.size:
        search.costs.add(rows[fresh], expansions=1)
        # Rollouts go on with the random numbers of this draw, not with those of the key.
        picked = _picked(new._replace(nodes=nodes), fresh)
        rated = search.with_rating(picked, out, fresh)
        expand(tree, rated, search.settings.discount)
    return nodes


def _picked(new: NewNodes, some: npt.NDArray[np.intp]) -> NewNodes:
    """Return some of the nodes that are not rated yet."""
    told = {
        name: getattr(new, name)[some]
        for name in ("rows", "nodes", "terminated", "truncated", "reward")
    }
    also = {name: part[some] for name in ("legal", "swaps") if len(part := getattr(new, name))}
    return new._replace(**told, **also)


def _reseeded(search: Search, states: States, rng: np.random.Generator | None) -> States:
    """Return states with other random numbers to come; see `PlanEnv.reseeded`."""
    model: Any = search.model
    found: States = model.reseeded(states, rng)
    return found


def check_reseeds(planner: str, model: Any) -> None:
    """Refuse a model whose random outcomes cannot be redrawn.

    Raises:
        WrongKind: that is so.
    """
    if not hasattr(model, "reseeded"):
        raise WrongKind(
            f"{planner}: chance=True needs an env with `reseeded(states, rng)`, as envs of "
            f"plangym_ext.make have; got {model}."
        )
