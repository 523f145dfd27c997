"""SimultaneousMCTS: tree search where several agents choose their actions at once."""

from __future__ import annotations

import functools
from collections.abc import Generator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from plangym_ext.arrays.action_parts import parts_of
from plangym_ext.arrays.nested import rows_of
from plangym_ext.core.options import Share, Whole
from plangym_ext.errors import InvalidOption, WrongKind
from plangym_ext.planners.action_spaces import MOST_JOINT_ACTIONS
from plangym_ext.planners.base import UNBOUNDED
from plangym_ext.planners.plans import Budget, Plan
from plangym_ext.planners.request import PlanRequest
from plangym_ext.planners.simulator import Rng
from plangym_ext.planners.suspending import Root, StepModel, Stepped, SuspendingPlanner

Joint = tuple[int, ...]  # the choice of each of P agents, from 0
Floats = npt.NDArray[np.float64]


@dataclass(slots=True)
class _Agent:
    """Statistics of one agent's A actions in a node."""

    legal: npt.NDArray[np.int64]
    regrets: Floats  # [A]
    strategy: Floats  # [A] sum of the strategies that it played by


@dataclass(slots=True)
class _Node:
    state: npt.NDArray[np.uint8]
    agents: list[_Agent]
    rewards: Floats  # [P] of the step that leads here
    ended: bool
    children: dict[Joint, _Node] = field(default_factory=dict)
    #: Number and sum of the returns `[P]` of joint actions.
    cells: dict[Joint, tuple[int, Any]] = field(default_factory=dict)


@dataclass(eq=False, kw_only=True)
class SimultaneousMCTS(SuspendingPlanner):
    """Grows a tree of joint actions, in whose nodes every agent matches its own regrets.

    Its mean strategies are mixed; those of two agents with opposite rewards approach an
    equilibrium.

    Each part of the action is an agent, paid by its entry of the info `agent_reward`, as in
    `AgentsEnv`. Without that info all are paid the reward. The plan holds an action of every agent;
    to play one side, take its entry. Searches use the whole state: nothing is hidden from an agent.

    `value` is the sum over the agents. `weights` is the product of their strategies, of all joint
    actions, if these are at most 4,096: `plan.weights.reshape(nvec)` has an axis for each agent.

    Args:
        exploration: share of uniform play in the search; strategies have none of it.
        rollout_depth: most steps of a random rollout from each leaf.

    Source: Lanctot, Lisy & Winands 2014, "Monte Carlo tree search in simultaneous move games with
    applications to Goofspiel": SM-MCTS with regret matching.
    """

    exploration: Share = 0.2
    rollout_depth: Whole = 20

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.evaluator is not None:
            raise InvalidOption(
                f"{self._option('evaluator')} must be None: a value of one number does not say "
                f"what each agent gets. Leaves are rated by rollouts."
            )

    def _plan_batch(self, request: PlanRequest) -> list[Plan]:
        """Read what each agent may choose, and grow B trees."""
        space = request.env.action_space
        parts = parts_of(space)
        if parts is None or parts.total is None:
            raise WrongKind(
                f"{type(self).__name__}: every agent must have an action of its own that is "
                f"Discrete; got the action space {space}."
            )
        self._parts = parts
        return super()._plan_batch(request)

    def plan_row(self, root: Root) -> Generator[StepModel, Stepped, Plan]:
        """Grow one tree; see `SuspendingPlanner.plan_row`."""
        top = _Node(root.state, self._agents(root.legal), np.zeros(0), ended=False)
        left = self.max_model_steps or UNBOUNDED
        done, depth, total = 0, 0, 0.0
        while done < self.most_simulations and left > 0 and not (done and root.clock.over):
            path = self._descend(top, root.rng)
            node, joint = path[-1]
            returns = np.zeros(len(top.agents))
            if joint not in node.children:
                child = node.children[joint] = yield from self._stepped(node.state, joint)
                left -= 1
                if not child.ended:
                    returns, steps = yield from self._rollout(child, root.rng, left)
                    left -= steps
            for node, joint in reversed(path):
                returns = node.children[joint].rewards + self.discount * returns
                _learn(node, joint, returns)
            done, depth, total = done + 1, max(depth, len(path)), total + returns.sum()
        return self._plan(top, root.rng, total / done, depth)

    def _agents(self, legal: npt.NDArray[np.bool_] | None) -> list[_Agent]:
        """Return agents that have tried nothing, by the mask `[C]` of all parts."""
        found = []
        for begin, count in zip(self._parts.begins, self._parts.counts, strict=False):
            mask = None if legal is None else legal[begin : begin + count]
            # The action of an agent that is absent is not used.
            some = np.arange(count) if mask is None or not mask.any() else np.flatnonzero(mask)
            found.append(_Agent(some, *np.zeros((2, count))))
        return found

    def _descend(self, top: _Node, rng: Rng) -> list[tuple[_Node, Joint]]:
        """Return the nodes and joint actions down to one that is new, or that ends the episode."""
        path: list[tuple[_Node, Joint]] = []
        node: _Node | None = top
        while node is not None and not node.ended:
            joint = tuple(self._tried(agent, rng) for agent in node.agents)
            path.append((node, joint))
            node = node.children.get(joint)
        return path

    def _tried(self, agent: _Agent, rng: Rng) -> int:
        """Return what an agent tries next: by its regrets, or any action to explore."""
        strategy = _matched(agent)
        agent.strategy += strategy
        if rng.random() < self.exploration:
            return _any(agent.legal, rng)
        return _drawn(strategy, rng)

    def _stepped(self, state: Any, joint: Joint) -> Generator[StepModel, Stepped, _Node]:
        """Play a joint action, and return the node that it leads to."""
        out = yield StepModel(state[None], self._parts.joined(np.array([joint], np.float64)))
        rewards = out.agent_rewards[0]
        if len(rewards) not in (1, len(joint)):
            raise WrongKind(
                f"{type(self).__name__}: every agent must have one Discrete action; got "
                f"{len(rewards)} agents with {len(joint)} choices."
            )
        ended = bool(out.terminated[0] or out.truncated[0])
        return _Node(
            out.states[0], self._agents(out.legal[0]), np.zeros(len(joint)) + rewards, ended
        )

    def _rollout(
        self, node: _Node, rng: Rng, most: float
    ) -> Generator[StepModel, Stepped, tuple[Floats, int]]:
        """Play at random; return the discounted returns `[P]` and the number of steps."""
        returns, weight, steps = np.zeros(len(node.agents)), 1.0, 0
        while steps < min(self.rollout_depth, most) and not node.ended:
            joint = tuple(_any(agent.legal, rng) for agent in node.agents)
            node = yield from self._stepped(node.state, joint)
            returns += weight * node.rewards
            weight, steps = weight * self.discount, steps + 1
        return returns, steps

    def _plan(self, top: _Node, rng: Rng, value: float, depth: int) -> Plan:
        """Return the plan: actions of the agents' mean strategies."""
        strategies = [agent.strategy / agent.strategy.sum() for agent in top.agents]
        chosen = [_drawn(one, rng) for one in strategies]
        action = rows_of(self._parts.joined(np.array([chosen], np.float64)), 0)
        weights, total = None, self._parts.total
        if total is not None and total <= MOST_JOINT_ACTIONS:
            weights = functools.reduce(np.multiply.outer, strategies).ravel()
        return Plan(action, value, Budget(), weights=weights, chosen_by_visits=False, depth=depth)


def _learn(node: _Node, joint: Joint, returns: Floats) -> None:
    """Add the returns `[P]` of a joint action to the regrets of all agents."""
    count, sums = node.cells.get(joint, (0, 0.0))
    node.cells[joint] = count + 1, sums + returns
    for i, (agent, choice) in enumerate(zip(node.agents, joint, strict=True)):
        # What the agent would have got against the same actions of the others.
        for other in agent.legal.tolist():
            cell = node.cells.get((*joint[:i], other, *joint[i + 1 :]))
            if other != choice and cell is not None:
                agent.regrets[other] += cell[1][i] / cell[0] - returns[i]


def _matched(agent: _Agent) -> Floats:
    """Return the strategy that matches the agent's regrets, `[A]`."""
    weights = np.zeros_like(agent.regrets)
    weights[agent.legal] = np.maximum(agent.regrets[agent.legal], 0.0)
    total = weights.sum()
    if total == 0.0:
        weights[agent.legal], total = 1.0, len(agent.legal)
    return weights / total


def _any(actions: npt.NDArray[np.int64], rng: Rng) -> int:
    """Return one of some actions; `rng.choice` takes ten times as long."""
    return int(actions[int(rng.random() * len(actions))])


def _drawn(strategy: Floats, rng: Rng) -> int:
    """Return an action by the weights `[A]` of a strategy."""
    bounds = strategy.cumsum()
    return int(np.searchsorted(bounds, rng.random() * bounds[-1], side="right"))
