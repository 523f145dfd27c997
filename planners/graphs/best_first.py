"""Best-first searches: BestFirst (A*, greedy, uniform cost), LevinTS, PHS."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from plangym_ext.core.options import Weight
from plangym_ext.errors import InvalidOption
from plangym_ext.planners.graphs.frontier import Floats, FrontierSearch
from plangym_ext.planners.plans import Plan
from plangym_ext.planners.rating import Evaluator
from plangym_ext.planners.request import PlanRequest


@dataclass(eq=False, kw_only=True)
class BestFirst(FrontierSearch):
    """Best-first search: expands the state with the lowest path cost plus heuristic.

    For deterministic tasks with a goal and a heuristic of the steps to it.

    With both weights 1 it is A*: with a heuristic that never says too much, and one node a
    wave, the way is the shortest. `heuristic_weight` above 1 is weighted A*, at most so many
    times longer and often far faster; `path_weight` 0 is greedy, `heuristic_weight` 0 is by
    uniform cost.

    Args:
        path_weight: weight of the steps from the root.
        heuristic_weight: weight of the steps to go.

    Source: Hart, Nilsson & Raphael 1968, "A formal basis for the heuristic determination of
    minimum cost paths"; weights after Pohl 1970, "Heuristic search viewed as path finding in
    a graph".
    """

    path_weight: Weight = 1.0
    heuristic_weight: Weight = 1.0

    def _priority(self, steps: Floats, log_policy: Floats, to_go: Floats) -> Floats:  # noqa: ARG002
        """Return the weighted sums."""
        return self.path_weight * steps + self.heuristic_weight * to_go

    def _cost(self, steps: Floats, log_policy: Floats) -> Floats:  # noqa: ARG002
        return steps


@dataclass(eq=False, kw_only=True)
class LevinTS(FrontierSearch):
    """Levin tree search: expands the state with the lowest depth / path probability.

    For deterministic tasks with a goal and a policy.

    A goal at depth d that the policy reaches with probability p is found within d / p
    expansions. A state that was reached on a likelier way is not expanded again.

    Args:
        evaluator: `obs [L, *obs] -> (prior [L, A], ignored)`, the policy; None: uniform.

    Source: Orseau, Lelis, Lattimore & Weber 2018, "Single-agent policy tree search with
    guarantees".
    """

    evaluator: Evaluator | None = None

    def _policy(self) -> Evaluator | None:
        return self.evaluator

    def _priority(self, steps: Floats, log_policy: Floats, to_go: Floats) -> Floats:  # noqa: ARG002
        """Return the logarithms of steps / probability."""
        return self._cost(steps, log_policy)

    def _cost(self, steps: Floats, log_policy: Floats) -> Floats:
        # Logarithms: the probability of a way of some hundred steps is no float64 any more.
        return np.log(steps) - log_policy


@dataclass(eq=False, kw_only=True)
class PHS(LevinTS):
    """Policy-guided heuristic search (PHS*): LevinTS with a heuristic for distant goals.

    For deterministic tasks with a goal, a policy and a heuristic.

    The probability of the way to a goal is estimated from that of the way so far: as likely a
    step, for all steps to go. The state with the lowest (g + h) / p**(1 + h / g) is expanded,
    for g steps with probability p and h steps to go. Without a heuristic it is LevinTS.

    Args:
        value_to_go: the evaluator's values are minus the steps to go, as a network learns them
            where every step costs 1; where there is a heuristic too, the larger one counts.

    Source: Orseau & Lelis 2021, "Policy-guided heuristic search with guarantees".
    """

    value_to_go: bool = False

    def _plan_batch(self, request: PlanRequest) -> list[Plan]:
        """Find ways; see `LevinTS`."""
        # Only now: commands make the planner first, and then give it the network of a run.
        if self.value_to_go and self.evaluator is None:
            raise InvalidOption(
                f"{self._option('value_to_go')} converts an evaluator's values; got no evaluator."
            )
        return super()._plan_batch(request)

    def _values_to_go(self) -> bool:
        return self.value_to_go

    def _priority(self, steps: Floats, log_policy: Floats, to_go: Floats) -> Floats:
        """Return the logarithms of the evaluation."""
        # Steps are at least 1 here: the root, at 0 steps, waits with a priority of its own.
        return np.log(steps + to_go) - (1.0 + to_go / steps) * log_policy
