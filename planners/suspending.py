"""SuspendingPlanner: base of planners written for one state; requests of all are batched."""

from __future__ import annotations

import dataclasses
from abc import abstractmethod
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from plangym_ext.arrays.nested import leaves, mapped, num_rows, rows_of
from plangym_ext.core.infos import info_values
from plangym_ext.errors import InvalidAnswer, InvalidOption
from plangym_ext.planners.base import UNBOUNDED, Planner
from plangym_ext.planners.clock import Clock
from plangym_ext.planners.masks import told_masks
from plangym_ext.planners.plans import Budget, Plan
from plangym_ext.planners.rating import Evaluator, evaluate
from plangym_ext.planners.request import PlanRequest
from plangym_ext.planners.simulator import Rng, States


class Root(NamedTuple):
    """A state to plan for, and what is known of it."""

    state: npt.NDArray[np.uint8]  # [S]
    obs: Any  # [*obs]; None if it did not come along
    legal: npt.NDArray[np.bool_] | None  # [A]; None: all
    rng: Rng
    clock: Clock  # its `over` says whether `max_seconds` are


class AskEvaluator(NamedTuple):
    """A request of what the evaluator says; the answer is `(prior [n, A] or None, value [n])`."""

    obs: Any  # [n, *obs], nested as the observation space


class StepModel(NamedTuple):
    """A request of n steps of the model, each from its own state; the answer is `Stepped`."""

    states: States  # [n, S]
    actions: Any  # [n, *act], nested as the action space


class Stepped(NamedTuple):
    """Results of n steps of the model; views that the caller may keep."""

    states: States  # [n, S]
    obs: Any  # [n, *obs]
    rewards: npt.NDArray[np.float64]  # [n]
    terminated: npt.NDArray[np.bool_]  # [n]
    truncated: npt.NDArray[np.bool_]  # [n]
    agent_rewards: npt.NDArray[np.float64]  # [n, P] of each agent; [n, 1] where nothing tells them
    legal: tuple[Any, ...]  # n masks [A]; None each where the env says nothing


@dataclass(eq=False, kw_only=True)
class SuspendingPlanner(Planner):
    """Abstract base of planners of your own that are written for one state, as a generator.

    `plan_row` yields a request wherever it needs the evaluator or the model, and goes on with the
    answer. The generators of all B states run side by side: all that they ask at a time is one
    call of the evaluator and one `step_batch`. It is played as any other planner: by `play`, by
    samplers as a `PlannerAgent`, and by runs that name it, "module:Class".

    `plan_row` keeps the limits itself; steps beyond `max_model_steps` are refused.

    Args:
        evaluator: `obs [n, *obs] -> (prior [n, A] or None, value [n])`.

    Source: the agents of Alpacka, which are coroutines.
    """

    evaluator: Evaluator | None = None

    @abstractmethod
    def plan_row(self, root: Root) -> Generator[AskEvaluator | StepModel, Any, Plan]:
        """Plan for one state.

        Yields:
            `AskEvaluator` or `StepModel`, of at least one row.

        Returns:
            The plan; its budget is replaced by what the requests have cost.
        """

    def _plan_batch(self, request: PlanRequest) -> list[Plan]:
        """Run B generators side by side; row i is what generator i would return alone."""
        running: dict[int, Any] = {
            b: self._checked(self.plan_row(_root(request, b)), Generator, "be a generator")
            for b in range(request.batch)
        }
        costs, answers = [Budget()] * request.batch, dict.fromkeys(running)
        plans: dict[int, Plan] = {}
        while running:
            asked: dict[int, Any] = {}
            for b, generator in running.items():
                try:
                    found = generator.send(answers[b])
                except StopIteration as end:
                    plans[b] = self._checked(end.value, Plan, "return a Plan")
                else:
                    requests = AskEvaluator, StepModel
                    asked[b] = self._checked(found, requests, "yield AskEvaluator or StepModel")
                    costs[b] += self._cost(asked[b], costs[b])
            running = {b: running[b] for b in asked}
            for kind, answer in ((AskEvaluator, self._evaluated), (StepModel, _stepped)):
                mine = {b: one for b, one in asked.items() if isinstance(one, kind)}
                if mine:
                    answers |= _shared_out(mine, answer(request, _joined(mine)))
        share = Budget(seconds=request.clock.seconds / request.batch)
        return [dataclasses.replace(plans[b], budget=cost + share) for b, cost in enumerate(costs)]

    def _checked(self, found: Any, kinds: Any, what: str) -> Any:
        if not isinstance(found, kinds):
            raise InvalidAnswer(f"plan_row must {what}; got {found!r:.200}.")
        return found

    def _cost(self, asked: AskEvaluator | StepModel, before: Budget) -> Budget:
        """Return what a request costs; refuse one of unequal rows, or beyond the limit."""
        sizes = {np.shape(leaf)[:1] for leaf in leaves(asked)}
        if len(sizes) != 1 or sizes == {()}:
            raise InvalidAnswer(
                f"plan_row must yield {type(asked).__name__} of [n, ...] arrays of equal n; got "
                f"{sorted(sizes)}."
            )
        ((rows,),) = sizes
        if isinstance(asked, AskEvaluator):
            return Budget(evaluator_rows=rows)
        most = UNBOUNDED if self.max_model_steps is None else self.max_model_steps
        if before.model_steps + rows > most:
            raise InvalidAnswer(
                f"plan_row must yield at most max_model_steps={most} steps; got "
                f"{before.model_steps + rows}. Stop at self.max_model_steps."
            )
        return Budget(model_steps=rows, restores=rows)

    def _evaluated(self, request: PlanRequest, asked: Any) -> tuple[Any, Any]:
        """Return prior and value of the observations of all."""
        if self.evaluator is None:
            raise InvalidOption(
                f"{self._option('evaluator')} must be given, as plan_row yields AskEvaluator; got "
                f"None."
            )
        num_actions = getattr(request.env.action_space, "n", None)
        return evaluate(self.evaluator, asked[0], num_rows(asked[0]), num_actions)


def _root(request: PlanRequest, b: int) -> Root:
    obs = None if request.obs is None else rows_of(request.obs, b)
    legal = None if request.legal is None else request.legal[b]
    return Root(request.states[b], obs, legal, request.rngs[b], request.clock)


def _stepped(request: PlanRequest, asked: Any) -> Stepped:
    """Return the results of the steps of all."""
    states, actions = asked
    out = request.env.step_batch(actions, states=states)
    masks = told_masks(out.infos, request.env.action_space, len(states))
    rewards = np.asarray(out.rewards)
    ends = np.asarray(out.terminateds), np.asarray(out.truncateds)
    of_agents, told = info_values(out.infos, "agent_reward", len(states))
    of_agents = of_agents if told.all() else rewards[:, None]
    return Stepped(out.states, out.obs, rewards, *ends, of_agents, tuple(masks))


def _joined(asked: Mapping[int, Any]) -> tuple[Any, ...]:
    """Return the fields of requests of one kind, their rows one after the other."""
    try:
        return tuple(
            mapped(lambda *of: np.concatenate(of), *parts)
            for parts in zip(*asked.values(), strict=True)
        )
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidAnswer(
            f"plan_row must yield arrays of equal names and row shapes for every state; {error}"
        ) from error


def _shared_out(asked: Mapping[int, Any], whole: Any) -> dict[int, Any]:
    """Return the rows of an answer that belong to each request."""
    found: dict[int, Any] = {}
    first = 0
    for b, one in asked.items():
        last = first + num_rows(one[0])
        found[b] = _rows(whole, slice(first, last))
        first = last
    return found


def _rows(whole: Any, some: slice) -> Any:
    if isinstance(whole, Stepped):  # whose masks are a tuple of rows, and no nested observation
        parts = [rows_of(part, some) for part in whole[:-1]]
        return Stepped._make([*parts, whole.legal[some]])
    return tuple(None if part is None else rows_of(part, some) for part in whole)
