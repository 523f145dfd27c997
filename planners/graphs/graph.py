"""Graph: array representation of a search graph, its kernels, and keys of equal states.

A node is an index and stands for one state, however it was reached.
Rewards sit on the edges, which belong to the parent. Statistics are float32 running
means, updated in float64, as in trees.
"""

from __future__ import annotations

import heapq
import itertools
from typing import Annotated, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from plangym_ext.arrays.nested import content, num_rows, rows_of
from plangym_ext.core.compiling.jit import kernel
from plangym_ext.core.options import OneOf
from plangym_ext.planners.plans import Budget
from plangym_ext.planners.simulator import Rng, States
from plangym_ext.states.envelope import state_content

NO_NODE = NO_ACTION = -1
# How a walk ended: at a node to be expanded, at an ending, at a dead end.
FRONTIER, ENDING, DEAD_END = 0, 1, 2

Array = npt.NDArray[Any]


class Graph(NamedTuple):
    """A search graph of at most N nodes with A actions; kernels write in place.

    Only nodes that were expanded have edges: rows `[E, A]`, of which `edges` says which is whose.
    """

    order: npt.NDArray[np.int32]  # [A] ties go to the action that comes first here
    expanded: npt.NDArray[np.bool_]  # [N] whether the edges are known
    ended: npt.NDArray[np.bool_]  # [N] terminated or truncated whenever it was met
    visits: npt.NDArray[np.int32]  # [N] values averaged, the rating included
    value: npt.NDArray[np.float32]  # [N] mean of them
    stamp: npt.NDArray[np.int64]  # [N] last walk that came by
    edges: npt.NDArray[np.int32]  # [N] row of the edges; NO_NODE where there are none yet
    child: npt.NDArray[np.int32]  # [E, A] node that an edge leads to; NO_NODE if illegal
    reward: npt.NDArray[np.float64]  # [E, A] of the edge
    discount: npt.NDArray[np.float64]  # [E, A] gamma, 0 only after termination


def new_graph(capacity: int, num_actions: int, num_expanded: int) -> Graph:
    """Return an empty graph, with room for the edges of E nodes."""
    nodes, edges = capacity, (num_expanded, num_actions)
    return Graph(
        order=np.arange(num_actions, dtype=np.int32),
        expanded=np.zeros(nodes, np.bool_),
        ended=np.zeros(nodes, np.bool_),
        visits=np.zeros(nodes, np.int32),
        value=np.zeros(nodes, np.float32),
        stamp=np.full(nodes, -1, np.int64),
        edges=np.full(nodes, NO_NODE, np.int32),
        child=np.full(edges, NO_NODE, np.int32),
        reward=np.zeros(edges),
        discount=np.zeros(edges),
    )


def with_more_edges(graph: Graph) -> Graph:
    """Return the same graph with room for the edges of twice as many nodes."""
    child, reward, discount = graph.child, graph.reward, graph.discount
    return graph._replace(
        child=np.concatenate([child, np.full_like(child, NO_NODE)]),
        reward=np.concatenate([reward, np.zeros_like(reward)]),
        discount=np.concatenate([discount, np.zeros_like(discount)]),
    )


@kernel
def best_action(graph: Graph, node: int, walk: int) -> int:
    """Return the legal action with the highest r + gamma * V, NO_ACTION if none.

    Children that walk number `walk` has come by are left out; -1 leaves none out. Among equals
    those that end the episode come last: nothing more is found there.
    """
    best, best_q, best_over, row = NO_ACTION, -np.inf, True, graph.edges[node]
    if row == NO_NODE:
        return NO_ACTION
    for i in range(len(graph.order)):
        a = graph.order[i]
        child = graph.child[row, a]
        if child == NO_NODE or (walk >= 0 and graph.stamp[child] == walk):
            continue
        q = graph.reward[row, a]
        q += graph.discount[row, a] * np.float64(graph.value[child])
        over = graph.discount[row, a] == 0.0 or graph.ended[child]
        if q > best_q or (q == best_q and best_over and not over):
            best, best_q, best_over = a, q, over
    return best


@kernel
def walk_on(
    graph: Graph, walk: int, avoid_loops: bool, nodes: Array, actions: Array, length: int
) -> tuple[int, int]:
    """Walk greedily from `nodes[length]` to a node without a known successor.

    Args:
        graph: the graph.
        walk: number of the walk; never used before.
        avoid_loops: leave out states that the walk has come by.
        nodes: `[D]` int32, written: the walk's nodes.
        actions: `[D]` int32, written: the action taken in each but the last.
        length: index of the node to begin with.

    Returns:
        FRONTIER, ENDING or DEAD_END, and the index of the last node in `nodes`. A walk that fills
        `nodes` stops as at an expanded frontier node.
    """
    node = nodes[length]
    while True:
        graph.stamp[node] = walk
        if graph.ended[node]:
            return ENDING, length
        if not graph.expanded[node] or length + 1 == len(nodes):
            return FRONTIER, length
        action = best_action(graph, node, walk if avoid_loops else -1)
        if action == NO_ACTION:
            return DEAD_END, length
        # Known by what is seen, the state after a termination may be one that goes on
        # elsewhere.
        row = graph.edges[node]
        over = graph.discount[row, action] == 0.0
        actions[length] = action
        node = graph.child[row, action]
        length += 1
        nodes[length] = node
        if over:
            graph.stamp[node] = walk
            return ENDING, length


@kernel
def add_value(graph: Graph, node: int, value: float) -> None:
    """Average one more value into a node."""
    graph.visits[node] += 1
    mean = np.float64(graph.value[node])
    graph.value[node] = np.float32(mean + (value - mean) / graph.visits[node])


@kernel
def backup_walk(graph: Graph, nodes: Array, actions: Array, length: int, value: float) -> None:
    """Credit the value of `nodes[length]` to every node before it, discounted.

    That node itself is left as it is: the value is its own.
    """
    for i in range(length - 1, -1, -1):
        node, a = nodes[i], actions[i]
        row = graph.edges[node]
        value = graph.reward[row, a] + graph.discount[row, a] * value
        add_value(graph, node, value)


#: By what two states are equal: their bytes, or those of their observations.
StateKey = Annotated[str, OneOf(("state", "obs"))]


def state_keys(kind: str, states: States, obs: Any) -> list[bytes]:
    """Return the keys of `[L, S]` states with `[L, *obs]` observations.

    Args:
        kind: the bytes of the "state", which do not depend on how wide its row is, or of the "obs".
        states: `[L, S]`.
        obs: `[L, *obs]`, nested as the observation space; only looked at for "obs".
    """
    if kind == "state":
        return [state_content(state) for state in states]
    return [content(rows_of(obs, i)) for i in range(num_rows(obs))]


# OpenList: known states and the priority heap of a best-first search ----------


_ROOT = 0


class Node(NamedTuple):
    """A state, with the cheapest known path to it."""

    key: bytes
    state: States
    legal: npt.NDArray[np.bool_]  # [A]
    parent: int  # -1 at the root
    before: Any  # the parent as it was then, a `Node`; it may have got a cheaper way since
    action: int  # played in the parent, from 0
    steps: int  # from the root
    log_policy: float  # logarithm of the policy's probability of the way
    log_prior: npt.NDArray[np.float64]  # [A], logarithms of what the policy says of its actions
    reward: float  # of the action
    ret: float  # discounted rewards of the way
    to_go: float  # steps to a goal, as the heuristic says
    is_goal: bool


class OpenList:
    """Known nodes by state key, and a heap of those not yet expanded.

    A state that is reached on a better way takes that, and waits again.

    Args:
        root: the node of its first state.
        rng: draws what is expanded first among equals: actions in a random order.
    """

    def __init__(self, root: Node, rng: Rng) -> None:
        self.nodes, self.budget = [root], Budget()
        self.order = rng.permutation(len(root.legal))
        self.expanded = 0
        self.goal: int | None = None
        self._index = {root.key: _ROOT}
        #: Of the root's actions: whether the step ends the episode, and its reward.
        self._first_steps: dict[int, tuple[bool, float]] = {}
        #: Of the way to each node, and its last entry in the heap.
        self._costs, self._entries = [-np.inf], [0]
        self._count = itertools.count(1)
        self._waiting: list[tuple[float, int, int]] = [(0.0, 0, _ROOT)]
        self._best, self._best_rank = root, (-np.inf, -np.inf)

    @property
    def is_over(self) -> bool:
        """Whether a goal is found, or nothing is left to expand."""
        return self.goal is not None or not self._waiting

    def take(self, count: int) -> list[int]:
        """Take up to `count` nodes to be expanded, the first in the order of their priorities.

        A goal among them ends the search.
        """
        found: list[int] = []
        while self._waiting and len(found) < count:
            _, entry, index = self._waiting[0]
            if found and self.nodes[index].is_goal:
                break  # what goes before it is expanded first, and may lead to a better one
            heapq.heappop(self._waiting)
            if entry != self._entries[index]:
                continue  # reached on a better way since
            if self.nodes[index].is_goal:
                self.goal = index
                break
            found.append(index)
        self.expanded += len(found)
        return found

    def knows_better(self, key: bytes, cost: float) -> bool:
        """Return whether a state is known by a path of no higher cost."""
        index = self._index.get(key)
        return index is not None and self._costs[index] <= cost

    def add(self, node: Node, priority: float, cost: float) -> bool:
        """Add a node for expansion; return whether its state is new.

        Args:
            node: on this way; its state is not known on a way of no higher cost.
            priority: the lowest is expanded first, among equals what came first.
            cost: of the way, more than that of any part of it: so that no way leads through
                itself.
        """
        index, entry = self._index.get(node.key), next(self._count)
        is_new = index is None
        if index is None:
            index = self._index[node.key] = len(self.nodes)
            self.nodes.append(node)
            self._costs.append(cost)
            self._entries.append(entry)
        else:
            self.nodes[index], self._costs[index], self._entries[index] = node, cost, entry
        heapq.heappush(self._waiting, (priority, entry, index))
        # To play while no goal is known: most reward, then nearest to a goal.
        rank = (node.ret, -node.to_go)
        if rank > self._best_rank:
            self._best, self._best_rank = node, rank
        return is_new

    def way(self) -> list[Node]:
        """Return the nodes from the root to the goal, or else to the most promising node."""
        if self.goal is None:
            # As it was found: on cheaper ways to its nodes less may be earned.
            found = [self._best]
            while found[-1].before is not None:
                found.append(found[-1].before)
        else:
            found = [self.nodes[self.goal]]
            while found[-1].parent >= 0:
                found.append(self.nodes[found[-1].parent])
        return found[::-1]

    def note_first(self, parent: int, action: int, *, ended: bool, reward: float) -> None:
        """Record the successor of a step from the root."""
        if parent == _ROOT:
            self._first_steps[action] = ended, reward

    def first_step(self) -> tuple[int, float]:
        """Return a legal action of the root and its reward, if no new state can be reached.

        A step that does not end the episode goes first, and among equal ones the highest reward.
        """
        legal = [int(a) for a in self.order if self.nodes[_ROOT].legal[a]]
        steps = {action: self._first_steps.get(action, (False, 0.0)) for action in legal}
        action = max(legal, key=lambda a: (not steps[a][0], steps[a][1]))
        return action, steps[action][1]
