"""NodeStates: storage of the nodes' env states, in an array or in the env's slots."""

from __future__ import annotations

import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from plangym_ext.core.compiling.jit import allocating_kernel, kernel
from plangym_ext.planners.simulator import SearchModel, States, Transitions
from plangym_ext.planners.trees.tree import NO_PARENT, OPEN, ROOT, UNVISITED, Tree, reroot
from plangym_ext.states.envelope import as_wide, is_sealed, state_content

Index = npt.NDArray[np.integer[Any]]


class NodeStates(ABC):
    """Abstract storage of the states of the nodes of B trees, N each."""

    #: Whether `put` refuses what the model would refuse.
    checks: ClassVar[bool] = False

    @abstractmethod
    def put(self, trees: Index, node: int, states: States) -> None:
        """Write the states `[L, S]` of one node of each of `trees` `[L]`."""

    @abstractmethod
    def get(self, trees: Index, nodes: Index) -> States:
        """Return a copy `[L, S]` uint8 of the states of some nodes."""

    @abstractmethod
    def step(self, actions: npt.NDArray[Any], trees: Index, parents: Index, nodes: Index) -> Any:
        """Play `actions` `[L]` from `parents`; `nodes` hold the states after that."""

    @abstractmethod
    def begin(
        self, actions: npt.NDArray[Any], trees: Index, parents: Index, nodes: Index
    ) -> Callable[[], Any]:
        """Begin `step`; return a function that completes it."""

    @abstractmethod
    def keep(self, b: int, nodes: Index) -> None:
        """Renumber the nodes of tree b: `nodes[i]` becomes i, the others are lost."""

    @abstractmethod
    def subset(self, trees: Index) -> NodeStates:
        """Return the states of some trees only; this object must not be used again."""


class ArrayStates(NodeStates):
    """States in one array of this process."""

    def __init__(self, model: SearchModel, batch: int, capacity: int, width: int) -> None:
        self._model = model
        self.rows: States = np.empty((batch, capacity, width), np.uint8)

    def put(self, trees: Index, node: int, states: States) -> None:
        self.rows[trees, node] = self.fitting(states)

    def get(self, trees: Index, nodes: Index) -> States:
        return self.rows[trees, nodes]

    def step(
        self, actions: npt.NDArray[Any], trees: Index, parents: Index, nodes: Index
    ) -> Transitions:
        """Gather, `step_batch`, scatter."""
        out = self._model.step_batch(actions, states=gathered(self.rows, trees, parents))
        return self._stored(out, trees, nodes)

    def begin(
        self, actions: npt.NDArray[Any], trees: Index, parents: Index, nodes: Index
    ) -> Callable[[], Transitions]:
        """Gather, and `step_batch_async` if the model has it; scatter in the end."""
        begin = getattr(self._model, "step_batch_async", None)
        if begin is None:
            # The model can only be stepped: it is now, and nothing is left to wait for.
            out = self.step(actions, trees, parents, nodes)
            return lambda: out
        # A copy: waves that end before this one write to the rows meanwhile.
        pending = begin(actions, states=gathered(self.rows, trees, parents))
        return lambda: self._stored(pending.wait(), trees, nodes)

    def fitting(self, states: States) -> States:
        """Return new states `[L, S]` as wide as the rows, which become as wide as these.

        Raises:
            ValueError: the model's states are no rows of an env, and these are narrower.
        """
        width, came = self.rows.shape[2], states.shape[1]
        # Where an env has widened its rows, states are good that zeros follow: those of before,
        # and those of a wave that was begun before.
        if came > width:
            self.rows = np.pad(self.rows, ((0, 0), (0, 0), (0, came - width)))
        elif came < width and not all(map(is_sealed, states)):
            raise ValueError(
                f"search: step_batch must return states as wide as the root's, {width} bytes; "
                f"got {came}. Plan from a state that this env has captured."
            )
        return as_wide(states, width)

    def _stored(self, out: Transitions, trees: Index, nodes: Index) -> Transitions:
        states = self.fitting(out.states)
        if len(states) != len(trees):
            raise ValueError(
                f"search: step_batch must return one state per action, {len(trees)}; got "
                f"{len(states)}."
            )
        scatter(self.rows, trees, nodes, states)
        return out

    def keep(self, b: int, nodes: Index) -> None:
        """Move the kept states to the front."""
        # The right side is a copy: nodes move to the front over each other.
        self.rows[b, : len(nodes)] = self.rows[b, nodes]

    def subset(self, trees: Index) -> ArrayStates:
        """Keep the rows of some trees."""
        self.rows = self.rows[trees]
        return self


class SlotStates(NodeStates):
    """States in slots of the model, which steps them in place.

    The slots are given back when this object is collected.
    """

    def __init__(self, model: Any, batch: int, capacity: int) -> None:
        self._model = model
        taken = model.states.allocate(batch * capacity)
        # A copy, as `keep` permutes it: what is freed are the slots as they were allocated.
        self._slots = taken.reshape(batch, capacity).copy()
        # No method of this object: the finalizer would keep it alive.
        weakref.finalize(self, model.states.free, taken)

    def put(self, trees: Index, node: int, states: States) -> None:
        if len(trees):
            self._model.states[self._slots[trees, node]] = states

    def get(self, trees: Index, nodes: Index) -> States:
        found: States = self._model.states[self._slots[trees, nodes]]
        return found

    def step(self, actions: npt.NDArray[Any], trees: Index, parents: Index, nodes: Index) -> Any:
        """Step from slot to slot; the result has no states."""
        source, target = self._slots[trees, parents], self._slots[trees, nodes]
        return self._model.step_slots(actions, source, target)

    def begin(
        self, actions: npt.NDArray[Any], trees: Index, parents: Index, nodes: Index
    ) -> Callable[[], Any]:
        """Step from slot to slot meanwhile; no two waves have a target in common."""
        source, target = self._slots[trees, parents], self._slots[trees, nodes]
        wait: Callable[[], Any] = self._model.step_slots_async(actions, source, target).wait
        return wait

    def keep(self, b: int, nodes: Index) -> None:
        """Give kept nodes their slots under new numbers; the rest follow, to be used again."""
        rest = np.ones(self._slots.shape[1], np.bool_)
        rest[nodes] = False
        self._slots[b] = np.concatenate([self._slots[b, nodes], self._slots[b, rest]])

    def subset(self, trees: Index) -> SlotStates:
        """Keep the slots of some trees; those of the others are given back with these."""
        self._slots = self._slots[trees]
        return self


@allocating_kernel
def gathered(rows: States, trees: Index, nodes: Index) -> States:
    """Return `rows[trees, nodes]` of `[B, N, S]`; numpy takes twice as long for small states."""
    found = np.empty((len(trees), rows.shape[2]), rows.dtype)
    for i in range(len(trees)):
        b, n = trees[i], nodes[i]
        for s in range(rows.shape[2]):
            found[i, s] = rows[b, n, s]
    return found


@kernel
def scatter(rows: States, trees: Index, nodes: Index, states: States) -> None:
    """Write `states` `[L, S]` to `rows[trees, nodes]` of `[B, N, S]`."""
    for i in range(len(trees)):
        b, n = trees[i], nodes[i]
        for s in range(rows.shape[2]):
            rows[b, n, s] = states[i, s]


# Subtree reuse ---------------------------------------------------------------


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
    action that was executed, chance, and a new episode. Of two actions that led to the same state,
    the one with more visits is kept.
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
