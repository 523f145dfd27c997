"""Best-first search: the state with the best priority is expanded next, until a goal is found."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from plangym_ext.arrays.nested import rows_of
from plangym_ext.errors import InvalidAnswer
from plangym_ext.planners.base import Planner
from plangym_ext.planners.finite import check_finite
from plangym_ext.planners.graphs.open_list import Node, OpenList
from plangym_ext.planners.graphs.state_keys import check_state_key, state_keys
from plangym_ext.planners.kept import KeptRows
from plangym_ext.planners.masks import action_masks
from plangym_ext.planners.plans import Budget, Plan
from plangym_ext.planners.rating import Evaluator, evaluate
from plangym_ext.planners.request import PlanRequest

Floats = npt.NDArray[np.float64]
#: obs [L, *obs] -> steps to a goal [L]
Heuristic = Callable[[Any], npt.ArrayLike]

_SMALLEST = 1e-30  # probability of an action that a policy gives none


class Ahead(NamedTuple):
    """The rest of a way to a goal: what comes after the state that was planned for."""

    keys: list[bytes]  # of the states on it, the goal's left out
    actions: list[int]  # to play in each of them, from 0
    rewards: list[float]  # that each action earns


class Steps(NamedTuple):
    """L steps from expanded nodes to states that a search may go on from."""

    rows: list[int]  # search of each
    parents: list[int]
    actions: list[int]  # from 0
    keys: list[bytes]
    rewards: Floats
    goal: npt.NDArray[np.bool_]
    legal: npt.NDArray[np.bool_]  # [L, A]
    states: Any  # [L, S]
    obs: Any  # [L, *obs]


@dataclass(eq=False, kw_only=True)
class FrontierSearch(Planner):
    """Expands the states of the best priorities, and plays the way to the first goal it takes.

    For deterministic envs that are solved rather than explored. A goal is an ending with a
    reward; it is taken when nothing that waits has a better priority. What was found is
    played to its end without another search, as long as the states come about. Without a
    goal the way with most reward is begun, and of those the one nearest to a goal.

    `num_simulations` are expansions, each of which steps every legal action.

    Args:
        wave_size: nodes that are expanded at once, in one batch. 1 is the search as it is
            written down; more may expand some states too many.
        goal_reward: an ending is a goal if it earns more than this.
        state_key: what makes two states one: the bytes of the "state", or of the "obs",
            for envs that are seen whole but whose states count steps.
        heuristic: `obs [L, *obs] -> steps to a goal [L]`, >= 0; None: 0.
    """

    wave_size: int = 8
    goal_reward: float = 0.0
    state_key: str = "state"
    heuristic: Heuristic | None = None

    default_simulations: ClassVar[int] = 1000

    def __post_init__(self) -> None:
        """Check the options."""
        super().__post_init__()
        self._check_function("heuristic")
        self.wave_size = self._integer("wave_size", 1)
        self.goal_reward = self._number("goal_reward", -math.inf, math.inf)
        check_state_key(self._option("state_key"), self.state_key)
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

    # Planning -------------------------------------------------------------------

    def _plan_batch(self, request: PlanRequest) -> list[Plan]:
        """Search from each of B states, or play what was found before."""
        num_actions, origin = request.discrete_actions()
        self._check_pays(num_actions, "expansion")
        if self.heuristic or self._policy() or self.state_key == "obs":
            request.needed_obs("a heuristic, an evaluator or state_key 'obs'")
        keys = state_keys(self.state_key, request.states, request.obs)
        kept = self._kept.take(request.env, request.batch)
        rest = [_rest(one, key) for one, key in zip(kept, keys, strict=True)]
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
        priors = self._log_priors(rows_of(request.obs, rows), len(rows), request)
        masks, found = request.masks(), {}
        for i, b in enumerate(rows):
            prior = None if priors is None else priors[i]
            root = Node(
                request.states[b].copy(), masks[b], -1, -1, 0, 0.0, prior, 0.0, 0.0, math.inf, False
            )
            found[b] = OpenList(keys[b], root, request.rngs[b])
            found[b].budget += Budget(evaluator_rows=int(priors is not None))
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
        sources = np.stack([searches[b].nodes[index].state for b, index, _ in pairs])
        actions = np.array([a for _, _, a in pairs], np.int64) + origin
        out = request.env.step_batch(actions, states=sources)
        rewards = check_finite(f"{request.planner}: rewards", out.rewards)
        over = np.asarray(out.terminateds, np.bool_)
        cut = np.asarray(out.truncateds, np.bool_)
        goal = over & (rewards > self.goal_reward)
        legal = action_masks(out.infos, over | cut, num_actions)
        for b, _, _ in pairs:
            searches[b].budget += Budget(model_steps=1, restores=1)
        on = np.flatnonzero(goal | ~(over | cut))
        if len(on):
            keys = state_keys(self.state_key, out.states[on], rows_of(out.obs, on))
            parts = zip(*[pairs[i] for i in on], strict=True)
            rows, parents, played = (list(part) for part in parts)
            states, obs = out.states[on], rows_of(out.obs, on)
            new = rows, parents, played, keys, rewards[on], goal[on], legal[on], states, obs
            self._add(request, searches, Steps(*new))
        return True

    def _wave(self, one: OpenList, num_actions: int) -> int:
        """Return how many nodes a search may expand now."""
        if one.is_over:
            return 0
        left = min(self.wave_size, self.most_simulations - one.expanded)
        if self.max_model_steps is not None:
            left = min(left, (self.max_model_steps - one.budget.model_steps) // num_actions)
        return max(left, 0)

    def _add(self, request: PlanRequest, searches: dict[int, OpenList], new: Steps) -> None:
        """Have the states that L steps lead to wait, where these are the best ways to them."""
        parents = [searches[b].nodes[i] for b, i in zip(new.rows, new.parents, strict=True)]
        steps = np.array([node.steps + 1 for node in parents], np.float64)
        ways = zip(parents, new.actions, strict=True)
        log_policy = np.array([_log_policy(node, action) for node, action in ways])
        to_go = self._to_go(new)
        priority = self._priority(steps, log_policy, to_go)
        cost = self._cost(steps, log_policy)
        better = [
            i
            for i, (b, key) in enumerate(zip(new.rows, new.keys, strict=True))
            if not searches[b].knows_better(key, cost[i])
        ]
        if not better:
            return
        priors = self._log_priors(rows_of(new.obs, better), len(better), request)
        for k, i in enumerate(better):
            one, parent = searches[new.rows[i]], parents[i]
            # Another step of this wave may have come to the same state.
            if one.knows_better(new.keys[i], cost[i]):
                continue
            node = Node(
                state=new.states[i],
                legal=new.legal[i],
                parent=new.parents[i],
                action=new.actions[i],
                steps=parent.steps + 1,
                log_policy=float(log_policy[i]),
                log_prior=None if priors is None else priors[k],
                reward=float(new.rewards[i]),
                ret=parent.ret + self.discount**parent.steps * float(new.rewards[i]),
                to_go=float(to_go[i]),
                is_goal=bool(new.goal[i]),
            )
            is_new = one.add(new.keys[i], node, float(priority[i]), float(cost[i]))
            asked = int(priors is not None) + int(self.heuristic is not None and not node.is_goal)
            one.budget += Budget(expansions=int(is_new), evaluator_rows=asked)

    def _to_go(self, new: Steps) -> Floats:
        """Return what the heuristic says of L states, `[L]`; of goals 0."""
        found = np.zeros(len(new.rows))
        asked = np.flatnonzero(~new.goal)
        if self.heuristic is None or not len(asked):
            return found
        said = np.asarray(self.heuristic(rows_of(new.obs, asked)), np.float64)
        if said.shape != (len(asked),) or not (np.isfinite(said) & (said >= 0)).all():
            raise InvalidAnswer(
                f"heuristic: must return {(len(asked),)} finite numbers >= 0, one per observation; "
                f"got shape {said.shape}, {said.ravel()[:3]}..."
            )
        found[asked] = said
        return found

    def _log_priors(self, obs: Any, count: int, request: PlanRequest) -> Floats | None:
        """Return the logarithms of what the policy says of L states, `[L, A]`; None: uniform."""
        policy = self._policy()
        if policy is None:
            return None
        num_actions, _ = request.discrete_actions()
        prior, _ = evaluate(policy, obs, count, num_actions)
        return None if prior is None else np.log(np.maximum(prior, _SMALLEST, dtype=np.float64))


def _log_policy(node: Node, action: int) -> float:
    """Return the logarithm of the policy's probability of the way that an action goes on."""
    if node.log_prior is not None:
        # Over legal actions alone: what is illegal is never stepped.
        legal = node.log_prior[node.legal]
        return node.log_policy + float(node.log_prior[action] - np.logaddexp.reduce(legal))
    return node.log_policy - math.log(np.count_nonzero(node.legal))


def _rest(kept: Ahead | None, key: bytes) -> Ahead | None:
    """Return what is left of a way if a state is its next one."""
    if kept is None or len(kept.keys) < 2 or kept.keys[1] != key:
        return None
    return Ahead(kept.keys[1:], kept.actions[1:], kept.rewards[1:])


def _found(one: OpenList) -> tuple[Ahead, bool]:
    """Return the way that a search has found, and whether it leads to a goal."""
    way = one.way()
    if len(way) == 1:
        return Ahead([one.key_of(way[0])], [one.first_action()], [0.0]), False
    nodes = [one.nodes[index] for index in way]
    actions = [node.action for node in nodes[1:]]
    rewards = [node.reward for node in nodes[1:]]
    return Ahead([one.key_of(index) for index in way[:-1]], actions, rewards), one.goal is not None
