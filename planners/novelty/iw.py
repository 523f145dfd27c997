"""IW(1): breadth-first search that leaves out what shows nothing new."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from plangym_ext.planners.clock import Clock
from plangym_ext.planners.lockstep.search import Search
from plangym_ext.planners.novelty.base import NoveltySearch
from plangym_ext.planners.novelty.novelty import Novelty, see
from plangym_ext.planners.trees.tree import OPEN, PENDING, ROOT, UNVISITED, allocate


@dataclass(eq=False, kw_only=True)
class IW(NoveltySearch):
    """Breadth-first search; a node goes on only if it has a feature never seen before.

    All nodes of a layer are expanded in one `step_batch`.

    Source: Lipovetzky & Geffner 2012, "Width and serialization of classical planning
    problems"; on Atari Lipovetzky et al. 2015.
    """

    def _grow(self, search: Search, novelty: Novelty, clock: Clock) -> None:
        """Expand the trees a layer at a time."""
        tree = search.tree
        layer = [[ROOT] for _ in search.done]
        while any(layer):
            left = search.allowance(1)
            below = [self._below(search, b, layer[b], int(left[b])) for b in range(len(layer))]
            rows = np.repeat(np.arange(len(layer), dtype=np.int32), [len(one) for one in below])
            nodes = np.array([node for one in below for node in one], np.int32)
            # Nodes kept from the last move have been answered.
            new = tree.kind[rows, nodes] == PENDING
            if new.any():
                novelty.depth[rows[new], nodes[new]] = (
                    novelty.depth[rows[new], tree.parent[rows[new], nodes[new]]] + 1
                )
                out = search.observe(rows[new], nodes[new])
                found = self.features_of(out.obs)
                novelty = self.write_features(novelty, rows[new], nodes[new], found)
                search.done += np.bincount(rows[new], minlength=len(search.done))
            layer = [
                [
                    node
                    for node in one
                    if see(tree, novelty, b, node, 0)
                    and tree.kind[b, node] == OPEN
                    and novelty.depth[b, node] < self.max_depth
                ]
                for b, one in enumerate(below)
            ]
            if clock.over:
                break

    def _below(self, search: Search, b: int, layer: list[int], left: int) -> list[int]:
        """Return the children of a layer of tree b, at most `left` of them allocated."""
        tree = search.tree
        below: list[int] = []
        for node in layer:
            for action in tree.order[b]:
                child = int(tree.children[b, node, action])
                if child == UNVISITED and left > 0 and tree.legal[b, node, action]:
                    if tree.size[b] == tree.parent.shape[1]:
                        search.full[b] = True
                        return below
                    child = int(allocate(tree, b, node, int(action)))
                    left -= 1
                if child != UNVISITED:
                    below.append(child)
        return below
