"""NoveltySearch: base class of planners that prune nodes without new features."""

from __future__ import annotations

import contextlib
from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt

from plangym_ext.arrays.nested import num_rows
from plangym_ext.core.options import Count, Function, Range, Weight
from plangym_ext.errors import InvalidAnswer, InvalidOption
from plangym_ext.planners.base import UNBOUNDED, DiscretePlanner
from plangym_ext.planners.clock import Clock
from plangym_ext.planners.lockstep.kept_search import KeptSearch
from plangym_ext.planners.lockstep.search import Search
from plangym_ext.planners.lockstep.wave_kernels import SearchSettings
from plangym_ext.planners.novelty.features import FEATURES, TilePairs, default_features, tile_grid
from plangym_ext.planners.novelty.novelty import Novelty, best_returns, new_novelty, see, subset
from plangym_ext.planners.novelty.pairs import (
    NEVER,
    count_root,
    counted,
    new_bonus,
    new_pairs,
    rate,
    with_room,
)
from plangym_ext.planners.plans import Plan, SearchTree, one_hot
from plangym_ext.planners.rating import Rater, ZeroRater
from plangym_ext.planners.registry import unknown
from plangym_ext.planners.request import PlanRequest
from plangym_ext.planners.trees.rules import SCALE_NONE, exported
from plangym_ext.planners.trees.selection import PUCT, Selection
from plangym_ext.planners.trees.tree import ROOT, UNVISITED, Tree

# obs [L, *obs] -> [L, F] whole numbers, -1 for none
Features = Annotated[
    Callable[[Any], npt.NDArray[np.integer[Any]]],
    Function("a function of observations, the name of one"),
]

# Nodes of a tree that only time bounds.
_TIMED_CAPACITY = 10_000
# Nodes are chosen for what is new in them, never by a rule of trees.
_NO_RULE = Selection(PUCT, 0.0, SCALE_NONE, 0.0, 0.0, 0.0)


@dataclass(eq=False, kw_only=True)
class NoveltySearch(DiscretePlanner):
    """Abstract base: expands only nodes with new features, and plays the best branch.

    No evaluator and no rollouts: what is known of a branch are its rewards. A
    simulation is one new node, that is one model step.

    Args:
        features: `obs [L, *obs] -> [L, F]` whole numbers, -1 for none, told apart by
            their last 20 bits, with `obs` nested as the observation space; or the name of
            such a function of `planners.novelty.features`: "bytes", "tiles", "numbers";
            "pairs" and "pairs-in-time", which look at all pairs of coloured tiles too
            (`TilePairs`); or "whole", which leaves out nothing but what comes to the same.
            None: bytes of uint8 vectors, tiles of screens, intervals of other numbers, and
            each text, graph or sequence as a whole; of Dict and Tuple observations those of
            every part.
        max_depth: depth below which nothing is looked for.
        count_bonus: bonus of a node beside its reward: the mean over its features of
            `count_bonus` / sqrt(1 + count), minus the same of the root state; count is
            the number of root states of the episode with the feature. Far below
            the least reward, it decides only where rewards do
            not; values and `q` include it. Counts persist over plans, with `keep_tree`.
        counted: the features that are counted, as `features` names them; not pairs.
        risk_aversion: weight of negative rewards in choosing a branch.
        keep_tree: go on with the subtree of the state that came about; its nodes cost
            no steps a second time.
        capacity: most nodes, at least 2; None: room for all simulations, twice that
            with `keep_tree`.
        temperature: that of a plan's `weights`, softmax(q / temperature) over the actions that
            were tried, from which networks learn. 0: the action that is played.
        return_tree: put the nodes into the plan; `q` is the best return through a node,
            `visits` counts the nodes below it and itself.
    """

    features: Features | str | None = None
    max_depth: Count = 1500
    count_bonus: Weight = 0.0
    counted: Features | str | None = None
    risk_aversion: Weight = 1.0
    keep_tree: bool = True
    capacity: Annotated[int | None, Range(2)] = None
    temperature: Weight = 0.0
    return_tree: bool = False

    default_simulations = 116

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.count_bonus > 0 and not self.keep_tree:
            raise InvalidOption(
                f"{self._option('count_bonus')} counts over all plans of an episode, and needs "
                "keep_tree=True; got keep_tree=False. Leave one of them out."
            )
        self._check_features("features", list(FEATURES))
        self._check_features("counted", [name for name in FEATURES if "pairs" not in name])
        self._kept: KeptSearch[Novelty] = _KeptNovelty(subset)

    def _check_features(self, option: str, names: list[str]) -> None:
        """Refuse a text that names no function of features."""
        given = getattr(self, option)
        if isinstance(given, str) and given not in names:
            raise unknown(self._option(option), given, names)

    @abstractmethod
    def _grow(self, search: Search, novelty: Novelty, clock: Clock) -> Novelty:
        """Add nodes until a limit is reached or nothing new is left; return what is known then.

        It is not `novelty` where a node has had more features than any before; see `write_shown`.
        """

    def _plan_batch(self, request: PlanRequest) -> list[Plan]:
        """Look for new things from B states in lockstep."""
        request.needed_obs("what looks for new features")
        search, known = self._kept.take(request)
        if search is None:
            num_actions, _ = request.discrete_actions()
            search = Search(request, self._settings(), self._rater(num_actions))
        search.start(request)
        novelty = self._grow(search, self._begin(request, search, known), request.clock)
        if self.keep_tree:
            self._kept.put(search, novelty)
        return self._plans(search, novelty, request.clock.seconds)

    def _rater(self, num_actions: int) -> Rater:  # noqa: ARG002 - of those that ask a policy
        """Return the rater of nodes: only rewards count."""
        return ZeroRater()

    def _settings(self) -> SearchSettings:
        """Return the search's parameters."""
        most = min(self.most_simulations, _TIMED_CAPACITY)
        most = 1 + (self.most_simulations if self.most_simulations != UNBOUNDED else most)
        # Those that are kept and as many new ones; the root is among both.
        capacity = self.capacity or (2 * most - 1 if self.keep_tree else most)
        return SearchSettings(
            num_simulations=self.most_simulations,
            max_model_steps=self.max_model_steps,
            wave_size=1,
            capacity=capacity,
            discount=self.discount,
            selection=_NO_RULE,
            # A search that is gone on with has its trees; without the option none is.
            keep_tree=True,
        )

    def _begin(self, request: PlanRequest, search: Search, known: Novelty | None) -> Novelty:
        """Return empty tables, but for the roots' features and those of kept nodes."""
        batch, capacity = search.tree.parent.shape
        novelty = known or self._empty(request.obs, batch, capacity)
        # What is new is new in this search alone: kept nodes are looked at again.
        for table in (novelty.table, *(() if novelty.pairs is None else novelty.pairs[1:])):
            table[:] = NEVER
        novelty.solved[:], novelty.met[:] = False, False
        for b, rng in enumerate(request.rngs):
            kept = search.kept[b]
            # `kept`: numbers that the nodes had before; in the tree they are 0, 1, ... now.
            if len(kept):
                novelty.features[b, : len(kept)] = novelty.features[b, kept]
                novelty.rare.features[b, : len(kept)] = novelty.rare.features[b, kept]
                novelty.depth[b, : len(kept)] = novelty.depth[b, kept] - novelty.depth[b, kept[0]]
            novelty.depth[b, ROOT] = 0
            # The generator of random walks must not be 0.
            novelty.chance[b] = rng.integers(1, 2**63, dtype=np.uint64)
        roots = np.zeros(batch, np.int64)
        novelty = self.write_shown(novelty, np.arange(batch), roots, request.obs)
        for b in range(batch):
            see(search.tree, novelty, b, ROOT, 0)
            if self.count_bonus > 0:
                count_root(novelty.rare, b, ROOT)
                # Kept nodes, too, are worth less when the episode has shown the same since.
                nodes = np.arange(max(len(search.kept[b]), 1))
                rate(novelty.rare, np.full(len(nodes), b), nodes, self.count_bonus)
        return novelty

    def _empty(self, obs: Any, batch: int, capacity: int) -> Novelty:
        """Return tables for features of observations like `obs` in which nothing was seen."""
        function = _function(self.features)
        pairs = None
        if isinstance(function, TilePairs):
            with self._naming("features"):
                pairs = new_pairs(batch, *tile_grid(obs), function.in_time)
        rare = new_bonus(batch, capacity) if self.count_bonus > 0 else None
        # Tables of features grow with the first that are written.
        return new_novelty(batch, capacity, 0, pairs, rare)

    def _features_of(self, option: str, obs: Any) -> npt.NDArray[np.int64]:
        """Return the features `[L, F]` of L observations, by the function of an option, fresh."""
        with self._naming(option):
            found, count = np.asarray(_function(getattr(self, option))(obs)), num_rows(obs)
        if found.ndim != 2 or len(found) != count or found.dtype.kind not in "iu":
            raise InvalidAnswer(
                f"{option} must return whole numbers [{count}, F]; got "
                f"shape {found.shape} {found.dtype}. Return one row for each observation."
            )
        return found.astype(np.int64)

    @contextlib.contextmanager
    def _naming(self, option: str) -> Iterator[None]:
        """Name an option in what its function says of observations that it is not for."""
        try:
            yield
        except InvalidOption as error:
            raise InvalidOption(f"{self._option(option)}: {error}") from error

    def write_shown(self, novelty: Novelty, rows: Any, nodes: Any, obs: Any) -> Novelty:
        """Write the features of L nodes, in wider arrays if they are more than before."""
        found = self._features_of("features", obs)
        novelty = novelty._replace(features=_written(novelty.features, rows, nodes, found))
        if novelty.pairs is not None:
            novelty = novelty._replace(pairs=with_room(novelty.pairs, rows, found))
        if self.count_bonus > 0:
            found = counted(self._features_of("counted", obs))
            features = _written(novelty.rare.features, rows, nodes, found)
            novelty = novelty._replace(rare=novelty.rare._replace(features=features))
            rate(novelty.rare, rows, nodes, self.count_bonus)
        return novelty

    def _plans(self, search: Search, novelty: Novelty, seconds: float) -> list[Plan]:
        """Play the first action of the best branch of every tree."""
        tree = search.tree
        returns = np.empty(tree.parent.shape)
        counts = np.empty(tree.parent.shape, np.int64)
        bonus = novelty.rare.bonus
        best_returns(tree, bonus, self.discount, self.risk_aversion, returns, counts)
        plans, budgets, cut_short = [], search.costs.budgets(seconds), search.cut_short()
        for b in range(len(tree.size)):
            # UNVISITED is -1: `returns[b, child]` reads the last node there, and `known` masks it.
            child = tree.children[b, ROOT]
            known = child != UNVISITED
            q = np.where(known, returns[b, child], np.nan)
            visits = np.where(known, counts[b, child], 0)
            # Without any node, every action is as good as the others.
            score = np.where(known, q, -np.inf if known.any() else 0.0)
            score[~tree.legal[b, ROOT]] = -np.inf
            # Among equals the action with most nodes: what has been seen to go on is worth
            # more than what was merely not looked at.
            order = tree.order[b]
            best = order[score[order] == score.max()]
            action = int(best[np.argmax(visits[best])])
            line = best_line(tree, returns, b, action)
            plans.append(
                Plan(
                    action=search.first_action + action,
                    value=float(returns[b, ROOT]),
                    budget=budgets[b],
                    visits=visits,
                    q=q,
                    weights=self._weights(q, action),
                    actions=search.first_action + np.array(line),
                    full=bool(cut_short[b]),
                    tree=grown(tree, returns, counts, b) if self.return_tree else None,
                    chosen_by_visits=False,
                    first_action=search.first_action,
                )
            )
        return plans

    def _weights(self, q: npt.NDArray[np.float64], action: int) -> npt.NDArray[np.float64]:
        """Return the policy `[A]` that the best returns `[A]` come to, NaN where unknown."""
        if self.temperature == 0.0 or np.isnan(q).all():
            return one_hot(action, len(q))
        # The largest exponent is 0: exp cannot overflow, whatever the scale of returns.
        scores = np.nan_to_num(q, nan=-np.inf) - np.nanmax(q)
        weights: npt.NDArray[np.float64] = np.exp(scores / self.temperature)
        return weights / weights.sum()


class _KeptNovelty(KeptSearch[Novelty]):
    """A search with its novelty tables, whose counts end with the episode."""

    def forget(self, which: npt.NDArray[np.intp]) -> None:
        """Forget the trees of some rows, and what their episodes have shown."""
        super().forget(which)
        if self.beside is not None:
            self.beside.rare.counts[which] = 0


def _function(features: Features | str | None) -> Features:
    """Return the function that an option names."""
    return FEATURES[features] if isinstance(features, str) else features or default_features


def _written(
    table: npt.NDArray[Any], rows: Any, nodes: Any, found: npt.NDArray[np.int64]
) -> npt.NDArray[Any]:
    """Write features `[L, F]` of L nodes into a table `[B, N, F]`; a wider one if they are more."""
    came = found.shape[1]
    if came > table.shape[2]:
        more = ((0, 0), (0, 0), (0, came - table.shape[2]))
        table = np.pad(table, more, constant_values=-1)
    # A node number may have had more features in an earlier search.
    table[rows, nodes] = -1
    table[rows, nodes, :came] = found
    return table


def best_line(tree: Tree, returns: npt.NDArray[np.float64], b: int, action: int) -> list[int]:
    """Return the actions of the best branch of tree b that begins with `action`."""
    line, node = [action], int(tree.children[b, ROOT, action])
    while node != UNVISITED:
        below = tree.children[b, node]
        # UNVISITED is -1, which as an index means the last node: masked here.
        known = np.where(below == UNVISITED, -np.inf, returns[b, below])
        if not np.isfinite(known.max()):
            break
        line.append(int(np.argmax(known)))
        node = int(below[line[-1]])
    return line


def grown(
    tree: Tree, returns: npt.NDArray[np.float64], counts: npt.NDArray[np.int64], b: int
) -> SearchTree:
    """Copy the nodes of tree b with the returns and counts `[B, N]` of `best_returns`."""
    n = int(tree.size[b])
    visits, q = counts[b, :n].astype(np.int32), returns[b, :n].astype(np.float32)
    return exported(tree, b)._replace(visits=visits, q=q, value=np.zeros(n))
