"""BestFirst: A*, weighted A*, greedy and uniform-cost search."""

from __future__ import annotations

import math
from dataclasses import dataclass

from plangym_ext.planners.graphs.frontier import Floats, FrontierSearch


@dataclass(eq=False, kw_only=True)
class BestFirst(FrontierSearch):
    """Best-first search: expands the state with the lowest path cost plus heuristic.

    With both weights 1 it is A*: with a heuristic that never says too much, and one node a
    wave, the way is the shortest. `heuristic_weight` above 1 is weighted A*, at most so many
    times longer and often far faster; `path_weight` 0 is greedy, `heuristic_weight` 0 is by
    uniform cost.

    Args:
        path_weight: of the steps from the root.
        heuristic_weight: of the steps to go.

    Source: Hart, Nilsson & Raphael 1968, "A formal basis for the heuristic determination of
    minimum cost paths"; weights after Pohl 1970, "Heuristic search viewed as path finding in
    a graph".
    """

    path_weight: float = 1.0
    heuristic_weight: float = 1.0

    def __post_init__(self) -> None:
        """Check the options."""
        super().__post_init__()
        self.path_weight = self._number("path_weight", 0.0, math.inf)
        self.heuristic_weight = self._number("heuristic_weight", 0.0, math.inf)

    def _priority(self, steps: Floats, log_policy: Floats, to_go: Floats) -> Floats:  # noqa: ARG002
        """Return the weighted sums."""
        return self.path_weight * steps + self.heuristic_weight * to_go

    def _cost(self, steps: Floats, log_policy: Floats) -> Floats:  # noqa: ARG002
        """Return the steps."""
        return steps
