"""What the plans of B trees have cost so far."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from plangym_ext.planners.lockstep.waves import tally, tally_each, tally_rating, tally_steps
from plangym_ext.planners.plans import Budget
from plangym_ext.planners.rating import Rating

# Rows of the counters, in the order of the fields of `Budget`.
_COUNTED = ("model_steps", "expansions", "evaluator_rows", "restores")

Rows = npt.NDArray[np.integer[Any]]


class Costs:
    """Counters of what a budget is made of, one column per tree.

    Attributes:
        counts: `[4, B]` int64, model steps, expansions, evaluator rows and restores.
    """

    def __init__(self, batch: int) -> None:
        self.counts = np.zeros((4, batch), np.int64)

    @property
    def model_steps(self) -> npt.NDArray[np.int64]:
        """`[B]`, a view."""
        return self.counts[0]

    def clear(self) -> None:
        """Begin to count anew, in the same array."""
        self.counts[:] = 0

    def add(self, rows: Rows, **costs: Any) -> None:
        """Add costs, by field of `Budget`, of things done for the trees `rows` `[L]`."""
        for name, cost in costs.items():
            counter = self.counts[_COUNTED.index(name)]
            (tally if isinstance(cost, int) else tally_each)(counter, rows, cost)

    def add_steps(self, rows: Rows) -> None:
        """Add a model step into a new node for each of the trees `rows` `[L]`."""
        tally_steps(self.counts, rows)

    def add_rating(self, rows: Rows, rating: Rating) -> None:
        """Add what rating L leaves of the trees `rows` has cost."""
        spent = rating.model_steps, rating.evaluator_rows, rating.restores
        tally_rating(self.counts, rows, *spent)

    def budgets(self, seconds: float) -> list[Budget]:
        """Return what each of the B plans has cost; each has an equal share of `seconds`."""
        share = seconds / self.counts.shape[1]
        return [
            Budget(steps, nodes, asked, back, share)
            for steps, nodes, asked, back in self.counts.T.tolist()
        ]

    def taken(self, rows: npt.NDArray[np.intp]) -> Costs:
        """Return the counters of some trees only."""
        other = Costs(len(rows))
        other.counts[:] = self.counts[:, rows]
        return other
