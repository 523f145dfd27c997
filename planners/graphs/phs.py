"""PHS: policy-guided heuristic search (PHS*)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from plangym_ext.errors import InvalidOption
from plangym_ext.planners.graphs.frontier import Floats
from plangym_ext.planners.graphs.levin import LevinTS
from plangym_ext.planners.plans import Plan
from plangym_ext.planners.request import PlanRequest


@dataclass(eq=False, kw_only=True)
class PHS(LevinTS):
    """Policy-guided heuristic search (PHS*): LevinTS with a heuristic for distant goals.

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
                f"{self._option('value_to_go')} needs an evaluator, whose values they are; there "
                f"is none."
            )
        return super()._plan_batch(request)

    def _values_to_go(self) -> bool:
        """Return the option."""
        return self.value_to_go

    def _priority(self, steps: Floats, log_policy: Floats, to_go: Floats) -> Floats:
        """Return the logarithms of the evaluation."""
        # Steps are at least 1 here: the root, at 0 steps, waits with a priority of its own.
        return np.log(steps + to_go) - (1.0 + to_go / steps) * log_policy
