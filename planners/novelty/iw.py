"""Novelty planners: IW, a breadth-first search, and RolloutIW, a search by random walks."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from plangym_ext.core.options import Count, Finite, Share
from plangym_ext.planners.clock import Clock
from plangym_ext.planners.evaluators import from_prior
from plangym_ext.planners.lockstep.search import Search
from plangym_ext.planners.novelty.base import NoveltySearch
from plangym_ext.planners.novelty.novelty import (
    Novelty,
    Walks,
    best_returns,
    next_nodes,
    see,
    take_in,
)
from plangym_ext.planners.rating import EvaluatorRater, Policy, Rater
from plangym_ext.planners.trees.tree import OPEN, PENDING, ROOT, UNVISITED, allocate

# Nodes of a tree that are stepped into between two looks at a clock.
_PART = 64


@dataclass(eq=False, kw_only=True)
class IW(NoveltySearch):
    """IW(1): breadth-first search that keeps only nodes with a feature never seen before.

    For small state spaces without an evaluator.

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


@dataclass(eq=False, kw_only=True)
class RolloutIW(NoveltySearch):
    """Rollout-IW: random walks from the root, cut where no feature is new at its depth.

    For rare rewards without an evaluator, such as Atari games.

    A feature is new if it was never seen at that depth or above. Nodes where nothing
    is new are solved, as are those all of whose children are; walks leave them out.
    The search ends when the root is solved, or with its budget. Unlike IW(1) it looks
    deep from the beginning, so it may be stopped at any time.

    Args:
        wave_size: walks that go on at once, in one `step_batch`; 1 is the source's.
        rollout_policy: `obs [L, *obs] -> probabilities [L, A]` that walks draw actions by, such
            as a network that these plans have taught: pi-IW. None: all alike.
        greed: share of the choices at which a walk follows the best branch so far, which
            makes good branches longer; 0 is the source's.
        persistence: walks repeat the action before with a chance of up to this; each draws its
            own, so that some go straight on and others to and fro. 0 is the source's.
        ends_below: a step with a lower reward ends walks, such as a lost life that costs
            1,000. None: only endings of the env do.

    A node that a walk comes by again is solved too if all it shows has been seen above its
    depth since. What was earned below it still counts, as the env pays it; the authors'
    program takes minus infinity for such a node.

    Source: Bandres, Bonet & Geffner 2018, "Planning with pixels in (almost) real
    time", algorithm 1. The published scores are of 116 simulations a move (0.5 s) at a
    frameskip of 15. With a policy: Junyent, Jonsson & Gomez 2019, "Deep policies for
    width-based planning in pixel domains".
    """

    plays_policy: ClassVar[bool] = True

    wave_size: Count = 4
    rollout_policy: Policy | None = None
    greed: Share = 0.0
    persistence: Share = 0.0
    ends_below: Finite | None = None

    def _walks(self) -> Walks:
        """Return the walks' parameters for the kernels."""
        ends_below = -math.inf if self.ends_below is None else self.ends_below
        guided = self.rollout_policy is not None
        return Walks(self.max_depth, ends_below, self.persistence, self.greed, guided)

    def _rater(self, num_actions: int) -> Rater:
        """Return the rater that calls the policy."""
        if self.rollout_policy is None:
            return super()._rater(num_actions)
        return EvaluatorRater(from_prior(self.rollout_policy), num_actions, "rollout_policy")

    def _grow(self, search: Search, novelty: Novelty, clock: Clock) -> Novelty:
        """Continue the walks, a step at a time; see `NoveltySearch`."""
        tree, batch = search.tree, len(search.done)
        # `[B, W]` the node that each walk goes on from.
        cursors = np.full((batch, self.wave_size), ROOT, np.int32)
        repeats = np.zeros(cursors.shape)
        returns = np.zeros(tree.parent.shape)
        counts = np.zeros(tree.parent.shape, np.int64)
        walks = self._walks()
        rows, nodes, which = np.empty((3, batch * self.wave_size), np.int32)
        while True:
            limits = np.minimum(self.wave_size, search.allowance(1))
            if self.greed > 0:
                # Anew for each wave: the last one may have made another branch the best.
                bonus = novelty.rare.bonus
                best_returns(tree, bonus, self.discount, self.risk_aversion, returns, counts)
            count = next_nodes(
                tree, novelty, walks, limits, cursors, repeats, returns, rows, nodes, which
            )
            if count == 0:
                break
            wave = rows[:count].copy(), nodes[:count].copy()
            out = search.observe(*wave)
            # It may return wider tables: those from before must not be written to any more.
            novelty = self.write_shown(novelty, *wave, out.obs)
            take_in(tree, novelty, *wave, which[:count], cursors)
            search.done += np.bincount(wave[0], minlength=batch)
            if clock.over:
                break
        search.full = tree.size == search.settings.capacity
        return novelty
