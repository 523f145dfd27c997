"""Costs: model-step and evaluation counters of B trees."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import numpy.typing as npt

from plangym_ext.core.compiling.jit import kernel, kernel_part
from plangym_ext.planners.plans import Budget
from plangym_ext.planners.rating import Rating

# Rows of the counters, in the order of the fields of `Budget`.
_COUNTED = ("model_steps", "expansions", "evaluator_rows", "restores")

Index = npt.NDArray[np.integer[Any]]
Array = npt.NDArray[Any]


class Costs:
    """Budget counters, one column per tree.

    Attributes:
        counts: `[4, B]` int64, model steps, expansions, evaluator rows and restores.
    """

    def __init__(self, batch: int) -> None:
        self.counts = np.zeros((4, batch), np.int64)

    def clear(self) -> None:
        """Set all counters to 0, in the same array: kernels hold it."""
        self.counts[:] = 0

    def add(self, rows: Index, **costs: Any) -> None:
        """Add costs, by field of `Budget`, of the trees `rows` `[L]`: numbers, or `[L]` each."""
        for name, cost in costs.items():
            counter = self.counts[_COUNTED.index(name)]
            # A number and an array of them are two types, so there are two kernels.
            (tally if isinstance(cost, int) else tally_each)(counter, rows, cost)

    def add_rating(self, rows: Index, rating: Rating) -> None:
        """Add the cost of rating L leaves of the trees `rows` `[L]`."""
        spent = rating.model_steps, rating.evaluator_rows, rating.restores
        tally_rating(self.counts, rows, *spent)

    def budgets(self, seconds: float) -> list[Budget]:
        """Return the budget of each of B plans; each has an equal share of `seconds`."""
        share = seconds / self.counts.shape[1]
        # Rows of `counts` are the first fields of a budget, in their order.
        batch = self.counts.shape[1]
        if batch > 1 and not np.count_nonzero(self.counts != self.counts[:, :1]):
            # As a rule all have cost the same, and one that never changes will do for them.
            steps, nodes, asked, back = self.counts[:, 0].tolist()
            return [Budget(steps, nodes, asked, back, share)] * batch
        return [*map(Budget, *self.counts.tolist(), itertools.repeat(share))]

    def subset(self, rows: npt.NDArray[np.intp]) -> Costs:
        """Return a copy of the counters of the trees `rows` `[n]`."""
        other = Costs(len(rows))
        other.counts[:] = self.counts[:, rows]
        return other


# With a few dozen rows each call of numpy's would cost more than its work.


@kernel
def tally(counter: Array, rows: Array, cost: int) -> None:
    """Add `cost` to `counter` `[B]` for every one of `rows` `[L]`."""
    for i in range(len(rows)):
        counter[rows[i]] += cost


@kernel
def tally_each(counter: Array, rows: Array, costs: Array) -> None:
    """Add `costs[i]` to `counter` `[B]` for row i of `rows` `[L]`."""
    for i in range(len(rows)):
        counter[rows[i]] += costs[i]


@kernel_part
def tally_steps(counters: Array, rows: Array) -> None:
    """Add a model step, an expansion and a restore to `counters` `[4, B]` for each of `rows`."""
    for b in rows:
        counters[0, b] += 1
        counters[1, b] += 1
        counters[3, b] += 1


@kernel
def tally_rating(
    counters: Array, rows: Array, model_steps: Array, evaluator_rows: Array, restores: Array
) -> None:
    """Add the cost of rating L leaves to `counters` `[4, B]`, rows as fields of `Budget`."""
    for i in range(len(rows)):
        counters[0, rows[i]] += model_steps[i]
        counters[2, rows[i]] += evaluator_rows[i]
        counters[3, rows[i]] += restores[i]
