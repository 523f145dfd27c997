"""Subtree reuse: re-rooting a tree at the state after a move."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from plangym_ext.planners.lockstep.node_states import NodeStates
from plangym_ext.planners.simulator import States
from plangym_ext.planners.trees.tree import NO_PARENT, OPEN, ROOT, UNVISITED, Tree, reroot
from plangym_ext.states.envelope import state_content


def reuse(
    tree: Tree,
    states: NodeStates,
    b: int,
    state: States,
    legal: npt.NDArray[np.bool_] | None = None,
) -> npt.NDArray[np.intp]:
    """Re-root tree b on a child of its root that is in exactly this state, if there is one.

    What is known about actions that are illegal now is dropped. A child that was searched
    without an action which is legal now is not used: priors and full expansions are of
    the actions that were legal when the node was made.

    Args:
        tree: the trees.
        states: of their nodes.
        b: which tree.
        state: `[S]` uint8, where the move has led.
        legal: `[A]` bool, what may be played in it; None: what the model said.

    Returns:
        `[n]` the old indices of the nodes kept, ascending; none if there is no such child.
    """
    best = _child_in(tree, states, b, state)
    if best == NO_PARENT:
        return np.zeros(0, np.intp)
    # A copy: `reroot` moves the rows of `legal` to the front while it reads this one.
    known = tree.legal[b, best].copy()
    # Contiguous, or the kernel would be compiled once more for another layout.
    allowed = known if legal is None else np.ascontiguousarray(legal)
    if (allowed & ~known).any():
        return np.zeros(0, np.intp)
    remap = np.empty(tree.parent.shape[1], np.int32)
    reroot(tree, b, best, allowed, remap)
    kept = np.flatnonzero(remap >= 0)
    states.keep(b, kept)
    return kept


def _child_in(tree: Tree, states: NodeStates, b: int, state: States) -> int:
    """Return the child of the root that is in a state, NO_PARENT if none is.

    Comparing bytes covers everything that could have gone differently: the
    action that was executed, chance, and a new episode. Of two actions
    that led to the same state, the one that is known better is kept.
    """
    best, here, wanted = NO_PARENT, np.array([b]), state_content(state)
    for child in tree.children[b, ROOT]:
        if (
            child != UNVISITED
            and tree.kind[b, child] == OPEN
            and (best == NO_PARENT or tree.visits[b, child] > tree.visits[b, best])
            # Last, as it copies a state, perhaps out of a slot of the model.
            and state_content(states.get(here, np.array([child]))[0]) == wanted
        ):
            best = int(child)
    return best
