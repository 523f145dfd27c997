"""LevinTS: Levin tree search, guided by a policy."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from plangym_ext.planners.graphs.frontier import Floats, FrontierSearch
from plangym_ext.planners.rating import Evaluator


@dataclass(eq=False, kw_only=True)
class LevinTS(FrontierSearch):
    """Levin tree search: expands the state with the lowest depth / path probability.

    A goal at depth d that the policy reaches with probability p is found within d / p
    expansions. A state that was reached on a likelier way is not expanded again.

    Args:
        evaluator: `obs [L, *obs] -> (prior [L, A], ignored)`, the policy; None: uniform.

    Source: Orseau, Lelis, Lattimore & Weber 2018, "Single-agent policy tree search with
    guarantees".
    """

    evaluator: Evaluator | None = None

    def __post_init__(self) -> None:
        """Check the options."""
        super().__post_init__()
        self._check_function("evaluator")

    def _policy(self) -> Evaluator | None:
        """Return the evaluator."""
        return self.evaluator

    def _priority(self, steps: Floats, log_policy: Floats, to_go: Floats) -> Floats:  # noqa: ARG002
        """Return the logarithms of steps / probability."""
        return self._cost(steps, log_policy)

    def _cost(self, steps: Floats, log_policy: Floats) -> Floats:
        """Return the same."""
        # Logarithms: the probability of a way of some hundred steps is no float64 any more.
        return np.log(steps) - log_policy
