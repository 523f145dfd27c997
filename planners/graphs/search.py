"""GraphSearch: greedy graph search with loop avoidance and dead-end detection."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, NamedTuple

import numpy as np
import numpy.typing as npt

from plangym_ext.arrays.nested import rows_of
from plangym_ext.core.options import Count, Finite, Range, Whole
from plangym_ext.errors import InvalidOption
from plangym_ext.planners.base import UNBOUNDED, DiscretePlanner
from plangym_ext.planners.graphs.graph import DEAD_END, FRONTIER, StateKey, add_value, state_keys
from plangym_ext.planners.graphs.walk import GraphWalk
from plangym_ext.planners.kept import KeptRows
from plangym_ext.planners.masks import action_masks, has_masks
from plangym_ext.planners.plans import Budget, Plan
from plangym_ext.planners.rating import Evaluator, Leaves, Rater, check_finite
from plangym_ext.planners.request import PlanRequest
from plangym_ext.planners.rollouts.rater import RolloutRater, default_depth, leaf_rater
from plangym_ext.planners.simulator import Transitions
from plangym_ext.states.envelope import stacked_rows

# Nodes of a graph that only time bounds.
_TIMED_CAPACITY = 10_000


@dataclass(eq=False, kw_only=True)
class GraphSearch(DiscretePlanner):
    """Greedy graph search: each walk through the graph of states expands one or more nodes.

    For deterministic envs that are solved rather than explored, such as Sokoban. A
    state that is reached twice is one node, with one mean value. A walk takes the
    action with the highest r + gamma * V, without any bonus: what drives it on are
    the errors of the evaluator, which averaging corrects, and the rule that it comes
    by no state twice. Without such an action it is at a dead end, whose value it credits to the
    walk. The graph is kept from move to move.

    Each expansion steps every legal action. The value of the last node expanded is
    credited to the walk; nothing is stepped or credited beyond it.

    Args:
        num_expansions: H, nodes expanded in a row by one simulation.
        intermediate_backups: credit the value of every node expanded, not only that
            of the last one.
        avoid_loops: whether a walk leaves out states that it has come by.
        dead_end_value: value of a node without a way on.
        state_key: two states are equal by the bytes of the "state", or of the "obs",
            for fully observed envs whose states count steps.
        rollout_depth: steps of a random rollout from each new node; 0 for none. None
            means 8 without an evaluator and 0 with one.
        evaluator: `obs [L, *obs] -> (ignored, value [L])`.
        capacity: maximum number of nodes. Without room for a simulation the
            search ends, and the next move starts a new graph. None means room
            for four moves.

    Source: Alpacka's DeterministicMCTS, without the step too many that it takes.
    """

    num_expansions: Count = 1
    intermediate_backups: bool = False
    avoid_loops: bool = True
    dead_end_value: Finite = -2.0
    state_key: StateKey = "state"
    rollout_depth: Whole | None = None
    evaluator: Evaluator | None = None
    capacity: Annotated[int | None, Range(2)] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.rollout_depth is None:
            self.rollout_depth = default_depth(self.evaluator)
        self._kept: KeptRows[GraphWalk] = KeptRows()

    def _plan_batch(self, request: PlanRequest) -> list[Plan]:
        """Grow B graphs in lockstep."""
        num_actions, origin = request.discrete_actions()
        rater = self._rater(num_actions)
        if self.state_key == "obs":
            request.needed_obs("state_key 'obs'")
        if rater.rates_roots:
            request.needed_obs("an evaluator")
        kept, capacity = self._kept.take(request.env, request.batch), self._capacity(num_actions)
        grown = [one or GraphWalk(capacity, num_actions) for one in kept]
        self._start(request, grown)
        self._rate_roots(request, rater, grown)
        while self._pass(request, rater, grown) and not request.clock.over:
            pass
        self._kept.put(request.env, grown)
        seconds = request.clock.seconds / len(grown)
        return [one.plan(origin, seconds) for one in grown]

    def _start(self, request: PlanRequest, grown: list[GraphWalk]) -> None:
        keys = state_keys(self.state_key, request.states, request.obs)
        masks = request.masks()
        for b, one in enumerate(grown):
            # A new graph if not even one simulation would fit: it would end with nothing to play.
            if not one.has_room(1 + self.num_expansions * masks.shape[1]):
                one.clear()
            one.start(keys[b], request.states[b], masks[b], request.rngs[b])

    def _capacity(self, num_actions: int) -> int:
        least = 1 + self.num_expansions * num_actions
        if self.capacity is not None:
            if self.capacity < least:
                raise InvalidOption(
                    f"GraphSearch: capacity must be at least {least}, the root and one "
                    f"simulation; got {self.capacity}."
                )
            return self.capacity
        if self.most_simulations == UNBOUNDED:
            return _TIMED_CAPACITY
        return 1 + 4 * self.most_simulations * self.num_expansions * num_actions

    def _rater(self, num_actions: int) -> Rater:
        assert self.rollout_depth is not None
        rollouts = RolloutRater(self.rollout_depth, 1, self.discount, self.evaluator)
        return leaf_rater(rollouts, self.evaluator, num_actions)

    def _rate_roots(self, request: PlanRequest, rater: Rater, grown: list[GraphWalk]) -> None:
        """Give roots that are new the evaluator's value."""
        # A root that was kept, or met as a child, has its value already.
        new = np.array([b for b, one in enumerate(grown) if one.graph.visits[one.root] == 0])
        if len(new) == 0:
            return
        value = np.zeros(len(new))
        if rater.rates_roots:
            # As if truncated: the evaluator alone rates roots, no rollout is played from them.
            stay = np.ones(len(new), np.bool_)
            legal = None if request.legal is None else request.legal[new]
            roots = Leaves(new, request.states[new], rows_of(request.obs, new), stay, legal)
            rating = rater.rate(request.env, roots, request.rngs)
            value = rating.value
            for i, b in enumerate(new):
                grown[b].budget += Budget(evaluator_rows=int(rating.evaluator_rows[i]))
        for b, one in zip(new, value.tolist(), strict=True):
            add_value(grown[b].graph, grown[b].root, one)

    def _pass(self, request: PlanRequest, rater: Rater, grown: list[GraphWalk]) -> bool:
        """Run one simulation in every graph that has budget and room; False if none has."""
        active = [b for b, one in enumerate(grown) if self._may_go_on(one, rater)]
        going = []
        for b in active:
            one = grown[b]
            one.done += 1
            how = one.begin(self.avoid_loops)
            if how == FRONTIER and not one.at_expanded:
                going.append(b)
            else:
                one.back_up(self.dead_end_value if how == DEAD_END else None)
        for step in range(self.num_expansions):
            if not going:
                break
            self._expand(request, rater, grown, going)
            last = step == self.num_expansions - 1
            still = []
            for b in going:
                one = grown[b]
                if last or self.intermediate_backups:
                    one.back_up(None)
                if last:
                    continue
                how = one.go_on(self.avoid_loops)
                # A walk without room to go on stops at an expanded node, whose value is credited.
                if how == FRONTIER and not one.at_expanded:
                    still.append(b)
                else:
                    one.back_up(self.dead_end_value if how == DEAD_END else None)
            going = still
        return bool(active)

    def _may_go_on(self, grown: GraphWalk, rater: Rater) -> bool:
        """Return whether a graph has simulations, steps and room left."""
        graph = grown.graph
        num_actions = graph.order.shape[0]
        if grown.done >= self.most_simulations:
            return False
        if not grown.has_room(self.num_expansions * num_actions):
            grown.full = True
            return False
        # Before it begins, and for the worst case: all legal, all new, all rollouts to their ends.
        cost = self.num_expansions * num_actions * (1 + rater.most_steps)
        most = self.max_model_steps
        if most is not None and most < cost:
            raise InvalidOption(
                f"GraphSearch: max_model_steps must be at least {cost}, the cost of one "
                f"simulation; got {most}. Raise it, or lower num_expansions or rollout_depth."
            )
        return most is None or grown.budget.model_steps + cost <= most

    def _expand(
        self, request: PlanRequest, rater: Rater, grown: list[GraphWalk], which: list[int]
    ) -> None:
        """Step every legal action of the node that each walk has come to."""
        _, origin = request.discrete_actions()
        pairs = [(b, int(a)) for b in which for a in np.flatnonzero(grown[b].legal[grown[b].here])]
        for b in which:
            # Also where nothing is legal: the next walk finds a dead end there, not a frontier.
            grown[b].expand()
        if not pairs:
            return
        rows = np.array([b for b, _ in pairs])
        actions = np.array([a for _, a in pairs], np.int64)
        sources = stacked_rows([grown[b].states[grown[b].here] for b in rows])
        out = request.env.step_batch(actions + origin, states=sources)
        rewards = check_finite(f"{request.planner}: rewards", out.rewards)
        over = np.asarray(out.terminateds, np.bool_)
        cut = np.asarray(out.truncateds, np.bool_)
        num_actions = grown[0].graph.order.shape[0]
        # A row for each action of the node: without masks nothing as large as their square.
        legal = np.broadcast_to(np.True_, (len(rows), num_actions))
        if has_masks(out.infos):
            legal = action_masks(out.infos, over | cut, num_actions)
        keys = state_keys(self.state_key, out.states, out.obs)
        # By graph and node: the same one can be met at an ending and then where it goes on.
        nodes, new = np.empty(len(rows), np.int64), dict[tuple[int, int], int]()
        for i, (b, action) in enumerate(pairs):
            one = grown[b]
            # Rewards sit on edges: a known node gets another one, and is not rated again.
            nodes[i], is_new = one.node_of(keys[i], out.states[i], legal[i], over[i] | cut[i])
            if is_new:
                new[b, int(nodes[i])] = i
            discount = self.discount * (not over[i])
            is_cut = bool(cut[i] and not over[i])
            one.join(action, int(nodes[i]), float(rewards[i]), discount, is_cut)
            one.budget += Budget(model_steps=1, expansions=int(is_new), restores=1)
        children = _Children(rows, nodes, np.array([*new.values()], np.int64), legal, out)
        self._rate(request, rater, grown, children)

    def _rate(
        self, request: PlanRequest, rater: Rater, grown: list[GraphWalk], children: _Children
    ) -> None:
        """Give the nodes that are new their first value, 0 if terminated."""
        rows, nodes, new, legal, out = children
        # Truncated ones are rated, for what would have come; `cut` keeps rollouts from them.
        on = new[~np.asarray(out.terminateds, np.bool_)[new]]
        value = np.zeros(len(rows))
        if on.size:
            cut = np.asarray(out.truncateds, np.bool_)[on]
            allowed = legal[on] if has_masks(out.infos) else None
            leaves = Leaves(rows[on], out.states[on], rows_of(out.obs, on), cut, allowed)
            rating = rater.rate(request.env, leaves, request.rngs)
            value[on] = check_finite(f"{request.planner}: values", rating.value)
            for i, at in enumerate(on):
                grown[rows[at]].budget += Budget(
                    model_steps=int(rating.model_steps[i]),
                    evaluator_rows=int(rating.evaluator_rows[i]),
                    restores=int(rating.restores[i]),
                )
        for at in new:
            add_value(grown[rows[at]].graph, int(nodes[at]), float(value[at]))


class _Children(NamedTuple):
    """The states reached by one expansion, in all graphs."""

    rows: npt.NDArray[np.int64]  # [L] graph of each
    nodes: npt.NDArray[np.int64]  # [L] which node of it that is
    new: npt.NDArray[np.int64]  # [M] those of the L that are to be rated
    legal: npt.NDArray[np.bool_]  # [L, A]
    out: Transitions  # what the model answered
