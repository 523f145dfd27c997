"""Entropy-regularised tree searches: MENTS, BTS, DENTS, TENTS, ANTS."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np

from plangym_ext.core.options import OneOf, Range, Weight
from plangym_ext.planners.compiled.search import CompiledSearch
from plangym_ext.planners.lockstep.search import Search
from plangym_ext.planners.mcts.base import SCALES, TreeSearch
from plangym_ext.planners.trees.selection import PUCT, Selection
from plangym_ext.planners.trees.soft import (
    LARGEST,
    SHANNON,
    TSALLIS,
    Soft,
    adapt_temperature,
    backup_soft,
    revalue,
    select_soft,
    spread_of_best,
)
from plangym_ext.planners.trees.tree import PENDING

#: Largest temperature. Trees hold 32-bit floats, in which values with more
#: entropy than that lose what returns differ by, and far above it overflow.
_HOTTEST = 1e6


@dataclass(eq=False, kw_only=True)
class SoftSearch(TreeSearch):
    """Abstract base: tree search by a policy over the returns of a node's actions.

    A simulation adds one node, as in `MCTS`. What differs is the choice, of the action whose
    share of visits is furthest below the policy's, and what nodes are worth: no mean of
    returns, but a value of those of their actions. The action of the highest value is played.

    Args:
        policy_temperature: that of the policy, on `value_scale`: small is greedy; at most 1e6.
        epsilon: the prior's share in what is tried is epsilon * A / log(1 + n) in a node with
            A actions and n visits.
        value_scale: unit of returns: their spread in the "tree", or "none".
    """

    policy_temperature: Annotated[float, Range(1e-6, _HOTTEST)] = 0.1
    epsilon: Weight = 0.2
    value_scale: Annotated[str, OneOf(("tree", "none"))] = "tree"

    #: What a node is worth; see `planners.trees.soft`.
    rule: ClassVar[int]

    def _selection(self) -> Selection:
        """Return the numbers of a rule, of which the scale alone is looked at."""
        # Kernels take one tuple for all searches; a policy has no constants of PUCT to put there.
        return Selection(PUCT, 0.0, SCALES[self.value_scale], 0.0, 0.0, 0.0)

    def _soft(self, search: Search) -> Soft:
        """Return the arrays of the entropy-regularised search, before any node has a value."""
        batch, nodes, num_actions = search.tree.children.shape
        return Soft(
            rule=self.rule,
            scale=search.settings.selection.scale,
            epsilon=self.epsilon,
            entropy_weight=0.0,
            temperature=np.full(batch, self.policy_temperature),
            value=np.zeros((batch, nodes)),
            entropy=np.zeros((batch, nodes)),
            plain=np.zeros((batch, nodes)),
            returns=np.empty((batch, num_actions)),
            policy=np.empty((batch, num_actions)),
        )

    def _wave_of(self, search: Search) -> Callable[[], bool]:
        search.soft = self._soft(search)
        return functools.partial(self._wave, search, search.soft)

    def _wave(self, search: Search, soft: Soft) -> bool:
        """Choose, step, rate and back up a wave; return False if there was none left."""
        tree = search.tree
        if not search.done.any():
            self._value_kept(search, soft)
        self._before_wave(search, soft)
        cost = 1 + search.rater.most_steps
        limits = np.minimum(search.settings.wave_size, search.allowance(cost))
        # Arrays for the most that a wave may select; the kernel says how many it did.
        room = max(0, int(limits.sum()))
        rows, leaves = np.empty(room, np.int32), np.empty(room, np.int32)
        count = select_soft(tree, limits, soft, rows, leaves)
        rows, leaves = rows[:count], leaves[:count]
        # Others are nodes of before, such as endings: they are backed up again, and not stepped.
        new = tree.kind[rows, leaves] == PENDING
        if new.any():
            search.observe(rows[new], leaves[new])
        backup_soft(tree, soft, rows, leaves)
        # `minlength`: trees after the last one in the wave would have no entry.
        search.done += np.bincount(rows, minlength=len(search.done))
        search.full[:] = tree.size == tree.parent.shape[1]
        return count > 0

    def _value_kept(self, search: Search, soft: Soft) -> None:
        """Value the nodes of trees that were kept: values are not, as they follow from the rest."""
        rows = np.flatnonzero(search.tree.size > 1)
        if len(rows):
            spread_of_best(search.tree, soft, rows)
        revalue(search.tree, soft, np.arange(len(search.done)))

    def _before_wave(self, search: Search, soft: Soft) -> None:
        """Do nothing; for a temperature that changes."""

    def _compiled(self, search: Search) -> CompiledSearch | None:  # noqa: ARG002
        """Return None: waves are not run in compiled code."""
        return None

    def _nodes_per_simulation(self, num_actions: int) -> int:  # noqa: ARG002
        """Return 1: the leaf."""
        return 1

    def _own_settings(self) -> dict[str, Any]:
        return {}


@dataclass(eq=False, kw_only=True)
class MENTS(SoftSearch):
    """Maximum entropy Monte-Carlo planning: values are t log sum exp(q / t), visits a softmax.

    For rare or misleading rewards.

    Estimates settle fast, on values that count entropy: with a large temperature the best
    action can be another one than that of the largest return.

    Source: Xiao et al. 2019, "Maximum entropy Monte-Carlo planning".
    """

    rule: ClassVar[int] = SHANNON


@dataclass(eq=False, kw_only=True)
class BTS(SoftSearch):
    """Boltzmann tree search: visits are a softmax of returns, values the largest return.

    For rare or misleading rewards, at any temperature.

    What it plays does not depend on the temperature in the end, as in MENTS it does.

    Source: Painter et al. 2023, "Monte Carlo tree search with Boltzmann exploration".
    """

    rule: ClassVar[int] = LARGEST


@dataclass(eq=False, kw_only=True)
class TENTS(SoftSearch):
    """Tsallis entropy tree search: sparse policies, in which bad actions have probability 0.

    For many actions, of which few are good.

    Source: Dam et al. 2021, "Convex regularization in Monte-Carlo tree search".
    """

    rule: ClassVar[int] = TSALLIS


@dataclass(eq=False, kw_only=True)
class ANTS(MENTS):
    """Adaptive entropy tree search: MENTS with a given mean entropy of the policies.

    For rewards of unknown scale.

    Whenever a tree has doubled, its temperature is set to the one at which the mean entropy of the
    policies in its nodes is the wanted one, and all its nodes are valued with that temperature. So
    it needs no temperature that fits the rewards of an env.

    Args:
        policy_temperature: temperature until the tree has nodes with two returns.
        target_entropy: mean entropy of the nodes' policies as a share of the maximum,
            from 0 (greedy) to 0.99; no finite temperature gives 1 (uniform).

    Source: Kozakowski et al. 2022, "Planning and learning using adaptive entropy tree search".
    """

    target_entropy: Annotated[float, Range(0.0, 0.99)] = 0.5

    def _soft(self, search: Search) -> Soft:
        """Return the arrays of the search, without temperatures yet."""
        # Kept trees are larger: they are adapted first of all. It is the search's, not this
        # planner's: that may plan in several threads, in an env each.
        search.adapted = np.ones(len(search.done), np.int32)
        return super()._soft(search)

    def _before_wave(self, search: Search, soft: Soft) -> None:
        """Set the temperatures of trees that have doubled."""
        rows = np.flatnonzero(search.tree.size >= 2 * search.adapted)
        if len(rows):
            search.adapted[rows] = search.tree.size[rows]
            adapt_temperature(search.tree, soft, rows, self.target_entropy)
            # The values of all nodes were made with the temperature before.
            revalue(search.tree, soft, rows)


@dataclass(eq=False, kw_only=True)
class DENTS(BTS):
    """Decaying entropy tree search: BTS whose visits also follow a decaying entropy bonus.

    For rare or misleading rewards, if the best move has to win in the end.

    The entropy of the policies below an action is added to its return in the policy, with a
    weight that falls with the visits of the node. Values are without it.

    Args:
        entropy_weight: weight of the entropy (in nats), on `value_scale`; it is divided by
            log(e + n) in a node with n visits.

    Source: Painter et al. 2023, "Monte Carlo tree search with Boltzmann exploration".
    """

    entropy_weight: Weight = 0.1

    def _soft(self, search: Search) -> Soft:
        """Return the arrays of the search, with the weight of entropies."""
        return super()._soft(search)._replace(entropy_weight=self.entropy_weight)
