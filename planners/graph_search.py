"""Graph search: greedy tree search that knows a state again, avoids loops, sees dead ends."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from plangym_ext.errors import InvalidOption
from plangym_ext.planners.base import (
    UNBOUNDED,
    Clock,
    Planner,
    Rng,
    SearchModel,
    States,
    action_masks,
    at_least,
    check_obs,
    check_rows,
    discrete_actions,
    finite_between,
    has_masks,
)
from plangym_ext.planners.graph import DEAD_END, FRONTIER, add_value
from plangym_ext.planners.graph_walk import GraphWalk
from plangym_ext.planners.plans import Budget, Plan
from plangym_ext.planners.rating import Evaluator, EvaluatorRater, Leaves, Rater, ZeroRater
from plangym_ext.planners.registry import unknown
from plangym_ext.planners.rollouts import Rollouts

# Nodes of a graph that only time bounds.
_TIMED_CAPACITY = 10_000


@dataclass(eq=False, kw_only=True)
class GraphSearch(Planner):
    """Walks greedily through a graph of states, expanding one node or more a walk.

    For deterministic envs that are solved rather than explored, such as Sokoban. A
    state that is reached twice is one node, with one mean value. A walk takes the
    action with the highest r + gamma * V, without any bonus: what drives it on are
    the errors of the evaluator, which averaging corrects, and the rule that it comes
    by no state twice. Where nothing is left it is at a dead end, whose value it hands
    up. The graph is kept from move to move.

    Each expansion steps every legal action. The value of the last node expanded is
    handed up the walk; nothing is stepped or credited beyond it.

    Args:
        num_expansions: H, nodes expanded in a row by one simulation.
        intermediate_backups: hand up the value of every node expanded, not only that
            of the last one.
        avoid_loops: whether a walk leaves out states that it has come by.
        dead_end_value: what a node is worth in which nothing is left to do.
        state_key: what makes two states one: the bytes of the "state", or of the "obs",
            for envs that are seen whole but whose states count steps.
        rollout_depth: steps of a random rollout from each new node; 0 for none. None
            means 8 without an evaluator and 0 with one.
        evaluator: `obs [L, *obs] -> (ignored, value [L])`.
        capacity: most nodes. A graph without room for a simulation is
            begun anew with the next move, and the search in it ends. None means room
            for four moves.

    Source: Alpacka's DeterministicMCTS, without the step too many that it takes.
    """

    num_expansions: int = 1
    intermediate_backups: bool = False
    avoid_loops: bool = True
    dead_end_value: float = -2.0
    state_key: str = "state"
    rollout_depth: int | None = None
    evaluator: Evaluator | None = None
    capacity: int | None = None

    def __post_init__(self) -> None:
        """Check the options."""
        super().__post_init__()
        where = self._option("num_expansions")
        self.num_expansions = at_least(where, self.num_expansions, 1)
        where = self._option("dead_end_value")
        self.dead_end_value = finite_between(where, self.dead_end_value, -math.inf, math.inf)
        if self.state_key not in ("state", "obs"):
            raise unknown(self._option("state_key"), self.state_key, ["state", "obs"])
        if self.rollout_depth is None:
            self.rollout_depth = 8 if self.evaluator is None else 0
        self.rollout_depth = at_least(self._option("rollout_depth"), self.rollout_depth, 0)
        if self.capacity is not None:
            self.capacity = at_least(self._option("capacity"), self.capacity, 2)
        self._kept: list[GraphWalk] = []
        self._model: SearchModel | None = None

    def reset(self) -> None:
        """Forget the graphs."""
        self._kept, self._model = [], None

    def keep_rows(self, rows: npt.NDArray[np.intp]) -> None:
        """Keep the graphs of some rows; see `Planner.keep_rows`."""
        self._kept = [self._kept[i] for i in rows] if self._kept else []

    def plan_batch(
        self,
        env: SearchModel,
        states: States,
        *,
        rngs: Sequence[Rng],
        obs: Any = None,
        legal: npt.NDArray[np.bool_] | None = None,
    ) -> list[Plan]:
        """Grow B graphs in lockstep; see `Planner.plan_batch`."""
        clock, name = Clock(self.max_seconds), type(self).__name__
        num_actions, origin = discrete_actions(env.action_space, name)
        states = np.asarray(states)
        check_rows(name, states, rngs)
        rater = self._rater(num_actions)
        if self.state_key == "obs" or rater.rates_roots:
            check_obs(name, obs, len(states))
        kept, self._kept = self._kept, []
        if self._model is not env or len(kept) != len(states):
            capacity = self._capacity(num_actions)
            kept = [GraphWalk(capacity, num_actions) for _ in states]
        for b, grown in enumerate(kept):
            allowed = None if legal is None else legal[b]
            grown.make_room(1 + self.num_expansions * num_actions)
            grown.start(self._keys(states[b : b + 1], obs, b)[0], states[b], allowed, rngs[b])
        self._rate_roots(env, rater, kept, states, obs, rngs)
        while self._pass(env, rater, kept, rngs) and not clock.over:
            pass
        self._kept, self._model = kept, env
        return [grown.plan(origin, clock.seconds / len(kept)) for grown in kept]

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
        if self.rollout_depth > 0:
            return Rollouts(self.rollout_depth, 1, self.discount, self.evaluator)
        if self.evaluator is not None:
            return EvaluatorRater(self.evaluator, num_actions, self._option("evaluator"))
        return ZeroRater()

    def _keys(self, states: States, obs: Any, row: int | None = None) -> list[bytes]:
        """Return what states `[n, S]` are known by; `row` picks theirs of `obs`."""
        if self.state_key == "state":
            return [state.tobytes() for state in states]
        seen = np.asarray(obs) if row is None else np.asarray(obs)[row : row + 1]
        return [one.tobytes() for one in seen]

    def _rate_roots(
        self,
        env: SearchModel,
        rater: Rater,
        grown: list[GraphWalk],
        states: States,
        obs: Any,
        rngs: Sequence[Rng],
    ) -> None:
        """Give roots that are new the evaluator's value."""
        new = np.array([b for b, one in enumerate(grown) if one.graph.visits[one.root] == 0])
        if len(new) == 0:
            return
        value = np.zeros(len(new))
        if rater.rates_roots:
            stay = np.ones(len(new), np.bool_)
            rating = rater.rate(env, Leaves(new, states[new], np.asarray(obs)[new], stay), rngs)
            value = rating.value
            for i, b in enumerate(new):
                grown[b].budget += Budget(evaluator_rows=int(rating.evaluator_rows[i]))
        for b, one in zip(new, value.tolist(), strict=True):
            add_value(grown[b].graph, grown[b].root, one)

    def _pass(
        self, env: SearchModel, rater: Rater, grown: list[GraphWalk], rngs: Sequence[Rng]
    ) -> bool:
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
                one.hand_up(self.dead_end_value if how == DEAD_END else None)
        for step in range(self.num_expansions):
            if not going:
                break
            self._expand(env, rater, grown, going, rngs)
            last = step == self.num_expansions - 1
            still = []
            for b in going:
                one = grown[b]
                if last or self.intermediate_backups:
                    one.hand_up(None)
                if last:
                    continue
                how = one.go_on(self.avoid_loops)
                if how == FRONTIER and not one.at_expanded:
                    still.append(b)
                else:
                    one.hand_up(self.dead_end_value if how == DEAD_END else None)
            going = still
        return bool(active)

    def _may_go_on(self, grown: GraphWalk, rater: Rater) -> bool:
        """Whether a graph has simulations, steps and room left."""
        graph = grown.graph
        num_actions = graph.order.shape[0]
        if grown.done >= self.most_simulations:
            return False
        if not grown.has_room(self.num_expansions * num_actions):
            grown.full = True
            return False
        cost = self.num_expansions * num_actions * (1 + rater.most_steps)
        most = self.max_model_steps
        if most is not None and most < cost:
            raise InvalidOption(
                f"GraphSearch: max_model_steps must be at least {cost}, what one simulation may "
                f"take; got {most}. Raise it, or lower num_expansions or rollout_depth."
            )
        return most is None or grown.budget.model_steps + cost <= most

    def _expand(
        self,
        env: SearchModel,
        rater: Rater,
        grown: list[GraphWalk],
        which: list[int],
        rngs: Sequence[Rng],
    ) -> None:
        """Step every legal action of the node that each walk has come to."""
        _, origin = discrete_actions(env.action_space, "GraphSearch")
        pairs = [(b, int(a)) for b in which for a in np.flatnonzero(grown[b].legal_here)]
        for b in which:
            grown[b].graph.expanded[grown[b].here] = True
        if not pairs:
            return
        rows = np.array([b for b, _ in pairs])
        actions = np.array([a for _, a in pairs], np.int64)
        sources = np.stack([grown[b].states[grown[b].here] for b in rows])
        out = env.step_batch(actions + origin, states=sources)
        over = np.asarray(out.terminateds, np.bool_)
        cut = np.asarray(out.truncateds, np.bool_)
        legal = action_masks(out.infos, over | cut, grown[0].graph.order.shape[0])
        if not np.isfinite(out.rewards).all():
            raise ValueError(f"GraphSearch: rewards must be finite; got {out.rewards}.")
        keys = self._keys(out.states, out.obs)
        nodes, new = np.empty(len(rows), np.int64), []
        for i, (b, action) in enumerate(pairs):
            one = grown[b]
            nodes[i], is_new = one.node_of(keys[i], out.states[i], legal[i], over[i] | cut[i])
            if is_new:
                new.append(i)
            one.join(action, int(nodes[i]), float(out.rewards[i]), self.discount * (not over[i]))
            one.budget += Budget(model_steps=1, expansions=int(is_new), restores=1)
        self._rate(env, rater, grown, rows, nodes, out, legal, np.array(new, np.int64), rngs)

    def _rate(
        self,
        env: SearchModel,
        rater: Rater,
        grown: list[GraphWalk],
        rows: npt.NDArray[np.int64],
        nodes: npt.NDArray[np.int64],
        out: Any,
        legal: npt.NDArray[np.bool_],
        new: npt.NDArray[np.int64],
        rngs: Sequence[Rng],
    ) -> None:
        """Give the nodes that are new their first value, 0 if terminated."""
        on = new[~np.asarray(out.terminateds, np.bool_)[new]]
        value = np.zeros(len(rows))
        if on.size:
            cut = np.asarray(out.truncateds, np.bool_)[on]
            allowed = legal[on] if has_masks(out.infos) else None
            leaves = Leaves(rows[on], out.states[on], out.obs[on], cut, allowed)
            rating = rater.rate(env, leaves, rngs)
            if not np.isfinite(rating.value).all():
                raise ValueError(f"GraphSearch: values must be finite; got {rating.value}.")
            value[on] = rating.value
            for i, at in enumerate(on):
                grown[rows[at]].budget += Budget(
                    model_steps=int(rating.model_steps[i]),
                    evaluator_rows=int(rating.evaluator_rows[i]),
                    restores=int(rating.restores[i]),
                )
        for at in new:
            add_value(grown[rows[at]].graph, int(nodes[at]), float(value[at]))
