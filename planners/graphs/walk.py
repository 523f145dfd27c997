"""GraphWalk: a search graph with its states, and the current walk from the root."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from plangym_ext.errors import NoLegalAction
from plangym_ext.planners.graphs.graph import (
    NO_NODE,
    add_value,
    backup_walk,
    best_action,
    new_graph,
    walk_on,
    with_more_edges,
)
from plangym_ext.planners.plans import Budget, Plan, one_hot
from plangym_ext.planners.simulator import Rng, States
from plangym_ext.states.envelope import state_content

#: Nodes whose edges there is room for at first.
_ROOM = 16


class GraphWalk:
    """One graph by the keys of its states, and the present walk from its root."""

    def __init__(self, capacity: int, num_actions: int) -> None:
        self.graph = new_graph(capacity, num_actions, _ROOM)
        self.states: list[States] = []
        self.legal: list[npt.NDArray[np.bool_]] = []  # [A] of each node
        self._num_expanded = 0
        # Steps to each of them from where the counting began; infinite: it is not known.
        self._depth: list[float] = []
        self._is_cut: list[bool] = []  # whether an edge from each was cut: its state has a limit
        self._index: dict[bytes, int] = {}
        # More than the nodes: a walk that avoids loops never fills them; others are cut there.
        self._nodes = np.empty(capacity + 1, np.int32)
        self._actions = np.empty(capacity + 1, np.int32)
        self._walks = 0
        self.root, self.length, self.done = 0, 0, 0
        self._root_key: bytes | None = None
        self._model_legal: npt.NDArray[np.bool_] | None = None  # of the root; None: unknown
        self.full = False
        self.budget = Budget()

    def start(self, key: bytes, state: States, legal: npt.NDArray[np.bool_], rng: Rng) -> None:
        """Set the root; known states keep their statistics.

        Keyed by observations, it may be another state, with another step limit: then what was cut
        says nothing.
        """
        self._restore_mask()
        before = self._index.get(key)
        known = before is not None and state_content(self.states[before]) == state_content(state)
        if not known and any(self._is_cut):
            self.clear()
            before = None
        self._model_legal = None if before is None else self.legal[before]
        self._root_key = key
        if not known:
            self._depth = [math.inf] * len(self.states)
        depth = self._depth[before] if known and before is not None else 0.0
        self.root, _ = self._met(key, state, legal.copy(), depth, ended=False)
        self.states[self.root], self._depth[self.root] = state.copy(), depth
        # In place, as `graph` is a tuple of arrays; ties are broken anew for every plan.
        self.graph.order[:] = rng.permutation(len(legal))
        self.done, self.full, self.budget = 0, False, Budget()

    def has_room(self, count: int) -> bool:
        """Return whether `count` more nodes fit."""
        return len(self.states) + count <= len(self.graph.value)

    def clear(self) -> None:
        """Forget all nodes."""
        self.__init__(len(self.graph.value), len(self.graph.order))  # type: ignore[misc]

    def node_of(
        self, key: bytes, state: States, legal: npt.NDArray[np.bool_], ended: bool
    ) -> tuple[int, bool]:
        """Return the node of a state, and whether it is new.

        What the root allows is the caller's to say; see `start`.
        """
        if key == self._root_key:
            # The caller's mask of the root stays in force in this plan; the model's waits for
            # `_restore_mask`. After an ending the model's mask says nothing.
            if not ended:
                self._model_legal = legal.copy()
            return self.root, False
        return self._met(key, state, legal, self._depth[self.here] + 1.0, ended)

    def _met(
        self, key: bytes, state: States, legal: npt.NDArray[np.bool_], depth: float, ended: bool
    ) -> tuple[int, bool]:
        """Return the node of a state, and whether it is new or to be known anew.

        Three nodes are expanded again: one that was met only at endings, when the episode continues
        there; one with a cut edge, when it is met after fewer steps; and any node whose mask has
        changed. An ending does not change a node at which the episode continued elsewhere: it is a
        matter of the edge.
        """
        graph, node = self.graph, self._index.get(key)
        if node is None:
            node = self._index[key] = len(self.states)
            self.states.append(state.copy())
            self._depth.append(depth)
            self._is_cut.append(False)
            self.legal.append(legal)
        elif ended or not (
            graph.ended[node]
            or (self._is_cut[node] and depth < self._depth[node])
            or (self.legal[node] != legal).any()
        ):
            return node, False
        else:
            self.states[node], self._depth[node], self._is_cut[node] = state.copy(), depth, False
            self._forget_edges(node)
            graph.visits[node], graph.value[node] = 0, 0.0
        graph.ended[node], self.legal[node] = ended, legal
        return node, True

    def _forget_edges(self, node: int) -> None:
        graph = self.graph
        graph.expanded[node] = False
        if graph.edges[node] != NO_NODE:
            graph.child[graph.edges[node]] = NO_NODE

    def expand(self) -> None:
        """Mark the edges of the walk's present node as known."""
        graph, here = self.graph, self.here
        graph.expanded[here] = True
        if graph.edges[here] == NO_NODE:
            if self._num_expanded == len(graph.child):
                self.graph = with_more_edges(graph)
            graph.edges[here] = self._num_expanded
            self._num_expanded += 1

    def _restore_mask(self) -> None:
        """Restore what the model allows in the last root, if the caller allowed something else."""
        root, legal = self.root, self._model_legal
        if legal is not None and (self.legal[root] != legal).any():
            # Expanded under the caller's mask, it lacks the edges of what that did not allow.
            self._forget_edges(root)
            self.legal[root] = legal

    def join(self, action: int, child: int, reward: float, discount: float, cut: bool) -> None:
        """Make an edge from the walk's present node; `cut`: it ends an episode."""
        graph, here = self.graph, self.here
        self._is_cut[here] |= cut
        edge = graph.edges[here], action
        graph.child[edge], graph.reward[edge], graph.discount[edge] = child, reward, discount

    @property
    def here(self) -> int:
        """The walk's present node."""
        return int(self._nodes[self.length])

    @property
    def at_expanded(self) -> bool:
        """Whether the walk stopped at a node that was known already."""
        return bool(self.graph.expanded[self.here])

    def begin(self, avoid_loops: bool) -> int:
        """Walk from the root; return how the walk ended."""
        self._walks += 1
        self._nodes[0], self.length = self.root, 0
        return self.go_on(avoid_loops)

    def go_on(self, avoid_loops: bool) -> int:
        """Continue the walk from its present node; return how it ended."""
        how, self.length = walk_on(
            self.graph, self._walks, avoid_loops, self._nodes, self._actions, self.length
        )
        return int(how)

    def back_up(self, dead_end: float | None) -> None:
        """Credit the walk's last node to those before it, and a dead end to itself."""
        graph, here = self.graph, self.here
        value = float(graph.value[here]) if dead_end is None else dead_end
        if dead_end is not None:
            add_value(graph, here, value)
        backup_walk(graph, self._nodes, self._actions, self.length, value)

    def plan(self, origin: int, seconds: float) -> Plan:
        """Read the plan at the root; an action that leads back to it is a last resort."""
        graph, root = self.graph, self.root
        row = graph.edges[root]
        child = graph.child[row] if row != NO_NODE else np.full(len(graph.order), NO_NODE)
        q = np.full(len(child), np.nan)
        known = np.flatnonzero(child >= 0)
        if known.size == 0:
            raise NoLegalAction(
                "search: every state must allow an action; one allows none. Do not plan from a "
                "state whose episode has ended."
            )
        values = graph.value[child[known]].astype(np.float64)
        q[known] = graph.reward[row, known] + graph.discount[row, known] * values
        # A number that no walk had before makes all stamps in the graph out of date at once.
        self._walks += 1
        # As if a walk had come by the root: edges that lead back to it are left out.
        graph.stamp[root] = self._walks
        action = int(best_action(graph, root, self._walks))
        if action < 0:
            # -1 leaves no child out: all edges that are known lead back to the root.
            action = int(best_action(graph, root, -1))
        return Plan(
            action=origin + action,
            value=float(graph.value[root]),
            budget=self.budget + Budget(seconds=seconds),
            q=q,
            weights=one_hot(action, len(child)),
            full=self.full,
        )
