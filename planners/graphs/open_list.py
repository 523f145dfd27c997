"""OpenList: known states and the priority heap of a best-first search."""

from __future__ import annotations

import heapq
import itertools
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from plangym_ext.planners.plans import Budget
from plangym_ext.planners.simulator import Rng, States

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
        """Return whether a state is known on a way of no higher cost."""
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
        """Return the nodes from the root to the goal, or else to what looks best."""
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
        """Return a legal action of the root and its reward, if nothing new can be reached.

        One that ends nothing if there is any, and of those the one that earns most.
        """
        legal = [int(a) for a in self.order if self.nodes[_ROOT].legal[a]]
        steps = {action: self._first_steps.get(action, (False, 0.0)) for action in legal}
        action = max(legal, key=lambda a: (not steps[a][0], steps[a][1]))
        return action, steps[action][1]
