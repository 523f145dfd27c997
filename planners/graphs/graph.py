"""Graph: array representation of a search graph, its kernels, and keys of equal states.

A node is an index and stands for one state, however it was reached.
Rewards sit on the edges, which belong to the parent. Statistics are float32 running
means, updated in float64, as in trees.
"""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from plangym_ext.arrays.nested import content, num_rows, rows_of
from plangym_ext.core.compiling.jit import kernel
from plangym_ext.core.options import OneOf
from plangym_ext.planners.simulator import States
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

    Children that walk number `walk` has come by are left out; -1 leaves none out.
    """
    best, best_q, row = NO_ACTION, -np.inf, graph.edges[node]
    if row == NO_NODE:
        return NO_ACTION
    for i in range(len(graph.order)):
        a = graph.order[i]
        child = graph.child[row, a]
        if child == NO_NODE or (walk >= 0 and graph.stamp[child] == walk):
            continue
        q = graph.reward[row, a]
        q += graph.discount[row, a] * np.float64(graph.value[child])
        if q > best_q:
            best, best_q = a, q
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
        FRONTIER, ENDING or DEAD_END, and the index of the last node in `nodes`. A
        walk that fills `nodes` stops as at a frontier that is known already.
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
