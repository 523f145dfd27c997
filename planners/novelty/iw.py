"""IW(1): breadth-first search pruned by feature novelty."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from plangym_ext.planners.clock import Clock
from plangym_ext.planners.lockstep.search import Search
from plangym_ext.planners.novelty.base import NoveltySearch
from plangym_ext.planners.novelty.novelty import Novelty, see
from plangym_ext.planners.trees.tree import OPEN, PENDING, ROOT, UNVISITED, allocate

# Nodes of a tree that are stepped into between two looks at a clock.
_PART = 64


@dataclass(eq=False, kw_only=True)
class IW(NoveltySearch):
    """IW(1): breadth-first search that keeps only nodes with a feature never seen before.

    All nodes of a layer are expanded in one `step_batch`, or 64 of a tree at a time under
    a limit of `max_seconds`.

    Source: Lipovetzky & Geffner 2012, "Width and serialization of classical planning
    problems"; on Atari Lipovetzky et al. 2015.
    """

    def _grow(self, search: Search, novelty: Novelty, clock: Clock) -> Novelty:
        """Expand the trees a layer at a time; a clock is looked at between parts of a layer."""
        tree = search.tree
        part = _PART if clock.limited else None
        layer = [[ROOT] for _ in search.done]
        while any(layer):
            left = search.allowance(1)
            # Generators: a child is allocated when its part is taken, so that none is left pending
            # if the clock ends the search in the middle of a layer.
            children = [self._children(search, b, nodes, left) for b, nodes in enumerate(layer)]
            layer = [[] for _ in layer]
            # Nodes are judged in the order of the layer, so its parts come to the same.
            while any(below := [list(itertools.islice(one, part)) for one in children]):
                novelty = self._observe(search, novelty, below)
                for b, one in enumerate(below):
                    layer[b] += [
                        node
                        for node in one
                        if see(tree, novelty, b, node, 0)
                        and tree.kind[b, node] == OPEN
                        and novelty.depth[b, node] < self.max_depth
                    ]
                if clock.over:
                    return novelty
        return novelty

    def _observe(self, search: Search, novelty: Novelty, below: list[list[int]]) -> Novelty:
        """Step into those of some nodes of each tree that are new; write their features."""
        tree = search.tree
        rows = np.repeat(np.arange(len(below), dtype=np.int32), [len(one) for one in below])
        nodes = np.array([node for one in below for node in one], np.int32)
        # Nodes kept from the last move have been answered.
        new = tree.kind[rows, nodes] == PENDING
        rows, nodes = rows[new], nodes[new]
        if len(rows) == 0:
            return novelty
        novelty.depth[rows, nodes] = novelty.depth[rows, tree.parent[rows, nodes]] + 1
        obs = search.observe(rows, nodes).obs
        search.done += np.bincount(rows, minlength=len(search.done))
        return self.write_shown(novelty, rows, nodes, obs)

    def _children(
        self, search: Search, b: int, layer: list[int], left: npt.NDArray[np.int64]
    ) -> Iterator[int]:
        """Yield the children of a layer of tree b; each that is allocated counts `left[b]` down."""
        tree = search.tree
        for node in layer:
            for action in tree.order[b]:
                child = int(tree.children[b, node, action])
                if child == UNVISITED and left[b] > 0 and tree.legal[b, node, action]:
                    if tree.size[b] == tree.parent.shape[1]:
                        search.full[b] = True
                        return
                    child = int(allocate(tree, b, node, int(action)))
                    left[b] -= 1
                if child != UNVISITED:
                    yield child
