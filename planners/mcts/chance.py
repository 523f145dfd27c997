"""Chance nodes in tree search: waves with redrawn random outcomes."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from plangym_ext.errors import WrongKind
from plangym_ext.planners.lockstep.node_states import ArrayStates
from plangym_ext.planners.lockstep.search import Search
from plangym_ext.planners.model import States
from plangym_ext.planners.trees.chance import Chances, Draws, place_draws, select_by_chance
from plangym_ext.planners.trees.tree import CHANCE, UNVISITED, NewNodes, backup, expand
from plangym_ext.states.envelope import as_wide, telling


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
            f"{planner}: chance=True needs an env with `reseeded(states, rng)`, which draws what "
            f"will happen anew, as what plangym_ext.make returns; got {model}."
        )
