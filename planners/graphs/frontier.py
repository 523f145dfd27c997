"""FrontierSearch: base class of best-first searches that expand states by priority."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from plangym_ext.arrays.nested import rows_of
from plangym_ext.core.inherited_options import load_own
from plangym_ext.core.options import Count, Finite, Function
from plangym_ext.errors import InvalidAnswer
from plangym_ext.planners.base import DiscretePlanner
from plangym_ext.planners.graphs.graph import Node, OpenList, StateKey, state_keys
from plangym_ext.planners.kept import KeptRows
from plangym_ext.planners.masks import action_masks
from plangym_ext.planners.plans import Budget, Plan
from plangym_ext.planners.rating import Evaluator, as_floats, check_finite, evaluate
from plangym_ext.planners.request import PlanRequest
from plangym_ext.states.envelope import stacked_rows, state_content

Floats = npt.NDArray[np.float64]
#: obs [L, *obs] -> steps to a goal [L]
Heuristic = Annotated[
    Callable[[Any], npt.ArrayLike], Function("a function of observations, its name")
]
_WHICH = "which takes observations [L, *obs] and returns steps to a goal [L]"

_SMALLEST = 1e-30  # probability of an action that a policy gives none
_GOAL = b"goal"  # follows the key of a goal's state


class Ahead(NamedTuple):
    """The remaining path to a goal, after the state of the present plan."""

    # Contents of the states on it, the goal's left out: what is seen alike may have less time left.
    states: list[bytes]
    actions: list[int]  # to play in each of them, from 0
    rewards: list[float]  # that each action earns


class Steps(NamedTuple):
    """L steps from expanded nodes to states that can be expanded further."""

    rows: list[int]  # search of each
    parents: list[int]
    actions: list[int]  # from 0
    keys: list[bytes]
    rewards: Floats
    goal: npt.NDArray[np.bool_]
    legal: npt.NDArray[np.bool_]  # [L, A]
    states: Any  # [L, S]
    obs: Any  # [L, *obs]

    def taken(self, which: list[int]) -> Steps:
        """Return some of the steps."""
        lists = [[part[i] for i in which] for part in self[:4]]
        return Steps._make([*lists, *(rows_of(part, which) for part in self[4:])])


class Rated(NamedTuple):
    """Priors, heuristic values and costs of L states."""

    log_prior: Floats  # [L, A], of the legal actions; without a policy they are as likely
    to_go: Floats  # [L], >= 0; of goals 0
    evaluator_rows: npt.NDArray[np.int64]  # [L]


@dataclass(eq=False, kw_only=True)
class FrontierSearch(DiscretePlanner):
    """Abstract base: expands states by priority, and plays the path to the first goal.

    For deterministic envs that are solved rather than explored. A goal is an ending with a
    reward; it is taken when nothing that waits has a better priority. The path is played to its end
    without another search, as long as the env's states follow it. Without a goal the way with most
    reward is begun, and of those the one nearest to a goal.

    `num_simulations` are expansions, each of which steps every legal action.

    Args:
        wave_size: nodes that are expanded at once, in one batch. 1 is the published
            search; more may expand states in vain.
        goal_reward: an ending with a larger reward is a goal.
        state_key: two states are equal by the bytes of the "state", or of the "obs",
            for fully observed envs whose states count steps.
        heuristic: `obs [L, *obs] -> steps to a goal [L]`, >= 0, or the name of such a function,
            "module:function"; None: 0.
    """

    wave_size: Count = 8
    goal_reward: Finite = 0.0
    state_key: StateKey = "state"
    heuristic: Heuristic | str | None = None

    default_simulations: ClassVar[int] = 1000

    def __post_init__(self) -> None:
        super().__post_init__()
        self._heuristic = self._named_heuristic()
        self._kept: KeptRows[Ahead | None] = KeptRows()

    @abstractmethod
    def _priority(self, steps: Floats, log_policy: Floats, to_go: Floats) -> Floats:
        """Return the priorities `[L]` of L nodes: the lowest is expanded first.

        Args:
            steps: from the root, >= 1.
            log_policy: logarithm of the probability that the policy takes the way.
            to_go: steps to a goal, as the heuristic says.
        """

    @abstractmethod
    def _cost(self, steps: Floats, log_policy: Floats) -> Floats:
        """Return the costs `[L]` of L ways, of which each state keeps the lowest.

        They grow along a way. Arguments as of `_priority`.
        """

    def _policy(self) -> Evaluator | None:
        """Return `obs [L, *obs] -> (prior [L, A], ignored)`; None: every action is as likely."""
        return None

    def _values_to_go(self) -> bool:
        """Return whether the evaluator's values are minus the steps to go."""
        return False

    def _named_heuristic(self) -> Heuristic | None:
        """Return the function that the option is, or names."""
        if isinstance(self.heuristic, str):
            found: Heuristic = load_own(
                self.heuristic, self._option("heuristic"), "function", _WHICH
            )
            return found
        return self.heuristic

    # Planning -------------------------------------------------------------------

    def _plan_batch(self, request: PlanRequest) -> list[Plan]:
        """Search from each of B states, or play what was found before."""
        num_actions, origin = request.discrete_actions()
        self._check_pays(num_actions, "expansion")
        if self._heuristic or self._policy() or self.state_key == "obs":
            request.needed_obs("a heuristic, an evaluator or state_key 'obs'")
        keys = state_keys(self.state_key, request.states, request.obs)
        kept = self._kept.take(request.env, request.batch)
        now = [state_content(state) for state in request.states]
        rest = [_rest(*one) for one in zip(kept, now, request.masks(), strict=True)]
        searches = self._searches(request, keys, [b for b, one in enumerate(rest) if one is None])
        while self._expand(request, searches) and not request.clock.over:
            pass
        seconds = request.clock.seconds / request.batch
        plans: list[Plan] = []
        for b, ahead in enumerate(rest):
            budget = Budget(seconds=seconds)
            if ahead is None:
                ahead, has_goal = _found(searches[b])
                budget, rest[b] = budget + searches[b].budget, ahead if has_goal else None
            plans.append(self._plan(ahead, num_actions, origin, budget))
        self._kept.put(request.env, rest)
        return plans

    def _plan(self, ahead: Ahead, num_actions: int, origin: int, budget: Budget) -> Plan:
        """Return the plan that plays a way."""
        value = 0.0
        for reward in reversed(ahead.rewards):
            value = reward + self.discount * value
        first = ahead.actions[0]
        weights, q = np.zeros(num_actions), np.full(num_actions, np.nan)
        weights[first], q[first] = 1.0, value
        return Plan(
            action=origin + first,
            value=value,
            budget=budget,
            q=q,
            weights=weights,
            actions=np.array(ahead.actions, np.int64) + origin,
            chosen_by_visits=False,
        )

    def _searches(
        self, request: PlanRequest, keys: list[bytes], rows: list[int]
    ) -> dict[int, OpenList]:
        """Return the searches of some rows, with their roots."""
        if not rows:
            return {}
        masks, found = request.masks(), {}
        # Without a policy no observation is needed.
        obs = rows_of(request.obs, rows) if self._policy() else None
        priors, _ = self._asked(obs, masks[rows])
        for i, b in enumerate(rows):
            root = Node(
                key=keys[b],
                state=request.states[b].copy(),
                legal=masks[b],
                parent=-1,
                before=None,
                action=-1,
                steps=0,
                log_policy=0.0,
                log_prior=priors[i],
                reward=0.0,
                ret=0.0,
                # Ranked below all that has the same return: what leads somewhere is begun first.
                to_go=math.inf,
                is_goal=False,
            )
            found[b] = OpenList(root, request.rngs[b])
            found[b].budget += Budget(evaluator_rows=int(self._policy() is not None))
        return found

    # Expanding ------------------------------------------------------------------

    def _expand(self, request: PlanRequest, searches: dict[int, OpenList]) -> bool:
        """Expand a wave in every search; return whether any was left to expand."""
        num_actions, origin = request.discrete_actions()
        pairs = [
            (b, index, int(a))
            for b, one in searches.items()
            for index in one.take(self._wave(one, num_actions))
            for a in one.order
            if one.nodes[index].legal[a]
        ]
        if not pairs:
            return False
        sources = stacked_rows([searches[b].nodes[index].state for b, index, _ in pairs])
        actions = np.array([a for _, _, a in pairs], np.int64) + origin
        out = request.env.step_batch(actions, states=sources)
        rewards = check_finite(f"{request.planner}: rewards", out.rewards)
        over = np.asarray(out.terminateds, np.bool_)
        cut = np.asarray(out.truncateds, np.bool_)
        goal = over & (rewards > self.goal_reward)
        legal = action_masks(out.infos, over | cut, num_actions)
        for b, count in Counter(b for b, _, _ in pairs).items():
            searches[b].budget += Budget(model_steps=count, restores=count)
        for i, (b, parent, action) in enumerate(pairs):
            ended, reward = bool(over[i] | cut[i]), float(rewards[i])
            searches[b].note_first(parent, action, ended=ended, reward=reward)
        # Endings that are no goals lead nowhere: their steps are paid for, nothing is kept.
        on = np.flatnonzero(goal | ~(over | cut))
        if len(on):
            keys = state_keys(self.state_key, out.states[on], rows_of(out.obs, on))
            # An ending can leave everything as it was, as an action does that hands a result in:
            # the goal is another one than the state before it.
            keys = [key + _GOAL if ends else key for key, ends in zip(keys, goal[on], strict=True)]
            parts = zip(*[pairs[i] for i in on], strict=True)
            rows, parents, played = (list(part) for part in parts)
            states, obs = out.states[on], rows_of(out.obs, on)
            new = rows, parents, played, keys, rewards[on], goal[on], legal[on], states, obs
            self._add(searches, Steps(*new))
        return True

    def _wave(self, one: OpenList, num_actions: int) -> int:
        """Return how many nodes a search may expand now."""
        if one.is_over:
            return 0
        left = min(self.wave_size, self.most_simulations - one.expanded)
        if self.max_model_steps is not None:
            # What is legal is not counted: an expansion may step every action.
            left = min(left, (self.max_model_steps - one.budget.model_steps) // num_actions)
        return max(left, 0)

    def _add(self, searches: dict[int, OpenList], new: Steps) -> None:
        """Open the successors of L steps where these are the best paths to them."""
        steps, log_policy = self._ways(searches, new)
        # Before rating: no evaluator is asked about a way that is no better than a known one.
        cost = self._cost(steps, log_policy)
        better = [
            i
            for i, (b, key) in enumerate(zip(new.rows, new.keys, strict=True))
            if not searches[b].knows_better(key, cost[i])
        ]
        if not better:
            return
        new, cost = new.taken(better), cost[better]
        steps, log_policy = steps[better], log_policy[better]
        rated = self._rated(new)
        priority = self._priority(steps, log_policy, rated.to_go)
        for i, b in enumerate(new.rows):
            one = searches[b]
            # Of what is left out next as well: it was asked about.
            one.budget += Budget(evaluator_rows=int(rated.evaluator_rows[i]))
            # Another step of this wave may have come to the same state.
            if one.knows_better(new.keys[i], cost[i]):
                continue
            parent = one.nodes[new.parents[i]]
            node = Node(
                key=new.keys[i],
                state=new.states[i],
                legal=new.legal[i],
                parent=new.parents[i],
                before=parent,
                action=new.actions[i],
                steps=parent.steps + 1,
                log_policy=float(log_policy[i]),
                log_prior=rated.log_prior[i],
                reward=float(new.rewards[i]),
                # The parent's steps are those before this reward: the root's is not discounted.
                ret=parent.ret + self.discount**parent.steps * float(new.rewards[i]),
                to_go=float(rated.to_go[i]),
                is_goal=bool(new.goal[i]),
            )
            is_new = one.add(node, float(priority[i]), float(cost[i]))
            one.budget += Budget(expansions=int(is_new))

    def _ways(self, searches: dict[int, OpenList], new: Steps) -> tuple[Floats, Floats]:
        """Return the lengths of L ways, and the logarithms of their probabilities."""
        parents = [searches[b].nodes[i] for b, i in zip(new.rows, new.parents, strict=True)]
        steps = np.array([node.steps + 1 for node in parents], np.float64)
        log_policy = [
            node.log_policy + node.log_prior[action]
            for node, action in zip(parents, new.actions, strict=True)
        ]
        return steps, np.array(log_policy, np.float64)

    def _rated(self, new: Steps) -> Rated:
        """Ask policy and heuristic about L states."""
        log_prior, value = self._asked(new.obs, new.legal)
        to_go = np.zeros(len(new.rows))
        asked = np.flatnonzero(~new.goal)
        if self._heuristic is not None and len(asked):
            to_go[asked] = _checked(self._heuristic(rows_of(new.obs, asked)), len(asked))
        if self._values_to_go() and value is not None:
            # Both may say too little.
            to_go[asked] = np.maximum(to_go[asked], -value[asked])
        rows = np.full(len(to_go), int(self._policy() is not None), np.int64)
        if self._heuristic is not None:
            rows[asked] += 1
        return Rated(log_prior, to_go, rows)

    def _asked(self, obs: Any, legal: npt.NDArray[np.bool_]) -> tuple[Floats, Floats | None]:
        """Return the evaluator's results for L states.

        Returns:
            Logarithms of the probabilities of the actions `[L, A]`, over legal ones alone: what
            is illegal is never stepped. And values `[L]`, if it was asked.
        """
        policy = self._policy()
        prior, value = None, None
        if policy is not None:
            prior, value = evaluate(policy, obs, len(legal), legal.shape[1], legal=legal)
        if prior is None:
            count = np.maximum(legal.sum(axis=1, keepdims=True), 1)
            return np.broadcast_to(-np.log(count), legal.shape), value
        # An action that the policy rules out is unlikely, not impossible: a way may need it.
        found = np.log(np.maximum(prior, _SMALLEST, dtype=np.float64))
        over = np.where(legal, found, -np.inf)
        return found - np.logaddexp.reduce(over, axis=1, keepdims=True), value


def _checked(said: npt.ArrayLike, count: int) -> Floats:
    """Return a heuristic's values of a number of states, after a check."""
    found = as_floats("heuristic: what it returns", said, np.float64)
    if found.shape != (count,) or not (np.isfinite(found) & (found >= 0)).all():
        raise InvalidAnswer(
            f"heuristic: must return {(count,)} finite numbers >= 0, one per observation; "
            f"got shape {found.shape}, {found.ravel()[:3]}..."
        )
    return found


def _rest(kept: Ahead | None, now: bytes, legal: npt.NDArray[np.bool_]) -> Ahead | None:
    """Return the rest of a path if a state is its next one and its next action is legal.

    Args:
        kept: the way; None: there is none.
        now: content of the state.
        legal: `[A]` the actions that may be played there.
    """
    if kept is None or len(kept.states) < 2 or kept.states[1] != now:
        return None
    if not legal[kept.actions[1]]:
        return None
    # The first was the state of the last plan; the move played there led to the second.
    return Ahead(kept.states[1:], kept.actions[1:], kept.rewards[1:])


def _found(one: OpenList) -> tuple[Ahead, bool]:
    """Return the way that a search has found, and whether it leads to a goal."""
    way = one.way()
    if len(way) == 1:
        action, reward = one.first_step()
        return Ahead([state_content(way[0].state)], [action], [reward]), False
    actions = [node.action for node in way[1:]]
    rewards = [node.reward for node in way[1:]]
    return Ahead(
        [state_content(node.state) for node in way[:-1]], actions, rewards
    ), one.goal is not None
